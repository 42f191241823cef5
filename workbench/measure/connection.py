"""HTTP/1.1 connections of our own: the request is written whole, and every read is stamped before anything is parsed.

A read only notes its stamp and its bytes; parsing happens right after all reads of that turn of the loop have been
stamped, so that 64 streams arriving together don't wait for each other's JSON.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns

import httptools
import msgspec

from workbench.measure.reply import ReplyReader

PREMATURE_NS = 50_000_000
"""A kept connection that closes without a byte within this time of a send had been closed by the server while idle."""


class Origin(msgspec.Struct, frozen=True):
    """Where connections lead: scheme, host and port."""

    scheme: str
    host: str
    port: int


class Exchange:
    """One request and its reply on a connection.

    `payload` is the whole request, head and body, built beforehand. `on_end` is called once when it is over; and once
    before, with `over` false, when the kept connection it was written to had been closed and it must be sent again.
    """

    __slots__ = (
        "connection",
        "launched_ns",
        "on_end",
        "over",
        "payload",
        "reader",
        "replaced",
    )

    def __init__(self, reader: ReplyReader) -> None:
        self.reader = reader
        self.payload = b""
        self.connection: Connection | None = None
        self.launched_ns = 0
        self.over = False
        self.replaced = False
        self.on_end: Callable[[Exchange], None] = _nothing

    def finish(self) -> None:
        if not self.over:
            self.over = True
            self.on_end(self)


def _nothing(exchange: Exchange) -> None:
    """The callback of an exchange nobody listens to."""


class Drain:
    """Parses stamped reads once the loop has stamped all that were ready in its turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Connection] = deque()

    def add(self, connection: Connection) -> None:
        if not self._waiting:
            self._loop.call_soon(self._run)
        self._waiting.append(connection)

    def _run(self) -> None:
        while self._waiting:
            connection = self._waiting.popleft()
            try:
                connection.parse()
            except Exception as error:  # One reply that can't be read must not stop the reading of all others.
                connection.fail(f"the reply can't be read: {type(error).__name__}: {error}")


class Connection(asyncio.Protocol):
    """One kept connection; it carries one exchange at a time. httptools calls its on_* methods."""

    def __init__(
        self, drain: Drain, on_idle: Callable[[Connection], None], on_lost: Callable[[Connection], None]
    ) -> None:
        self._drain = drain
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._reads: list[tuple[int, bytes]] = []
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._headers: dict[str, str] = {}
        self._status = 0
        self._now = 0
        self._exchange: Exchange | None = None
        self._sending_since: int | None = None
        self._used = False
        self._complete = False
        self._keep = False
        self.closed = False

    @property
    def idle(self) -> bool:
        return self._exchange is None and not self.closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # With both limits at 0 the transport tells when the last byte has gone to the socket.
        transport.set_write_buffer_limits(high=0, low=0)

    def send(self, exchange: Exchange) -> None:
        """Write the whole request now. The send stamp is taken once its last byte has been handed to the socket."""
        assert self._transport is not None
        self._exchange = exchange
        exchange.connection = self
        self._parser = httptools.HttpResponseParser(self)
        self._headers = {}
        self._status = 0
        self._sending_since = perf_counter_ns()
        self._transport.write(exchange.payload)
        if self._transport.get_write_buffer_size() == 0:
            self._sent()

    def resume_writing(self) -> None:
        if self._sending_since is not None:
            self._sent()

    def _sent(self) -> None:
        now = perf_counter_ns()
        exchange = self._exchange
        if exchange is not None and self._sending_since is not None:
            trace = exchange.reader.trace
            trace.sent_ns = now
            trace.upload_ns = now - self._sending_since
        self._sending_since = None

    def data_received(self, data: bytes) -> None:
        self._reads.append((perf_counter_ns(), data))
        if len(self._reads) == 1:
            self._drain.add(self)

    def parse(self) -> None:
        """Parse the reads stamped so far."""
        reads, self._reads = self._reads, []
        for number, (stamp, data) in enumerate(reads, 1):
            exchange = self._exchange
            if exchange is None or self._parser is None:
                # Bytes nobody asked for (or after a finished reply): this connection can't be trusted any more.
                self.close()
                return
            trace = exchange.reader.trace
            if trace.first_byte_ns is None:
                trace.first_byte_ns = stamp
                if trace.sent_ns is None:
                    # The server answered before it had read the whole request: the clock can't start after its answer.
                    self._sent()
                    trace.sent_ns = min(trace.sent_ns or stamp, stamp)
            self._now = stamp
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade:
                self._give_up("malformed", "the server answered with a protocol upgrade")
            except httptools.HttpParserError as error:
                # An error raised inside one of our callbacks arrives wrapped: it is a defect of ours, not the server's.
                if isinstance(error.__context__, Exception) and not isinstance(
                    error.__context__, httptools.HttpParserError
                ):
                    raise error.__context__ from None
                self._give_up("malformed", f"not HTTP: {error}")
            if self._complete:
                self._end_of_message(number == len(reads))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.parse()
        self.closed = True
        now = perf_counter_ns()
        exchange, self._exchange = self._exchange, None
        self._on_lost(self)
        if exchange is None or exchange.over:
            return
        trace = exchange.reader.trace
        idle_close = self._used and trace.first_byte_ns is None and now - exchange.launched_ns < PREMATURE_NS
        if idle_close and not exchange.replaced:
            exchange.replaced = True
            exchange.connection = None
            trace.sent_ns = trace.upload_ns = None
            exchange.on_end(exchange)
            return
        reason = "reset" if isinstance(exc, ConnectionResetError) else "closed"
        if trace.status is None:
            exchange.reader.end(now, clean=False, trouble=f"the connection was {reason} before a reply")
        else:
            clean = exc is None and self._ends_with_connection()
            after = f"the connection was {reason} after {exchange.reader.chunks} chunks"
            exchange.reader.end(now, clean=clean, trouble=after)
        exchange.finish()

    def _ends_with_connection(self) -> bool:
        """Whether the body's end is the connection's (neither a length nor chunks)."""
        return "content-length" not in self._headers and "chunked" not in self._headers.get("transfer-encoding", "")

    def _give_up(self, error_class: str, message: str) -> None:
        exchange, self._exchange = self._exchange, None
        self.close()
        if exchange is not None and not exchange.over:
            exchange.reader.give_up(self._now, error_class, message)
            exchange.finish()

    def fail(self, message: str) -> None:
        """End the exchange as malformed and close: its reply met an error of our own."""
        self._give_up("malformed", message)

    def release(self) -> None:
        """Let go of the exchange (it ended by itself, or was given up) and close: its reply is not whole."""
        self._exchange = None
        self.close()

    def close(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._status = self._parser.get_status_code()
        if self._status >= 200 and self._exchange is not None:
            self._exchange.reader.headers(self._status, self._headers)

    def on_body(self, body: bytes) -> None:
        exchange = self._exchange
        if exchange is not None:
            exchange.reader.feed(self._now, body)

    def on_message_complete(self) -> None:
        if self._status < 200:
            # 100 Continue and its like: the answer proper follows.
            self._headers = {}
        else:
            assert self._parser is not None
            # Only here does the parser still know how the message was framed.
            self._keep = self._parser.should_keep_alive()
            self._complete = True

    def _end_of_message(self, nothing_left: bool) -> None:
        """The reply is whole; the connection can carry another when nothing follows it."""
        exchange, self._exchange = self._exchange, None
        self._complete = False
        self._used = True
        if nothing_left and self._keep and not self.closed:
            self._on_idle(self)
        else:
            self.close()
        if exchange is not None and not exchange.over:
            exchange.reader.end(self._now)
            exchange.finish()


class Pool:
    """Idle connections to one origin; no cap, no retries, no proxy, no redirects."""

    def __init__(self, origin: Origin, context: ssl.SSLContext | None, connect_timeout: float) -> None:
        self._origin = origin
        self._context = context
        self._timeout = connect_timeout
        self._loop = asyncio.get_running_loop()
        self._drain = Drain(self._loop)
        self._idle: deque[Connection] = deque()
        self._all: set[Connection] = set()

    def take(self) -> Connection | None:
        """An idle connection that is still open, or None."""
        while self._idle:
            connection = self._idle.popleft()
            if connection.idle:
                return connection
        return None

    def give_back(self, connection: Connection) -> None:
        """Keep a connection that was opened but not needed."""
        self._idle.append(connection)

    async def open(self) -> Connection:
        """A new connection. Raises OSError or TimeoutError."""
        origin = self._origin
        async with asyncio.timeout(self._timeout):
            _, connection = await self._loop.create_connection(
                lambda: Connection(self._drain, self._idle.append, self._all.discard),
                origin.host,
                origin.port,
                ssl=self._context,
                happy_eyeballs_delay=0.25,
            )
        self._all.add(connection)
        return connection

    async def open_ahead(self, count: int) -> None:
        """Have `count` idle connections ready; those that can't be opened are left to the requests to report."""
        missing = count - sum(connection.idle for connection in self._idle)
        if missing > 0:
            opened = await asyncio.gather(*(self.open() for _ in range(missing)), return_exceptions=True)
            self._idle.extend(item for item in opened if isinstance(item, Connection))

    def close(self) -> None:
        for connection in list(self._all):
            connection.close()
        self._idle.clear()
