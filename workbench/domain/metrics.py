"""Figures of one request, derived from its raw trace. Pure: no clock, no I/O. See docs for the definitions in prose.

Absent means absent: None, never 0 and never the end time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from workbench.domain.events import CONTENT, RequestTrace

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

TOO_FAST = 10_000.0
"""Tokens a second above which one stream is taken to have been buffered somewhere on its way."""

SOURCES = ("usage", "tokenize", "tokenizer", "chunks")
"""Where a token count can come from, best first; "chunks" is an estimate and is always marked as one."""


class RequestFigures(msgspec.Struct, kw_only=True):
    """Figures of one request: milliseconds, tokens, tokens a second. None is absent.

    `decode_absent` says why there is no decode rate: short, buffered, hidden tokens, not streamed, no output.
    `coalesced`: output chunks that shared their stamp with an earlier one.
    """

    index: int
    prompt: str = ""
    outcome: str = "ok"
    error: str = ""
    error_class: str = ""
    finish: str = "none"
    empty: bool = False
    connect_ms: float | None = None
    upload_ms: float | None = None
    first_byte_ms: float | None = None
    ttft_ms: float | None = None
    ttfa_ms: float | None = None
    total_ms: float | None = None
    end_ms: float | None = None
    ttft_from_schedule_ms: float | None = None
    total_from_schedule_ms: float | None = None
    output_tokens: int | None = None
    token_source: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    chunks: int = 0
    coalesced: int = 0
    tokens_per_chunk: float | None = None
    decode_rate: float | None = None
    decode_absent: str = ""
    tpot_ms: float | None = None
    characters: int | None = None


def _ms(later: int | None, earlier: int | None) -> float | None:
    if later is None or earlier is None:
        return None
    return (later - earlier) / NS_PER_MS


def counts_of(trace: RequestTrace) -> dict[str, int]:
    """The output token counts a trace offers, by source.

    The server's count of 0 beside visible output is no count at all (some servers send zeros until the last chunk, and
    never the last one).
    """
    counts: dict[str, int] = {}
    reported = trace.usage.completion
    if reported is not None and (reported > 0 or not trace.visible):
        counts["usage"] = reported
    if trace.counted is not None and trace.counted_by:
        counts[trace.counted_by] = trace.counted
    if trace.streamed:
        counts["chunks"] = sum(trace.arrivals.chunks)
    return counts


def common_source(traces: Sequence[RequestTrace]) -> str:
    """The best source that every ok request of a cell offers; "" when there is none in common.

    Counts from unlike sources are not the same thing and are never mixed in one cell. An empty reply has nothing to
    count and no say.
    """
    ok = [trace for trace in traces if trace.outcome == "ok"]
    counted = [trace for trace in ok if trace.visible] or ok
    for source in SOURCES:
        if counted and all(source in counts_of(trace) for trace in counted):
            return source
    return ""


def first_arrival_tokens(trace: RequestTrace, output_tokens: int) -> float:
    """Tokens that came with the first arrival: the server's per-chunk count, else the arrival's share of the bytes.

    Where tokens and output chunks agree (an unseen end token may be counted besides) a chunk is a token; the share of
    the bytes would be a percent or two off for short replies, words being of unlike lengths.
    """
    if trace.first_tokens is not None and 0 < trace.first_tokens <= output_tokens:
        return float(trace.first_tokens)
    if 0 <= output_tokens - sum(trace.arrivals.chunks) <= 1:
        return float(trace.arrivals.chunks[0])
    total = sum(trace.arrivals.size)
    return output_tokens * trace.arrivals.size[0] / total if total else 1.0


def _decode(trace: RequestTrace, output_tokens: int | None) -> tuple[float | None, str]:
    """Decode rate in tokens/s, or None with the word that says why.

    (output_tokens - tokens of the first arrival) / (last arrival - first arrival).
    """
    arrivals = trace.arrivals
    if not trace.streamed:
        return None, "not streamed"
    if not arrivals.at_ns or output_tokens is None:
        return None, "no output"
    if output_tokens < 2:
        return None, "short"
    if trace.usage.reasoning and not trace.reasoning:
        return None, "hidden tokens"
    if len(arrivals.at_ns) < 3 and output_tokens > 2:
        return None, "buffered"
    if max(arrivals.size) * 2 > sum(arrivals.size) and output_tokens > 2:
        return None, "buffered"
    span = (arrivals.at_ns[-1] - arrivals.at_ns[0]) / NS_PER_S
    tokens = output_tokens - first_arrival_tokens(trace, output_tokens)
    if span <= 0 or tokens <= 0:
        return None, "buffered"
    rate = tokens / span
    return (None, "buffered") if rate > TOO_FAST else (rate, "")


def request_figures(trace: RequestTrace, source: str = "", template_tokens: int = 0) -> RequestFigures:
    """Derive a request's figures from its trace.

    `source`: the token source to use (a cell's common one); the request's own best when "". `template_tokens`: the
    chat template's share of every prompt; cached tokens up to it are not prefix-cache hits.
    """
    arrivals = trace.arrivals
    counts = counts_of(trace)
    chosen = source if source in counts else next((name for name in SOURCES if name in counts), "")
    tokens = counts.get(chosen)
    chunks = sum(arrivals.chunks)
    sent = trace.sent_ns
    answer = next((at for at, kind in zip(arrivals.at_ns, arrivals.kinds, strict=True) if kind & CONTENT), None)
    first = arrivals.at_ns[0] if arrivals.at_ns else None
    # A reply that was not streamed has one arrival: its end. That is a total time and tells nothing of a first token.
    last = arrivals.at_ns[-1] if arrivals.at_ns else None
    ok = trace.outcome == "ok"
    rate, why = _decode(trace, tokens)
    ttft = _ms(first, sent) if trace.streamed else None
    total = _ms(last, sent)
    cached = trace.usage.cached
    if cached is not None and cached <= template_tokens:
        cached = 0
    text = trace.content or trace.reasoning
    figures = RequestFigures(
        index=trace.index,
        prompt=trace.prompt,
        outcome=trace.outcome,
        error=trace.error,
        error_class=trace.error_class,
        finish=trace.finish,
        empty=ok and not trace.visible,
        connect_ms=None if trace.connect_ns is None else trace.connect_ns / NS_PER_MS,
        upload_ms=None if trace.upload_ns is None else trace.upload_ns / NS_PER_MS,
        first_byte_ms=_ms(trace.first_byte_ns, sent),
        ttft_ms=ttft,
        ttfa_ms=_ms(answer, sent) if trace.streamed else None,
        total_ms=total,
        end_ms=_ms(trace.end_ns, sent),
        output_tokens=tokens,
        token_source=chosen,
        prompt_tokens=trace.usage.prompt,
        cached_tokens=cached,
        chunks=chunks,
        coalesced=chunks - len(arrivals.at_ns),
        tokens_per_chunk=tokens / chunks if tokens and chunks and trace.streamed else None,
        decode_rate=rate,
        decode_absent=why,
        characters=len(text) if text else None,
    )
    if rate is not None and ttft is not None and total is not None and tokens is not None:
        figures.tpot_ms = (total - ttft) / (tokens - 1)
    if trace.scheduled_ns is not None:
        figures.ttft_from_schedule_ms = _ms(first, trace.scheduled_ns) if trace.streamed else None
        figures.total_from_schedule_ms = _ms(last, trace.scheduled_ns)
    return figures


def chunk_gaps_ms(trace: RequestTrace) -> list[float]:
    """Time between successive arrivals. A chunk is not a token: read it beside `tokens_per_chunk`."""
    stamps = trace.arrivals.at_ns
    return [(later - earlier) / NS_PER_MS for earlier, later in pairwise(stamps)]
