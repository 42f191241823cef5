"""Charts drawn by hand, two by four dots a cell: pure functions from numbers to lines of text.

Measured against plotext 5.3.2 (benchmarks/screen.py prints it again): two live panes repainted four times a second would
spend most of the screen's budget on a large terminal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BRAILLE = 0x2800


class Plot(msgspec.Struct, frozen=True):
    """A drawn chart: lines of `width` characters, and per line the kind of each character's ink.

    Kinds: " " nothing, "a" axis and labels, "b" baseline, "s" series, "x" a failure.
    """

    lines: list[str]
    inks: list[str]


def nice_ceiling(value: float) -> float:
    """The smallest of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten that is not below the value: a calm axis end."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0):
        if value <= step * power * (1 + 1e-9):
            return step * power
    return 10 * power


def axis_label(value: float) -> str:
    """An axis value in few characters: 0, 0.5, 400, 1.5k, 12k."""
    if value >= 10_000:
        return f"{value / 1000:.0f}k" if value % 1000 == 0 or value >= 100_000 else f"{value / 1000:.1f}k"
    if value and value < 10 and value != int(value):
        return f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"
    return f"{value:.0f}"


def reduce_to(points: Sequence[tuple[float, float]], columns: int, lo: float, hi: float) -> list[tuple[float, float]]:
    """At most two points a column, its least and its greatest, so that no spike is lost and drawing stays cheap."""
    if hi <= lo or columns < 1:
        return list(points[:1])
    buckets: dict[int, list[tuple[float, float]]] = {}
    for x, y in points:
        column = min(columns - 1, max(0, int((x - lo) / (hi - lo) * columns)))
        held = buckets.get(column)
        if held is None:
            buckets[column] = [(x, y), (x, y)]
        elif y < held[0][1]:
            held[0] = (x, y)
        elif y > held[1][1]:
            held[1] = (x, y)
    result: list[tuple[float, float]] = []
    for column in sorted(buckets):
        low, high = buckets[column]
        result += [low] if low == high else sorted((low, high))
    return result


class _Canvas:
    """Dots on a grid of character cells."""

    def __init__(self, width: int, height: int, ascii_only: bool) -> None:
        self.width, self.height = width, height
        self.ascii = ascii_only
        self.across, self.down = (1, 1) if ascii_only else (2, 4)
        self._cells: list[list[int]] = [[0] * width for _ in range(height)]

    def dot(self, x: int, y: int) -> None:
        """Set one dot; x from the left, y from the bottom."""
        column, row = x // self.across, self.height - 1 - y // self.down
        if 0 <= column < self.width and 0 <= row < self.height:
            if self.ascii:
                self._cells[row][column] = 1
            else:
                self._cells[row][column] |= _DOTS[x % 2][3 - y % 4]

    def line(self, x0: int, y0: int, x1: int, y1: int) -> None:
        """Dots from one point to another (Bresenham)."""
        dx, dy = abs(x1 - x0), -abs(y1 - y0)
        step_x, step_y = (1 if x0 < x1 else -1), (1 if y0 < y1 else -1)
        error = dx + dy
        while True:
            self.dot(x0, y0)
            if x0 == x1 and y0 == y1:
                return
            twice = 2 * error
            if twice >= dy:
                error += dy
                x0 += step_x
            if twice <= dx:
                error += dx
                y0 += step_y

    def char(self, row: int, column: int) -> str:
        bits = self._cells[row][column]
        if not bits:
            return " "
        return "*" if self.ascii else chr(_BRAILLE + bits)


def chart(
    points: Sequence[tuple[float, float]],
    width: int,
    height: int,
    *,
    x_range: tuple[float, float],
    top: float,
    baseline: float | None = None,
    failures: Sequence[float] = (),
    base_word: str = " base ",
    joined: bool = True,
    thick: bool = False,
    x_labels: Sequence[tuple[float, str]] = (),
    ascii_only: bool = False,
) -> Plot:
    """Draw points over an axis from 0 to `top`, the baseline as a dotted line with its word behind them.

    `failures`: x positions marked with a cross on the axis. `x_labels`: texts under the axis, one more line, drawn only
    where they fit. `joined`: a line from point to point; `thick`: two by two dots a point. Too small an area stays blank.
    """
    label_width = max(len(axis_label(top)), len(axis_label(top / 2)), 3)
    plot_width = width - label_width - 1
    plot_height = height - 1 - (1 if x_labels else 0)
    if plot_width < 4 or plot_height < 1:
        return Plot([" " * width] * height, [" " * width] * height)
    canvas = _Canvas(plot_width, plot_height, ascii_only)
    wide, high = plot_width * canvas.across, plot_height * canvas.down
    lo, hi = x_range
    span = hi - lo if hi > lo else 1.0

    def place(x: float, y: float) -> tuple[int, int]:
        # 0 is the axis line itself, `top` the middle of the first row, where its label stands.
        across = min(wide - 1, max(0, round((x - lo) / span * (wide - 1))))
        above = y / top * plot_height if top > 0 else 0.0
        return across, min(high - 1, max(0, round((above - 0.5) * canvas.down - 0.5)))

    reduced = reduce_to([p for p in points if lo <= p[0] <= hi], plot_width, lo, lo + span)
    placed = [place(x, y) for x, y in reduced]
    if joined:
        for (x0, y0), (x1, y1) in pairwise(placed):
            canvas.line(x0, y0, x1, y1)
    for across, up in placed:
        canvas.dot(across, up)
        if thick and not ascii_only:
            column, row = min(across, wide - 2), min(up, high - 2)
            for beside, above in ((0, 0), (1, 0), (0, 1), (1, 1)):
                canvas.dot(column + beside, row + above)

    base_row = None
    if baseline is not None and top > 0:
        base_row = min(plot_height - 1, max(0, plot_height - round(baseline / top * plot_height)))
    middle = plot_height // 2 if plot_height >= 4 and plot_height % 2 == 0 else None
    lines, inks = [], []
    for row in range(plot_height):
        label = axis_label(top) if row == 0 else axis_label(top / 2) if row == middle else ""
        chars = [canvas.char(row, column) for column in range(plot_width)]
        ink = ["s" if char != " " else " " for char in chars]
        if row == base_row:
            _draw_baseline(chars, ink, base_word if plot_width > 2 * len(base_word) else "", ascii_only)
        axis = "┤" if label else "│"
        lines.append(label.rjust(label_width) + axis + "".join(chars))
        inks.append("a" * (label_width + 1) + "".join(ink))
    floor = ["─"] * plot_width
    floor_ink = ["a"] * plot_width
    for x in failures:
        mark = place(x, 0)[0] // canvas.across
        floor[mark], floor_ink[mark] = "×", "x"
    lines.append("0".rjust(label_width) + "┼" + "".join(floor))
    inks.append("a" * (label_width + 1) + "".join(floor_ink))
    if x_labels:
        lines.append(" " * (label_width + 1) + _under(x_labels, plot_width, lambda x: place(x, 0)[0] // canvas.across))
        inks.append("a" * width)
    return Plot(lines, inks)


def _draw_baseline(chars: list[str], ink: list[str], word: str, ascii_only: bool) -> None:
    """Dots in the row's free cells, and the word in its rightmost free stretch; over the series only where none is free."""
    width, length = len(chars), len(word)
    row = "".join(chars)
    free = row.rfind(" " * (length + 1), 0, width)
    at = free + 1 if free >= 0 else width - length
    for column in range(width):
        if word and at <= column < at + length:
            chars[column], ink[column] = word[column - at], "b"
        elif chars[column] == " ":
            chars[column], ink[column] = ("." if ascii_only else "┈"), "b"


def _under(labels: Sequence[tuple[float, str]], width: int, column_of: Callable[[float], int]) -> str:
    """Labels centred under their columns, later ones left out where they would touch."""
    row = [" "] * width
    free = 0
    for x, text in labels:
        start = min(max(0, column_of(x) - len(text) // 2), width - len(text))
        if start < free or start < 0:
            continue
        row[start : start + len(text)] = text
        free = start + len(text) + 1
    return "".join(row)


_SPARK = "▁▂▃▄▅▆▇█"
_SPARK_ASCII = "_.-=+*%#"


def sparkline(values: Sequence[float], width: int, top: float, ascii_only: bool = False) -> str:
    """The values on one line, the newest at the right; each column its greatest."""
    if width < 1:
        return ""
    if not values or top <= 0:
        return " " * width
    levels = _SPARK_ASCII if ascii_only else _SPARK
    count = min(width, len(values))
    line = ""
    for column in range(count):
        low = column * len(values) // count
        peak = max(values[low : max(low + 1, (column + 1) * len(values) // count)])
        line += levels[min(len(levels) - 1, int(max(0.0, peak) / top * (len(levels) - 1) + 0.5))]
    return line.rjust(width)


def bar(share: float, width: int) -> tuple[str, str]:
    """A share 0..1 as the full and the empty part of a bar of `width` cells."""
    full = min(width, max(0, round(share * width)))
    return "█" * full, "░" * (width - full)
