"""For a projector: three big figures, one chart, the verdict. No hosts, no paths."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from workbench.domain.text import one_line
from workbench.tui import figures as fmt
from workbench.tui.bigdigits import big
from workbench.tui.screens.base import OverScreen
from workbench.tui.widgets.chartpanes import RatePane
from workbench.tui.widgets.pane import Line, Pane, fit, wrap
from workbench.tui.widgets.status import Status
from workbench.tui.widgets.verdict import VerdictPane


class BigFigure(Pane):
    """One figure, its name, and the baseline's under it."""

    can_focus = False

    def __init__(self, name: str, model_name: str, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._figure = name
        self._watched = model_name

    def title(self) -> str:
        return self._figure

    def _values(self) -> tuple[str, str]:
        model = self.bench_app.model
        done, base = model.finished_cell, model.baseline_cell
        if self.id == "big-ttft":
            now = done or model.ttft_now()
            return fmt.milliseconds(now.ttft_p50), fmt.milliseconds(base.ttft_p50) if base else ""
        if self.id == "big-each":
            return fmt.rate(done.each if done else model.each), fmt.rate(base.each) if base else ""
        return fmt.rate(done.throughput if done else model.tokens_rate), fmt.rate(base.throughput) if base else ""

    def lines(self, width: int, height: int) -> list[Line]:
        look = self.look
        value, base = self._values()
        drawn = big(value, width, height - 2)
        above = max(0, (height - len(drawn) - 2) // 2)
        lines: list[Line] = [[] for _ in range(above)]
        lines += [[(fit(line.center(width), width), look.bright)] for line in drawn]
        if base:
            lines += [[], [(fit(f"base {base}".center(width), width), look.base)]]
        return lines


class StillRatePane(RatePane):
    """The chart, which here takes no focus."""

    can_focus = False


class BigVerdict(VerdictPane):
    """The sentence alone; files and hints stay at home."""

    can_focus = False

    def lines(self, width: int, height: int) -> list[Line]:
        model = self.bench_app.model
        sentence = model.sentence or (model.verdict.sentence if model.verdict is not None else "")
        ink = self.look.bright
        if not sentence and model.alert and not model.running:
            sentence, ink = model.alert, self.look.trouble
        return [[(f" {line}", ink)] for line in wrap(one_line(sentence), width - 2)][:height]


class PresenterScreen(OverScreen):
    """Reads the same model as the live screen; runs and stops with the same keys."""

    name_shown = "presenter"
    CSS_PATH = "presenter.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "stop", "Stop", id="present.stop", tooltip="Stop the run"),
        Binding("r", "measure('run')", "Run", id="present.run", tooltip="Measure"),
        Binding("l", "measure('ladder')", "Ladder", id="present.ladder", tooltip="Concurrency 1 to 32"),
        Binding("a", "measure('ab')", "A/B", id="present.ab", tooltip="Baseline and flipped variable in turns"),
        Binding("left", "flip(-1)", "Flip", id="present.back", key_display="←→", tooltip="Flip back"),
        Binding("right", "flip(1)", "Flip", id="present.on", show=False, tooltip="Flip on"),
        Binding("p", "back", "All panes", id="present.leave", tooltip="Back to all panes"),
    ]

    def compose(self) -> ComposeResult:
        from textual.containers import Horizontal

        from workbench.tui.widgets.footer import Keys

        yield Status(id="status")
        with Horizontal(id="figures"):
            yield BigFigure("TTFT ms", "ttft", id="big-ttft")
            yield BigFigure("tokens/s each", "rate", id="big-each")
            yield BigFigure("tokens/s all", "rate", id="big-all")
        yield StillRatePane(id="rate")
        yield BigVerdict(id="verdict")
        yield Keys(id="keys")

    def on_mount(self) -> None:
        self.workbench.presenting = True

    def on_unmount(self) -> None:
        self.workbench.presenting = False

    def on_resize(self) -> None:
        self.set_class(self.app.size.height >= 36, "-tall")

    def on_screen_resume(self) -> None:
        self.repaint({"all"})

    def repaint(self, touched: set[str]) -> None:
        super().repaint(touched)
        self.refresh_bindings()
        for pane in self.query(Pane):
            pane.repaint()

    def remark(self, text: str, trouble: bool = False) -> None:
        self.workbench.say(text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        model = self.workbench.model
        if action == "stop":
            return model.running and not model.stopping
        if action == "measure":
            if model.running or model.setting is None:
                return False
            return parameters != ("ab",) or len(model.differing) == 1
        if action == "flip":
            return not model.running and model.setting is not None
        return True

    def action_stop(self) -> None:
        self.workbench.stop_run()

    def action_measure(self, mode: str) -> None:
        self.workbench.start_measuring(mode)

    async def action_flip(self, step: int) -> None:
        from workbench.domain.variables import BadInput

        app = self.workbench
        try:
            await app.experiment.flip(app.model.selected, step)
        except BadInput as trouble:
            app.say(str(trouble))
        app.show_now()
