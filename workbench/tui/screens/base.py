"""What the screens over the live one share: a title, a body of one pane, the keys; Escape goes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from workbench.domain.text import one_line
from workbench.tui.widgets.footer import Keys
from workbench.tui.widgets.pane import Line, Pane, fit

if TYPE_CHECKING:
    from workbench.tui.app import WorkbenchApp


class Title(Pane):
    """The screen's name on the left, a remark on the right."""

    framed = False
    can_focus = False
    model_name = "title"

    def __init__(self, name: str) -> None:
        super().__init__(id="title")
        self._shown_name = name
        self.remark = ""
        self.trouble = False

    def lines(self, width: int, height: int) -> list[Line]:
        look = self.look
        name = f" workbench   {self._shown_name}"
        room = max(0, width - len(name) - 4)
        remark = fit(self.remark, min(room, len(self.remark)))
        gap = max(1, width - len(name) - len(remark) - 1)
        return [
            [
                (" workbench   ", look.accent),
                (self._shown_name, look.bright),
                (" " * gap, look.text),
                (remark, look.trouble if self.trouble else look.muted),
                (" ", look.text),
            ]
        ]


class OverScreen(Screen[None]):
    """A screen that is pushed over the live one."""

    CSS_PATH = "base.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="back", key_display="Esc", tooltip="Back to the screen before"),
        Binding("q", "app.leave_now", "Quit", id="quit.over", show=False, tooltip="Quit"),
    ]
    name_shown: ClassVar[str] = ""

    def body(self) -> ComposeResult:
        """The panes between title and keys."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        yield Title(self.name_shown)
        yield from self.body()
        yield Keys(id="keys")

    @property
    def workbench(self) -> WorkbenchApp:
        from workbench.tui.app import WorkbenchApp

        app = self.app
        assert isinstance(app, WorkbenchApp)
        return app

    def remark(self, text: str, trouble: bool = False) -> None:
        """A remark on the title line, replacing the one before."""
        title = self.query_one(Title)
        title.remark, title.trouble = one_line(text), trouble
        title.repaint()

    def repaint(self, touched: set[str]) -> None:
        """Most of these screens stand still; a look change touches everything."""
        if "all" in touched:
            for pane in self.query(Pane):
                pane.repaint_whole()

    def action_back(self) -> None:
        self.app.pop_screen()
