"""Raw traces for tests, laid down by hand: stamps in ms after the clock's zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.domain.events import CONTENT, Arrivals, RequestTrace, Usage

MS = 1_000_000


def arrivals_of(*given: tuple[float, int, int]) -> Arrivals:
    """Arrivals from (ms, output chunks, UTF-8 bytes)."""
    return Arrivals(
        at_ns=[round(ms * MS) for ms, _, _ in given],
        chunks=[chunks for _, chunks, _ in given],
        size=[size for _, _, size in given],
        kinds=[CONTENT] * len(given),
        server_ns=[0] * len(given),
    )


def trace_of(
    *given: tuple[float, int, int],
    sent: float | None = 0.0,
    end: float | None = None,
    tokens: int | None = None,
    index: int = 0,
    usage: Usage | None = None,
    **fields: Any,
) -> RequestTrace:
    """A request sent at `sent` ms whose output came in these arrivals; `tokens` is the server's own count."""
    arrivals = arrivals_of(*given)
    if end is None and given:
        end = given[-1][0]
    return RequestTrace(
        index=index,
        sent_ns=None if sent is None else round(sent * MS),
        end_ns=None if end is None else round(end * MS),
        arrivals=arrivals,
        usage=usage if usage is not None else Usage(completion=tokens),
        content=fields.pop("content", "x" * sum(arrivals.size)),
        **fields,
    )


def steady(
    tokens: int, *, sent: float = 0.0, ttft: float = 100.0, gap: float = 20.0, size: int = 4, **fields: Any
) -> RequestTrace:
    """A request whose tokens come one a chunk at an even pace, counted by the server."""
    stamps: Sequence[tuple[float, int, int]] = [(sent + ttft + gap * step, 1, size) for step in range(tokens)]
    return trace_of(*stamps, sent=sent, tokens=fields.pop("counted_by_server", tokens), **fields)
