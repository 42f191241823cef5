"""A question that must be answered before anything is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from workbench.tui.widgets.pane import Line, Pane, wrap

if TYPE_CHECKING:
    from workbench.tui.app import WorkbenchApp


class Question(Pane):
    """The question with its two answers."""

    def __init__(self, question: str, yes: str, no: str) -> None:
        super().__init__(id="question")
        self._question, self._yes, self._no = question, yes, no

    def lines(self, width: int, height: int) -> list[Line]:
        look = self.look
        asked: list[Line] = [[(line, look.bright)] for line in wrap(self._question, width)]
        return [
            *asked,
            [],
            [("y ", look.accent), (self._yes, look.text), ("    n ", look.accent), (self._no, look.text)],
        ]


class ConfirmScreen(ModalScreen[bool]):
    """Answers True for yes. Enter is no answer: the safe one is one key as well."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", id="confirm.yes"),
        Binding("n,escape", "answer(False)", "No", id="confirm.no"),
    ]

    def __init__(self, question: str, *, yes: str, no: str) -> None:
        super().__init__()
        self._question = Question(question, yes, no)

    def compose(self) -> ComposeResult:
        yield self._question

    @property
    def workbench(self) -> WorkbenchApp:
        return self._question.bench_app

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
