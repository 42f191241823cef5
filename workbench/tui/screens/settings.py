"""Settings of this session: the theme, what plans start from, and where the lasting ones are kept."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from workbench.tui import themes
from workbench.tui.screens.base import OverScreen
from workbench.tui.widgets.listing import Listing, Row
from workbench.tui.widgets.pane import Line, fit
from workbench.tui.widgets.reader import Reader, named, paragraph

DESCRIBED = {
    "workbench-dark": "quiet, dark; the usual one",
    "workbench-light": "for a bright room",
    "high-contrast": "white on black, for a projector or tired eyes",
    "colour-blind": "Okabe and Ito's colours, told apart by everyone",
    themes.TERMINAL: "your terminal's own 16 colours",
}


class SettingsScreen(OverScreen):
    """Moving the cursor shows a theme at once; Enter keeps it, Esc goes back to the one before."""

    name_shown = "settings"
    CSS = f"SettingsScreen #themes {{ height: {len(themes.NAMES) + 2}; }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter", "keep", "Keep", key_display="Enter", id="settings.keep", tooltip="Keep this theme for this session"
        ),
    ]

    def body(self) -> ComposeResult:
        yield Listing("theme", id="themes")
        yield Reader("plans start from", self._plans, id="plans")

    def on_mount(self) -> None:
        self._before = self.workbench.theme
        listing = self.query_one(Listing)
        listing.show([self._row(name) for name in themes.NAMES])
        if self._before in themes.NAMES:
            listing.cursor = themes.NAMES.index(self._before)
        listing.focus()
        listing.repaint()
        if self.workbench.no_color:
            self.remark("NO_COLOR is set: there are no colours to choose")

    def _row(self, name: str) -> Row:
        def draw(width: int, marked: bool) -> Line:
            look = self.workbench.look
            return [(fit(name, 20), look.bright), (fit(DESCRIBED[name], max(0, width - 20)), look.muted)]

        return draw

    def on_listing_moved(self, event: Listing.Moved) -> None:
        self.workbench.set_look(themes.NAMES[event.listing.cursor])

    def action_keep(self) -> None:
        self.app.pop_screen()

    def action_back(self) -> None:
        self.workbench.set_look(self._before)
        self.app.pop_screen()

    def _plans(self, width: int) -> list[Line]:
        look, plan = self.workbench.look, self.workbench.experiment.defaults
        inks = (look.muted, look.text)
        limits = ", ".join(f"{name} {bound:g}" for name, bound in plan.limits.items())
        lines: list[Line] = []
        for name, value in (
            ("requests", str(plan.requests or "20, or 3 x concurrency where that is more")),
            ("warm-up", f"{plan.warmup} when a side starts, 1 otherwise"),
            ("A/B rounds", str(plan.rounds or 6)),
            ("ladder", ", ".join(map(str, plan.ladder))),
            ("limits", limits or "none"),
            ("timeouts", f"{plan.timeouts.connect:g}, {plan.timeouts.first_byte:g}, {plan.timeouts.idle:g} s"),
        ):
            lines += named(name, value, width, inks, 14)
        text = 'Lasting ones are in workbench.toml: theme = "…", [limits], and [keys] with an id of the help screen.'
        return [*lines, [], *paragraph(text, width, look.muted)]
