"""A small HTTP/1.1 client on a raw socket, so that the simulator's bytes are judged by nothing of our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from workbench.simulator.options import SimOptions
from workbench.simulator.server import serve


@asynccontextmanager
async def simulator(**options: Any) -> AsyncIterator[str]:
    """A simulator in this loop; its base URL."""
    serving = await serve(SimOptions(**options))
    try:
        yield serving.base_url
    finally:
        await serving.close()


class Reply:
    """An answer read whole: status, headers (lower-case names), and body without its framing."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON events of a stream; that it ends in [DONE] is asserted."""
        parts = self.body.decode().split("\n\n")
        assert parts[-2:] == ["data: [DONE]", ""]
        return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]

    @property
    def text(self) -> str:
        """The output of a chat stream."""
        return "".join(event["choices"][0]["delta"].get("content", "") for event in self.events if event["choices"])

    @property
    def stamps(self) -> list[dict[str, int]]:
        """The stamp of each step of a stream, in order."""
        by_due = {event["sim"]["due_ns"]: event["sim"] for event in self.events}
        return [by_due[due] for due in sorted(by_due)]


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, base_url: str) -> Self:
        host, port = base_url.removeprefix("http://").removesuffix("/v1").rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def send(self, path: str, body: Any = None, method: str = "", extra: str = "") -> None:
        self.writer.write(request(path, body, method, extra))

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read up to the end of the next answer's head."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split(" ")[1]), {name.lower(): value for name, value in fields.items()}

    async def chunk(self) -> bytes:
        """Read one chunk of a chunked body; b"" is its end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def read(self, method: str = "") -> Reply:
        """Read the next answer whole."""
        status, headers = await self.head()
        body = b""
        if headers.get("transfer-encoding") == "chunked":
            while chunk := await self.chunk():
                body += chunk
        elif "content-length" not in headers:
            body = await self.reader.read()
        elif method != "HEAD":
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Reply(status, headers, body)


def request(path: str, body: Any = None, method: str = "", extra: str = "") -> bytes:
    """The bytes of a request: POST when there is a body (bytes, or a value to send as JSON), else GET."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    length = f"Content-Length: {len(content)}\r\n" if body is not None else ""
    verb = method or ("GET" if body is None else "POST")
    return f"{verb} {path} HTTP/1.1\r\nHost: test\r\n{length}{extra}\r\n".encode() + content


def chat(prompt: str = "hello", stream: bool = True, **fields: Any) -> dict[str, Any]:
    """A chat request's body, usage asked for."""
    options = {"stream_options": {"include_usage": True}} if stream else {}
    return {"messages": [{"role": "user", "content": prompt}], "stream": stream, **options, **fields}


async def ask(base_url: str, path: str, body: Any = None, method: str = "") -> Reply:
    """One request on a connection of its own."""
    async with await Wire.open(base_url) as wire:
        wire.send(path, body, method)
        return await wire.read(method)


async def say(base_url: str, prompt: str = "hello", **fields: Any) -> Reply:
    """One chat request on a connection of its own."""
    return await ask(base_url, "/v1/chat/completions", chat(prompt, **fields))


async def counters(base_url: str) -> dict[str, int]:
    """The figures of /metrics, without their common prefix."""
    lines = (await ask(base_url, "/metrics")).body.decode().splitlines()
    figures = dict(line.split(" ") for line in lines if not line.startswith("#"))
    return {name.removeprefix("workbench_sim_"): int(value) for name, value in figures.items()}
