"""The saved sessions: find one, open it, compare two, name it, run it again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from workbench.domain.record import Record
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput, show_value
from workbench.tui.figures import short_model
from workbench.tui.screens.base import OverScreen
from workbench.tui.widgets.listing import Listing, Row
from workbench.tui.widgets.pane import Line, fit

if TYPE_CHECKING:
    from workbench.records.listing import SessionSummary


class SessionsScreen(OverScreen):
    """One line a session, the newest first. m marks; with two marked, c compares them, the older one as A."""

    name_shown = "sessions"
    CSS = "SessionsScreen #filter { height: 1; border: none; padding: 0 1; display: none; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", key_display="Enter", id="sessions.open", tooltip="Read the session"),
        Binding("m", "mark", "Mark", id="sessions.mark", tooltip="Mark it for a comparison"),
        Binding("c", "compare", "Compare", id="sessions.compare", tooltip="Compare the two marked"),
        Binding("slash", "filter", "Filter", id="sessions.filter", key_display="/", tooltip="Show those with a word"),
        Binding("n", "note", "Name", id="sessions.note", tooltip="Name it, write notes into it"),
        Binding("r", "rerun", "Run again", id="sessions.rerun", tooltip="Measure its plan again"),
        Binding("w", "watch", "Replay", id="sessions.replay", tooltip="Play it again on the live screen"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._all: list[SessionSummary] = []
        self._shown: list[SessionSummary] = []
        self._marked: list[Path] = []

    def body(self) -> ComposeResult:
        yield Input(placeholder="filter", id="filter")
        yield Listing("sessions", empty="none saved here yet", id="sessions")

    async def on_mount(self) -> None:
        self.query_one(Listing).focus()
        await self._reload()

    async def _reload(self) -> None:
        from workbench.records.listing import list_sessions

        folder = self.workbench.sessions
        if folder is None:
            self.remark("nothing is saved (--no-save)")
            return
        try:
            self._all = await asyncio.to_thread(list_sessions, folder)
        except OSError as trouble:
            self.remark(f"{folder}: {trouble.strerror}", trouble=True)
            return
        if not self.workbench.presenting:
            self.query_one(Listing).retitle(f"sessions in {one_line(str(folder), 50)}")
        self._filter(self.query_one("#filter", Input).value)

    def _filter(self, text: str) -> None:
        words = text.lower().split()
        self._shown = [item for item in self._all if all(word in _searched(item) for word in words)]
        self.query_one(Listing).show([self._row(item) for item in self._shown], self._columns)
        count = f"{len(self._shown)} of {len(self._all)}" if words else str(len(self._all))
        marked = f" · {len(self._marked)} marked" if self._marked else ""
        self.remark(f"{count} sessions{marked}")
        self.refresh_bindings()

    @staticmethod
    def _widths(width: int) -> tuple[int, int, int, int]:
        """when, model, what, and the rest for name and status."""
        return (17, 24, 24, width - 70) if width >= 100 else (12, 18, 20, width - 55)

    def _columns(self, width: int) -> Line:
        when, model, what, _ = self._widths(width)
        text = (
            "  " + fit("started", when) + " " + fit("model", model) + " " + fit("varied", what) + " " + "name, status"
        )
        return [(fit(text, width), self.workbench.look.muted)]

    def _row(self, item: SessionSummary) -> Row:
        def draw(width: int, marked: bool) -> Line:
            look = self.workbench.look
            when, model, what, rest = self._widths(width)
            mark = "● " if item.path in self._marked else "  "
            if item.trouble:
                text = f"{item.path.name}: {one_line(item.trouble)}"
                return [(mark, look.accent), (fit(text, width - 2), look.trouble)]
            started = one_line(item.started).replace("T", " ")
            started = started[:16] if when >= 16 else started[5:16]
            values = " ".join(one_line(show_value(value), 8) for value in item.values[:6])
            varied = f"{one_line(item.varied, 14)} {values}" if item.varied else "single run"
            name = one_line(item.name or item.notes)
            status = "" if item.status == "complete" else one_line(item.status).upper()
            end = " ".join(part for part in (status, name) if part) or "complete"
            return [
                (mark, look.accent),
                (fit(started, when) + " ", look.muted),
                (fit(short_model(item.model), model) + " ", look.bright),
                (fit(varied, what) + " ", look.text),
                (fit(end, max(0, rest)), look.trouble if status else look.text),
            ]

        return draw

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "compare":
                return len(self._marked) == 2
            case "open" | "mark" | "note":
                return bool(self._shown)
            case "rerun" | "watch":
                return bool(self._shown) and not self.workbench.model.running
            case _:
                return True

    @property
    def _current(self) -> SessionSummary | None:
        return self._shown[self.query_one(Listing).cursor] if self._shown else None

    async def _load(self, path: Path) -> Record | None:
        from workbench.records.store import load

        try:
            return await asyncio.to_thread(load, path)
        except (BadInput, OSError) as trouble:
            self.remark(str(trouble), trouble=True)
            return None

    async def action_open(self) -> None:
        filter_line = self.query_one("#filter", Input)
        if filter_line.has_focus:
            self.query_one(Listing).focus()
            return
        from workbench.tui.screens.session import SessionScreen

        current = self._current
        record = await self._load(current.path) if current is not None else None
        if record is not None and current is not None:
            self.app.push_screen(SessionScreen(current.path, record))

    def action_mark(self) -> None:
        current = self._current
        if current is None or current.trouble:
            return
        if current.path in self._marked:
            self._marked.remove(current.path)
        else:
            self._marked = [*self._marked[-1:], current.path]
        self._filter(self.query_one("#filter", Input).value)

    async def action_compare(self) -> None:
        from workbench.tui.screens.compare import CompareScreen

        started = {item.path: item.started for item in self._all}
        older, newer = sorted(self._marked, key=lambda path: started.get(path, ""))
        a, b = await self._load(older), await self._load(newer)
        if a is not None and b is not None:
            self.app.push_screen(CompareScreen(a, b))

    def action_filter(self) -> None:
        line = self.query_one("#filter", Input)
        line.display = True
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter(event.value)

    def on_input_submitted(self) -> None:
        self.query_one(Listing).focus()

    def action_back(self) -> None:
        line = self.query_one("#filter", Input)
        if line.display:
            line.value = ""
            line.display = False
            self.query_one(Listing).focus()
        else:
            super().action_back()

    def action_note(self) -> None:
        current = self._current
        if current is not None:
            from workbench.tui.screens.note import NoteScreen

            self.app.push_screen(NoteScreen(current.path), self._noted)

    async def _noted(self, changed: bool | None) -> None:
        if changed:
            await self._reload()

    async def action_rerun(self) -> None:
        current = self._current
        record = await self._load(current.path) if current is not None else None
        if record is not None:
            self.workbench.rerun(record)

    async def action_watch(self) -> None:
        current = self._current
        record = await self._load(current.path) if current is not None else None
        if record is not None:
            self.workbench.replay(record)


def _searched(item: SessionSummary) -> str:
    return " ".join((item.name, item.notes, item.model, item.engine, item.quant, item.varied, item.started)).lower()
