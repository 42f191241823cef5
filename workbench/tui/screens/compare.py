"""Two sessions side by side: first what keeps them from being compared, then the figures, then the verdict."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.app import ComposeResult

from workbench.domain.record import Record
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput, show_value
from workbench.tui import figures as fmt
from workbench.tui.screens.base import OverScreen
from workbench.tui.screens.verdict import kinds_table
from workbench.tui.widgets.pane import Line, fit, right
from workbench.tui.widgets.reader import Reader, named, paragraph

if TYPE_CHECKING:
    from workbench.domain.compare import Comparison

NAMES = {
    "ttft_ms": "TTFT",
    "ttfa_ms": "first answer",
    "total_ms": "request time",
    "tpot_ms": "time a token",
    "decode_rate": "rate each",
    "throughput": "rate in all",
    "output_tokens": "output",
    "prompt_tokens": "prompt",
    "cached_tokens": "cached",
    "success_rate": "succeeded",
}
ORDER = {"fail": 0, "doubt": 1, "pass": 2}


class CompareScreen(OverScreen):
    """A is the older session."""

    name_shown = "compare"

    def __init__(self, a: Record, b: Record) -> None:
        super().__init__()
        self._a, self._b = a, b
        self._comparison: Comparison | None = None
        self._trouble = ""

    def body(self) -> ComposeResult:
        yield Reader("A and B", self._document, id="compare")

    async def on_mount(self) -> None:
        self.remark("comparing")
        try:
            self._comparison = await asyncio.to_thread(self._compare)
        except BadInput as trouble:
            self._trouble = str(trouble)
        self.remark("")
        self.query_one(Reader).remake()

    def _compare(self) -> Comparison:
        from workbench.domain.compare import compare_records
        from workbench.domain.sentence import ASK_SCREEN

        return compare_records(self._a, self._b, ask=ASK_SCREEN)

    def _document(self, width: int) -> list[Line]:
        look = self.workbench.look
        lines: list[Line] = []
        for name, record in (("A", self._a), ("B", self._b)):
            session = record.session
            title = " ".join(filter(None, (session.started[:16].replace("T", " "), session.name or session.id)))
            lines += named(name, one_line(title), width, (look.accent, look.bright), 3)
        if self._trouble:
            return [*lines, [], *paragraph(one_line(self._trouble), width, look.trouble)]
        comparison = self._comparison
        if comparison is None:
            return [*lines, [], [("comparing", look.muted)]]
        lines += [[], [("checks", look.bright)]]
        for check in sorted(comparison.checks, key=lambda check: ORDER.get(check.result, 3)):
            ink = look.trouble if check.result == "fail" else look.text if check.result == "pass" else look.accent
            word = "FAIL" if check.result == "fail" else check.result
            text = word + (f": {one_line(check.evidence)}" if check.evidence else "")
            if check.remedy and check.result != "pass":
                text += f" → {one_line(check.remedy)}"
            lines += named(one_line(check.name, 17), text, width, (look.muted, ink))
        lines += [[], *self._differing(width), [], *self._figures(comparison, width)]
        lines += [[], [("verdict", look.bright)], *paragraph(one_line(comparison.sentence), width, look.bright)]
        return [*lines, [], *kinds_table(comparison.verdict(), width, look)]

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

    def _figures(self, comparison: Comparison, width: int) -> list[Line]:
        look = self.workbench.look
        lines: list[Line] = [
            [
                (fit("figures", 18), look.bright),
                (right("A", 10) + right("B", 10) + right("B / A", 9) + "  unit, n", look.muted),
            ]
        ]
        for name, row in comparison.figures.items():
            a, b = row.get("a"), row.get("b")
            share = name == "success_rate"
            show = fmt.percent if share else fmt.milliseconds if row.get("unit") == "ms" else fmt.rate
            counts = "/".join(str(row.get(key) or fmt.ABSENT) for key in ("a_n", "b_n"))
            unit = "%" if share else one_line(str(row.get("unit", "")))
            short = share and min(value for value in (a, b, 1.0) if value is not None) < 1
            lines.append(
                [
                    (fit(NAMES.get(name, one_line(name, 17)), 18), look.muted),
                    (right(show(a), 10) + right(show(b), 10), look.trouble if short else look.text),
                    (right(fmt.ratio(b / a) if a and b is not None and not share else "", 9), look.bright),
                    (f"  {unit}, {counts}", look.muted),
                ]
            )
        return lines
