"""One line of text in a dialog: a question, or what is wrong with the answer."""

from __future__ import annotations

from workbench.domain.text import one_line
from workbench.tui.widgets.pane import Line, Pane, fit


class Prompt(Pane):
    """Muted text, or trouble in its own ink."""

    framed = False
    can_focus = False

    def __init__(self, text: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._text = text
        self._trouble = False

    def say(self, text: str, trouble: bool = False) -> None:
        self._text, self._trouble = text, trouble
        self.repaint()

    def lines(self, width: int, height: int) -> list[Line]:
        return [[(fit(" " + one_line(self._text), width), self.look.trouble if self._trouble else self.look.muted)]]
