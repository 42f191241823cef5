"""A raw TCP server on loopback that answers each request with what a test tells it to, and counts what it saw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Reply = Callable[["Seen", asyncio.StreamWriter], Awaitable[None]]

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(text: str, finish: str = "null") -> bytes:
    return chunked(
        b'data: {"choices":[{"delta":{"content":"%s"},"finish_reason":%s}]}\n\n' % (text.encode(), finish.encode())
    )


END = chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n"
WHOLE = STREAM + event("a") + event("b") + event("c", '"stop"') + END


class Seen:
    """What the server saw: heads and bodies of requests in order, connections opened and ended by the client."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.opened = 0
        self.left = 0
        self.client_left = asyncio.Event()
        self.base_url = ""


@asynccontextmanager
async def serving(reply: Reply) -> AsyncIterator[Seen]:
    """Serve until the block ends. `reply` is called once a request, after its body was read."""
    seen = Seen()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.opened += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length")
                    ),
                    0,
                )
                seen.heads.append(head)
                seen.bodies.append(await reader.readexactly(length))
                await reply(seen, writer)
                if writer.is_closing():
                    return
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            seen.left += 1
            seen.client_left.set()
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    seen.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield seen
    finally:
        server.close()
