"""The requests of a session as the screen lists them: append only, the oldest let go, texts clean when they enter."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from workbench.domain.events import RequestTrace
from workbench.domain.metrics import RequestFigures
from workbench.domain.text import visible
from workbench.session.events import Row

KEPT = 20_000
"""Requests listed; the oldest go first."""
DETAILED = 300
"""Of these the newest keep their whole trace, for the details."""
TEXT_KEPT = 600

WAITING = ("waiting", "connect")


class Entry:
    """One line of the list: a request, or (kind "rule") the heading of a cell. Its text is harmless."""

    __slots__ = (
        "end",
        "error",
        "figures",
        "key",
        "kind",
        "number",
        "page",
        "rate",
        "state",
        "tail",
        "text",
        "tokens",
        "trace",
        "ttft_ms",
        "wait_ms",
    )

    def __init__(self, number: int, key: tuple[int, int, bool], kind: str = "request") -> None:
        self.number = number
        self.key = key
        self.kind = kind
        self.state = "waiting"
        self.wait_ms = 0.0
        self.ttft_ms: float | None = None
        self.tokens: int | None = None
        self.rate: float | None = None
        self.end = ""
        self.error = ""
        self.text = ""
        self.tail = ""
        self.page = 0
        self.figures: RequestFigures | None = None
        self.trace: RequestTrace | None = None

    @property
    def over(self) -> bool:
        """Whether the request has ended."""
        return self.figures is not None


def flat(text: str) -> str:
    """Harmless text on one line; unlike `one_line` it keeps its ends, so that pieces can be joined."""
    return visible(text).replace("\n", " ").replace("\t", " ")


class RequestLog:
    """All requests seen, oldest first by number. `dropped` of them are no longer held."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._by_key: dict[tuple[int, int, bool], Entry] = {}
        self._traced: deque[Entry] = deque()
        self._requests = 0
        self._appended = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def dropped(self) -> int:
        return self._appended - len(self._entries)

    @property
    def appended(self) -> int:
        """Lines ever appended: the position after the newest one; positions never change."""
        return self._appended

    def at(self, position: int) -> Entry | None:
        """The line at a position, None when it is gone or not there yet."""
        index = position - self.dropped
        return self._entries[index] if 0 <= index < len(self._entries) else None

    def newest(self) -> Iterator[Entry]:
        return reversed(self._entries)

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]

    def heading(self, text: str) -> None:
        """A cell begins."""
        entry = Entry(0, (-1, self._appended, False), "rule")
        entry.text = flat(text)
        self._append(entry)

    def _append(self, entry: Entry) -> Entry:
        self._entries.append(entry)
        self._appended += 1
        if len(self._entries) > KEPT:
            gone = self._entries.popleft()
            self._by_key.pop(gone.key, None)
        return entry

    def _entry(self, key: tuple[int, int, bool]) -> Entry:
        found = self._by_key.get(key)
        if found is None:
            self._requests += 1
            found = self._by_key[key] = self._append(Entry(self._requests, key))
        return found

    def rows(self, cell: int, rows: list[Row], warmup: bool = False) -> None:
        """Requests in flight, as the worker sees them, the newest first. One that has ended meanwhile is left alone."""
        for row in reversed(rows):
            entry = self._entry((cell, row.index, warmup))
            if entry.over:
                continue
            entry.state = "waiting" if row.state in WAITING else row.state
            entry.wait_ms = row.wait_ms
            entry.ttft_ms = row.ttft_ms
            entry.tokens = row.chunks or None
            entry.rate = row.rate
            if row.tail != entry.tail:
                self._grow(entry, row.tail)

    def _grow(self, entry: Entry, tail: str) -> None:
        """Add what is new of the tail, so that the line's text stands still and only grows."""
        before = entry.tail
        entry.tail = tail
        if not before or tail.startswith(before):
            new = tail[len(before) :]
        else:
            mark = before[-24:]
            at = tail.rfind(mark)
            new = tail[at + len(mark) :] if at >= 0 else tail
        entry.text += flat(new)
        excess = len(entry.text) - TEXT_KEPT
        if excess > 0:
            entry.text = entry.text[excess:]
            entry.page = max(0, entry.page - excess)

    def ended(self, cell: int, figures: RequestFigures, trace: RequestTrace, warmup: bool) -> Entry:
        """A request has ended."""
        entry = self._entry((cell, figures.index, warmup))
        if warmup:
            # The bursts of a warm-up each count from 0.
            self._by_key.pop(entry.key, None)
        entry.figures = figures
        entry.state = "warm-up" if warmup and figures.outcome == "ok" else figures.outcome
        if figures.outcome == "failed":
            entry.state = "FAILED"
        entry.ttft_ms = figures.ttft_ms
        entry.tokens = figures.output_tokens if figures.outcome == "ok" else figures.chunks or None
        entry.rate = figures.decode_rate
        entry.end = flat(figures.finish) if figures.outcome == "ok" else ""
        entry.error = flat(f"{figures.error_class}: {figures.error}") if figures.error_class else ""
        entry.text = flat((trace.content or trace.reasoning or trace.tool_calls)[:TEXT_KEPT])
        entry.tail, entry.page = "", 0
        entry.trace = trace
        self._traced.append(entry)
        if len(self._traced) > DETAILED:
            self._traced.popleft().trace = None
        return entry
