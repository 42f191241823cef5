"""A still chart drawn by plotext, as inked lines: for screens that are drawn once, where its cost does not matter.

The live panes draw their own dots: see `charts`.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.tui.glyphs import plain
from workbench.tui.themes import Look
from workbench.tui.widgets.pane import Line, inked

BASE_MARK = "┈"


def plotted(
    series: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    width: int,
    height: int,
    look: Look,
    *,
    labels: Sequence[str],
    ascii_only: bool = False,
) -> list[Line]:
    """Lines of (marker, xs, ys) over x places 0, 1, ... named by `labels`; the y axis starts at 0."""
    import plotext

    values = [y for _, _, ys in series for y in ys]
    if not values or width < 20 or height < 4:
        return []
    top = max(values) * 1.1 or 1.0
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(width, height)
    plotext.ylim(0, top)
    plotext.xlim(-0.3, max(1.0, len(labels) - 0.7))
    plotext.yticks([0, top / 2, top], ["0", f"{top / 2:.0f}", f"{top:.0f}"])
    plotext.xticks(list(range(len(labels))), list(labels))
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    for marker, xs, ys in series:
        plotext.plot(list(xs), list(ys), marker="*" if ascii_only else marker)
    text = plotext.uncolorize(plotext.build())
    inks = {"a": look.muted, "s": look.accent, "b": look.base}
    lines = []
    for row in text.split("\n")[:height]:
        kinds = "".join(_kind(char) for char in row)
        lines.append(inked(plain(row) if ascii_only else row, kinds, inks))
    return lines


def _kind(char: str) -> str:
    if char == " ":
        return " "
    if char == "*" or 0x2800 <= ord(char) <= 0x28FF or char in "●▞▚▘▝▖▗▀▄█▌▐":
        return "s"
    return "b" if char == BASE_MARK else "a"
