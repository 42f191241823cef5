"""Figures for the back of a room: digits of full cells, four wide and five high, doubled where there is room."""

from __future__ import annotations

_ROWS: dict[str, tuple[str, ...]] = {
    "0": ("####", "#  #", "#  #", "#  #", "####"),
    "1": ("  # ", " ## ", "  # ", "  # ", " ###"),
    "2": ("####", "   #", "####", "#   ", "####"),
    "3": ("####", "   #", " ###", "   #", "####"),
    "4": ("#  #", "#  #", "####", "   #", "   #"),
    "5": ("####", "#   ", "####", "   #", "####"),
    "6": ("####", "#   ", "####", "#  #", "####"),
    "7": ("####", "   #", "  # ", " #  ", " #  "),
    "8": ("####", "#  #", "####", "#  #", "####"),
    "9": ("####", "#  #", "####", "   #", "####"),
    ".": (" ", " ", " ", " ", "#"),
    "-": ("    ", "    ", "####", "    ", "    "),
    "s": ("    ", " ###", "##  ", " ## ", "### "),
    " ": (" ", " ", " ", " ", " "),
}
HEIGHT = 5


def big(text: str, scale: int = 1) -> list[str]:
    """The text in big digits, `HEIGHT` x scale lines, all of one length. Characters it has no shape for are left out."""
    lines = []
    for row in range(HEIGHT):
        parts = ["".join(cell * scale for cell in _ROWS[char][row]) for char in text if char in _ROWS]
        line = (" " * scale).join(parts).replace("#", "█")
        lines += [line] * scale
    return lines
