"""What must be known beside the figures of a cell, each in a line with its remedy, gathered over a table's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from workbench.domain.cell import JITTER_NAMED, SMALL_FOR_P95
from workbench.domain.record import CellTable

SHORT_BY = 0.05
LABELS_SHOWN = 6
STEADY_ENOUGH = 0.5
"""Share of the tokens that the steady window must hold before its throughput is shown in place of the whole's."""


class Note(msgspec.Struct, frozen=True):
    """A sentence that may hold for several rows, and each row's own figure for it."""

    text: str
    detail: str = ""


SAID_ABOVE = ("failures", "client", "sample-size")
"""Checks of a cell that the notes of its own figures already tell."""


def is_steady(cell: CellTable) -> bool:
    """Whether the throughput of the steady window stands for the cell."""
    return cell.steady_throughput is not None and (cell.steady_share or 0.0) >= STEADY_ENOUGH


def cell_notes(cell: CellTable, limits: dict[str, float]) -> list[Note]:
    """The notes of one cell, most important first."""
    notes: list[Note] = []
    for part in (_failures, _client, _concurrency, _tokens, _length, _sample):
        notes += part(cell)
    notes += _limits(cell, limits)
    checks = [(name, text) for name, text in cell.checks.items() if text != "pass" and name not in SAID_ABOVE]
    notes += [Note(f"{name}: {text}") for name, text in checks]
    return notes


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def _failures(cell: CellTable) -> list[Note]:
    notes = []
    if cell.failed:
        notes.append(
            Note(f"{cell.failed} of {cell.requests} FAILED ({_counted(cell.errors)}): averages are of the others")
        )
    if cell.cancelled:
        notes.append(Note(f"{cell.cancelled} cancelled, not counted as failed"))
    if cell.empty:
        notes.append(Note(f"{cell.empty} of {cell.ok} ok replies were empty: no output, no TTFT"))
    if cell.partial_share:
        notes.append(
            Note("share of the tokens from requests that did not end ok, estimated", f"{cell.partial_share:.0%}")
        )
    if cell.warmup_failed:
        notes.append(Note(f"{cell.warmup_failed} of {cell.warmup} warm-up requests failed"))
    if cell.stopped:
        notes.append(Note(f"ended early: {cell.stopped}"))
    return notes


def _client(cell: CellTable) -> list[Note]:
    limited, lag, share = (cell.client.get(name) for name in ("limited", "lag_p99_ms", "cpu_share"))
    if limited == "ttft":
        late = f"loop lag p99 {lag:.1f} ms" if isinstance(lag, (int, float)) else ""
        return [Note("client-limited: TTFT is not to be judged; use fewer streams or --workers", late)]
    if limited:
        busy = f"{share:.0%} of a core" if isinstance(share, (int, float)) else ""
        return [Note("client-limited: nothing here is to be judged; use --workers or a quieter machine", busy)]
    return []


def _concurrency(cell: CellTable) -> list[Note]:
    asked: Any = cell.variables.get("concurrency")
    if isinstance(asked, int) and cell.in_flight_peak and cell.in_flight_peak < asked and not cell.stopped:
        why = f"only {cell.requests} requests" if cell.requests < asked else "the server or the client held back"
        return [Note(f"{cell.in_flight_peak} in flight at most, {asked} asked for: {why}")]
    return []


def _tokens(cell: CellTable) -> list[Note]:
    notes = []
    if cell.token_source == "chunks":
        notes.append(Note("tokens estimated from chunks: the server counts none; --tokenizer FILE would count them"))
    elif cell.token_source in ("tokenize", "tokenizer"):
        counter = "the server's tokenizer" if cell.token_source == "tokenize" else "a local tokenizer"
        notes.append(Note(f"tokens counted by {counter}, not by the server as it generates"))
    per_chunk = cell.stats.get("tokens_per_chunk")
    if per_chunk is not None and per_chunk.p50 > 1.5:
        text = "several tokens a chunk: the gap between chunks is not the time of a token"
        notes.append(Note(text, f"{per_chunk.p50:.1f}"))
    if cell.decode_absent:
        count = sum(cell.decode_absent.values())
        notes.append(Note("requests without a decode rate", f"{count}: {_counted(cell.decode_absent)}"))
    cached = cell.stats.get("cached_tokens")
    if cached is not None and cached.max > 0:
        mode = "as asked for" if cell.variables.get("cache") == "warm" else "TTFT is flattered"
        notes.append(
            Note(
                f"prompt tokens from the server's cache, median and most: {mode}", f"{cached.p50:.0f}, {cached.max:.0f}"
            )
        )
    return notes


def _length(cell: CellTable) -> list[Note]:
    notes = []
    output, asked = cell.stats.get("output_tokens"), cell.variables.get("max_tokens")
    if output is not None and isinstance(asked, int) and cell.token_source != "chunks":
        if output.max > asked:
            text = f"more output tokens counted than the {asked} allowed: the count or the limit is not kept"
            notes.append(Note(text, f"{output.max:.0f}"))
        elif output.p50 < asked * (1 - SHORT_BY):
            text = f"median tokens of a reply, max_tokens {asked}: they ended by themselves"
            notes.append(Note(text, f"{output.p50:.0f}"))
    if len(cell.finish) > 1 or not set(cell.finish) <= {"stop", "length"}:
        notes.append(Note("how replies finished", _counted(cell.finish)))
    return notes


def _sample(cell: CellTable) -> list[Note]:
    notes = []
    if 0 < cell.ok < SMALL_FOR_P95:
        notes.append(
            Note(f"p95 of fewer than {SMALL_FOR_P95} requests is their maximum, in effect: --requests 20 or more")
        )
    if cell.jitter is not None and cell.jitter > JITTER_NAMED:
        text = (
            "jitter, the longest time over the shortest at equal length: look at the server's log, GPU use, swap, the "
            "network, rate limits"
        )
        notes.append(Note(text, f"{cell.jitter:.1f}"))
    if cell.slow_requests:
        notes.append(Note("slow requests, over twice the median time or over the limit", str(cell.slow_requests)))
    return notes


def _limits(cell: CellTable, limits: dict[str, float]) -> list[Note]:
    notes = []
    for name, bound in limits.items():
        value = limited_figure(cell, name)
        if value is None:
            notes.append(Note(f"limit {name} {bound:g}: can't be told, the figure is absent"))
        elif value < bound if name == "decode_rate" else value > bound:
            which = "lowest" if name == "decode_rate" else "p95"
            notes.append(Note(f"limit {name} {bound:g} MISSED", f"{which} {value:.4g}"))
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
    cells: Sequence[CellTable],
    labels: Sequence[str],
    notes_of: Callable[[CellTable], list[Note]],
    before: str = "",
) -> list[str]:
    """Every note once, after the labels of the rows it holds for and their own figures.

    `before` stands before the labels, once. A note that holds for all rows alike has no labels.
    """
    rows: dict[str, dict[str, str]] = {}
    for cell, label in zip(cells, labels, strict=True):
        for note in notes_of(cell):
            rows.setdefault(note.text, {})[label] = note.detail
    return [
        text if len(having) == len(set(labels)) and not any(having.values()) else f"{before}{_listed(having)}: {text}"
        for text, having in rows.items()
    ]


def _listed(having: dict[str, str]) -> str:
    shown = [f"{label} ({detail})" if detail else label for label, detail in having.items()][:LABELS_SHOWN]
    more = len(having) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
