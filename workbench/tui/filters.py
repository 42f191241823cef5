"""The last steps before the terminal, for every widget, the framework's own included."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from workbench.domain.text import visible
from workbench.tui.glyphs import plain


class GateFilter(LineFilter):
    """No control character of a text reaches the terminal, whatever widget it came through."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.control or segment.text.isprintable()
            else Segment(visible(segment.text).replace("\n", " ").replace("\t", " "), segment.style)
            for segment in segments
        ]


class PlainFilter(LineFilter):
    """Where the terminal wants ASCII: styles and cell positions stay, characters are replaced."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]
