"""How late this process's own event loop runs: the measuring client's fitness, measured while it measures."""

from __future__ import annotations

import asyncio
import time
from time import perf_counter_ns

from workbench.domain.cell import ClientFitness

TICK_S = 0.005
_BIN_NS = 50_000
_BINS = 20_000


class LagMeter:
    """Lateness of a 5 ms timer, in a histogram of 50-microsecond bins (so that a long soak needs no more memory)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._counts = [0] * _BINS
        self._max_ns = 0
        self._cpu_start = time.process_time()
        self._wall_start = perf_counter_ns()
        self._due = perf_counter_ns() + int(TICK_S * 1e9)
        self._handle = loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now = perf_counter_ns()
        late = max(0, now - self._due)
        self._counts[min(late // _BIN_NS, _BINS - 1)] += 1
        self._max_ns = max(self._max_ns, late)
        self._due = now + int(TICK_S * 1e9)
        self._handle = self._loop.call_later(TICK_S, self._tick)

    def percentile_ms(self, p: float) -> float:
        """The lateness below which a share p of the ticks lay, to the bin's upper edge; 0 before the first tick."""
        wanted = p * sum(self._counts)
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if seen and seen >= wanted:
                return min((index + 1) * _BIN_NS, self._max_ns) / 1e6
        return 0.0

    def stop(self) -> ClientFitness:
        """End the metering and return the figures."""
        self._handle.cancel()
        wall = (perf_counter_ns() - self._wall_start) / 1e9
        return ClientFitness(
            lag_p50_ms=self.percentile_ms(0.5),
            lag_p99_ms=self.percentile_ms(0.99),
            lag_max_ms=self._max_ns / 1e6,
            cpu_share=(time.process_time() - self._cpu_start) / wall if wall > 0 else 0.0,
        )
