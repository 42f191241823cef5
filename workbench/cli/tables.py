"""The table of a session's cells, one row a cell, as wide as the terminal allows; and the table of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.cli.layout import ABSENT, Column, cut, figures, table, wrap
from workbench.cli.notes import cell_notes, gathered, is_steady
from workbench.domain.record import CellTable, Record, Verdict
from workbench.domain.text import one_line
from workbench.domain.variables import show_value

MS_IN_S = 10_000.0
"""Milliseconds from which on a column of total times is in seconds."""
STEADY = "*"


def cells_table(record: Record, width: int) -> list[str]:
    """The table and the notes under it, in lines of at most `width` cells (words longer than that excepted)."""
    if not record.cells:
        return ["no cell was finished"]
    lines = table(_columns(record, width), width)
    limits = limits_of(record)
    notes = gathered(
        record.cells, labels_of(record), lambda cell: cell_notes(cell, limits), before=f"{varied_of(record)} "
    )
    steady = [is_steady(cell) for cell in record.cells]
    if any(steady):
        rest = "" if all(steady) else "; the others over the whole cell"
        notes.append(f"{STEADY} while the number asked for was in flight{rest}")
    for note in notes:
        lines += wrap(note, width, indent="  ", first="" if note.startswith(STEADY) else "· ")
    return lines


def limits_of(record: Record) -> dict[str, float]:
    """The limits of the record's plan."""
    limits = record.plan.get("limits", {})
    return {str(name): float(bound) for name, bound in limits.items()} if isinstance(limits, dict) else {}


def varied_of(record: Record) -> str:
    """The variable that tells the cells apart: the varied one, else concurrency."""
    varied = record.plan.get("varied")
    return varied if isinstance(varied, str) and varied else "concurrency"


def value_text(cell: CellTable, name: str) -> str:
    """A cell's value of a variable, as a person reads it."""
    value: Any = cell.variables.get(name)
    return one_line(show_value(value) if isinstance(value, (str, int, float, bool)) else ABSENT)


def labels_of(record: Record) -> list[str]:
    """What names each cell in a note: its value of the varied variable, and its round when there are several."""
    varied, rounds = varied_of(record), any(cell.round > 1 for cell in record.cells)
    return [value_text(cell, varied) + (f" round {cell.round}" if rounds else "") for cell in record.cells]


def _columns(record: Record, width: int) -> list[Column]:
    cells, varied = record.cells, varied_of(record)
    widest = max(12, width - 62)
    values = [cut(value_text(cell, varied), widest) for cell in cells]
    numeric = all(isinstance(cell.variables.get(varied), (int, float)) for cell in cells)
    columns = [Column(heading=cut(varied, widest), values=values, left=not numeric)]
    if any(cell.round > 1 for cell in cells):
        columns.append(Column(heading="round", values=[str(cell.round) for cell in cells], rank=1))
    columns += [
        Column(heading="ok", values=[str(cell.ok) for cell in cells]),
        Column(heading="failed", values=[str(cell.failed) for cell in cells]),
        Column(heading="ok %", values=_percent([cell.success_rate for cell in cells]), rank=8),
        Column(group="in", heading="flight", values=_one_decimal([cell.in_flight_mean for cell in cells]), rank=5),
    ]
    columns += _stat_columns(cells, "ttft_ms", "TTFT ms", (("p50", 0), ("p95", 3), ("max", 4)))
    totals = [stats.max for cell in cells if (stats := cell.stats.get("total_ms"))]
    scale, unit = (1000.0, "total s") if totals and max(totals) >= MS_IN_S else (1.0, "total ms")
    columns += _stat_columns(cells, "total_ms", unit, (("p50", 2), ("p95", 6)), scale)
    each = figures([_stat(cell, "decode_rate", "p50") for cell in cells])
    columns.append(Column(group="tokens/s", heading="each", values=each))
    columns.append(Column(group="tokens/s", heading="all", values=_throughput(cells)))
    columns += [
        Column(group="requests", heading="/s", values=figures([cell.request_rate for cell in cells]), rank=9),
        Column(group="output", heading="tokens", values=figures(_medians(cells, "output_tokens")), rank=7),
        Column(group="prompt", heading="tokens", values=figures(_medians(cells, "prompt_tokens")), rank=10),
        Column(group="tokens", heading="/chunk", values=figures(_medians(cells, "tokens_per_chunk")), rank=11),
    ]
    if any(cell.goodput is not None for cell in cells):
        columns.append(
            Column(group="within", heading="limits/s", values=figures([cell.goodput for cell in cells]), rank=2)
        )
    return columns


def _stat(cell: CellTable, figure: str, name: str) -> float | None:
    stats = cell.stats.get(figure)
    return None if stats is None else float(getattr(stats, name))


def _medians(cells: Sequence[CellTable], figure: str) -> list[float | None]:
    return [_stat(cell, figure, "p50") for cell in cells]


def _stat_columns(
    cells: Sequence[CellTable], figure: str, group: str, wanted: Sequence[tuple[str, int]], scale: float = 1.0
) -> list[Column]:
    """Columns of one figure. They share their decimals, so that p50 and p95 can be compared at a glance."""
    numbers = {
        name: [None if (value := _stat(cell, figure, name)) is None else value / scale for cell in cells]
        for name, _ in wanted
    }
    texts = figures([value for column in numbers.values() for value in column])
    return [
        Column(group=group, heading=name, values=texts[index * len(cells) : (index + 1) * len(cells)], rank=rank)
        for index, (name, rank) in enumerate(wanted)
    ]


def _throughput(cells: Sequence[CellTable]) -> list[str]:
    steady = [is_steady(cell) for cell in cells]
    texts = figures(
        [cell.steady_throughput if mark else cell.throughput for cell, mark in zip(cells, steady, strict=True)]
    )
    if not any(steady):
        return texts
    return [text + (STEADY if mark else " ") for text, mark in zip(texts, steady, strict=True)]


def _one_decimal(values: Sequence[float | None]) -> list[str]:
    return [ABSENT if value is None else f"{value:.1f}" for value in values]


def _percent(shares: Sequence[float | None]) -> list[str]:
    """Shares as percent; 99.97 % is not shown as 100."""
    return [ABSENT if share is None else "100" if share == 1 else f"{min(share * 100, 99.9):.1f}" for share in shares]


KIND_NAMES = {
    "ttft": ("TTFT", "ms"),
    "request_time": ("request time", "ms"),
    "decode_rate": ("decode rate", "tok/s"),
    "throughput": ("throughput", "tok/s"),
    "capacity": ("capacity", ""),
}
"""A person's name for each kind of speed, and the unit of its figures."""


def verdict_lines(verdict: Verdict, width: int) -> list[str]:
    """The verdict: its sentence, the figures of each kind of speed, and every check that is not a plain pass."""
    lines = wrap(verdict.sentence, width)
    kinds = list(verdict.kinds.items())
    if kinds:
        names, units = zip(*(KIND_NAMES.get(name, (one_line(name, 24), "")) for name, _ in kinds), strict=True)
        items = [kind for _, kind in kinds]
        sides = [figures([item.a, item.b]) for item in items]
        lines += [
            "",
            *table(
                [
                    Column(heading="kind of speed", values=list(names), left=True),
                    Column(heading="A", values=[side[0] for side in sides]),
                    Column(heading="B", values=[side[1] for side in sides]),
                    Column(heading="", values=list(units), left=True, rank=2),
                    Column(
                        heading="B / A",
                        values=[_ratio(item.ratio) for item in items],
                    ),
                    Column(heading="95 % interval", values=[_interval(item.low, item.high) for item in items]),
                    Column(heading="call", values=[one_line(item.call) for item in items], left=True),
                    Column(
                        group="rounds",
                        heading="needed",
                        values=[ABSENT if item.rounds_needed is None else str(item.rounds_needed) for item in items],
                        rank=1,
                    ),
                ],
                width,
            ),
        ]
        # What holds for several kinds is said once.
        said: dict[str, list[str]] = {}
        for item, name in zip(items, names, strict=True):
            for part in filter(None, item.note.split("; ")):
                said.setdefault(part, []).append(name)
        for part, whose in said.items():
            lines += wrap(f"{', '.join(whose)}: {part}", width, indent="  ", first="· ")
    for name, result in verdict.checks.items():
        if result != "pass":
            lines += wrap(f"{name}: {result}", width, indent="  ", first="! " if result.startswith("fail") else "? ")
    return lines


def _ratio(value: float | None) -> str:
    """Three decimals near 1, where they tell something, fewer far from it."""
    if value is None:
        return ABSENT
    return f"{value:.{3 if value < 2 else 2 if value < 10 else 1}f}"


def _interval(low: float | None, high: float | None) -> str:
    return ABSENT if low is None or high is None else f"{_ratio(low)} to {_ratio(high)}"
