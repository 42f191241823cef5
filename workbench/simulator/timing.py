"""Precise deadlines: an event loop that wakes to the microsecond, and one scheduler for everything that is due.

Stock asyncio on Linux waits in epoll, whose time-out is rounded up to whole milliseconds: a timer fires 0.7 ms late at
the median. `select` on the epoll descriptor itself takes microseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import select
import selectors
import sys
import time
from itertools import count
from pathlib import Path
from typing import Protocol

EARLY_NS = 200_000
"""With few streams the loop is woken this much before a deadline, and the rest is waited out on the clock."""

FEW_STREAMS = 4
"""Above this many streams nothing is waited out: the loop is awake often enough, and a core is not burnt."""

MOST_AT_ONCE = 64
"""Deadlines met before the sockets get a turn, so that a server behind its schedule still reads requests."""


class Due(Protocol):
    """Something with deadlines."""

    def act(self, due_ns: int) -> int | None:
        """Do what was due at `due_ns`; the next deadline (perf_counter_ns), or None when there is none."""


if sys.platform == "linux":

    class _PreciseSelector(selectors.EpollSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None and timeout > 0:
                if not select.select((self.fileno(),), (), (), timeout)[0]:
                    return []
                timeout = 0
            return super().select(timeout)

    def precise_event_loop() -> asyncio.AbstractEventLoop:
        """An event loop whose timers fire about 0.1 ms late instead of up to 1 ms."""
        # The kernel adds up to 50 microseconds to every wait of a thread unless told otherwise; it may be read-only.
        with contextlib.suppress(OSError):
            Path("/proc/self/timerslack_ns").write_text("1", encoding="ascii")
        return asyncio.SelectorEventLoop(_PreciseSelector())

else:

    def precise_event_loop() -> asyncio.AbstractEventLoop:
        """An event loop whose timers fire on time; kqueue takes nanoseconds as it is."""
        return asyncio.SelectorEventLoop()


class Scheduler:
    """Meets deadlines in their order, from one timer of the loop. Nothing is ever done before its deadline."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[int, int, Due]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ns = 0
        self._running = False

    def add(self, due_ns: int, thing: Due) -> None:
        """Have `thing.act(due_ns)` called at `due_ns` (perf_counter_ns)."""
        heapq.heappush(self._heap, (due_ns, next(self._order), thing))
        if not self._running:
            self._arm()

    def _arm(self) -> None:
        if not self._heap:
            return
        due_ns = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due_ns <= due_ns:
                return
            self._timer.cancel()
        early_ns = EARLY_NS if len(self._heap) <= FEW_STREAMS else 0
        wait = (due_ns - early_ns - time.perf_counter_ns()) / 1e9
        self._timer_due_ns = due_ns
        self._timer = self._loop.call_at(self._loop.time() + wait, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._running = True
        heap = self._heap
        clock = time.perf_counter_ns
        waited = False
        try:
            for _ in range(MOST_AT_ONCE):
                if not heap:
                    break
                due_ns = heap[0][0]
                left_ns = due_ns - clock()
                if left_ns > 0:
                    if waited or left_ns > EARLY_NS or len(heap) > FEW_STREAMS:
                        break
                    waited = True
                    while clock() < due_ns:
                        pass
                _, order, thing = heapq.heappop(heap)
                next_ns = thing.act(due_ns)
                if next_ns is not None:
                    heapq.heappush(heap, (next_ns, order, thing))
        finally:
            self._running = False
            self._arm()
