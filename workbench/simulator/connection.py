"""HTTP/1.1 on one connection: parses requests, keeps their order, frames the answers. Knows nothing of models."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NamedTuple, Protocol

import httptools

from workbench import __version__

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 16 * 1024 * 1024
PIPELINE_LIMIT = 32
LINGER_S = 2.0
"""How long a refused client may take to read why, before the connection is closed on it."""

_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    404: b"Not Found",
    405: b"Method Not Allowed",
    413: b"Content Too Large",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
}
_SERVER = f"Server: workbench-sim/{__version__}\r\n".encode()


class Request(NamedTuple):
    """A whole request. `received_ns`: when its last byte was read; `turn_ns`: the same, or later for a pipelined
    request whose predecessor was still being answered (perf_counter_ns)."""

    method: str
    path: str
    body: bytes
    received_ns: int
    turn_ns: int
    keep_alive: bool
    http_1_0: bool
    fault: tuple[int, str] | None = None


class Handler(Protocol):
    """What a connection calls."""

    def opened(self, connection: Connection) -> None:
        """A client has connected."""

    def received(self, connection: Connection, request: Request) -> None:
        """Answer this request by `answer`, or by `begin` and `write`, at any later time."""

    def refused(self, connection: Connection, status: int, message: str) -> None:
        """Answer bytes that are no acceptable request by `answer`; the connection closes after it."""

    def closed(self, connection: Connection) -> None:
        """The client has gone; nothing more can be sent."""


class Connection(asyncio.Protocol):
    """One client. Pipelined requests are answered one after the other, in their order."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._read_ns = 0
        self._in_head = True
        self._head_bytes = 0
        self._url = b""
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._fault: tuple[int, str] | None = None
        self._deaf = False
        self._current: Request | None = None
        self._queued: deque[Request] = deque()
        self._chunked = True

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._handler.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._queued.clear()
        self._current = None
        self._handler.closed(self)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._read_ns = time.perf_counter_ns()
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fault = (400, "protocol upgrades are not supported")
        except httptools.HttpParserError as error:
            self._fault = self._fault or (400, f"malformed HTTP request: {error}")
        if self._in_head and self._head_bytes > HEAD_LIMIT:
            self._fault = (431, f"request head over {HEAD_LIMIT} bytes")
        if self._fault is not None:
            self._deaf = True
            self._enqueue(self._request(self._fault))

    # --- httptools

    def on_message_begin(self) -> None:
        self._url = b""
        self._body.clear()
        self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"expect" and value.lower() == b"100-continue" and self._current is None:
            assert self._transport is not None
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > BODY_LIMIT:
            self._fault = (413, f"request body over {BODY_LIMIT} bytes")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        if self._fault is None and not self._parser.should_upgrade():
            self._enqueue(self._request(None))

    # --- requests in their order

    def _request(self, fault: tuple[int, str] | None) -> Request:
        if fault is not None:
            return Request("", "", b"", self._read_ns, self._read_ns, False, False, fault)
        http_1_0 = self._parser.get_http_version() == "1.0"
        return Request(
            method=self._parser.get_method().decode("ascii"),
            path=self._url.partition(b"?")[0].decode("latin-1"),
            body=b"".join(self._body),
            received_ns=self._read_ns,
            turn_ns=self._read_ns,
            keep_alive=self._parser.should_keep_alive() and not http_1_0,
            http_1_0=http_1_0,
        )

    def _enqueue(self, request: Request) -> None:
        if self._current is not None:
            self._queued.append(request)
            if len(self._queued) == PIPELINE_LIMIT and self._transport is not None:
                self._transport.pause_reading()
            return
        self._turn_to(request)

    def _turn_to(self, request: Request) -> None:
        self._current = request
        if request.fault is not None:
            self._handler.refused(self, *request.fault)
        else:
            self._handler.received(self, request)

    def _answered(self) -> None:
        request = self._current
        self._current = None
        assert self._transport is not None
        if request is None or not request.keep_alive:
            self._close_after(request)
        elif self._queued:
            following = self._queued.popleft()
            if len(self._queued) < PIPELINE_LIMIT:
                self._transport.resume_reading()
            self._turn_to(following._replace(turn_ns=time.perf_counter_ns()))

    def _close_after(self, request: Request | None) -> None:
        assert self._transport is not None
        self._deaf = True
        if request is None or request.fault is None:
            self._transport.close()
            return
        # Closing while unread bytes lie in the socket sends a reset, which can take the answer away from the client.
        if self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    # --- answers

    def answer(self, status: int, body: bytes, content_type: str = "application/json", allow: str = "") -> None:
        """Send a whole answer to the current request."""
        request, transport = self._current, self._transport
        if request is None or transport is None:
            return
        head = self._head(status, content_type, request.keep_alive, allow)
        content = b"" if request.method == "HEAD" else body
        transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), content))
        self._answered()

    def begin(self, content_type: str) -> None:
        """Send the head of an answer whose body follows by `write`."""
        request, transport = self._current, self._transport
        if request is None or transport is None:
            return
        self._chunked = not request.http_1_0
        framing = b"Transfer-Encoding: chunked\r\n\r\n" if self._chunked else b"\r\n"
        transport.write(self._head(200, content_type, request.keep_alive) + b"Cache-Control: no-cache\r\n" + framing)

    def write(self, data: bytes, last: bool) -> None:
        """Send a piece of the body that `begin` began; `data` is not empty."""
        transport = self._transport
        if transport is None:
            return
        if self._chunked:
            data = (b"%x\r\n%b\r\n0\r\n\r\n" if last else b"%x\r\n%b\r\n") % (len(data), data)
        transport.write(data)
        if last:
            self._answered()

    def close(self) -> None:
        """Close at once, whatever was under way."""
        if self._transport is not None:
            self._transport.abort()

    @staticmethod
    def _head(status: int, content_type: str, keep_alive: bool, allow: str = "") -> bytes:
        lines = b"HTTP/1.1 %d %b\r\n%bContent-Type: %b\r\n" % (
            status,
            _REASONS[status],
            _SERVER,
            content_type.encode("ascii"),
        )
        if allow:
            lines += b"Allow: %b\r\n" % allow.encode("ascii")
        if not keep_alive:
            lines += b"Connection: close\r\n"
        return lines
