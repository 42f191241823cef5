"""Which characters this terminal can be trusted with, and the plain ones that stand in for the others.

Everything is composed in Unicode; where the locale or the terminal wants ASCII one filter replaces each cell at the end,
so no widget needs to know. Charts alone ask `ascii_wanted`: their dots are drawn, not translated.
"""

from __future__ import annotations

from collections.abc import Mapping

_PLAIN = {
    "╭": "+",
    "╮": "+",
    "╰": "+",
    "╯": "+",
    "├": "+",
    "┤": "+",
    "┼": "+",
    "└": "+",
    "┬": "+",
    "┴": "+",
    "│": "|",
    "┃": "|",
    "─": "-",
    "━": "=",
    "┈": ".",
    "╌": "-",
    "█": "#",
    "▌": "#",
    "▄": "#",
    "▀": "#",
    "▁": "_",
    "░": ".",
    "▒": ":",
    "◂": "<",
    "▸": ">",
    "▴": "^",
    "▾": "v",
    "◀": "<",
    "▶": ">",
    "←": "<",
    "→": ">",
    "↑": "^",
    "↓": "v",
    "●": "o",
    "○": "o",
    "◆": "*",
    "×": "x",
    "·": "-",
    "…": "~",
    "–": "-",
    "—": "-",
    "’": "'",
    "“": '"',
    "”": '"',
    "±": "~",
    "✓": "+",
    "⏎": "<",
}
_TABLE = str.maketrans(_PLAIN)


def ascii_wanted(environ: Mapping[str, str]) -> bool:
    """Whether charts and frames must be ASCII: a dumb terminal, the Linux console, or a locale that isn't UTF-8.

    With no locale said at all UTF-8 is taken for granted, as Python itself does.
    """
    if environ.get("TERM", "") in ("linux", "dumb", "vt100", "vt220"):
        return True
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        locale = environ.get(name, "")
        if locale:
            return "utf-8" not in locale.lower() and "utf8" not in locale.lower()
    return False


def plain(text: str) -> str:
    """The text in ASCII, every cell kept in its place: a wide character becomes two question marks."""
    if text.isascii():
        return text
    from rich.cells import get_character_cell_size

    text = text.translate(_TABLE)
    if text.isascii():
        return text
    return "".join(char if char.isascii() else "?" * get_character_cell_size(char) for char in text)
