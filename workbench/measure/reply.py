"""One reply read into its trace: stamps, counts, text and outcome. No sockets here: bytes and stamps come in."""

from __future__ import annotations

from typing import Any

from workbench.domain.events import RequestTrace
from workbench.measure.chunks import NotJsonError, Piece, body_error, decode, error_text, integer
from workbench.measure.stream import ErrorEvent, EventSplitter, LineTooLongError

TEXT_LIMIT = 64 * 1024 * 1024
ERROR_BODY_LIMIT = 64 * 1024
TAIL = 400
HEADERS_KEPT = (
    "server",
    "content-type",
    "retry-after",
    "x-request-id",
    "x-ratelimit-remaining-requests",
    "openai-processing-ms",
    "via",
    "x-accel-buffering",
)
_SAID = ("prompt_ms", "predicted_ms", "prompt_per_second", "predicted_per_second")


class ReplyReader:
    """Reads one response body as it arrives and fills the request's trace.

    Call `headers` once, `feed` for each read with its stamp, then `end` exactly once. `complete` turns true when the
    reply is whole ([DONE], or a finish reason) though the body may not have ended. `settled_ns`: when it was whole, or known
    to have failed, 0 before; `touched_ns`: when bytes last came (comments too); `tail`: the end of the text so far.
    """

    def __init__(self, trace: RequestTrace) -> None:
        self.trace = trace
        self.complete = False
        self.tail = ""
        self.chunks = 0
        self.touched_ns = 0
        self.settled_ns = 0
        self._encoding = ""
        self._splitter: EventSplitter | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._tool_calls: list[str] = []
        self._failed = False
        self._succeeded = False
        self._usage_counted = False

    def headers(self, status: int, headers: dict[str, str]) -> None:
        """The response's status and headers (names in lower case)."""
        trace = self.trace
        trace.status = status
        trace.headers = {name: headers[name][:300] for name in HEADERS_KEPT if name in headers}
        if 300 <= status < 400:
            self._fail("redirect", f"the server redirects to {headers.get('location', 'another address')[:200]}")
        encoding = headers.get("content-encoding", "").strip().lower()
        self._encoding = "" if encoding == "identity" else encoding[:40]
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        self._succeeded = 200 <= status < 300
        if self._succeeded and kind != "application/json":
            self._splitter = EventSplitter()
        trace.streamed = self._splitter is not None

    def feed(self, at: int, data: bytes) -> None:
        """Bytes of the body that left the socket at stamp `at`."""
        self._feed(at, data)
        if not self.settled_ns and (self._failed or self.complete):
            self.settled_ns = at

    @property
    def failed(self) -> bool:
        """Whether the reply is known to have failed, or to be an error: nothing that may still come changes that."""
        return self._failed or (self.trace.status is not None and not self._succeeded)

    def _feed(self, at: int, data: bytes) -> None:
        trace = self.trace
        self.touched_ns = at
        if not self._size and data.startswith(b"{"):
            # One JSON object under another content type: no event stream begins with a brace.
            self._splitter, trace.streamed = None, False
        self._size += len(data)
        if self._splitter is None:
            if self._size <= (TEXT_LIMIT if self._succeeded else ERROR_BODY_LIMIT):
                self._body.append(data)
            elif self._succeeded:
                self._too_large()
            elif not self.settled_ns:
                # Enough of an error has been read.
                self.settled_ns = at
            return
        if self._failed or trace.done:
            return
        if self._size > TEXT_LIMIT:
            self._too_large()
            return
        try:
            events = self._splitter.feed(data)
        except LineTooLongError as error:
            self._fail("malformed", str(error))
            return
        for event in events:
            self._event(at, event)

    def end(self, at: int, clean: bool = True, trouble: str = "") -> RequestTrace:
        """The body is over: `clean` when it ended as HTTP says it should. Decides the outcome; returns the trace."""
        trace = self.trace
        if trace.status is None:
            self._fail("connection", trouble or "the connection closed before a reply")
        elif self._splitter is None:
            self._end_of_body(at, clean)
        else:
            self._end_of_stream(at, trouble)
        if trace.end_ns is None:
            trace.end_ns = at
        trace.content = "".join(self._content)
        trace.reasoning = "".join(self._reasoning)
        trace.tool_calls = "".join(self._tool_calls)
        return trace

    def give_up(self, at: int, error_class: str, message: str) -> RequestTrace:
        """The request ends without its reply being whole: a timeout, or a cancellation (error_class "")."""
        trace = self.trace
        if error_class:
            self._fail(error_class, message)
        elif not self._failed:
            trace.outcome, trace.error = "cancelled", message
            self._failed = True
        return self.end(at, clean=False)

    def _fail(self, error_class: str, message: str) -> None:
        if not self._failed:
            self._failed = True
            self.trace.outcome = "failed"
            self.trace.error_class = error_class
            self.trace.error = message

    def _too_large(self) -> None:
        self._fail("malformed", f"the reply is larger than {TEXT_LIMIT // 2**20} MiB")

    def _event(self, at: int, data: bytes) -> None:
        trace = self.trace
        if trace.done or self._failed:
            return
        trace.events += 1
        if data == b"[DONE]":
            trace.done = self.complete = True
            trace.end_ns = at
            return
        if not data.strip():
            return
        if isinstance(data, ErrorEvent):
            self._fail("in_stream_error", body_error(data) or "the server sent an error event")
            return
        try:
            piece = decode(data)
        except NotJsonError as error:
            self._fail("malformed", f"an event is {error}")
            return
        if piece.error:
            self._fail("in_stream_error", error_text(piece.error))
            return
        if piece.kinds:
            self._output(at, piece)
        if piece.finish:
            trace.finish = piece.finish
            self.complete = True
        self._counts(piece)

    def _output(self, at: int, piece: Piece) -> None:
        self.chunks += 1
        size = 0
        for text, kept in (
            (piece.content, self._content),
            (piece.reasoning, self._reasoning),
            (piece.tool_calls, self._tool_calls),
        ):
            if text:
                kept.append(text)
                size += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
                self.tail = (self.tail + text)[-TAIL:]
        arrivals = self.trace.arrivals
        if arrivals.at_ns and arrivals.at_ns[-1] == at:
            arrivals.size[-1] += size
            arrivals.chunks[-1] += 1
            arrivals.kinds[-1] |= piece.kinds
        else:
            arrivals.at_ns.append(at)
            arrivals.size.append(size)
            arrivals.chunks.append(1)
            arrivals.kinds.append(piece.kinds)
            arrivals.server_ns.append((integer(piece.sim.get("sent_ns")) or 0) if piece.sim else 0)
        if len(arrivals.at_ns) == 1 and piece.usage:
            self.trace.first_tokens = integer(piece.usage.get("completion_tokens")) or None

    def _counts(self, piece: Piece) -> None:
        """Keep the last usage that says something; running usage is a running total and is never added up."""
        usage = self.trace.usage
        said = piece.usage
        if said is not None:
            completion = integer(said.get("completion_tokens"))
            self._usage_counted = self._usage_counted or bool(completion)
            if completion or usage.completion is None:
                usage.completion = completion
            prompt = integer(said.get("prompt_tokens"))
            if prompt or usage.prompt is None:
                usage.prompt = prompt
            cached = _detail(said, "prompt_tokens_details", "cached_tokens")
            if cached is not None:
                usage.cached = cached
            reasoning = _detail(said, "completion_tokens_details", "reasoning_tokens")
            if reasoning is not None:
                usage.reasoning = reasoning
        if piece.timings is not None:
            self._timings(piece.timings)
        if piece.sim is not None and "received_ns" in piece.sim:
            received = integer(piece.sim["received_ns"])
            if received is not None:
                self.trace.server_says["received_ns"] = received

    def _timings(self, timings: dict[str, Any]) -> None:
        """llama.cpp's `timings` count like usage does; prompt_n leaves out what the cache held."""
        usage = self.trace.usage
        if not self._usage_counted:
            usage.completion = integer(timings.get("predicted_n")) or usage.completion
        processed, cached = integer(timings.get("prompt_n")), integer(timings.get("cache_n"))
        if usage.prompt is None and processed is not None:
            usage.prompt = processed + (cached or 0)
        if usage.cached is None and cached is not None:
            usage.cached = cached
        for name in _SAID:
            value = timings.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                self.trace.server_says[name] = float(value)

    def _end_of_stream(self, at: int, trouble: str) -> None:
        trace, splitter = self.trace, self._splitter
        assert splitter is not None
        if not self._failed and not trace.done:
            for event in splitter.finish():
                self._event(at, event)
        if self._failed:
            return
        if not trace.events and splitter.lines > splitter.comments:
            self._fail("malformed", self._unasked() or "no event is recognised in the reply's body")
        elif not self.complete:
            after = f"after {self.chunks} chunks" if self.chunks else "before any output"
            self._fail("truncated", trouble or f"the stream ended {after}, without a finish reason or [DONE]")

    def _unasked(self) -> str:
        """Why a body can't be read, when the server packed it; compressed streams come late and in bunches."""
        if not self._encoding:
            return ""
        return f"the reply is packed ({self._encoding}), which was not asked for: turn that off in the server or proxy"

    def _end_of_body(self, at: int, clean: bool) -> None:
        trace = self.trace
        body = b"".join(self._body)
        if not self._succeeded:
            message = self._unasked() or body_error(body)
            self._fail(f"http_{trace.status}", message or "no message")
            return
        if self._failed:
            return
        if not clean:
            self._fail("truncated", "the connection closed before the reply was whole")
            return
        try:
            piece = decode(body)
        except NotJsonError as error:
            self._fail("malformed", self._unasked() or f"the reply is {error}")
            return
        if piece.error:
            self._fail("in_stream_error", error_text(piece.error))
        elif not piece.choices:
            self._fail("malformed", "the reply has no choices")
        else:
            if piece.kinds:
                self._output(at, piece)
            trace.finish = piece.finish or "none"
            self.complete = True
            self._counts(piece)


def _detail(usage: dict[str, Any], table: str, name: str) -> int | None:
    details = usage.get(table)
    return integer(details.get(name)) if isinstance(details, dict) else None
