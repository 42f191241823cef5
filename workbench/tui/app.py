"""The application: one bench, one model, one experiment, and the screens over them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter, NoColor
from textual.screen import Screen
from textual.worker import Worker

from workbench.domain.plan import Plan
from workbench.domain.record import Record
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput, Setting
from workbench.session.bench import FoundTarget
from workbench.session.endpoint import NoServer
from workbench.session.events import ServerView
from workbench.session.options import BUILT_IN, SIMULATED
from workbench.tui import palette, themes
from workbench.tui.experiment import Compare, Experiment, ScreenBench, compare
from workbench.tui.filters import GateFilter, PlainFilter
from workbench.tui.glyphs import ascii_wanted
from workbench.tui.model import CellSummary, LiveModel
from workbench.tui.plans import PlanDefaults, mode_of
from workbench.tui.screens.live import LiveScreen
from workbench.tui.terminal import log_file, own_terminal

REPAINT_S = 0.25
INTERRUPTED = 130
CRASHED = 1
FLOWING = frozenset({"ttft", "rate", "memory", "requests", "cells"})
"""Panes that change by themselves during a run."""
OURS = (BUILT_IN, SIMULATED)


class WorkbenchApp(App[int]):
    """The screen of the workbench.

    `target`: the server to use at once, "" for the one the bench's own options lead to; None looks for servers and lets
    the person choose unless just one was found. `run_at_once`: start measuring as soon as it is there. `sessions`: the
    folder whose records are listed; None lists none.
    `theme` and `keys` come from the settings. `replay`: a record to play instead of measuring.
    """

    CSS_PATH = "app.tcss"
    TITLE = "workbench"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Stop, then quit", id="interrupt", show=False, priority=True),
        Binding("ctrl+q", "leave_now", "Quit", id="quit_now", show=False, priority=True),
    ]

    def __init__(
        self,
        bench: ScreenBench,
        *,
        run_at_once: bool = False,
        target: str | None = None,
        defaults: PlanDefaults | None = None,
        sessions: Path | None = None,
        theme: str = "",
        keys: Mapping[str, str] | None = None,
        compare: Compare = compare,
        environ: Mapping[str, str] = os.environ,
        model: LiveModel | None = None,
        replay: Record | None = None,
    ) -> None:
        super().__init__()
        self.bench = bench
        self.model = model or LiveModel()
        self.experiment = Experiment(bench, self.model, defaults or PlanDefaults(), compare)
        self.sessions = sessions
        self.targets: list[FoundTarget] = []
        self.jumping = False
        self.presenting = False
        self.charts_over_values = True
        self.ascii_only = ascii_wanted(environ)
        self._plain = PlainFilter()
        self._gate = GateFilter()
        self._colourless = NoColor()
        self._run_at_once = run_at_once
        self._target = target
        self._replay = replay
        self._keys = dict(keys or {})
        self._theme_asked = theme
        self.measuring: Worker[None] | None = None
        self._leaving = False
        self._crash = ""
        self._replay_stopped = False
        self._before_replay: tuple[Setting | None, Setting | None, CellSummary | None, ServerView | None] | None = None
        for known in themes.textual_themes():
            self.register_theme(known)
        # Before the first frame: a change of theme later parses every stylesheet again.
        self.theme = self._first_theme()
        self.look = themes.look_of(self.theme, self.no_color)

    def run(self, **options: Any) -> int | None:
        """Run in this terminal and give back the exit status. The mouse is left to the terminal: its own selection and
        copying go on working, and a wheel still scrolls."""
        log = log_file()
        with own_terminal(log):
            status = super().run(**{"mouse": False, **options})
        if self._crash:
            print(f"workbench: {self._crash}; the log: {log}", file=sys.stderr)
            return CRASHED
        return status

    def _fatal_error(self) -> None:
        """An error of our own: the traceback goes to the log, one line to the terminal."""
        error = sys.exc_info()[1] or self._exception
        if error is not None:
            self.log_error(error)
        self._crash = f"the screen ended by an error of its own ({type(error).__name__}); finished cells are saved"
        self._close_messages_no_wait()

    # Looks

    def on_load(self) -> None:
        if self._keys:
            self.set_keymap(self._keys)

    def _first_theme(self) -> str:
        """The theme asked for; else one of the terminal's own colours where it has few, or should show none."""
        few = self.console.color_system in (None, "standard", "windows")
        if self.no_color or (few and not self._theme_asked):
            return themes.TERMINAL
        return self._theme_asked if self._theme_asked in themes.NAMES else themes.DEFAULT

    def set_look(self, theme: str) -> None:
        """Change the theme now. Without colour (NO_COLOR) the terminal's own look stays."""
        self.theme = themes.TERMINAL if self.no_color else theme
        self.look = themes.look_of(self.theme, self.no_color)
        for screen in self.screen_stack:
            if isinstance(screen, LiveScreen):
                screen.redraw()
            elif hasattr(screen, "repaint"):
                screen.repaint({"all"})

    def get_line_filters(self) -> list[LineFilter]:
        # The framework chose its own filter for NO_COLOR before it knew the theme; greys are colours too.
        first: list[LineFilter] = [self._colourless] if self.no_color else list(super().get_line_filters())
        return [*first, self._gate, *([self._plain] if self.ascii_only else [])]

    # Life

    async def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(number, self._hung_up, signal.Signals(number).name)
        await self.push_screen(LiveScreen())
        self.set_interval(REPAINT_S, self._tick)
        self.run_worker(self._start(), group="start", exit_on_error=False)

    async def on_unmount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def _start(self) -> None:
        if self._replay is not None:
            await self._play(self._replay)
            return
        if self._target is not None:
            await self.use_target(self._target)
            return
        self.model.notice = "looking for servers"
        self.model.touch("verdict")
        try:
            self.targets = await self.bench.targets()
        except (BadInput, NoServer) as trouble:
            self.say(str(trouble))
            return
        self.model.notice = ""
        usable = [target for target in self.targets if not target.trouble and target.name not in OURS]
        if len(usable) == 1:
            await self.use_target(usable[0].name)
        else:
            self.choose_target()

    async def use_target(self, name: str) -> None:
        """Connect to a target and, the first time, start measuring when that was asked for."""
        self.model.notice = f"connecting to {one_line(name, 40) or 'the server'}"
        self.model.touch("verdict")
        self.show_now()
        try:
            await self.experiment.connect(name)
        except (BadInput, NoServer) as trouble:
            self.model.notice = ""
            self.say(str(trouble))
            return
        finally:
            self.model.notice = ""
            self.model.touch()
        self.show_now()
        if self._run_at_once:
            self._run_at_once = False
            self.start_measuring("sweep" if self.experiment.defaults.varied else "run")

    def choose_target(self) -> None:
        """Open the list of servers."""
        from workbench.tui.screens.choose import ChooseScreen

        self.push_screen(ChooseScreen())

    def start_measuring(self, mode: str, plan: Plan | None = None) -> None:
        """Measure in the background; one at a time."""
        if self.model.running:
            return
        if self.model.setting is None and plan is None:
            self.say("no server yet: press t to choose one")
            return
        self.model.paused = False
        self.measuring = self.run_worker(self._measure(mode, plan), group="measure", exit_on_error=False)
        self.show_now()

    async def _measure(self, mode: str, plan: Plan | None) -> None:
        try:
            await self.experiment.measure(mode, plan)
        except Exception as error:
            self.log_error(error)
            self.model.alert = f"the run ended by an error of Workbench itself ({type(error).__name__}): see the log"
            self.model.touch("verdict")
        self._tick()

    def log_error(self, error: BaseException) -> None:
        """Keep a traceback where it can be read later; the screen shows one line."""
        logging.getLogger("workbench.tui").error("unexpected", exc_info=error)

    # Records

    def rerun(self, record: Record) -> None:
        """Measure a record's plan again, on the live screen."""
        if self.model.running:
            return
        self.end_replay()
        try:
            plan = self.experiment.adopt(record)
        except BadInput as trouble:
            self.say(str(trouble))
            return
        self._to_live()
        self.start_measuring(mode_of(plan), plan)

    def replay(self, record: Record) -> None:
        """Play a record on the live screen; `end_replay` brings back what was there."""
        if self.model.running:
            return
        self.end_replay()
        model = self.model
        self._before_replay = (model.setting, model.baseline, model.baseline_cell, model.server)
        model.baseline = model.baseline_cell = None
        self._to_live()
        self.run_worker(self._play(record), group="replay", exit_on_error=False)

    async def _play(self, record: Record) -> None:
        from workbench.tui.replay import play

        self._replay_stopped = False
        try:
            await play(record, self.model, stopped=lambda: self._replay_stopped)
        except BadInput as trouble:
            self.say(str(trouble))
        self.show_now()

    def end_replay(self) -> None:
        """Put back the setting, the baseline and the server that the replay covered."""
        model = self.model
        if self._before_replay is None or model.running:
            return
        model.setting, model.baseline, model.baseline_cell, model.server = self._before_replay
        self._before_replay = None
        model.begin("run")
        model.running = model.replay = False
        model.phase = ""
        self.show_now()

    def _to_live(self) -> None:
        while not isinstance(self.screen, LiveScreen):
            self.pop_screen()

    def stop_run(self, reason: str = "stopped by the user") -> None:
        """Stop what runs: a measurement, or a replay."""
        if self.model.replay:
            self._replay_stopped = True
        else:
            self.experiment.stop(reason)
        self.show_now()

    # Painting

    def _tick(self) -> None:
        # On the way out there may be a last tick with no screen left.
        if self.model.paused or not self.screen_stack:
            return
        screen = self.screen
        if isinstance(screen, LiveScreen) or hasattr(screen, "repaint"):
            touched = self.model.take_touched()
            if touched or self.model.running:
                screen.repaint(touched)

    def show_now(self) -> None:
        """Repaint what has changed without waiting for the timer: a key was pressed.

        While a run is under way, what flows by itself waits for its own turn: keys held down cost next to nothing.
        """
        if not self.screen_stack:
            return
        screen = self.screen
        if hasattr(screen, "repaint"):
            touched = self.model.take_touched()
            if self.model.running:
                self.model.touched = touched & FLOWING
                touched -= FLOWING
            screen.repaint(touched)

    def say(self, text: str) -> None:
        """One line of trouble where the verdict stands."""
        self.model.alert = one_line(text)
        self.model.touch("verdict")
        self.show_now()

    async def on_event(self, event: object) -> None:
        from textual.events import Key

        if self.jumping and isinstance(event, Key):
            screen = self.screen
            if isinstance(screen, LiveScreen):
                event.stop()
                event.prevent_default()
                screen.key_pressed_while_jumping(event.key)
                return
        await super().on_event(event)  # type: ignore[arg-type]

    # Dialogs

    def edit_variable(self, name: str) -> None:
        """Let the person type or choose a value."""
        from workbench.tui.screens.edit import EditScreen

        self.push_screen(EditScreen(name))

    def edit_note(self, path: str) -> None:
        """Name a saved session and write notes into it."""
        from workbench.tui.screens.note import NoteScreen

        self.push_screen(NoteScreen(Path(path)))

    def copy_verdict(self) -> None:
        """The verdict to the terminal's clipboard (OSC 52)."""
        verdict = self.model.verdict
        sentence = self.model.sentence or (verdict.sentence if verdict is not None else "")
        if not sentence:
            return
        self.copy_to_clipboard(one_line(sentence))
        self.model.notice = "copied, if your terminal takes OSC 52"
        self.model.touch("verdict")
        self.show_now()

    # Ways out

    async def action_interrupt(self) -> None:
        """Ctrl-C: stop the run; when nothing runs, leave."""
        if self.model.running and not self.model.stopping:
            self.stop_run("interrupted by the user")
        else:
            interrupted = self.model.stopping or self.model.status == "interrupted"
            await self.leave(INTERRUPTED if interrupted else 0)

    async def action_leave_now(self) -> None:
        await self.ask_to_leave()

    async def ask_to_leave(self) -> None:
        """Quit; while a run is under way, ask first."""
        if not self.model.running:
            await self.leave(0)
            return
        from workbench.tui.screens.confirm import ConfirmScreen

        question = "A run is under way. Stop it, save what is finished, and quit?"
        self.push_screen(ConfirmScreen(question, yes="Stop, save and quit", no="Keep running"), self._answered)

    def _answered(self, leave: bool | None) -> None:
        if leave:
            self.run_worker(self.leave(0), group="leave", exit_on_error=False)

    def _hung_up(self, name: str) -> None:
        """The terminal is gone, or we are asked to end: stop, save, leave."""
        self.run_worker(self.leave(INTERRUPTED, f"ended by {name}"), group="leave", exit_on_error=False)

    async def leave(self, code: int, reason: str = "stopped by the user") -> None:
        """Stop the run, wait until its record is saved, end what we started, and exit with the code."""
        if self._leaving:
            return
        self._leaving = True
        try:
            if self.measuring is not None and self.model.running:
                self.experiment.stop(reason)
                await self.measuring.wait()
            await self.bench.close()
        except Exception as error:
            self.log_error(error)
        finally:
            self.exit(code, return_code=code)

    # Palette

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action that works now, and the themes."""
        return palette.commands(self, screen)
