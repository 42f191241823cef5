"""Figures of one cell: one setting of the variables in one round. Pure; see docs for the definitions in prose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Protocol

import msgspec

from workbench.domain.events import RequestTrace
from workbench.domain.metrics import NS_PER_MS, NS_PER_S, RequestFigures, common_source, request_figures

SMALL_FOR_P95 = 20
JITTER_NAMED = 3.0
CPU_LIMIT = 0.8

STATISTICS = (
    "ttft_ms",
    "ttfa_ms",
    "total_ms",
    "end_ms",
    "first_byte_ms",
    "connect_ms",
    "ttft_from_schedule_ms",
    "total_from_schedule_ms",
    "decode_rate",
    "tpot_ms",
    "output_tokens",
    "prompt_tokens",
    "cached_tokens",
    "tokens_per_chunk",
    "characters",
)
"""Figures a cell keeps statistics of."""


class Stats(msgspec.Struct, frozen=True):
    """Statistics of one figure over a cell's ok requests, each with its n."""

    n: int
    min: float
    mean: float
    p50: float
    p95: float
    max: float


class ClientFitness(msgspec.Struct, kw_only=True):
    """How the measuring client itself fared: loop lateness in ms and CPU share of one core, of the busiest worker.

    `limited` is "" (fit), "ttft" (too late to judge TTFT) or "all" (too busy to judge anything).
    """

    lag_p50_ms: float = 0.0
    lag_p99_ms: float = 0.0
    lag_max_ms: float = 0.0
    cpu_share: float = 0.0
    workers: int = 1
    limited: str = ""


class CellFigures(msgspec.Struct, kw_only=True):
    """Figures of a cell. Rates are a second; windows are seconds; None is absent.

    `partial_share`: share of the throughput's tokens that came from requests that did not end ok (estimated from their
    chunks). `steady_share`: share of the output tokens that the steady window holds.
    """

    requests: int
    ok: int
    failed: int
    cancelled: int
    empty: int
    success_rate: float | None
    token_source: str
    window_s: float | None
    throughput: float | None
    partial_share: float
    steady_throughput: float | None
    steady_share: float | None
    request_rate: float | None
    goodput: float | None
    in_flight_peak: int
    in_flight_mean: float | None
    slow_requests: int
    jitter: float | None
    coalesced_share: float | None
    stats: dict[str, Stats]
    errors: dict[str, int]
    finish: dict[str, int]
    decode_absent: dict[str, int]
    per_request: list[RequestFigures]


def percentile(ordered: Sequence[float], p: float) -> float:
    """Linear interpolation at rank (n-1)p of values already in order. Raises ValueError when empty."""
    if not ordered:
        raise ValueError("no values")
    rank = (len(ordered) - 1) * p
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def stats_of(values: Iterable[float | None]) -> Stats | None:
    """Statistics over the values that are there; None when none is."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None
    return Stats(
        n=len(ordered),
        min=ordered[0],
        mean=sum(ordered) / len(ordered),
        p50=percentile(ordered, 0.5),
        p95=percentile(ordered, 0.95),
        max=ordered[-1],
    )


def _end_of(trace: RequestTrace) -> int | None:
    if trace.end_ns is not None:
        return trace.end_ns
    return trace.arrivals.at_ns[-1] if trace.arrivals.at_ns else trace.sent_ns


def _steps(traces: Sequence[RequestTrace]) -> list[tuple[int, int]]:
    """Sends (+1) and ends (-1) in order. At one instant an end comes before a send: the slot was free again."""
    steps: list[tuple[int, int]] = []
    for trace in traces:
        end = _end_of(trace)
        if trace.sent_ns is not None and end is not None:
            steps += [(trace.sent_ns, 1), (end, -1)]
    return sorted(steps)


def in_flight(traces: Sequence[RequestTrace]) -> tuple[int, float | None]:
    """Peak and mean number of requests between their send and their end, from the first send to the last end."""
    steps = _steps(traces)
    level = peak = area = 0
    for index, (at, step) in enumerate(steps):
        level += step
        peak = max(peak, level)
        if index + 1 < len(steps):
            area += level * (steps[index + 1][0] - at)
    window = steps[-1][0] - steps[0][0] if steps else 0
    return peak, area / window if window else None


def _reached_at(traces: Sequence[RequestTrace], asked: int) -> int | None:
    """The stamp at which as many requests as asked for were first in flight."""
    level = 0
    for at, step in _steps(traces):
        level += step
        if level >= asked:
            return at
    return None


def _tokens_between(trace: RequestTrace, tokens: float, start: int, stop: int) -> float:
    """The share of a request's tokens whose bytes arrived in the window (start, stop]."""
    total = sum(trace.arrivals.size)
    if not total:
        return 0.0
    inside = sum(size for at, size in zip(trace.arrivals.at_ns, trace.arrivals.size, strict=True) if start < at <= stop)
    return tokens * inside / total


def _within(figures: RequestFigures, limits: dict[str, float]) -> bool:
    for name, bound in limits.items():
        value = getattr(figures, name)
        if value is None or (value < bound if name == "decode_rate" else value > bound):
            return False
    return True


STEADY_ENOUGH = 0.5
"""The steady window's throughput stands for a cell when it holds at least this share of the tokens."""


class Paced(Protocol):
    """What tells a cell's throughput: its figures, or its stored table."""

    throughput: float | None
    steady_throughput: float | None
    steady_share: float | None


def stated_throughput(cell: Paced) -> float | None:
    """The one throughput a cell is quoted with: the steady window's where that holds half the tokens, else the whole's."""
    if cell.steady_throughput is not None and (cell.steady_share or 0.0) >= STEADY_ENOUGH:
        return cell.steady_throughput
    return cell.throughput


class Limited(Protocol):
    """What limits are held against: a cell's figures, or its stored table."""

    ok: int
    failed: int
    stats: dict[str, Stats]


def meets_limits(cell: Limited, limits: dict[str, float]) -> bool:
    """Whether a cell meets its limits: the p95 (for decode_rate its minimum) does, nothing failed, and every ok request
    has the figure."""
    if cell.failed or not cell.ok:
        return False
    for name, bound in limits.items():
        stats = cell.stats.get(name)
        if stats is None or stats.n < cell.ok or (stats.min < bound if name == "decode_rate" else stats.p95 > bound):
            return False
    return True


def _jitter(figures: Sequence[RequestFigures]) -> float | None:
    """Max / min of total_ms among ok requests of equal output length (the most frequent length); from 3 of them on."""
    lengths = Counter(item.output_tokens for item in figures if item.output_tokens)
    if not lengths:
        return None
    length, count = lengths.most_common(1)[0]
    totals = [item.total_ms for item in figures if item.output_tokens == length and item.total_ms]
    if count < 3 or len(totals) < 3:
        return None
    return max(totals) / min(totals)


def cell_figures(
    traces: Sequence[RequestTrace],
    *,
    concurrency: int | None = 1,
    limits: dict[str, float] | None = None,
    template_tokens: int = 0,
    duration_end_ns: int | None = None,
) -> CellFigures:
    """Derive a cell's figures from the raw traces of its measured requests (warm-up left out by the caller).

    `concurrency`: the number in flight asked for, None in an open loop, which has no steady window. `duration_end_ns`: the
    end of that window when the cell ran for a stated time.
    """
    source = common_source(traces)
    figures = [request_figures(trace, source, template_tokens) for trace in traces]
    ok = [item for item in figures if item.outcome == "ok"]
    failed = sum(item.outcome == "failed" for item in figures)
    sends = [trace.sent_ns for trace in traces if trace.sent_ns is not None]
    outputs = [trace.arrivals.at_ns[-1] for trace in traces if trace.arrivals.at_ns]
    start, stop = min(sends, default=None), max(outputs, default=None)
    window = (stop - start) / NS_PER_S if start is not None and stop is not None and stop > start else None

    stats = {}
    for name in STATISTICS:
        found = stats_of(getattr(item, name) for item in ok)
        if found is not None:
            stats[name] = found
    per_chunk = _per_chunk(ok)
    tokens = [_tokens_of(item, per_chunk) for item in figures]
    whole = sum(tokens)
    partial = sum(count for item, count in zip(figures, tokens, strict=True) if item.outcome != "ok")
    peak, mean = in_flight(traces)
    steady_start = None if concurrency is None else _reached_at(traces, concurrency)
    steady_stop = duration_end_ns if duration_end_ns is not None else max(sends, default=None)
    steady = steady_share = None
    if steady_start is not None and steady_stop is not None and steady_stop > steady_start and whole:
        inside = sum(
            _tokens_between(trace, count, steady_start, steady_stop)
            for trace, count in zip(traces, tokens, strict=True)
        )
        steady_share = inside / whole
        steady = inside * NS_PER_S / (steady_stop - steady_start)
    totals = [item.total_ms for item in ok if item.total_ms is not None]
    slow_bound = (limits or {}).get("total_ms") or (2 * median(totals) if totals else 0.0)
    chunks = sum(item.chunks for item in ok)
    return CellFigures(
        requests=len(figures),
        ok=len(ok),
        failed=failed,
        cancelled=sum(item.outcome == "cancelled" for item in figures),
        empty=sum(item.empty for item in figures),
        success_rate=len(ok) / (len(ok) + failed) if ok or failed else None,
        token_source=source,
        window_s=window,
        throughput=whole / window if window and whole else None,
        partial_share=partial / whole if whole else 0.0,
        steady_throughput=steady,
        steady_share=steady_share,
        request_rate=len(ok) / window if window else None,
        goodput=sum(_within(item, limits) for item in ok) / window if limits and window else None,
        in_flight_peak=peak,
        in_flight_mean=mean,
        slow_requests=sum(total > slow_bound for total in totals),
        jitter=_jitter(ok),
        coalesced_share=sum(item.coalesced for item in ok) / chunks if chunks else None,
        stats=stats,
        errors=dict(Counter(item.error_class for item in figures if item.outcome == "failed")),
        finish=dict(Counter(item.finish for item in ok)),
        decode_absent=dict(Counter(item.decode_absent for item in ok if item.decode_absent)),
        per_request=figures,
    )


def _per_chunk(ok: Sequence[RequestFigures]) -> float:
    """Tokens a chunk over the cell's ok requests; 1 when that can't be told."""
    chunks = sum(item.chunks for item in ok if item.output_tokens)
    return sum(item.output_tokens or 0 for item in ok) / chunks if chunks else 1.0


def _tokens_of(item: RequestFigures, per_chunk: float) -> float:
    """Tokens a request brought to the throughput: its count when it ended ok, else its chunks times the cell's ratio."""
    if item.outcome == "ok":
        return float(item.output_tokens or 0)
    return item.chunks * per_chunk


def judge_client(fitness: ClientFitness, ttft_p50_ms: float | None) -> str:
    """What the client's own state takes away: "" nothing, "ttft" the verdict on TTFT, "all" every verdict."""
    if fitness.cpu_share > CPU_LIMIT:
        return "all"
    if fitness.lag_p99_ms > max(5.0, 0.02 * (ttft_p50_ms or 0.0)):
        return "ttft"
    return ""


def first_send_ns(traces: Sequence[RequestTrace]) -> int | None:
    """The stamp of the cell's first send."""
    return min((trace.sent_ns for trace in traces if trace.sent_ns is not None), default=None)


def started_ms(traces: Sequence[RequestTrace]) -> list[float | None]:
    """When each request was sent, in ms after the cell's first send."""
    start = first_send_ns(traces)
    return [None if trace.sent_ns is None or start is None else (trace.sent_ns - start) / NS_PER_MS for trace in traces]
