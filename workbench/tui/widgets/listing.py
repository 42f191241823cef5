"""A list that scrolls: rows of inked text, a cursor, only what is in sight composed. With columns it is a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from workbench.tui.widgets.pane import Line, Pane, fit

Row = Callable[[int, bool], Line]
"""Draws one row in a width, told whether it is under the cursor."""


class Listing(Pane):
    """Rows under an optional heading, one of them under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", id="list.up", show=False),
        Binding("down", "move(1)", "Down", id="list.down", show=False),
        Binding("pageup", "page(-1)", "Page up", id="list.page_up", show=False),
        Binding("pagedown", "page(1)", "Page down", id="list.page_down", show=False),
        Binding("home", "move(-1000000)", "First", id="list.first", show=False),
        Binding("end", "move(1000000)", "Last", id="list.last", show=False),
    ]

    class Moved(Message):
        """The cursor stands on another row."""

        def __init__(self, listing: Listing) -> None:
            super().__init__()
            self.listing = listing

    def __init__(self, heading: str = "", *, empty: str = "-", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._title = heading
        self._empty = empty
        self._rows: Sequence[Row] = ()
        self._columns: Callable[[int], Line] | None = None
        self.cursor = 0
        self._scroll = 0

    def title(self) -> str:
        return self._title

    def retitle(self, text: str) -> None:
        self._title = text

    def foot(self) -> str:
        if len(self._rows) <= self._shown:
            return ""
        last = min(len(self._rows), self._scroll + self._shown)
        return f"{self._scroll + 1}-{last} of {len(self._rows)}"

    @property
    def _shown(self) -> int:
        return max(1, self.inner[1] - (1 if self._columns else 0))

    def show(self, rows: Sequence[Row], columns: Callable[[int], Line] | None = None, keep: bool = True) -> None:
        """Show other rows; the cursor stays where it can."""
        self._rows, self._columns = rows, columns
        self.cursor = max(0, min(self.cursor if keep else 0, len(rows) - 1))
        if not keep:
            self._scroll = 0
        self._follow()
        self.repaint()

    def _follow(self) -> None:
        shown = self._shown
        if self.cursor < self._scroll:
            self._scroll = self.cursor
        elif self.cursor >= self._scroll + shown:
            self._scroll = self.cursor - shown + 1
        self._scroll = max(0, min(self._scroll, len(self._rows) - shown))

    def lines(self, width: int, height: int) -> list[Line]:
        look = self.look
        self._follow()
        result: list[Line] = [self._columns(width)] if self._columns else []
        if not self._rows:
            return [*result, [(fit(self._empty, width), look.muted)]]
        shown = height - len(result)
        for index in range(self._scroll, min(len(self._rows), self._scroll + shown)):
            marked = index == self.cursor
            line = self._rows[index](width, marked)
            if marked:
                text = "".join(part for part, _ in line)
                line = [(fit(text, width), look.cursor if self.has_focus else look.bright)]
            result.append(line)
        return result

    def action_move(self, lines: int) -> None:
        before = self.cursor
        self.cursor = max(0, min(len(self._rows) - 1, self.cursor + lines))
        if self.cursor != before:
            self.post_message(self.Moved(self))
        self._follow()
        self.repaint()

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self._shown - 1))
