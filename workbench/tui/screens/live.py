"""The live screen: what is measured, how it goes, what differs from the baseline, what that did, what to press."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen

from workbench.domain.variables import CONTROLLED, BadInput
from workbench.tui.keys import LIVE
from workbench.tui.widgets.cells import Cells
from workbench.tui.widgets.chartpanes import RatePane, TtftPane
from workbench.tui.widgets.footer import Keys
from workbench.tui.widgets.memory import MemoryPane
from workbench.tui.widgets.pane import Pane
from workbench.tui.widgets.requests import Requests
from workbench.tui.widgets.status import Status
from workbench.tui.widgets.toosmall import TooSmall
from workbench.tui.widgets.variables import Variables
from workbench.tui.widgets.verdict import VerdictPane

if TYPE_CHECKING:
    from workbench.tui.app import WorkbenchApp

LEAST_WIDTH, LEAST_HEIGHT = 60, 20
FULL_WIDTH, FULL_HEIGHT = 78, 23
LARGE, LARGE_S = 1500, 0.45
"""Cells from which on the request list is repainted less often while a run is under way, and how often then."""


class LiveScreen(Screen[None]):
    """Panes over one model. Nothing here measures; it asks the experiment and shows the model."""

    CSS_PATH = "live.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*LIVE]

    def __init__(self) -> None:
        super().__init__()
        self._keys_state: tuple[object, ...] = ()
        self._requests_at = 0.0

    def compose(self) -> ComposeResult:
        yield Status(id="status")
        with Horizontal(id="upper"):
            yield Variables(id="variables")
            with Vertical(id="right"):
                with Horizontal(id="charts"):
                    yield TtftPane(id="ttft")
                    yield RatePane(id="rate")
                yield MemoryPane(id="memory")
        with Horizontal(id="lower"):
            yield Requests(id="requests")
            yield Cells(id="cells")
        yield VerdictPane(id="verdict")
        yield TooSmall(id="too-small")
        yield Keys(id="keys")

    @property
    def workbench(self) -> WorkbenchApp:
        from workbench.tui.app import WorkbenchApp

        app = self.app
        assert isinstance(app, WorkbenchApp)
        return app

    def on_mount(self) -> None:
        self.query_one("#variables").focus()

    def on_resize(self) -> None:
        width, height = self.app.size
        tiny = width < LEAST_WIDTH or height < LEAST_HEIGHT
        self.set_class(tiny, "-tiny")
        self.set_class(not tiny and (width < FULL_WIDTH or height < FULL_HEIGHT), "-folded")
        self.set_class(width >= 100, "-wide")
        self.set_class(width >= 160, "-huge")
        self.set_class(height >= 32, "-tall")
        self.set_class(height >= 50, "-very-tall")

    def on_screen_resume(self) -> None:
        self.workbench.model.touch()
        self.repaint(self.workbench.model.take_touched())

    def repaint(self, touched: set[str]) -> None:
        """Repaint the panes whose content changed; hidden ones cost nothing."""
        model = self.workbench.model
        self.set_class(model.mode != "run" and model.of > 1, "-many")
        state = (
            model.running,
            model.stopping,
            model.paused,
            model.differing,
            model.setting is None,
            bool(model.sentence or model.verdict),
            bool(model.saved_path),
        )
        if state != self._keys_state:
            self._keys_state = state
            self.refresh_bindings()
        if touched:
            touched = touched | {"too-small"}
        if model.running:
            touched = touched | {"status"}
        for pane in self.query(Pane):
            if pane.model_name in touched and pane.is_on_screen:
                if isinstance(pane, Requests) and model.running and self._too_soon(pane):
                    model.touch("requests")
                else:
                    pane.repaint()

    def _too_soon(self, pane: Requests) -> bool:
        """Whether a large list was repainted a moment ago: when requests end quickly every row of it changes each time,
        and a slow line would carry little else."""
        now = self.workbench.model.now
        large = pane.size.width * pane.size.height > LARGE
        if large and not pane.has_focus and now - self._requests_at < LARGE_S:
            return True
        self._requests_at = now
        return False

    def redraw(self) -> None:
        """Everything anew: the look has changed."""
        for pane in self.query(Pane):
            pane.repaint_whole()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys work now; the others are not shown."""
        model = self.workbench.model
        match action:
            case "stop":
                return model.running and not model.stopping
            case "measure":
                if model.running or model.setting is None or model.replay:
                    return False
                if parameters == ("run",):
                    return len(model.differing) < 2
                return parameters != ("ab",) or len(model.differing) == 1
            case "undo":
                return bool(model.differing)
            case "base":
                return bool(model.differing) and not model.running
            case "flip":
                return model.setting is not None and not model.running and not model.replay
            case "end_replay":
                return model.replay and not model.running
            case "pause":
                return model.running or model.paused
            case "copy" | "verdict":
                return bool(model.sentence or model.verdict)
            case "note":
                return bool(model.saved_path) and not model.running
            case "targets":
                return not model.running and not model.replay
            case _:
                return True

    # Keys. Each repaints at once what it changed: a key shows its effect without waiting for the timer.

    def action_stop(self) -> None:
        self.workbench.stop_run()

    def action_end_replay(self) -> None:
        self.workbench.end_replay()

    def action_measure(self, mode: str) -> None:
        self.query_one(Requests).restart()
        self.workbench.start_measuring(mode)

    def action_undo(self) -> None:
        self._try(self.workbench.experiment.undo)

    def action_base(self) -> None:
        self._try(self.workbench.experiment.rebase)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BadInput as trouble:
            self.workbench.say(str(trouble))
        self.workbench.show_now()

    async def action_flip(self, step: int) -> None:
        app = self.workbench
        try:
            await app.experiment.flip(app.model.selected, step)
        except BadInput as trouble:
            app.say(str(trouble))
        app.show_now()

    def action_select(self, step: int) -> None:
        requests = self.query_one(Requests)
        if requests.has_focus:
            requests.action_move(step)
            return
        model = self.workbench.model
        index = (CONTROLLED.index(model.selected) + step) % len(CONTROLLED)
        model.selected = CONTROLLED[index]
        model.touch("variables")
        self.workbench.show_now()

    def action_open(self) -> None:
        focused = self.focused
        if isinstance(focused, Requests):
            focused.open_entry()
        elif isinstance(focused, VerdictPane):
            self.action_verdict()
        elif not self.workbench.model.running and self.workbench.model.setting is not None:
            self.workbench.edit_variable(self.workbench.model.selected)

    def on_requests_opened(self, event: Requests.Opened) -> None:
        from workbench.tui.screens.request import RequestScreen

        self.app.push_screen(RequestScreen(event.entry))

    def action_pause(self) -> None:
        model = self.workbench.model
        model.paused = not model.paused
        model.touch()
        self.repaint({"status"} if model.paused else model.take_touched())

    def action_copy(self) -> None:
        self.workbench.copy_verdict()

    def action_charts(self) -> None:
        app = self.workbench
        app.charts_over_values = not app.charts_over_values
        app.model.touch("ttft", "rate")
        app.show_now()

    def action_verdict(self) -> None:
        from workbench.tui.screens.verdict import VerdictScreen

        self.app.push_screen(VerdictScreen())

    def action_present(self) -> None:
        from workbench.tui.screens.presenter import PresenterScreen

        self.app.push_screen(PresenterScreen())

    def action_sessions(self) -> None:
        from workbench.tui.screens.sessions import SessionsScreen

        self.app.push_screen(SessionsScreen())

    def action_environment(self) -> None:
        from workbench.tui.screens.environment import EnvironmentScreen

        self.app.push_screen(EnvironmentScreen())

    def action_settings(self) -> None:
        from workbench.tui.screens.settings import SettingsScreen

        self.app.push_screen(SettingsScreen())

    def action_targets(self) -> None:
        self.workbench.choose_target()

    def action_note(self) -> None:
        self.workbench.edit_note(self.workbench.model.saved_path)

    def action_help(self) -> None:
        from workbench.tui.screens.help import HelpScreen

        focused = self.focused
        self.app.push_screen(HelpScreen(focused.topic if isinstance(focused, Pane) else ""))

    async def action_leave(self) -> None:
        await self.workbench.ask_to_leave()

    def action_jump(self) -> None:
        self._set_jumping(not self.workbench.jumping)

    def _set_jumping(self, jumping: bool) -> None:
        self.workbench.jumping = jumping
        for pane in self.query(Pane):
            if pane.framed and pane.is_on_screen:
                pane.repaint()

    def key_pressed_while_jumping(self, key: str) -> None:
        """The letter that ends a jump: to the pane that bears it; any other key ends it without moving."""
        self._set_jumping(False)
        for pane in self.query(Pane):
            if pane.letter == key and pane.can_focus and pane.is_on_screen:
                # At once: over a slow line the next key may already be waiting.
                self.set_focus(pane)
                return
