"""What must be known beside the figures of a cell, each in a line with its remedy, gathered over a table's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.domain.cell import JITTER_NAMED, SMALL_FOR_P95
from workbench.domain.record import CellTable

SHORT_BY = 0.05
STEADY_ENOUGH = 0.5
"""Share of the tokens that the steady window must hold before its throughput is shown in place of the whole's."""


def is_steady(cell: CellTable) -> bool:
    """Whether the throughput of the steady window stands for the cell."""
    return cell.steady_throughput is not None and (cell.steady_share or 0.0) >= STEADY_ENOUGH


def cell_notes(cell: CellTable, limits: dict[str, float]) -> list[str]:
    """The notes of one cell, most important first."""
    notes: list[str] = []
    for part in (_failures, _client, _concurrency, _tokens, _length, _sample):
        notes += part(cell)
    notes += _limits(cell, limits)
    notes += [f"{name}: {text}" for name, text in cell.checks.items() if text != "pass"]
    return notes


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def _failures(cell: CellTable) -> list[str]:
    notes = []
    if cell.failed:
        notes.append(f"{cell.failed} of {cell.requests} FAILED ({_counted(cell.errors)}): averages are of the others")
    if cell.cancelled:
        notes.append(f"{cell.cancelled} cancelled, not counted as failed")
    if cell.empty:
        notes.append(f"{cell.empty} of {cell.ok} ok replies were empty: no output, no TTFT")
    if cell.partial_share:
        notes.append(f"{cell.partial_share:.0%} of the tokens come from requests that did not end ok (estimated)")
    if cell.warmup_failed:
        notes.append(f"{cell.warmup_failed} of {cell.warmup} warm-up requests failed")
    if cell.stopped:
        notes.append(f"ended early: {cell.stopped}")
    return notes


def _client(cell: CellTable) -> list[str]:
    limited = cell.client.get("limited", "")
    lag = cell.client.get("lag_p99_ms")
    late = f" (loop lag p99 {lag:.1f} ms)" if isinstance(lag, (int, float)) else ""
    if limited == "ttft":
        return [f"client-limited{late}: TTFT is not to be judged; use fewer streams or --workers"]
    if limited:
        share = cell.client.get("cpu_share")
        busy = f" ({share:.0%} of a core)" if isinstance(share, (int, float)) else ""
        return [f"client-limited{busy}: nothing here is to be judged; use --workers or a quieter machine"]
    return []


def _concurrency(cell: CellTable) -> list[str]:
    asked: Any = cell.variables.get("concurrency")
    if isinstance(asked, int) and cell.in_flight_peak and cell.in_flight_peak < asked and not cell.stopped:
        why = f"only {cell.requests} requests" if cell.requests < asked else "the server or the client held back"
        return [f"{cell.in_flight_peak} in flight at most, {asked} asked for: {why}"]
    return []


def _tokens(cell: CellTable) -> list[str]:
    notes = []
    if cell.token_source == "chunks":
        notes.append("tokens estimated from chunks: the server counts none; --tokenizer FILE would count them")
    elif cell.token_source in ("tokenize", "tokenizer"):
        counter = "the server's tokenizer" if cell.token_source == "tokenize" else "a local tokenizer"
        notes.append(f"tokens counted by {counter}, not by the server as it generates")
    per_chunk = cell.stats.get("tokens_per_chunk")
    if per_chunk is not None and per_chunk.p50 > 1.5:
        notes.append(f"{per_chunk.p50:.1f} tokens a chunk: the gap between chunks is not the time of a token")
    if cell.decode_absent:
        notes.append(f"no decode rate for {sum(cell.decode_absent.values())}: {_counted(cell.decode_absent)}")
    cached = cell.stats.get("cached_tokens")
    if cached is not None and cached.max > 0:
        mode = "as asked for" if cell.variables.get("cache") == "warm" else "TTFT is flattered"
        notes.append(
            f"prompt tokens from the server's cache: {cached.p50:.0f} (median), {cached.max:.0f} at most: {mode}"
        )
    return notes


def _length(cell: CellTable) -> list[str]:
    notes = []
    output, asked = cell.stats.get("output_tokens"), cell.variables.get("max_tokens")
    if output is not None and isinstance(asked, int) and cell.token_source != "chunks":
        if output.max > asked:
            notes.append(f"{output.max:.0f} output tokens counted, {asked} allowed: the count or the limit is not kept")
        elif output.p50 < asked * (1 - SHORT_BY):
            notes.append(f"replies of {output.p50:.0f} tokens (median), max_tokens {asked}: they ended by themselves")
    if len(cell.finish) > 1:
        notes.append(f"finish: {_counted(cell.finish)}")
    elif cell.finish and not set(cell.finish) <= {"stop", "length"}:
        notes.append(f"finish: {next(iter(cell.finish))}")
    return notes


def _sample(cell: CellTable) -> list[str]:
    notes = []
    if 0 < cell.ok < SMALL_FOR_P95:
        notes.append(f"p95 of fewer than {SMALL_FOR_P95} requests is their maximum, in effect: --requests 20 or more")
    if cell.jitter is not None and cell.jitter > JITTER_NAMED:
        notes.append(
            f"jitter: the longest took {cell.jitter:.1f} times the shortest at equal length; look at the server's log, "
            "GPU use, swap, the network, rate limits"
        )
    if cell.slow_requests:
        notes.append(f"{cell.slow_requests} slow, over twice the median time or over the limit")
    return notes


def _limits(cell: CellTable, limits: dict[str, float]) -> list[str]:
    notes = []
    for name, bound in limits.items():
        value = limited_figure(cell, name)
        if value is None:
            notes.append(f"limit {name} {bound:g}: can't be told, the figure is absent")
        elif value < bound if name == "decode_rate" else value > bound:
            which = "lowest" if name == "decode_rate" else "p95"
            notes.append(f"limit {name} {bound:g} MISSED: {which} {value:.4g}")
    return notes


def limited_figure(cell: CellTable, name: str) -> float | None:
    """The figure of a cell that a limit is held against: the p95, for decode_rate (a floor) the lowest."""
    stats = cell.stats.get(name)
    if stats is None:
        return None
    return stats.min if name == "decode_rate" else stats.p95


def keeps_limits(cell: CellTable, limits: dict[str, float]) -> bool:
    """Whether the cell keeps every limit. An absent figure keeps none."""
    for name, bound in limits.items():
        value = limited_figure(cell, name)
        if value is None or (value < bound if name == "decode_rate" else value > bound):
            return False
    return True


def gathered(
    cells: Sequence[CellTable], labels: Sequence[str], notes_of: Callable[[CellTable], list[str]]
) -> list[str]:
    """Every note once, after the labels of the rows it holds for; a note of all rows has no label."""
    rows: dict[str, list[str]] = {}
    for cell, label in zip(cells, labels, strict=True):
        for note in notes_of(cell):
            rows.setdefault(note, []).append(label)
    return [
        note if len(having) == len(cells) else f"{', '.join(dict.fromkeys(having))}: {note}"
        for note, having in rows.items()
    ]
