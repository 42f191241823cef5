"""Help: what the pane in focus shows, with formulas, and every key."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding

from workbench.tui.glossary import TOPICS
from workbench.tui.keys import LIVE
from workbench.tui.screens.base import OverScreen
from workbench.tui.widgets.pane import Line
from workbench.tui.widgets.reader import Reader, named


class HelpScreen(OverScreen):
    """`topic`: the glossary entry that comes first, "" for the keys first."""

    name_shown = "help"

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def body(self) -> ComposeResult:
        yield Reader("keys and figures", self._document, id="help")

    def _document(self, width: int) -> list[Line]:
        look = self.workbench.look
        lines: list[Line] = []
        if self._topic in TOPICS:
            lines += [*self._entry(self._topic, width), []]
        lines += [[("Keys of the live screen", look.bright)]]
        for binding in LIVE:
            key = self._key(binding)
            lines += named(key, binding.tooltip or binding.description, width, (look.accent, look.text), 10)
        for key, text in (
            ("tab", "The next pane; with shift the one before"),
            ("ctrl+p", "Every action by name"),
            ("ctrl+c", "Stops the run; when nothing runs, quits"),
            ("Esc", "Back from a screen like this one"),
        ):
            lines += named(key, text, width, (look.accent, look.text), 10)
        for topic in TOPICS:
            if topic != self._topic:
                lines += [[], *self._entry(topic, width)]
        return lines

    def _key(self, binding: Binding) -> str:
        mapped = self.app._keymap.get(binding.id or "")
        return mapped or binding.key_display or binding.key

    def _entry(self, topic: str, width: int) -> list[Line]:
        look = self.workbench.look
        title, entries = TOPICS[topic]
        lines: list[Line] = [[(title, look.bright)]]
        for name, text in entries:
            lines += named(name, text, width, (look.accent, look.text), 14)
        return lines
