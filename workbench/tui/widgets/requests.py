"""The request stream: one row a request, newest first, its wait growing, its text arriving."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.message import Message

from workbench.tui import figures as fmt
from workbench.tui.requestlog import Entry
from workbench.tui.widgets.pane import Line, Pane, fit, right

NUMBER, STATE, TTFT, TOKENS, RATE = 5, 9, 7, 6, 7
NARROW = NUMBER + 1 + STATE + TTFT + RATE
FIXED = NARROW + TOKENS
ROOMY = 44


class Requests(Pane):
    """Only the rows in sight are ever composed, so that ten thousand cost what ten do."""

    model_name = "requests"
    letter = "q"
    topic = "requests"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "move(-10)", "Page up", id="requests.page_up", show=False),
        Binding("pagedown", "move(10)", "Page down", id="requests.page_down", show=False),
        Binding("home", "newest", "Newest", id="requests.newest", show=False),
        Binding("end", "oldest", "Oldest", id="requests.oldest", show=False),
    ]

    class Opened(Message):
        """Enter on a request."""

        def __init__(self, entry: Entry) -> None:
            super().__init__()
            self.entry = entry

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._cursor: int | None = None  # a position in the log; None follows the newest
        self._scroll = 0  # lines between the newest and the first shown

    def title(self) -> str:
        return "requests"

    def corner(self) -> Line:
        model, look = self.bench_app.model, self.look
        roomy = self.size.width >= ROOMY
        parts: Line = [(f"{model.ok} ok", look.text)] if roomy or not model.failed else []
        if model.failed:
            parts.append((f"{model.failed} FAILED", look.trouble))
        if model.cancelled and roomy:
            parts.append((f"{model.cancelled} cancelled", look.muted))
        if model.running and roomy:
            parts.append((f"{model.in_flight} in flight", look.text))
        line: Line = []
        for part in parts:
            line += [("   ", look.frame), part] if line else [part]
        return line

    def foot(self) -> str:
        log = self.bench_app.model.requests
        if self._cursor is None or not len(log):
            return ""
        gone = f", {log.dropped} older let go" if log.dropped else ""
        return f"line {log.appended - self._cursor} of {len(log)}{gone} · Home: newest"

    @property
    def rows_shown(self) -> int:
        return max(1, self.inner[1] - 1)

    def lines(self, width: int, height: int) -> list[Line]:
        look = self.look
        log = self.bench_app.model.requests
        text_room = width - FIXED - 2
        head = (
            right("#", NUMBER - 1)
            + "  "
            + fit("state", STATE)
            + right("TTFT", TTFT)
            + (right("tok", TOKENS) if width >= FIXED else "")
            + right("tok/s", RATE)
            + ("  text" if text_room >= 4 else "")
        )
        result: list[Line] = [[(fit(head, width), look.muted)]]
        if not len(log):
            result.append([(fit(self._empty(), width), look.muted)])
            return result
        cursor = self._cursor
        for offset in range(height - 1):
            position = log.appended - 1 - self._scroll - offset
            entry = log.at(position)
            if entry is None:
                break
            marked = self.has_focus and (position == cursor or (cursor is None and offset == 0))
            result.append(self._row(entry, width, text_room, marked))
        return result

    def _empty(self) -> str:
        model = self.bench_app.model
        if model.running:
            if model.phase == "warm-up":
                return "  warming up: these requests are listed when they end and enter no figure"
            return f"  {model.phase}: no request sent yet"
        return "  no requests yet: press r to run" if model.setting is not None else "  no requests yet"

    def _row(self, entry: Entry, width: int, text_room: int, marked: bool) -> Line:
        look = self.look
        if entry.kind == "rule":
            name = f"── {entry.text} "
            return [(fit(name + "─" * max(0, width - cell_len(name)), width), look.cursor if marked else look.muted)]
        waiting = not entry.over and entry.ttft_ms is None
        ttft = fmt.waited(entry.wait_ms) if waiting else fmt.milliseconds(entry.ttft_ms)
        state_ink = {"FAILED": look.trouble, "stream": look.accent, "ok": look.text}.get(entry.state, look.muted)
        figure_ink = look.text if entry.over or waiting else look.bright
        if entry.state in ("warm-up", "cancelled"):
            figure_ink = look.muted
        if waiting:
            figure_ink = look.muted
        inks: list[Style] = [look.muted, state_ink, figure_ink, look.text]
        line: Line = [
            (right(str(entry.number), NUMBER - 1) + "  ", inks[0]),
            (fit(entry.state, STATE), inks[1]),
            (
                right(ttft, TTFT)
                + (right(fmt.count(entry.tokens), TOKENS) if width >= FIXED else "")
                + right(fmt.rate(entry.rate), RATE),
                inks[2],
            ),
        ]
        if text_room >= 4:
            line += [("  ", look.text), *self._text(entry, text_room)]
        if marked:
            plain = "".join(text for text, _ in line)
            return [(fit(plain, width), look.cursor)]
        return line

    def _text(self, entry: Entry, room: int) -> Line:
        look = self.look
        if entry.error:
            return [(fit(entry.error, room), look.trouble)]
        if entry.over:
            end = f"{entry.end} " if entry.end and room > 20 else ""
            if entry.state == "ok" and not entry.text:
                return [(fit(f"{end}EMPTY: no visible output", room), look.trouble)]
            return [(end, look.muted), (fit(entry.text, room - len(end)), look.text)]
        return [(fit(_page(entry, room), room), look.text)]

    def action_move(self, lines: int) -> None:
        """Move the cursor; a page is as many lines as are shown."""
        log = self.bench_app.model.requests
        if not len(log):
            return
        if abs(lines) == 10:
            lines = (self.rows_shown - 1 or 1) * (1 if lines > 0 else -1)
        newest = log.appended - 1
        position = newest if self._cursor is None else self._cursor
        position = max(log.dropped, min(newest, position - lines))
        self._cursor = None if position == newest and lines < 0 else position
        self.follow()
        self.repaint()

    def action_newest(self) -> None:
        self._cursor = None
        self.follow()
        self.repaint()

    def action_oldest(self) -> None:
        self._cursor = self.bench_app.model.requests.dropped
        self.follow()
        self.repaint()

    def follow(self) -> None:
        """Keep the cursor in sight; without one the newest stays on top."""
        log = self.bench_app.model.requests
        if self._cursor is None:
            self._scroll = 0
            return
        self._cursor = max(self._cursor, log.dropped)
        below = log.appended - 1 - self._cursor
        if below < self._scroll:
            self._scroll = below
        elif below >= self._scroll + self.rows_shown:
            self._scroll = below - self.rows_shown + 1

    def restart(self) -> None:
        """Another session's requests are shown: back to the newest."""
        self._cursor, self._scroll = None, 0

    def repaint(self) -> None:
        log = self.bench_app.model.requests
        if self._cursor is not None:
            if self._cursor >= log.appended:
                self.restart()
            else:
                # New lines come on top; what is being read stays where it is.
                self._scroll += log.appended - self._seen
                self.follow()
        self._seen = log.appended
        super().repaint()

    _seen = 0

    def open_entry(self) -> None:
        """Open the row under the cursor."""
        log = self.bench_app.model.requests
        entry = log.at(log.appended - 1 if self._cursor is None else self._cursor)
        if entry is not None and entry.kind == "request":
            self.post_message(self.Opened(entry))


def _page(entry: Entry, room: int) -> str:
    """The part of a growing text that is shown: it stands still and fills the line, then turns over like a page."""
    text = entry.text[entry.page :]
    if cell_len(text) <= room:
        return text
    keep = max(room // 3, 1)
    start = len(entry.text) - keep
    blank = entry.text.find(" ", start)
    entry.page = blank + 1 if 0 <= blank < len(entry.text) - 1 else start
    while cell_len(entry.text[entry.page :]) > room:
        entry.page += 1
    return entry.text[entry.page :]
