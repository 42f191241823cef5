"""One cell's figures: worked by hand, and against brute force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import MS, steady, trace_of

from workbench.domain.cell import (
    SMALL_FOR_P95,
    STATISTICS,
    CellFigures,
    ClientFitness,
    Stats,
    cell_figures,
    first_send_ns,
    in_flight,
    judge_client,
    meets_limits,
    percentile,
    started_ms,
    stats_of,
)
from workbench.domain.events import RequestTrace, Usage

VALUES = st.floats(-1e9, 1e9, allow_nan=False)

# Statistics


@given(values=st.lists(VALUES, min_size=1, max_size=50).map(sorted), p=st.floats(0, 1))
def test_percentiles_are_numpys_linear_ones(values: list[float], p: float) -> None:
    spread = max(map(abs, values))
    assert percentile(values, p) == pytest.approx(float(np.percentile(values, p * 100)), rel=1e-9, abs=1e-9 * spread)


def test_percentiles_by_hand() -> None:
    assert percentile([10.0, 20.0, 30.0, 40.0], 0.5) == 25.0
    # Rank (n-1)p = 19 x 0.95 = 18.05.
    assert percentile([float(n) for n in range(20)], 0.95) == pytest.approx(18.05)
    assert percentile([7.0], 0.95) == 7.0
    assert [percentile([1.0, 2.0, 3.0], p) for p in (0.0, 1.0)] == [1.0, 3.0]
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@given(values=st.lists(VALUES, min_size=2, max_size=30))
def test_a_p95_of_few_is_the_maximum_in_effect(values: list[float]) -> None:
    stats = stats_of(values)
    assert stats is not None
    second, top = sorted(values)[-2:]
    if len(values) <= SMALL_FOR_P95:
        assert second <= stats.p95 <= top
    assert stats.min <= stats.p50 <= stats.p95 <= stats.max


def test_statistics_are_over_what_is_there() -> None:
    assert stats_of([None, 30.0, None, 10.0, 20.0]) == Stats(n=3, min=10.0, mean=20.0, p50=20.0, p95=29.0, max=30.0)
    assert stats_of([None, None]) is None
    assert stats_of([]) is None


# Throughput


def failed(*arrivals: tuple[float, int, int], sent: float = 0.0, end: float = 0.0, **fields: Any) -> RequestTrace:
    return trace_of(
        *arrivals, sent=sent, end=end, outcome="failed", error_class="truncated", error="cut", index=9, **fields
    )


def test_throughput_by_hand_with_a_failed_and_a_cancelled_request() -> None:
    traces = [
        # 12 tokens in 6 chunks: 2 tokens a chunk in this cell.
        trace_of((200, 2, 8), (400, 2, 8), (600, 2, 8), sent=100, tokens=12),
        failed((300, 2, 8), (350, 1, 4), sent=100, end=350),
        trace_of((1100, 1, 4), sent=500, end=1101, outcome="cancelled"),
        failed(sent=0, end=5),
    ]
    got = cell_figures(traces, concurrency=2)
    # From the first send (0) to the last output (1100 ms): 12 + 3x2 + 1x2 tokens.
    assert got.window_s == pytest.approx(1.1)
    assert got.throughput == pytest.approx(20 / 1.1)
    assert got.partial_share == pytest.approx(8 / 20)
    assert got.request_rate == pytest.approx(1 / 1.1)
    assert (got.requests, got.ok, got.failed, got.cancelled, got.empty) == (4, 1, 2, 1, 0)
    assert got.success_rate == pytest.approx(1 / 3)
    assert got.errors == {"truncated": 2}
    # The statistics are over the ok one alone.
    assert {name: stats.n for name, stats in got.stats.items()} == dict.fromkeys(got.stats, 1)
    assert got.stats["ttft_ms"].max == 100.0


@settings(max_examples=50)
@given(
    requests=st.lists(st.tuples(st.integers(0, 5000), st.integers(2, 20), st.integers(1, 50)), min_size=1, max_size=12)
)
def test_throughput_is_all_tokens_over_the_whole_window(requests: list[tuple[int, int, int]]) -> None:
    traces = [steady(tokens, sent=sent, ttft=10, gap=gap) for sent, tokens, gap in requests]
    got = cell_figures(traces)
    first = min(sent for sent, _, _ in requests)
    last = max(sent + 10 + (tokens - 1) * gap for sent, tokens, gap in requests)
    assert got.throughput == pytest.approx(sum(tokens for _, tokens, _ in requests) * 1000 / (last - first))
    assert got.partial_share == 0.0


def test_what_no_request_brought_is_absent() -> None:
    nothing = [failed(sent=0, end=5), failed(sent=1, end=6)]
    for traces in ([], nothing):
        got = cell_figures(traces, limits={"ttft_ms": 100.0})
        for name in (
            "window_s",
            "throughput",
            "steady_throughput",
            "steady_share",
            "request_rate",
            "goodput",
            "jitter",
        ):
            assert getattr(got, name) is None, name
        assert got.stats == {}
        assert got.coalesced_share is None
    assert cell_figures([]).success_rate is None
    assert cell_figures([]).in_flight_mean is None
    assert cell_figures(nothing).success_rate == 0.0
    cancelled = trace_of(sent=0, end=5, outcome="cancelled")
    assert cell_figures([cancelled]).success_rate is None, "a cancelled request neither succeeded nor failed"


def test_a_figure_nobody_has_has_no_statistics() -> None:
    got = cell_figures([steady(5), steady(5)])
    assert set(got.stats) == {
        *("ttft_ms", "ttfa_ms", "total_ms", "end_ms", "decode_rate", "tpot_ms"),
        *("output_tokens", "tokens_per_chunk", "characters"),
    }
    assert set(got.stats) < set(STATISTICS)


# The steady window


def test_steady_throughput_by_hand() -> None:
    traces = [
        trace_of((50, 1, 10), (150, 1, 10), (400, 1, 10), (600, 1, 10), sent=0, tokens=4),
        trace_of((200, 1, 10), (300, 1, 10), sent=100, tokens=2),
        trace_of((700, 1, 10), (800, 1, 10), sent=500, tokens=2),
    ]
    got = cell_figures(traces, concurrency=2)
    # Two in flight from 100 ms on; the last send at 500 ms. In between: 150, 400, 200, 300.
    assert got.steady_throughput == pytest.approx(4 / 0.4)
    assert got.steady_share == pytest.approx(4 / 8)
    timed = cell_figures(traces, concurrency=2, duration_end_ns=650 * MS)
    assert timed.steady_throughput == pytest.approx(5 / 0.55)
    assert timed.steady_share == pytest.approx(5 / 8)


def test_there_is_no_steady_window_before_all_streams_ran() -> None:
    traces = [steady(5, sent=0), steady(5, sent=300)]
    got = cell_figures(traces, concurrency=2)
    assert (got.in_flight_peak, got.steady_throughput, got.steady_share) == (1, None, None)
    # All at once and nothing after: the window has no length.
    assert cell_figures([steady(5), steady(5)], concurrency=2).steady_throughput is None
    late = cell_figures([steady(5), steady(5)], concurrency=2, duration_end_ns=100 * MS)
    assert late.steady_throughput == pytest.approx(2 / 0.1)


@settings(max_examples=60)
@given(
    requests=st.lists(st.tuples(st.integers(0, 60), st.integers(2, 8), st.integers(1, 9)), min_size=2, max_size=10),
    concurrency=st.integers(1, 4),
)
def test_steady_throughput_against_counting_tokens(requests: list[tuple[int, int, int]], concurrency: int) -> None:
    traces = [steady(tokens, sent=sent, ttft=5, gap=gap) for sent, tokens, gap in requests]
    got = cell_figures(traces, concurrency=concurrency)
    spans = [(sent, sent + 5 + (tokens - 1) * gap) for sent, tokens, gap in requests]
    starts = [at for at in range(200) if sum(a <= at < b for a, b in spans) >= concurrency]
    last_send = max(sent for sent, _, _ in requests)
    if not starts or starts[0] >= last_send:
        assert got.steady_throughput is None
        return
    stamps = [sent + 5 + step * gap for sent, tokens, gap in requests for step in range(tokens)]
    inside = sum(starts[0] < at <= last_send for at in stamps)
    assert got.steady_throughput == pytest.approx(inside * 1000 / (last_send - starts[0]))
    assert got.steady_share == pytest.approx(inside / len(stamps))


# In flight


@given(spans=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)).map(lambda s: (s[0], s[0] + s[1])), min_size=1))
def test_in_flight_against_brute_force(spans: list[tuple[int, int]]) -> None:
    peak, mean = in_flight([trace_of(sent=sent, end=end) for sent, end in spans])
    instants = range(min(a for a, _ in spans), max(b for _, b in spans))
    levels = [sum(a <= at < b for a, b in spans) for at in instants]
    assert peak == max(levels)
    assert mean == pytest.approx(sum(levels) / len(levels))


def test_a_request_is_in_flight_until_its_end_or_the_last_that_was_seen_of_it() -> None:
    assert in_flight([trace_of((10, 1, 1), sent=0, end=20), trace_of(sent=15, end=30)])[0] == 2
    without_end = trace_of((10, 1, 1), sent=0)
    without_end.end_ns = None
    assert in_flight([without_end, trace_of(sent=15, end=30)])[0] == 1
    # A slot that is free again and taken in the same instant holds one request, not two.
    assert in_flight([trace_of(sent=0, end=20), trace_of(sent=20, end=40)]) == (1, 1.0)
    assert in_flight([trace_of(sent=None)]) == (0, None)
    assert in_flight([]) == (0, None)


def test_sends_are_told_from_the_cells_first() -> None:
    traces = [trace_of(sent=30), trace_of(sent=None), trace_of(sent=10)]
    assert first_send_ns(traces) == 10 * MS
    assert started_ms(traces) == [20.0, None, 0.0]
    assert (first_send_ns([]), started_ms([trace_of(sent=None)])) == (None, [None])


# Token sources


def test_unlike_counts_are_never_mixed_in_a_cell() -> None:
    counted = steady(10, usage=Usage(completion=12))
    recounted = steady(10, counted_by_server=None, counted=11, counted_by="tokenize")
    bare = steady(10, counted_by_server=None)
    both = steady(10, usage=Usage(completion=12), counted=13, counted_by="tokenize")
    assert counts([counted, both]) == ("usage", [12, 12])
    assert counts([both, recounted]) == ("tokenize", [13, 11])
    assert counts([both, bare]) == ("chunks", [10, 10])


def counts(traces: list[RequestTrace]) -> tuple[str, list[int | None]]:
    got = cell_figures(traces)
    assert {item.token_source for item in got.per_request} == {got.token_source}
    return got.token_source, [item.output_tokens for item in got.per_request]


def test_an_empty_reply_is_counted_and_named_and_has_no_ttft() -> None:
    got = cell_figures([steady(5), trace_of(sent=0, end=9, tokens=0)])
    assert (got.ok, got.empty, got.success_rate, got.token_source) == (2, 1, 1.0, "usage")
    assert got.stats["ttft_ms"].n == 1
    assert got.stats["output_tokens"].min == 0


# Spread


def test_jitter_compares_replies_of_equal_length() -> None:
    totals = [(10, 5.0), (10, 10.0), (10, 20.0), (50, 100.0)]
    got = cell_figures([steady(tokens, ttft=10, gap=gap) for tokens, gap in totals])
    # 10 + 9 x gap: 55, 100 and 190 ms; the long one is no outlier but another length.
    assert got.jitter == pytest.approx(190 / 55)
    assert cell_figures([steady(10), steady(10), steady(11)]).jitter is None, "two are too few to tell"
    assert cell_figures([steady(10, outcome="cancelled")] * 3).jitter is None


def test_a_slow_request_takes_twice_the_median_or_more_than_the_stated_limit() -> None:
    traces = [steady(2, ttft=ttft, gap=10) for ttft in (90, 90, 90, 190, 191)]
    assert cell_figures(traces).slow_requests == 1
    assert cell_figures(traces, limits={"total_ms": 199.0}).slow_requests == 2
    assert cell_figures(traces, limits={"ttft_ms": 1.0}).slow_requests == 1


def test_coalesced_chunks_are_a_share_of_the_ok_ones() -> None:
    traces = [trace_of((1, 3, 9), (2, 1, 3), tokens=4), failed((1, 50, 9), end=2)]
    assert cell_figures(traces).coalesced_share == pytest.approx(2 / 4)


def test_reasons_and_ends_are_counted_over_the_ok_ones() -> None:
    got = cell_figures(
        [
            steady(5, finish="stop"),
            steady(5, finish="length"),
            steady(1, finish="stop"),
            failed(end=1, finish="length"),
            trace_of(end=1, outcome="failed", error_class="http_503"),
        ]
    )
    assert got.finish == {"stop": 2, "length": 1}
    assert got.decode_absent == {"short": 1}
    assert got.errors == {"truncated": 1, "http_503": 1}


# Limits


def test_goodput_counts_ok_requests_within_every_limit() -> None:
    traces = [
        steady(5, ttft=100, gap=20),
        steady(5, ttft=300, gap=20),
        steady(5, ttft=100, gap=50),
        failed((100, 5, 20), end=100),
        # Ok, but nothing that could be within a limit on TTFT.
        trace_of(sent=0, end=9, tokens=0),
    ]
    window = 0.38
    assert goodput(traces, ttft_ms=200.0) == pytest.approx(2 / window)
    assert goodput(traces, ttft_ms=200.0, decode_rate=30.0) == pytest.approx(1 / window)
    assert goodput(traces, ttft_ms=300.0, decode_rate=20.0) == pytest.approx(3 / window)
    assert goodput(traces, ttft_ms=99.9) == 0.0
    assert cell_figures(traces).goodput is None, "no limit, no goodput"


def goodput(traces: list[RequestTrace], **limits: float) -> float | None:
    got = cell_figures(traces, limits=limits)
    assert got.window_s == pytest.approx(0.38)
    return got.goodput


def test_a_cell_meets_a_ceiling_with_its_p95_and_a_floor_with_its_minimum() -> None:
    cell = cell_figures([steady(5, ttft=100.0 + n, gap=20.0 + n) for n in range(20)])
    p95 = cell.stats["ttft_ms"].p95
    assert p95 < cell.stats["ttft_ms"].max
    assert meets_limits(cell, {"ttft_ms": p95})
    assert not meets_limits(cell, {"ttft_ms": p95 - 0.01})
    slowest = cell.stats["decode_rate"].min
    assert slowest == pytest.approx(1000 / 39)
    assert meets_limits(cell, {"decode_rate": slowest})
    assert not meets_limits(cell, {"decode_rate": slowest + 0.01})
    assert not meets_limits(cell, {"ttft_ms": p95, "decode_rate": slowest + 0.01})
    assert meets_limits(cell, {})


def test_a_cell_meets_nothing_with_a_failure_or_without_the_figure() -> None:
    generous = {"ttft_ms": 1e9}
    assert meets_limits(cell_figures([steady(5)]), generous)
    assert not meets_limits(cell_figures([steady(5), failed(end=1)]), generous)
    assert not meets_limits(cell_figures([]), generous)
    assert not meets_limits(cell_figures([steady(5, streamed=False)]), generous)


# The client


@pytest.mark.parametrize(
    ("lag_p99_ms", "cpu_share", "ttft_p50_ms", "limited"),
    [
        (4.9, 0.5, 100.0, ""),
        (5.0, 0.8, 100.0, ""),
        (5.1, 0.5, 100.0, "ttft"),
        (5.1, 0.5, None, "ttft"),
        (19.9, 0.5, 1000.0, ""),
        (20.1, 0.5, 1000.0, "ttft"),
        (0.1, 0.81, 100.0, "all"),
        (50.0, 0.81, 100.0, "all"),
    ],
)
def test_a_late_client_judges_no_ttft_and_a_busy_one_nothing(
    lag_p99_ms: float, cpu_share: float, ttft_p50_ms: float | None, limited: str
) -> None:
    fitness = ClientFitness(lag_p99_ms=lag_p99_ms, cpu_share=cpu_share)
    assert judge_client(fitness, ttft_p50_ms) == limited


# Anything at all


@st.composite
def any_trace(draw: st.DrawFn) -> RequestTrace:
    arrivals = draw(
        st.lists(st.tuples(st.integers(0, 99), st.integers(1, 3), st.integers(0, 9)), max_size=5).map(sorted)
    )
    return trace_of(
        *arrivals,
        sent=draw(st.one_of(st.none(), st.integers(0, 50))),
        end=draw(st.one_of(st.none(), st.integers(99, 120))),
        tokens=draw(st.one_of(st.none(), st.integers(0, 30))),
        outcome=draw(st.sampled_from(["ok", "ok", "failed", "cancelled"])),
        streamed=draw(st.booleans()),
        error_class=draw(st.sampled_from(["", "truncated"])),
    )


@settings(max_examples=60)
@given(
    traces=st.lists(any_trace(), max_size=8),
    concurrency=st.integers(1, 5),
    limits=st.sampled_from([None, {"ttft_ms": 20.0}, {"decode_rate": 5.0, "tpot_ms": 900.0}]),
)
def test_whatever_came_the_cell_adds_up(
    traces: list[RequestTrace], concurrency: int, limits: dict[str, float] | None
) -> None:
    got: CellFigures = cell_figures(traces, concurrency=concurrency, limits=limits)
    assert got.requests == got.ok + got.failed + got.cancelled == len(got.per_request)
    assert sum(got.errors.values()) == got.failed
    assert sum(got.finish.values()) == got.ok
    assert 0.0 <= got.partial_share <= 1.0
    assert got.steady_share is None or 0.0 <= got.steady_share <= 1.0 + 1e-9
    assert got.in_flight_peak <= len(traces)
    assert got.in_flight_mean is None or got.in_flight_mean <= got.in_flight_peak + 1e-9
    for stats in got.stats.values():
        assert 1 <= stats.n <= got.ok
        assert stats.min <= stats.p50 <= stats.p95 <= stats.max
    for name in ("window_s", "throughput", "jitter"):
        value = getattr(got, name)
        assert value is None or (value > 0 and math.isfinite(value)), name
    if got.goodput is not None and got.request_rate is not None:
        assert got.goodput <= got.request_rate + 1e-9
