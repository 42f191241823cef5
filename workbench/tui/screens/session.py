"""One saved session: who, when, what was measured, every cell, the verdict, a chart."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from workbench.domain.cell import stated_throughput
from workbench.domain.record import CellTable, Record
from workbench.domain.text import one_line
from workbench.domain.variables import show_value
from workbench.tui import figures as fmt
from workbench.tui.experiment import summary_of_table
from workbench.tui.screens.base import OverScreen
from workbench.tui.screens.verdict import kinds_table
from workbench.tui.themes import Look
from workbench.tui.widgets.pane import Line, fit, right
from workbench.tui.widgets.plotted import plotted
from workbench.tui.widgets.reader import Reader, named, paragraph

CHART_HEIGHT = 12


def cell_name(cell: CellTable, varied: str) -> str:
    """What sets a cell apart: its value of the varied variable, and the round from the second on."""
    value = show_value(cell.variables.get(varied)) if varied else f"cell {cell.id}"
    return one_line(value, 16) + (f" · round {cell.round}" if cell.round > 1 else "")


def cells_table(record: Record, width: int, look: Look) -> list[Line]:
    """A line a cell, its failures in it."""
    varied = str(record.plan.get("varied", ""))
    head = (
        fit(one_line(varied, 20) or "cell", 22)
        + right("ok", 6)
        + right("TTFT p50", 9)
        + right("tail", 7)
        + right("each", 8)
        + right("all", 8)
        + "  failed"
    )
    lines: list[Line] = [[(fit(head, width), look.muted)]]
    for cell in record.cells:
        short = summary_of_table(cell)
        worst = max(cell.errors, key=lambda name: cell.errors[name], default="")
        failed = f"  {cell.failed} {one_line(worst, 20)}" if cell.failed else "  -"
        text = (
            fit(cell_name(cell, varied), 22)
            + right(str(cell.ok), 6)
            + right(fmt.milliseconds(short.ttft_p50), 9)
            + right(fmt.milliseconds(short.tail[0]), 7)
            + right(fmt.rate(short.each), 8)
            + right(fmt.rate(short.throughput), 8)
        )
        lines.append([(text, look.text), (failed, look.trouble if cell.failed else look.muted)])
    return lines


def sweep_chart(record: Record, width: int, look: Look, ascii_only: bool) -> list[Line]:
    """Tokens a second of the whole service over the varied values; [] with fewer than two of them."""
    varied = str(record.plan.get("varied", ""))
    found: dict[str, list[float]] = {}
    for cell in record.cells:
        if varied and stated_throughput(cell) is not None:
            found.setdefault(one_line(show_value(cell.variables.get(varied)), 10), []).append(
                stated_throughput(cell) or 0.0
            )
    if len(found) < 2:
        return []
    values = [sum(each) / len(each) for each in found.values()]
    places = [float(place) for place in range(len(values))]
    drawn = plotted(
        [("braille", places, values)],
        min(width, 100),
        CHART_HEIGHT,
        look,
        labels=list(found),
        ascii_only=ascii_only,
    )
    return (
        [[], [("tokens/s in all", look.bright), (f"   over {one_line(varied, 20)}", look.muted)], *drawn]
        if drawn
        else []
    )


class SessionScreen(OverScreen):
    """Read one session; replay it."""

    name_shown = "session"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "rerun", "Run again", id="session.rerun", tooltip="Measure this session's plan again"),
        Binding("w", "watch", "Replay", id="session.replay", tooltip="Play the session again on the live screen"),
        Binding("n", "note", "Note", id="session.note", tooltip="Name it, write notes"),
    ]

    def __init__(self, path: Path, record: Record) -> None:
        super().__init__()
        self._path, self._record = path, record

    def body(self) -> ComposeResult:
        yield Reader(one_line(self._record.session.name or self._record.session.id, 60), self._document, id="session")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("rerun", "watch"):
            return not self.workbench.model.running
        return True

    def action_rerun(self) -> None:
        self.workbench.rerun(self._record)

    def action_watch(self) -> None:
        self.workbench.replay(self._record)

    def action_note(self) -> None:
        self.workbench.edit_note(str(self._path))

    def _document(self, width: int) -> list[Line]:
        record, look = self._record, self.workbench.look
        session, inks = record.session, (look.muted, look.text)
        lines: list[Line] = []
        for name, value in (
            ("name", session.name),
            ("started", session.started),
            ("status", session.status + (f": {session.reason}" if session.reason else "")),
            ("notes", session.notes),
            ("command", session.command),
            ("file", str(self._path)),
        ):
            if value:
                lines += named(name, one_line(value), width, inks, 12)
        baseline = record.plan.get("baseline", {})
        if isinstance(baseline, dict):
            held = ", ".join(
                f"{one_line(str(name))} {one_line(show_value(value), 40)}"
                for name, value in baseline.items()
                if name not in ("base_url", record.plan.get("varied"))
            )
            lines += named("held still", held, width, inks, 12)
        if record.verdict is not None:
            lines += [[], *paragraph(one_line(record.verdict.sentence), width, look.bright)]
            if record.verdict.kinds:
                lines += [[], *kinds_table(record.verdict, width, look)]
        lines += [[], *cells_table(record, width, look)]
        lines += sweep_chart(record, width, look, self.workbench.ascii_only)
        doubts = {
            f"{name}: {result}"
            for cell in record.cells
            for name, result in cell.checks.items()
            if not result.startswith("pass")
        }
        if doubts:
            lines += [[], [("to doubt", look.bright)]]
            for doubt in sorted(doubts):
                lines += paragraph(one_line(doubt), width, look.text)
        return lines
