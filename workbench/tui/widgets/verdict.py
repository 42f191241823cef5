"""The words at the foot of the screen: what changed, what did not, what to doubt; else what to do next."""

from __future__ import annotations

from rich.style import Style

from workbench.domain.text import one_line
from workbench.tui.widgets.pane import Line, Pane, fit, wrap


class VerdictPane(Pane):
    """A few lines without a frame. Trouble first, then the sentence, then the next step."""

    model_name = "verdict"
    letter = "d"
    topic = "verdict"
    framed = False

    def parts(self) -> list[tuple[str, Style]]:
        """What there is to say, the most pressing first."""
        model, look = self.bench_app.model, self.look
        verdict = model.verdict
        sentence = model.sentence or (verdict.sentence if verdict is not None else "")
        parts: list[tuple[str, Style]] = []
        if model.alert:
            parts.append((model.alert, look.trouble))
        if sentence:
            parts.append((sentence, look.bright))
        if model.hint:
            parts.append((model.hint, look.accent))
        elif model.running and not sentence and model.mode == "run" and model.differing and model.baseline_cell:
            name = model.differing[0]
            parts.append(
                (f"Against the baseline: only {name} differs. The verdict comes with the last request.", look.text)
            )
        if model.notice:
            parts.append((model.notice, look.muted))
        if model.saved_path and not model.running and not self.bench_app.presenting:
            parts.append((f"saved {model.saved_path}", look.muted))
        if not parts and model.setting is not None and not model.running:
            parts.append(("r runs the setting above and pins it as the baseline.", look.muted))
        return [(one_line(text), ink) for text, ink in parts]

    def lines(self, width: int, height: int) -> list[Line]:
        result: list[Line] = []
        marker = "▸" if self.has_focus else " "
        for text, ink in self.parts():
            for line in wrap(text, width - 2):
                result.append([(f"{marker}{line}", ink)])
        if len(result) > height:
            more = "… Enter: all" if self.has_focus else "… (d: all)"
            last, ink = result[height - 1][0]
            room = width - 2 - len(more)
            result[height - 1] = [(fit(last, room), ink), (f" {more}", self.look.muted)]
        return result
