"""The openai client's way to the socket: it builds and authenticates each request, this transport holds it at the gate.

The SDK takes about a millisecond to build a request; 64 built in a burst would start 60 ms apart. So every request of
a cell is built first and waits here, fully serialized, until the burst launches it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from workbench.measure.connection import Exchange, Origin
from workbench.measure.protocol import Connect

GATED: ContextVar[Gated] = ContextVar("gated")


class Gated:
    """A request between the client that built it and the burst that launches it."""

    def __init__(self, exchange: Exchange) -> None:
        loop = asyncio.get_running_loop()
        self.exchange = exchange
        self.built: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()


class GateTransport(httpx2.AsyncBaseTransport):
    """Serializes a built request, reports it built, and answers when its exchange has ended."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        gated = GATED.get()
        gated.exchange.payload = serialize(request)
        gated.built.set_result(None)
        await gated.ended
        # What came back has been read and stamped already; the client gets an empty reply of the same status.
        return httpx2.Response(gated.exchange.reader.trace.status or 200, request=request)


_LEFT_OUT = (b"connection", b"content-length", b"host", b"transfer-encoding")


def serialize(request: httpx2.Request) -> bytes:
    """The request as HTTP/1.1 bytes, head and body in one piece."""
    url = request.url
    body = request.content
    head = [f"{request.method} {url.raw_path.decode('ascii')} HTTP/1.1".encode("ascii"), b"Host: " + url.netloc]
    for name, value in request.headers.raw:
        if name.lower() not in _LEFT_OUT:
            head.append(name + b": " + value)
    head.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(head) + b"\r\n\r\n" + body


class Client:
    """The openai client for one server, with every nicety that would spoil a measurement turned off."""

    def __init__(self, connect: Connect) -> None:
        self._sdk = openai.AsyncOpenAI(
            base_url=connect.base_url,
            # Servers that need no key still get a header: the SDK refuses to work without one.
            api_key=connect.key or "none",
            max_retries=0,
            timeout=None,
            http_client=httpx2.AsyncClient(
                transport=GateTransport(), follow_redirects=False, trust_env=False, timeout=None
            ),
        )
        self.origin = origin_of(connect.base_url)
        self.tls = tls_context(connect.ca_file) if self.origin.scheme == "https" else None

    async def send(self, exchange: Exchange, body: dict[str, Any], on_built: Callable[[Gated], None]) -> None:
        """Build a chat completion and hold it at the gate; returns when its exchange has ended.

        Errors the SDK makes of the outcome are dropped: the trace holds the outcome itself. An error in building (a
        body that can't be encoded) is raised.
        """
        gated = Gated(exchange)
        gated.built.add_done_callback(lambda _: on_built(gated))
        GATED.set(gated)
        known = {key: body[key] for key in ("model", "messages", "stream") if key in body}
        rest = {key: value for key, value in body.items() if key not in known}
        try:
            async with self._sdk.chat.completions.with_streaming_response.create(
                **known, extra_body=rest, extra_headers={"Accept-Encoding": "identity"}
            ):
                pass
        except openai.APIStatusError:
            pass
        except openai.APIConnectionError:
            if not gated.built.done():
                raise


def origin_of(base_url: str) -> Origin:
    """Scheme, host and port of a base URL. Raises ValueError when it has no host or an unknown scheme."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{base_url!r} is no http(s) address")
    return Origin(parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))


def tls_context(ca_file: str) -> ssl.SSLContext:
    """Verify against the system's authorities, and a private one when given. Raises OSError or ssl.SSLError."""
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(cafile=ca_file)
    return context
