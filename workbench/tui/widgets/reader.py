"""Text to read: lines made for the width there is, scrolled by the keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType

from workbench.tui.widgets.pane import Line, Pane, fit, wrap

Document = Callable[[int], list[Line]]


class Reader(Pane):
    """Shows a document; made again only when it or the width changes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_lines(-1)", "Up", id="read.up", show=False),
        Binding("down", "scroll_lines(1)", "Down", id="read.down", show=False),
        Binding("pageup", "scroll_pages(-1)", "Page up", id="read.page_up", show=False),
        Binding("pagedown,space", "scroll_pages(1)", "Page down", id="read.page_down", show=False),
        Binding("home", "scroll_lines(-1000000)", "First", id="read.first", show=False),
        Binding("end", "scroll_lines(1000000)", "Last", id="read.last", show=False),
    ]

    def __init__(self, heading: str, document: Document, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._heading = heading
        self._document = document
        self._made: list[Line] = []
        self._made_for = -1
        self._from = 0

    def title(self) -> str:
        return self._heading

    def show(self, document: Document, heading: str | None = None) -> None:
        """Show another document from its first line."""
        self._document = document
        self._heading = self._heading if heading is None else heading
        self._from = 0
        self.remake()

    def remake(self) -> None:
        """The document's content has changed."""
        self._made_for = -1
        self.repaint()

    def repaint_whole(self) -> None:
        self._made_for = -1
        super().repaint_whole()

    def foot(self) -> str:
        height = self.inner[1]
        if len(self._made) <= height:
            return ""
        return f"{self._from + 1}-{min(len(self._made), self._from + height)} of {len(self._made)}"

    def lines(self, width: int, height: int) -> list[Line]:
        if self._made_for != width:
            self._made, self._made_for = self._document(width), width
        self._from = max(0, min(self._from, len(self._made) - height))
        return self._made[self._from : self._from + height]

    def action_scroll_lines(self, lines: int) -> None:
        self._from = max(0, min(self._from + lines, len(self._made) - self.inner[1]))
        self.repaint()

    def action_scroll_pages(self, pages: int) -> None:
        self.action_scroll_lines(pages * max(1, self.inner[1] - 1))


def paragraph(text: str, width: int, ink: Style, indent: int = 0) -> list[Line]:
    """Wrapped text, all in one ink; blank lines of the text stay."""
    lines: list[Line] = []
    for block in text.split("\n"):
        wrapped = wrap(block, width - indent) or [""]
        lines += [[(" " * indent + line, ink)] for line in wrapped]
    return lines


def named(name: str, value: str, width: int, inks: tuple[Style, Style], column: int = 18) -> list[Line]:
    """A name and its value, the value wrapped under itself."""
    wrapped = wrap(value, max(8, width - column - 1)) or ["-"]
    lines: list[Line] = [[(fit(name, column) + " ", inks[0]), (wrapped[0], inks[1])]]
    return lines + [[(" " * (column + 1), inks[0]), (line, inks[1])] for line in wrapped[1:]]
