"""What stands on the screen when it is too small for anything else: the figures that matter, and what to do."""

from __future__ import annotations

from workbench.tui import figures as fmt
from workbench.tui.widgets.pane import Line, Pane, fit, wrap


class TooSmall(Pane):
    """TTFT, rate, errors and the stop key, in words."""

    model_name = "too-small"
    framed = False
    can_focus = False

    def lines(self, width: int, height: int) -> list[Line]:
        model, look = self.bench_app.model, self.look
        app_width, app_height = self.app.size
        texts = [(f"Workbench needs 60x20; this terminal is {app_width}x{app_height}.", look.text)]
        if model.running or model.status:
            now = model.finished_cell or model.ttft_now()
            rate = now.throughput if model.finished_cell else model.tokens_rate
            texts.append((f"TTFT {fmt.milliseconds(now.ttft_p50)} ms, {fmt.rate(rate)} tokens/s in all", look.bright))
        if model.failed:
            texts.append((f"{model.failed} FAILED", look.trouble))
        texts.append(("x stops the run" if model.running else "q quits", look.accent))
        return [[(fit(line, width), ink)] for text, ink in texts for line in wrap(text, width)]
