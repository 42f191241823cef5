"""The base of every part of the screen: lines of inked text, framed, cached, and repainted only where they changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from workbench.domain.text import one_line, visible
from workbench.tui.themes import Look

if TYPE_CHECKING:
    from workbench.tui.app import WorkbenchApp

Line = list[tuple[str, Style]]
"""A line as runs of text in one ink each."""


def fit(text: str, width: int) -> str:
    """The text in exactly `width` cells: padded, or cut with an ellipsis."""
    if width <= 0:
        return ""
    if text.isascii():
        return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


def right(text: str, width: int) -> str:
    """The text at the right of `width` cells."""
    space = width - cell_len(text)
    return " " * space + text if space >= 0 else fit(text, width)


def line_width(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def inked(text: str, kinds: str, inks: dict[str, Style]) -> Line:
    """Runs of a text whose characters' inks are given beside it; blanks go with what stands before them."""
    line: Line = []
    start = 0
    current = ""
    for index, kind in enumerate(kinds):
        if kind == " " or kind == current:
            continue
        if current:
            line.append((text[start:index], inks[current]))
            start = index
        current = kind
    line.append((text[start:], inks[current or next(iter(inks))]))
    return line


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, broken at blanks, in the middle of a word only when it must be."""
    lines: list[str] = []
    current = ""
    for word in text.split():
        while cell_len(word) > width > 0:
            if current:
                lines.append(current)
                current = ""
            head = set_cell_size(word, width).rstrip() or word[:1]
            lines.append(head)
            word = word[len(head) :]
        joined = f"{current} {word}" if current else word
        if cell_len(joined) <= width:
            current = joined
        else:
            lines.append(current)
            current = word
    if current:
        lines.append(current)
    return lines


class Pane(Widget, can_focus=True):
    """A part of the screen. Subclasses give `lines`; `repaint` writes only the cells that differ from before.

    `model_name`: the name under which the model says that this pane's content changed.
    """

    DEFAULT_CSS = "Pane { width: 1fr; height: 1fr; }"
    framed: ClassVar[bool] = True
    model_name: ClassVar[str] = ""
    letter: ClassVar[str] = ""
    topic: ClassVar[str] = ""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._lines: list[Line] = []
        self._strips: list[Strip] = []

    @property
    def bench_app(self) -> WorkbenchApp:
        from workbench.tui.app import WorkbenchApp

        app = self.app
        assert isinstance(app, WorkbenchApp)
        return app

    @property
    def look(self) -> Look:
        return self.bench_app.look

    def title(self) -> str:
        """What the frame says on the left."""
        return ""

    def corner(self) -> Line:
        """What the frame says on the right."""
        return []

    def foot(self) -> str:
        """What the frame's lower edge says on the right."""
        return ""

    def lines(self, width: int, height: int) -> list[Line]:
        """The content, at most `height` lines of at most `width` cells; frame not included."""
        raise NotImplementedError

    @property
    def has_frame(self) -> bool:
        return self.framed and self.size.height >= 3 and self.size.width >= 8

    @property
    def inner(self) -> tuple[int, int]:
        """Width and height of the content."""
        width, height = self.size
        return (width - 4, height - 2) if self.has_frame else (width, height)

    def _framed_lines(self) -> list[Line]:
        width, height = self.size
        if not self.has_frame:
            return [_safe(line) for line in self.lines(width, height)[:height]]
        look = self.look
        inner_width, inner_height = self.inner
        edge = look.focus if self.has_focus else look.frame
        content = [_safe(line) for line in self.lines(inner_width, inner_height)[:inner_height]]
        content += [[] for _ in range(inner_height - len(content))]
        result = [self._top(width, edge)]
        for line in content:
            space = inner_width - line_width(line)
            if space < 0:
                strip = _strip(line, inner_width, look.text)
                line = [(segment.text, segment.style or look.text) for segment in strip]
                space = 0
            result.append([("│ ", edge), *line, (" " * space, look.text), (" │", edge)])
        result.append(self._bottom(width, edge))
        return result

    def _top(self, width: int, edge: Style) -> Line:
        look = self.look
        corner = _safe(self.corner())
        corner_width = line_width(corner)
        if corner_width > width - 12:
            corner, corner_width = [], 0
        room = width - 6 - (corner_width + 3 if corner else 0)
        title = one_line(self.title())
        if cell_len(title) > room:
            title = fit(title, max(room, 0)).rstrip()
        jump = self.bench_app.jumping and self.letter
        name: Line = [(f" {title} ", look.bright if self.has_focus else look.muted)] if title else []
        if jump:
            name = [(f" {self.letter} ", look.chip), *name[:1]]
        before, after = ("╭┤", "├") if self.has_focus and name else ("╭─", "─")
        used = len(before) + line_width(name) + len(after) + (corner_width + 3 if corner else 0) + 1
        line: Line = [(before, edge), *name, (after + "─" * max(0, width - used), edge)]
        if corner:
            line += [(" ", edge), *corner, (" ─", edge)]
        line.append(("╮", edge))
        return line

    def _bottom(self, width: int, edge: Style) -> Line:
        foot = self.foot()
        if not foot or cell_len(foot) > width - 6:
            return [("╰" + "─" * (width - 2) + "╯", edge)]
        return [
            ("╰" + "─" * (width - 5 - cell_len(foot)) + " ", edge),
            (foot, self.look.muted),
            (" ─╯", edge),
        ]

    def repaint(self) -> None:
        """Compose anew; hand only the changed cells to the terminal."""
        width, height = self.size
        if not width or not height or not self.is_attached:
            return
        fresh = self._framed_lines()
        if len(fresh) != len(self._lines) or len(self._strips) != height or self._strips[0].cell_length != width:
            self._lines = fresh
            self._strips = [_strip(line, width, self.look.text) for line in fresh]
            blank = Strip([Segment(" " * width, self.look.text)], width)
            self._strips += [blank] * (height - len(self._strips))
            self.refresh()
            return
        regions = []
        for y, (old, new) in enumerate(zip(self._lines, fresh, strict=True)):
            if old == new:
                continue
            self._strips[y] = _strip(new, width, self.look.text)
            start, stop = _changed(old, new, width)
            regions.append(Region(start, y, stop - start, 1))
        self._lines = fresh
        if regions:
            self.refresh(*regions)

    def repaint_whole(self) -> None:
        """Forget what is on screen: after a resize, or another theme."""
        self._lines, self._strips = [], []
        self.repaint()

    def render_line(self, y: int) -> Strip:
        if not self._strips or self._strips[0].cell_length != self.size.width:
            self._lines = self._framed_lines()
            self._strips = [_strip(line, self.size.width, self.look.text) for line in self._lines]
        if y < len(self._strips):
            return self._strips[y]
        return Strip([Segment(" " * self.size.width, self.look.text)], self.size.width)

    def on_resize(self) -> None:
        self.repaint_whole()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.repaint()


def _safe(line: Line) -> Line:
    """The line without anything that steers a terminal. Panes clean what they show; this is the last gate."""
    if all(text.isprintable() for text, _ in line):
        return line
    return [(visible(text).replace("\n", " ").replace("\t", " "), ink) for text, ink in line]


def _strip(line: Iterable[tuple[str, Style]], width: int, blank: Style) -> Strip:
    strip = Strip([Segment(text, style) for text, style in line if text])
    return strip.adjust_cell_length(width, blank).simplify()


def _changed(old: Line, new: Line, width: int) -> tuple[int, int]:
    """The columns from the first cell that differs to after the last one, by runs and then by characters."""
    start = 0
    for index in range(min(len(old), len(new))):
        if old[index] != new[index]:
            start += _common(old[index], new[index])
            break
        start += cell_len(new[index][0])
    stop = width
    if line_width(old) == line_width(new) == width:
        for (a, a_style), (b, b_style) in zip(reversed(old), reversed(new), strict=False):
            if a != b or a_style != b_style:
                break
            stop -= cell_len(b)
    return (start, stop) if stop > start else (0, width)


def _common(a: tuple[str, Style], b: tuple[str, Style]) -> int:
    """Cells that two runs share at their start; none when a wide character could be cut in two."""
    if a[1] != b[1] or not a[0].isascii() or not b[0].isascii():
        return 0
    count = 0
    for x, y in zip(a[0], b[0], strict=False):
        if x != y:
            break
        count += 1
    return count
