"""The keys that work now, most needed first, as many as fit."""

from __future__ import annotations

from workbench.tui.widgets.pane import Line, Pane


class Keys(Pane):
    """Read from the screen's active bindings, so a remapped key shows as it is and one that can't be used doesn't show."""

    DEFAULT_CSS = "Keys { dock: bottom; height: 1; }"
    model_name = "keys"
    framed = False
    can_focus = False

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: object) -> None:
        if self.is_attached:
            self.repaint()

    def lines(self, width: int, height: int) -> list[Line]:
        look = self.look
        line: Line = [(" ", look.text)]
        used = 1
        hints = []
        seen = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.show or not active.enabled or binding.action in seen:
                continue
            seen.add(binding.action)
            key = binding.key_display or self.app.get_key_display(binding)
            hints.append((key, binding.description))
        for key, description in hints:
            size = len(key) + 1 + len(description) + 2
            if used + size - 2 > width:
                continue
            line += [(key, look.accent), (f" {description}  ", look.muted)]
            used += size
        return [line]
