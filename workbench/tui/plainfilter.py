"""The last step before a terminal that wants ASCII: every cell replaced by a plain one."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from workbench.tui.glyphs import plain


class PlainFilter(LineFilter):
    """Keeps styles and cell positions, replaces characters."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]
