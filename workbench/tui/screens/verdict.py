"""The whole verdict: the sentence, each kind of speed with its interval, each check with what it found."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from workbench.domain.record import Verdict
from workbench.domain.text import one_line
from workbench.tui import figures as fmt
from workbench.tui.screens.base import OverScreen
from workbench.tui.themes import Look
from workbench.tui.widgets.cells import KINDS
from workbench.tui.widgets.pane import Line, fit, right
from workbench.tui.widgets.reader import Reader, named, paragraph


def kinds_table(verdict: Verdict, width: int, look: Look) -> list[Line]:
    """Both sides' figures, the ratio with its interval, and the call, a line a kind."""
    head = fit("", 11) + right("A", 9) + right("B", 9) + right("B / A", 8) + right("95 %", 13) + "  call"
    lines: list[Line] = [[(fit(head, width), look.muted)]]
    notes: dict[str, list[str]] = {}
    for key, name in KINDS.items():
        kind = verdict.kinds.get(key)
        if kind is None:
            continue
        show = fmt.milliseconds if kind.better == "lower" else fmt.rate
        bounds = f"{kind.low:.2f}-{kind.high:.2f}" if kind.low is not None and kind.high is not None else fmt.ABSENT
        ink = {"faster": look.accent, "slower": look.trouble}.get(kind.call, look.text)
        call = one_line(kind.call)
        if kind.rounds_needed:
            call += f", {kind.rounds_needed} rounds needed"
        if kind.note:
            notes.setdefault(one_line(kind.note), []).append(name)
        lines.append(
            [
                (fit(name, 11), look.text),
                (right(show(kind.a), 9) + right(show(kind.b), 9), look.text),
                (right(fmt.ratio(kind.ratio), 8), look.bright),
                (right(bounds, 13), look.muted),
                (f"  {call}", ink),
            ]
        )
    for note, names in notes.items():
        lines += named(", ".join(names), note, width, (look.muted, look.muted), 28)
    return lines


class VerdictScreen(OverScreen):
    """What can be said so far, and why to doubt it."""

    name_shown = "verdict"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", id="verdict.copy", tooltip="Copy the sentence (OSC 52)")
    ]

    def body(self) -> ComposeResult:
        yield Reader("verdict", self._document, id="verdict")

    def action_copy(self) -> None:
        self.workbench.copy_verdict()
        self.remark("copied, if your terminal takes OSC 52")

    def repaint(self, touched: set[str]) -> None:
        super().repaint(touched)
        if "verdict" in touched:
            self.query_one(Reader).remake()

    def _document(self, width: int) -> list[Line]:
        model, look = self.workbench.model, self.workbench.look
        verdict = model.verdict
        sentence = model.sentence or (verdict.sentence if verdict is not None else "")
        lines: list[Line] = []
        if model.alert:
            lines += paragraph(one_line(model.alert), width, look.trouble)
        lines += paragraph(one_line(sentence) or "Nothing can be said yet.", width, look.bright)
        if model.hint:
            lines += paragraph(one_line(model.hint), width, look.accent)
        if verdict is not None:
            lines += [[], *kinds_table(verdict, width, look)]
            if verdict.checks:
                lines += [[], [("checks", look.bright)]]
            for name, result in verdict.checks.items():
                word, _, evidence = one_line(result).partition(":")
                ink = look.trouble if word == "fail" else look.text if word == "pass" else look.accent
                text = f"{word.upper() if word == 'fail' else word}{':' if evidence else ''}{evidence}"
                lines += named(one_line(name, 20), text, width, (look.muted, ink))
        return lines
