"""Figures for the back of a room: digits of full cells, five high, in the broadest shape that fits."""

from __future__ import annotations

HEIGHT = 5
_SEGMENTS = {
    "0": "abcdef",
    "1": "bc",
    "2": "abged",
    "3": "abgcd",
    "4": "fgbc",
    "5": "afgcd",
    "6": "afgedc",
    "7": "abc",
    "8": "abcdefg",
    "9": "abcdfg",
    "-": "g",
}
"""Seven segments: a top, b and c right, d bottom, e and f left, g middle."""


def _digit(char: str, width: int, stroke: int) -> list[str]:
    if char == ".":
        return [" " * stroke] * (HEIGHT - 1) + ["█" * stroke]
    lit = _SEGMENTS[char]
    bar, space = "█" * stroke, " " * stroke
    hole = width - 2 * stroke

    def across(segment: str, left: str, right: str) -> str:
        if segment in lit:
            return "█" * width
        before = bar if any(side in lit for side in left) else space
        after = bar if any(side in lit for side in right) else space
        return before + " " * hole + after

    def sides(left: str, right: str) -> str:
        return (bar if left in lit else space) + " " * hole + (bar if right in lit else space)

    return [across("a", "f", "b"), sides("f", "b"), across("g", "fe", "bc"), sides("e", "c"), across("d", "e", "c")]


def big(text: str, width: int, height: int) -> list[str]:
    """The text in big digits within `width` by `height` cells, as lines of one length; as plain text when none fit.

    Only digits, the point and "-" have shapes.
    """
    if text and all(char in _SEGMENTS or char == "." for char in text):
        for digit, stroke, gap, scale in ((10, 4, 3, 2), (6, 2, 2, 1), (5, 2, 1, 1), (4, 1, 1, 1)):
            rows = [(" " * gap).join(parts) for parts in zip(*(_digit(c, digit, stroke) for c in text), strict=True)]
            if len(rows[0]) <= width and HEIGHT * scale <= height:
                return [row for row in rows for _ in range(scale)]
    return [text]
