"""Which server to measure: those found, those that are in trouble and why, and the built-in engine on one key."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.session.bench import FoundTarget
from workbench.session.endpoint import NoServer
from workbench.session.options import BUILT_IN, SIMULATED
from workbench.tui.screens.base import OverScreen
from workbench.tui.widgets.listing import Listing, Row
from workbench.tui.widgets.pane import Line, fit
from workbench.tui.widgets.reader import Reader, paragraph

DESCRIBED = {
    BUILT_IN: "a real engine with small real weights, on this machine's CPU; started when chosen",
    SIMULATED: "no model: a server of known timing",
}


class ChooseScreen(OverScreen):
    """One line a server. Enter uses it."""

    name_shown = "servers"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "use", "Use", key_display="Enter", id="choose.use", tooltip="Measure this server"),
        Binding("b", "built_in", "Built-in engine", id="choose.built_in", tooltip="Use the built-in engine"),
        Binding("r", "look", "Look again", id="choose.look", tooltip="Look for servers again"),
        Binding("q", "app.leave_now", "Quit", id="choose.quit", tooltip="Quit the program"),
    ]
    CSS = "ChooseScreen #advice { height: 8; }"

    def body(self) -> ComposeResult:
        yield Listing("servers", empty="none yet: start one and press r", id="targets")
        yield Reader("what to do", self._advice, id="advice")

    def on_mount(self) -> None:
        self.query_one("#advice").can_focus = False
        self.query_one(Listing).focus()
        self._show()

    def _show(self) -> None:
        listing = self.query_one(Listing)
        usable = [number for number, target in enumerate(self._targets) if not target.trouble]
        listing.cursor = usable[0] if usable else 0
        listing.show([self._row(target) for target in self._targets])
        self.query_one(Reader).remake()
        self.refresh_bindings()

    @property
    def _targets(self) -> list[FoundTarget]:
        return self.workbench.targets

    def on_listing_moved(self) -> None:
        self.query_one(Reader).remake()

    def _usable(self) -> list[FoundTarget]:
        return [target for target in self._targets if not target.trouble and target.name not in DESCRIBED]

    def _advice(self, width: int) -> list[Line]:
        look = self.workbench.look
        built_in = any(target.name == BUILT_IN and not target.trouble for target in self._targets)
        if self._usable():
            text = "More than one can be measured. Enter uses the one under the cursor."
        elif built_in:
            text = "No LLM server answered on this machine. Press b for the built-in engine: it needs nothing else."
        else:
            text = "No LLM server answered on this machine, and the built-in engine isn't installed."
        more = (
            "Started one meanwhile? Press r. One elsewhere: workbench --base-url http://HOST:PORT/v1, "
            "or a [targets.NAME] in workbench.toml."
        )
        lines = [*paragraph(text, width, look.bright), *paragraph(more, width, look.muted)]
        cursor = self.query_one(Listing).cursor
        trouble = self._targets[cursor].trouble if cursor < len(self._targets) else ""
        return [*paragraph(one_line(trouble), width, look.trouble), *lines] if trouble else lines

    def _row(self, target: FoundTarget) -> Row:
        def draw(width: int, marked: bool) -> Line:
            look = self.workbench.look
            engine = one_line(target.engine or "?", 12)
            if target.trouble:
                what, ink = one_line(target.trouble), look.trouble
            elif target.name in DESCRIBED:
                what, ink = DESCRIBED[target.name], look.muted
            else:
                models = [one_line(model, 40) for model in target.models]
                more = f" and {len(models) - 3} more" if len(models) > 3 else ""
                what, ink = ", ".join(models[:3]) + more or "no model told", look.text
            name = one_line(target.name, 34)
            head = fit(f"{name}", 30 if width < 100 else 36)
            return [
                (head + " ", look.bright),
                (fit(engine, 11) + " ", look.muted),
                (fit(what, max(0, width - len(head) - 13)), ink),
            ]

        return draw

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "built_in":
            return any(target.name == BUILT_IN and not target.trouble for target in self._targets)
        return action != "use" or bool(self._targets)

    async def action_use(self) -> None:
        targets = self._targets
        if targets:
            await self._use(targets[self.query_one(Listing).cursor])

    async def action_built_in(self) -> None:
        for target in self._targets:
            if target.name == BUILT_IN:
                await self._use(target)

    async def _use(self, target: FoundTarget) -> None:
        if target.trouble:
            self.remark(target.trouble, trouble=True)
            return
        self.app.pop_screen()
        self.workbench.run_worker(self.workbench.use_target(target.name), group="start", exit_on_error=False)

    async def action_look(self) -> None:
        self.remark("looking")
        try:
            self.workbench.targets = await self.workbench.bench.targets()
        except (BadInput, NoServer) as trouble:
            self.remark(str(trouble), trouble=True)
            return
        self.remark(f"{len(self._usable())} can be measured")
        self._show()
