"""Name a saved session and write notes into its file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from workbench.tui.app import WorkbenchApp


class NoteScreen(ModalScreen[bool]):
    """Two lines: name and notes. Answers True when the file was changed."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", id="note.cancel")]

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._before: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Prompt("name of the session (Enter goes on)", id="ask")
            yield Input(id="name")
            yield Prompt("notes (Enter saves, Esc leaves it as it was)", id="ask-notes")
            yield Input(id="notes")

    @property
    def workbench(self) -> WorkbenchApp:
        return self.query(Prompt).first().bench_app

    async def on_mount(self) -> None:
        from workbench.records.store import load

        self.query_one("#name", Input).focus()
        try:
            record = await asyncio.to_thread(load, self._path)
        except (BadInput, OSError) as trouble:
            self.query_one("#ask", Prompt).say(str(trouble), trouble=True)
            return
        for name, text in (("name", record.session.name), ("notes", record.session.notes)):
            line = self.query_one(f"#{name}", Input)
            self._before[name] = line.value = one_line(text)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "name":
            self.query_one("#notes", Input).focus()
            return
        from workbench.records.atomic import SaveTrouble
        from workbench.records.store import set_notes

        name, notes = (self._changed(field) for field in ("name", "notes"))
        try:
            await asyncio.to_thread(set_notes, self._path, name, notes)
        except (BadInput, SaveTrouble, OSError) as trouble:
            self.query_one("#ask-notes", Prompt).say(str(trouble), trouble=True)
            return
        self.dismiss(True)

    def _changed(self, field: str) -> str | None:
        """What was typed; None when it was left alone, so that notes of several lines are not folded by a look at them."""
        value = self.query_one(f"#{field}", Input).value.strip()
        return None if value == self._before.get(field) else value

    def action_cancel(self) -> None:
        self.dismiss(False)
