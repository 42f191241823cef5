"""Two sessions side by side: first what keeps them from being compared, then the figures, then the verdict."""

from __future__ import annotations

import asyncio

from textual.app import ComposeResult

from workbench.domain.record import CellTable, Record, Verdict
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput, show_value
from workbench.tui import figures as fmt
from workbench.tui.experiment import summary_of_table
from workbench.tui.model import CellSummary
from workbench.tui.screens.base import OverScreen
from workbench.tui.screens.verdict import kinds_table
from workbench.tui.widgets.pane import Line, fit, right
from workbench.tui.widgets.reader import Reader, named, paragraph

ROWS = (
    ("ok", "ok", fmt.count),
    ("failed", "failed", fmt.count),
    ("TTFT p50, ms", "ttft_p50", fmt.milliseconds),
    ("TTFT max, ms", "ttft_max", fmt.milliseconds),
    ("request p50, ms", "total_p50", fmt.milliseconds),
    ("tokens/s each", "each", fmt.rate),
    ("tokens/s all", "throughput", fmt.rate),
)


class CompareScreen(OverScreen):
    """A is the older session."""

    name_shown = "compare"

    def __init__(self, a: Record, b: Record) -> None:
        super().__init__()
        self._a, self._b = a, b
        self._verdict: Verdict | None = None
        self._checks: list[tuple[str, str, str, str]] = []
        self._trouble = ""
        self._done = False

    def body(self) -> ComposeResult:
        yield Reader("A and B", self._document, id="compare")

    async def on_mount(self) -> None:
        self.remark("comparing")
        try:
            await asyncio.to_thread(self._compare)
        except BadInput as trouble:
            self._trouble = str(trouble)
        self._done = True
        self.remark("")
        self.query_one(Reader).remake()

    def _compare(self) -> None:
        from workbench.domain.compare import compare_records

        comparison = compare_records(self._a, self._b)
        self._checks = [(check.name, check.result, check.evidence, check.remedy) for check in comparison.checks]
        self._verdict = Verdict(sentence=comparison.sentence, kinds=comparison.verdict)

    def _document(self, width: int) -> list[Line]:
        look = self.workbench.look
        lines: list[Line] = []
        for name, record in (("A", self._a), ("B", self._b)):
            session = record.session
            title = " ".join(filter(None, (session.started[:16].replace("T", " "), session.name or session.id)))
            lines += named(name, one_line(title), width, (look.accent, look.bright), 3)
        lines += [[], [("checks", look.bright)]]
        if self._trouble:
            lines += paragraph(one_line(self._trouble), width, look.trouble)
        elif not self._done:
            lines += paragraph("comparing", width, look.muted)
        order = {"fail": 0, "doubt": 1, "pass": 2}
        for name, result, evidence, remedy in sorted(self._checks, key=lambda check: order.get(check[1], 3)):
            ink = look.trouble if result == "fail" else look.text if result == "pass" else look.accent
            word = "FAIL" if result == "fail" else result
            text = word + (f": {one_line(evidence)}" if evidence else "")
            if remedy and result != "pass":
                text += f". {one_line(remedy)}"
            lines += named(one_line(name, 17), text, width, (look.muted, ink))
        lines += [[], *self._differing(width), [], *self._figures(width)]
        if self._verdict is not None:
            lines += [[], [("verdict", look.bright)]]
            lines += paragraph(one_line(self._verdict.sentence), width, look.bright)
            lines += [[], *kinds_table(self._verdict, width, look)]
        return lines

    def _differing(self, width: int) -> list[Line]:
        """The variables in which the two last cells differ."""
        look = self.workbench.look
        a, b = (record.cells[-1].variables if record.cells else {} for record in (self._a, self._b))
        lines: list[Line] = [[("what differs", look.bright)]]
        for name in sorted({*a, *b}):
            if a.get(name) != b.get(name):
                text = f"{one_line(show_value(a.get(name)), 40)} → {one_line(show_value(b.get(name)), 40)}"
                lines += named(one_line(name, 17), text, width, (look.muted, look.accent))
        return lines if len(lines) > 1 else [*lines, [("no variable", look.muted)]]

    def _figures(self, width: int) -> list[Line]:
        look = self.workbench.look
        sides = [self._last(record) for record in (self._a, self._b)]
        lines: list[Line] = [
            [(fit("figures", 18), look.bright), (right("A", 10) + right("B", 10) + right("B / A", 9), look.muted)]
        ]
        for title, field, show in ROWS:
            a, b = (getattr(side, field) if side is not None else None for side in sides)
            ratio = fmt.ratio(b / a) if a and b is not None and field not in ("ok", "failed") else ""
            ink = look.trouble if field == "failed" and (a or b) else look.text
            lines.append(
                [
                    (fit(title, 18), look.muted),
                    (right(show(a), 10) + right(show(b), 10), ink),
                    (right(ratio, 9), look.bright),
                ]
            )
        return lines

    @staticmethod
    def _last(record: Record) -> CellSummary | None:
        cell: CellTable | None = record.cells[-1] if record.cells else None
        return summary_of_table(cell) if cell is not None else None
