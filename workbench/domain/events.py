"""What a request's life left behind, raw: stamps, counts, text. Figures are derived from it in `metrics`.

All stamps are `time.perf_counter_ns()` of the measuring host (one monotonic clock, shared by its processes).
"""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["ok", "failed", "cancelled"]

CONTENT = 1
REASONING = 2
TOOL_CALL = 4

FAILURE_CLASSES = (
    "refused",
    "redirect",
    "connection",
    "in_stream_error",
    "timeout_connect",
    "timeout_first_byte",
    "timeout_idle",
    "truncated",
    "malformed",
)
"""Failure classes besides http_STATUS."""


class Arrivals(msgspec.Struct, kw_only=True):
    """The output's arrivals in columns: all output chunks that left the socket with one stamp are one arrival.

    `at_ns` stamps; `size` UTF-8 bytes of output; `chunks` output chunks in it; `kinds` bits of CONTENT, REASONING and
    TOOL_CALL; `server_ns` the server's own send stamp of its first output chunk (the simulator's; else 0).
    """

    at_ns: list[int] = []
    size: list[int] = []
    chunks: list[int] = []
    kinds: list[int] = []
    server_ns: list[int] = []


class Usage(msgspec.Struct, kw_only=True):
    """Token counts the server reported; None where it said nothing."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None


class RequestTrace(msgspec.Struct, kw_only=True):
    """One request as it was seen on the wire.

    `sent_ns`: the last body byte had been handed to the socket. `connect_ns`: time to open the connection, when this
    request opened one. `upload_ns`: first body byte to last. `streamed`: the server answered with an event stream.
    `first_tokens`: tokens of the first arrival where the server counts per chunk. `counted`: output tokens recounted
    after the run, by `counted_by` ("tokenize" or "tokenizer").
    """

    index: int
    prompt: str = ""
    scheduled_ns: int | None = None
    sent_ns: int | None = None
    connect_ns: int | None = None
    upload_ns: int | None = None
    first_byte_ns: int | None = None
    end_ns: int | None = None
    arrivals: Arrivals = msgspec.field(default_factory=Arrivals)
    first_tokens: int | None = None
    events: int = 0
    streamed: bool = True
    done: bool = False
    status: int | None = None
    finish: str = "none"
    outcome: Outcome = "ok"
    error_class: str = ""
    error: str = ""
    usage: Usage = msgspec.field(default_factory=Usage)
    counted: int | None = None
    counted_by: str = ""
    content: str = ""
    reasoning: str = ""
    tool_calls: str = ""
    headers: dict[str, str] = {}
    server_says: dict[str, float] = {}

    @property
    def visible(self) -> bool:
        """Whether any output at all was seen."""
        return bool(self.arrivals.at_ns or self.content or self.reasoning or self.tool_calls)
