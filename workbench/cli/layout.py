"""Text laid out for a terminal: widths as the terminal counts them, tables that fit, paragraphs that wrap."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Sequence

import msgspec

from workbench.domain.text import one_line

GAP = "  "
NARROWEST = 40
ABSENT = "-"


def terminal_width() -> int:
    """Columns to fill: those of the terminal (or COLUMNS), 80 where there is none, at least 40."""
    return max(shutil.get_terminal_size((80, 24)).columns, NARROWEST)


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    try:
        return sys.stdout.isatty()
    except ValueError:
        return False


def cell_width(text: str) -> int:
    """Terminal cells a text takes: wide East Asian characters and emoji two, combining marks none."""
    if text.isascii():
        return len(text)
    width = 0
    for character in text:
        if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
            continue
        width += 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
    return width


def pad(text: str, width: int, right: bool = False) -> str:
    """The text filled with spaces to `width` cells."""
    space = " " * max(width - cell_width(text), 0)
    return space + text if right else text + space


def cut(text: str, width: int) -> str:
    """The text in at most `width` cells, its middle replaced by an ellipsis: both ends of a model's name tell something."""
    if cell_width(text) <= width:
        return text
    if width < 4:
        return _head(text, width)
    tail = _head(text[::-1], (width - 1) // 2)[::-1]
    return _head(text, width - 1 - cell_width(tail)) + "…" + tail


def _head(text: str, width: int) -> str:
    taken, used = "", 0
    for character in text:
        used += cell_width(character)
        if used > width:
            break
        taken += character
    return taken


def wrap(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """A paragraph in lines of at most `width` cells. `first` stands before the first line, `indent` before the others.

    A word longer than a line is left whole, where it stands: addresses and paths are there to be copied.
    """
    lines, line = [], indent if first is None else first
    empty = True
    for word in one_line(text).split(" "):
        fits = cell_width(line) + 1 + cell_width(word) <= width
        if not empty and not fits and cell_width(indent) + cell_width(word) <= width:
            lines.append(line)
            line, empty = indent, True
        line += word if empty else " " + word
        empty = False
    return [*lines, line]


class Column(msgspec.Struct, kw_only=True):
    """One column. `group` is the heading it shares with its neighbours. When there is no room, the highest `rank` goes."""

    heading: str
    values: list[str]
    group: str = ""
    rank: int = 0
    left: bool = False

    @property
    def width(self) -> int:
        return max(map(cell_width, (self.heading, *self.values)))


def table(columns: Sequence[Column], width: int) -> list[str]:
    """Aligned lines, headings first, of as many columns as fit into `width`; those of rank 0 always stay."""
    shown = list(columns)
    while _total(shown) > width and any(column.rank for column in shown):
        shown.remove(max(reversed(shown), key=lambda column: column.rank))
    lines = [_group_line(shown)] if any(column.group for column in shown) else []
    lines.append(GAP.join(pad(column.heading, column.width, not column.left) for column in shown))
    for row in zip(*(column.values for column in shown), strict=True):
        lines.append(
            GAP.join(pad(value, column.width, not column.left) for value, column in zip(row, shown, strict=True))
        )
    return [line.rstrip() for line in lines]


def _total(columns: Sequence[Column]) -> int:
    _fit_groups(columns)
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def _runs(columns: Sequence[Column]) -> list[list[Column]]:
    """Neighbours that share a group, together."""
    runs: list[list[Column]] = []
    for column in columns:
        if runs and column.group and runs[-1][0].group == column.group:
            runs[-1].append(column)
        else:
            runs.append([column])
    return runs


def _span(run: Sequence[Column]) -> int:
    return sum(column.width for column in run) + len(GAP) * (len(run) - 1)


def _fit_groups(columns: Sequence[Column]) -> None:
    """Widen the last column of a group whose heading is longer than what stands under it."""
    for run in _runs(columns):
        missing = cell_width(run[0].group) - _span(run)
        if missing > 0:
            run[-1].heading = pad(run[-1].heading, run[-1].width + missing, not run[-1].left)


def _group_line(columns: Sequence[Column]) -> str:
    parts = []
    for run in _runs(columns):
        group, span = run[0].group, _span(run)
        if len(run) > 1 and span - cell_width(group) >= 4:
            # A rule on both sides shows how far a shared heading reaches.
            rest = span - cell_width(group) - 2
            parts.append("─" * (rest // 2) + f" {group} " + "─" * (rest - rest // 2))
        else:
            parts.append(pad(group, span, right=True))
    return GAP.join(parts)


def figures(values: Sequence[float | None], most: int = 6) -> list[str]:
    """Numbers of one column with the same decimals, enough for three digits of a typical one; absent ones as "-".

    Whole numbers have none; numbers longer than `most` characters lose theirs first.
    """
    there = sorted(abs(value) for value in values if value is not None)
    typical = there[len(there) // 2] if there else 0.0
    decimals = 0 if typical >= 100 or not typical else 1 if typical >= 10 else 2 if typical >= 1 else 3
    if all(value == int(value) for value in there):
        decimals = 0
    while decimals and there and len(f"{there[-1]:.{decimals}f}") > most:
        decimals -= 1
    return [ABSENT if value is None else f"{value:.{decimals}f}" for value in values]
