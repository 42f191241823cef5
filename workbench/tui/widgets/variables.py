"""The variables: the baseline's value beside the current one, the flipped one marked, the selected one between arrows."""

from __future__ import annotations

from workbench.domain.text import one_line
from workbench.domain.variables import CONTROLLED, Setting, show_value, value_of
from workbench.tui.figures import middle_cut, short_model
from workbench.tui.widgets.pane import Line, Pane, fit, line_width

NAME_WIDTH = 11
EXTRA = ("system", "ignore_eos", "body")


def shown(setting: Setting, name: str) -> str:
    """A variable's value, harmless, paths shortened to their last part."""
    text = one_line(show_value(value_of(setting, name)))
    return short_model(text) if name == "model" else text


class Variables(Pane):
    """One line a variable; up and down choose, left and right flip."""

    model_name = "variables"
    letter = "v"
    topic = "variables"

    def title(self) -> str:
        return "variables"

    def foot(self) -> str:
        _, height = self.inner
        rows = height - 1
        hidden = len(CONTROLLED) - rows
        if hidden <= 0:
            return ""
        start = self._start(rows)
        return f"{'▴' if start else ' '}{'▾' if start + rows < len(CONTROLLED) else ' '} {hidden} more"

    def _start(self, rows: int) -> int:
        """The first variable shown, so that the selected one is in sight."""
        selected = CONTROLLED.index(self.bench_app.model.selected)
        return max(0, min(selected - rows + 1, len(CONTROLLED) - rows)) if selected >= rows else 0

    def lines(self, width: int, height: int) -> list[Line]:
        if height < 3:
            return [self._row(self.bench_app.model.selected, width), self._state(width)][:height]
        rows = height - 1
        start = self._start(rows)
        result = [self._row(name, width) for name in CONTROLLED[start : start + rows]]
        result += [[] for _ in range(rows - len(result))]
        result.append(self._state(width))
        return result

    def _row(self, name: str, width: int) -> Line:
        model, look = self.bench_app.model, self.look
        setting, baseline = model.setting, model.baseline
        selected = name == model.selected
        room = width - NAME_WIDTH - 5
        changed = name in model.differing
        now = shown(setting, name) if setting is not None else "-"
        name_ink = look.accent if changed else look.muted
        if selected:
            name_ink = look.cursor if self.has_focus else look.bright
        before: Line = []
        if changed and baseline is not None:
            old = shown(baseline, name)
            if len(old) + len(now) + 3 > room:
                half = max(1, (room - 3) // 2)
                old = middle_cut(old, max(half, room - 3 - len(now)))
                now = middle_cut(now, max(half, room - 3 - len(old)))
            before = [(old, look.base), (" → ", look.muted)]
        else:
            now = middle_cut(now, room)
        value: Line = [*before, (now, look.accent if changed else look.bright if selected else look.text)]
        space = max(0, room - line_width(value))
        return [
            ("◂ " if selected else "  ", look.accent),
            (fit(name, NAME_WIDTH), name_ink),
            (" " * (space + 1), look.text),
            *value,
            (" ▸" if selected else "  ", look.accent),
        ]

    def _state(self, width: int) -> Line:
        model, look = self.bench_app.model, self.look
        differing = model.differing
        if model.setting is None:
            return [(fit("  no server yet", width), look.muted)]
        if len(differing) > 1:
            return [(fit(f"  {len(differing)} differ: u undo, b base", width), look.trouble)]
        if differing:
            extra = f": {differing[0]}" if differing[0] in EXTRA else ": fine"
            return [(fit(f"  one differs{extra}", width), look.accent)]
        if model.baseline is not None:
            return [(fit("  same as the baseline", width), look.muted)]
        return [(fit("  no baseline yet", width), look.muted)]
