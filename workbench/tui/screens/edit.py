"""Type a variable's value, or choose one of those the target offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from workbench.domain.text import one_line
from workbench.domain.variables import BadInput, show_value, value_of
from workbench.session.bench import Choice
from workbench.session.endpoint import NoServer
from workbench.tui.widgets.listing import Listing, Row
from workbench.tui.widgets.pane import Line, fit, right
from workbench.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from workbench.tui.app import WorkbenchApp


class EditScreen(ModalScreen[None]):
    """Typing narrows the list; Enter takes what is typed, or with nothing typed the choice under the cursor."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="edit.cancel"),
        Binding("up", "move(-1)", "Up", id="edit.up", priority=True),
        Binding("down", "move(1)", "Down", id="edit.down", priority=True),
    ]

    def __init__(self, variable: str) -> None:
        super().__init__()
        self._variable = variable
        self._choices: list[Choice] = []
        self._matching: list[Choice] = []
        self._moved = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Prompt(f"{self._variable}: type a value, or choose with ↑ ↓; Enter takes it", id="ask")
            yield Input(id="value", select_on_focus=False)
            yield Listing("choices", empty="any value can be typed", id="choices")

    @property
    def workbench(self) -> WorkbenchApp:
        return self.query_one(Prompt).bench_app

    async def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.query_one(Listing).can_focus = False
        try:
            self._choices = await self.workbench.experiment.choices(self._variable)
        except (BadInput, NoServer) as trouble:
            self.query_one("#ask", Prompt).say(str(trouble), trouble=True)
        setting = self.workbench.model.setting
        self._narrow("")
        current = value_of(setting, self._variable) if setting is not None else None
        values = [choice.value for choice in self._matching]
        if current in values:
            self.query_one(Listing).action_move(values.index(current))

    def on_input_changed(self, event: Input.Changed) -> None:
        self._moved = False
        self._narrow(event.value)

    def _narrow(self, text: str) -> None:
        wanted = text.strip().lower()
        self._matching = [choice for choice in self._choices if wanted in show_value(choice.value).lower()]
        self.query_one(Listing).show([self._row(choice) for choice in self._matching], keep=False)

    def _row(self, choice: Choice) -> Row:
        def draw(width: int, marked: bool) -> Line:
            look = self.workbench.look
            note = one_line(choice.note, 30)
            return [
                (fit(one_line(show_value(choice.value)), max(4, width - len(note) - 1)), look.text),
                (right(note, len(note) + 1) if note else "", look.muted),
            ]

        return draw

    def action_move(self, step: int) -> None:
        self._moved = True
        self.query_one(Listing).action_move(step)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        experiment = self.workbench.experiment
        cursor = self.query_one(Listing).cursor
        try:
            if (self._moved or not event.value.strip()) and self._matching:
                experiment.set_value(self._variable, self._matching[cursor].value)
            else:
                experiment.type_value(self._variable, event.value)
        except BadInput as trouble:
            self.query_one("#ask", Prompt).say(str(trouble), trouble=True)
            return
        self.dismiss()

    def action_cancel(self) -> None:
        self.dismiss()
