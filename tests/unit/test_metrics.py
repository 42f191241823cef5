"""One request's figures: worked by hand, and against the truth for any pacing."""

from __future__ import annotations

import math
from itertools import accumulate

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_traces import MS, steady, trace_of

from workbench.domain.events import CONTENT, REASONING, RequestTrace, Usage
from workbench.domain.metrics import (
    TOO_FAST,
    RequestFigures,
    chunk_gaps_ms,
    common_source,
    counts_of,
    first_arrival_tokens,
    request_figures,
)


def test_a_request_worked_by_hand() -> None:
    trace = trace_of(
        (1214.0, 2, 6),
        (1254.0, 1, 5),
        (1294.0, 1, 5),
        sent=1000.0,
        end=1300.5,
        usage=Usage(prompt=80, completion=4, cached=64),
        first_byte_ns=1210 * MS,
        connect_ns=3 * MS,
        upload_ns=MS // 2,
        finish="stop",
        prompt="short",
    )
    got = request_figures(trace)
    assert (got.connect_ms, got.upload_ms, got.first_byte_ms) == (3.0, 0.5, 210.0)
    assert (got.ttft_ms, got.ttfa_ms, got.total_ms, got.end_ms) == (214.0, 214.0, 294.0, 300.5)
    assert (got.output_tokens, got.token_source, got.prompt_tokens, got.cached_tokens) == (4, "usage", 80, 64)
    # 4 tokens, 2 of them in the first arrival: 2 tokens in 80 ms.
    assert got.decode_rate == pytest.approx(25.0)
    assert got.tpot_ms == pytest.approx(80.0 / 3)
    assert (got.chunks, got.coalesced, got.tokens_per_chunk) == (4, 1, 1.0)
    assert (got.finish, got.prompt, got.outcome, got.empty, got.characters) == ("stop", "short", "ok", False, 16)
    assert chunk_gaps_ms(trace) == [40.0, 40.0]


def test_a_request_that_met_nothing_has_no_figure_at_all() -> None:
    got = request_figures(RequestTrace(index=3, outcome="failed", error_class="refused", error="no"))
    figures = msgspec.structs.asdict(got)
    said = {"index", "outcome", "error", "error_class", "finish", "empty", "chunks", "coalesced", "decode_absent"}
    # Streamed is a trace's default: its count of chunks is a true 0.
    absent = {name: value for name, value in figures.items() if name not in said}
    assert {name: value for name, value in absent.items() if value not in (None, "", 0)} == {"token_source": "chunks"}
    assert all(figures[name] is None for name in figures if name.endswith("_ms") or name == "decode_rate")
    assert got.decode_absent == "no output"


STAMPS = st.one_of(st.none(), st.integers(0, 10**12))


@given(sent=STAMPS, first=STAMPS, end=STAMPS, connect=STAMPS, upload=STAMPS, scheduled=STAMPS, output=st.booleans())
def test_absent_stays_absent_whatever_is_missing(
    sent: int | None,
    first: int | None,
    end: int | None,
    connect: int | None,
    upload: int | None,
    scheduled: int | None,
    output: bool,
) -> None:
    trace = trace_of(*([(5.0, 1, 1), (6.0, 1, 1)] if output else []), sent=None)
    trace.sent_ns, trace.first_byte_ns, trace.end_ns = sent, first, end
    trace.connect_ns, trace.upload_ns, trace.scheduled_ns = connect, upload, scheduled
    got = request_figures(trace)
    assert (got.connect_ms is None) == (connect is None)
    assert (got.upload_ms is None) == (upload is None)
    assert (got.first_byte_ms is None) == (sent is None or first is None)
    assert (got.end_ms is None) == (sent is None or end is None)
    for name in ("ttft_ms", "ttfa_ms", "total_ms"):
        assert (getattr(got, name) is None) == (sent is None or not output)
    for name in ("ttft_from_schedule_ms", "total_from_schedule_ms"):
        assert (getattr(got, name) is None) == (scheduled is None or not output)


# Decode rate


@st.composite
def groups(draw: st.DrawFn) -> list[int]:
    """Tokens of each arrival: at least three arrivals, no more than half of the tokens in one."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=3, max_size=40))
    first = draw(st.integers(1, sum(sizes)))
    whole = [first, *sizes]
    if max(whole) * 2 > sum(whole):
        whole.append(max(whole))
    return whole


def paced(sizes: list[int], gap_ns: int, ttft_ns: int, bytes_a_token: int = 3) -> RequestTrace:
    """Token i is made at ttft + i x gap; a group leaves when its last token is made."""
    ends = list(accumulate(sizes))
    trace = trace_of(*((0.0, 1, size * bytes_a_token) for size in sizes), tokens=sum(sizes))
    trace.arrivals.at_ns = [ttft_ns + (end - 1) * gap_ns for end in ends]
    return trace


@given(sizes=groups(), gap_ns=st.integers(110_000, 10**9), ttft_ns=st.integers(0, 10**11), each=st.integers(1, 9))
def test_decode_rate_is_the_truth_whatever_the_first_arrival_holds(
    sizes: list[int], gap_ns: int, ttft_ns: int, each: int
) -> None:
    got = request_figures(paced(sizes, gap_ns, ttft_ns, each))
    assert got.decode_absent == ""
    assert got.decode_rate == pytest.approx(1e9 / gap_ns, rel=1e-9)


@given(sizes=groups(), gap_ns=st.integers(110_000, 10**9), lengths=st.randoms(use_true_random=False))
def test_decode_rate_by_the_servers_own_count_of_the_first_arrival(
    sizes: list[int], gap_ns: int, lengths: object
) -> None:
    trace = paced(sizes, gap_ns, 10**8)
    # Words of unlike lengths: the share of the bytes would be off, the server's per-chunk count is not.
    trace.arrivals.size = [max(1, size * 3 + lengths.randint(-2, 2)) for size in sizes]  # type: ignore[attr-defined]
    trace.first_tokens = sizes[0]
    got = request_figures(trace)
    if max(trace.arrivals.size) * 2 > sum(trace.arrivals.size):
        assert got.decode_absent == "buffered"
    else:
        assert got.decode_rate == pytest.approx(1e9 / gap_ns, rel=1e-9)


@given(
    stamps=st.lists(st.integers(0, 10**11), min_size=3, max_size=60, unique=True).map(sorted),
    sizes=st.lists(st.integers(1, 9), min_size=60, max_size=60),
    unseen=st.integers(0, 1),
)
def test_decode_rate_with_a_token_a_chunk_counts_chunks_not_bytes(
    stamps: list[int], sizes: list[int], unseen: int
) -> None:
    trace = trace_of(*((0.0, 1, size) for size in sizes[: len(stamps)]), tokens=len(stamps) + unseen)
    trace.arrivals.at_ns = stamps
    truth = (len(stamps) + unseen - 1) * 1e9 / (stamps[-1] - stamps[0])
    got = request_figures(trace)
    if got.decode_rate is None:
        assert got.decode_absent == "buffered"
        assert truth > TOO_FAST or max(trace.arrivals.size) * 2 > sum(trace.arrivals.size)
    else:
        assert got.decode_rate == pytest.approx(truth, rel=1e-9)


@given(data=st.data())
def test_tpot_is_absent_whenever_the_decode_rate_is(data: st.DataObject) -> None:
    arrivals = data.draw(
        st.lists(st.tuples(st.integers(0, 50), st.integers(1, 3), st.integers(0, 9)), max_size=6).map(sorted)
    )
    trace = trace_of(
        *arrivals,
        tokens=data.draw(st.one_of(st.none(), st.integers(0, 40))),
        streamed=data.draw(st.booleans()),
    )
    got = request_figures(trace)
    assert (got.tpot_ms is None) == (got.decode_rate is None) == (got.decode_absent != "")
    if got.decode_rate is not None:
        assert got.decode_rate > 0
        assert math.isfinite(got.decode_rate)


@pytest.mark.parametrize(
    ("trace", "word"),
    [
        (steady(1), "short"),
        (trace_of((100, 1, 4), tokens=3), "buffered"),
        (trace_of((100, 1, 4), (200, 2, 4), tokens=3), "buffered"),
        (trace_of((100, 1, 21), (200, 1, 10), (300, 1, 10), tokens=12), "buffered"),
        (trace_of((100, 2, 4), tokens=2), "buffered"),
        (trace_of((100, 1, 4), (100.1, 1, 4), (100.19, 1, 4), tokens=3), "buffered"),
        (steady(10, usage=Usage(completion=90, reasoning=80)), "hidden tokens"),
        (steady(10, streamed=False), "not streamed"),
        (trace_of(tokens=5), "no output"),
    ],
)
def test_why_there_is_no_decode_rate(trace: RequestTrace, word: str) -> None:
    got = request_figures(trace)
    assert (got.decode_rate, got.tpot_ms, got.decode_absent) == (None, None, word)


@pytest.mark.parametrize(
    ("trace", "rate"),
    [
        # Half of the bytes in one arrival is not over half of them.
        (trace_of((100, 1, 20), (200, 1, 10), (300, 1, 10), tokens=3), 10.0),
        # Two tokens can't come in three arrivals.
        (trace_of((100, 1, 9), (200, 1, 1), tokens=2), 10.0),
        # Exactly the limit is still believed.
        (trace_of((100, 1, 4), (100.1, 1, 4), (100.2, 1, 4), tokens=3), TOO_FAST),
        # Reasoning that was streamed is not hidden.
        (steady(10, usage=Usage(completion=10, reasoning=8), reasoning="so"), 50.0),
    ],
)
def test_what_is_just_good_enough_for_a_decode_rate(trace: RequestTrace, rate: float) -> None:
    got = request_figures(trace)
    assert (got.decode_rate, got.decode_absent) == (pytest.approx(rate), "")


def test_the_first_arrivals_tokens_come_from_the_best_that_is_known() -> None:
    trace = trace_of((1, 1, 30), (2, 1, 30), (3, 1, 60), tokens=12)
    assert first_arrival_tokens(trace, 12) == 3.0
    trace.first_tokens = 5
    assert first_arrival_tokens(trace, 12) == 5.0
    trace.first_tokens = 13
    assert first_arrival_tokens(trace, 12) == 3.0, "more than the whole reply holds is no count"
    assert first_arrival_tokens(trace, 4) == 1.0, "a token a chunk, and one unseen at the end"


# Clocks


def test_reasoning_stops_the_first_clock_and_the_answer_its_own() -> None:
    trace = trace_of((28_600, 1, 4), (30_000, 1, 4), (34_700, 1, 4), tokens=3)
    trace.arrivals.kinds = [REASONING, REASONING, CONTENT | REASONING]
    got = request_figures(trace)
    assert (got.ttft_ms, got.ttfa_ms) == (28_600.0, 34_700.0)
    trace.arrivals.kinds = [REASONING] * 3
    assert request_figures(trace).ttfa_ms is None


def test_a_reply_that_was_not_streamed_has_a_total_and_no_first_token() -> None:
    got = request_figures(trace_of((300, 1, 40), tokens=10, streamed=False, scheduled_ns=-50 * MS))
    assert (got.total_ms, got.total_from_schedule_ms) == (300.0, 350.0)
    assert (got.ttft_ms, got.ttfa_ms, got.ttft_from_schedule_ms) == (None, None, None)
    assert got.tokens_per_chunk is None


def test_open_loop_times_run_from_the_schedule() -> None:
    got = request_figures(steady(3, sent=40.0, ttft=100.0, gap=20.0, scheduled_ns=10 * MS))
    assert (got.ttft_ms, got.total_ms) == (100.0, 140.0)
    assert (got.ttft_from_schedule_ms, got.total_from_schedule_ms) == (130.0, 170.0)


def test_an_ok_reply_without_output_is_empty_and_a_failed_one_is_not() -> None:
    empty = request_figures(trace_of(end=6.0, tokens=0))
    assert (empty.empty, empty.output_tokens, empty.token_source) == (True, 0, "usage")
    assert (empty.ttft_ms, empty.total_ms, empty.end_ms) == (None, None, 6.0)
    assert not request_figures(trace_of(end=6.0, outcome="failed")).empty


@given(stamps=st.lists(st.integers(0, 10**12), min_size=1, unique=True).map(sorted))
def test_chunk_gaps_add_up_to_the_whole(stamps: list[int]) -> None:
    trace = trace_of(*((0.0, 1, 1) for _ in stamps))
    trace.arrivals.at_ns = stamps
    gaps = chunk_gaps_ms(trace)
    assert len(gaps) == len(stamps) - 1
    assert sum(gaps) == pytest.approx((stamps[-1] - stamps[0]) / MS)


# Token counts


def test_a_count_of_zero_beside_text_is_no_count() -> None:
    assert counts_of(trace_of((1, 1, 4), tokens=0)) == {"chunks": 1}
    assert counts_of(trace_of(tokens=0)) == {"usage": 0, "chunks": 0}
    assert counts_of(trace_of((1, 1, 4), tokens=None, streamed=False)) == {}


def test_the_best_count_wins_and_is_named() -> None:
    trace = trace_of((1, 2, 4), (2, 1, 4), tokens=7, counted=6, counted_by="tokenize")
    assert counts_of(trace) == {"usage": 7, "tokenize": 6, "chunks": 3}
    assert figure(trace) == (7, "usage")
    assert figure(trace, "tokenize") == (6, "tokenize")
    assert figure(trace, "chunks") == (3, "chunks")
    assert figure(trace, "tokenizer") == (7, "usage"), "a source it does not have: its own best"
    assert figure(trace_of((1, 2, 4), counted=6, counted_by="tokenizer")) == (6, "tokenizer")
    assert figure(trace_of((1, 2, 4))) == (2, "chunks")
    assert figure(trace_of((1, 2, 4), streamed=False)) == (None, "")


def figure(trace: RequestTrace, source: str = "") -> tuple[int | None, str]:
    got: RequestFigures = request_figures(trace, source)
    return got.output_tokens, got.token_source


def test_a_cells_source_is_the_best_that_all_ok_requests_have() -> None:
    counted = steady(5)
    both = steady(5, counted=4, counted_by="tokenize")
    recounted = steady(5, counted_by_server=None, counted=4, counted_by="tokenize")
    bare = steady(5, counted_by_server=None)
    failed = steady(5, counted_by_server=None, outcome="failed")
    unstreamed = steady(5, counted_by_server=None, streamed=False)
    assert common_source([counted, both]) == "usage"
    assert common_source([both, recounted]) == "tokenize"
    assert common_source([counted, recounted]) == "chunks"
    assert common_source([both, bare]) == "chunks"
    assert common_source([counted, failed]) == "usage", "a failed request has no say"
    assert common_source([recounted, trace_of(end=5.0)]) == "tokenize", "an empty reply has nothing to count"
    assert common_source([trace_of(end=5.0, tokens=0)]) == "usage"
    assert common_source([counted, unstreamed]) == ""
    assert common_source([failed]) == ""
    assert common_source([]) == ""


@pytest.mark.parametrize(
    ("cached", "template", "hits"), [(None, 10, None), (0, 0, 0), (10, 10, 0), (11, 10, 11), (64, 0, 64)]
)
def test_hits_up_to_the_templates_share_are_no_hits(cached: int | None, template: int, hits: int | None) -> None:
    trace = steady(3, usage=Usage(prompt=80, completion=3, cached=cached))
    assert request_figures(trace, template_tokens=template).cached_tokens == hits
