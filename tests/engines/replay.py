"""A small HTTP server that answers each path with given bytes: captured ones of a real engine, or a stand-in's.

Real sockets, real HTTP; only the engine behind them is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from workbench.engines.http import Http, parse_url

WIRE = Path(__file__).parent.parent / "wire"

Answer = bytes | Any
"""Raw bytes of a whole HTTP response, or a JSON value that is answered with 200."""


def captured(engine: str, name: str) -> bytes:
    """The response in a captured file (`curl -i` output), without the lines that were noted around it."""
    data = (WIRE / engine / f"{name}.txt").read_bytes()
    while data.startswith(b"# ") and not data.startswith((b"# HELP", b"# TYPE")):
        data = data.partition(b"\n")[2]
    data = re.sub(rb"\n#curl: [^\n]*\n?\Z", b"", data)
    if not data.startswith(b"HTTP/"):
        kind = b"application/json" if data[:1] in b"[{" else b"text/plain"
        return response(data, kind=kind.decode())
    # curl has already put the chunks together: the body ends with the connection.
    head, blank, body = data.partition(b"\r\n\r\n")
    head = re.sub(rb"(?i)\r\ntransfer-encoding:[^\r\n]*", b"", head)
    return head + blank + body


def response(body: bytes, status: int = 200, kind: str = "text/plain", **headers: str) -> bytes:
    """A whole HTTP response."""
    lines = [f"HTTP/1.1 {status} -", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def wire(engine: str) -> dict[str, Answer]:
    """All routes captured of an engine, by "GET /path" or "POST /path"."""
    routes: dict[str, Answer] = {}
    for file in sorted((WIRE / engine).glob("*.txt")):
        first = file.read_bytes().partition(b"\n")[0].decode()
        asked = re.match(r"# (GET|POST) (/\S*)", first)
        if asked and not file.stem.endswith("_after") and (file.stem.startswith("get_") or file.stem in ROUTES):
            routes[f"{asked.group(1)} {asked.group(2)}"] = captured(engine, file.stem)
    return routes


ROUTES = ("tokenize", "wrong_method", "root")


class Replay:
    """A listening replay server. `asked` holds every request: "METHOD /path", its headers and its body."""

    def __init__(self, routes: Mapping[str, Answer], missing: bytes) -> None:
        self.routes = dict(routes)
        self.missing = missing
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def http(self, **options: Any) -> Http:
        return Http(parse_url(self.url), **options)

    def bodies(self, asked: str) -> list[Any]:
        return [body for name, _, body in self.asked if name == asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *rest = head.split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (item.partition(":") for item in rest if item)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, _ = line.split(" ")
            asked = f"{method} {path}"
            self.asked.append((asked, headers, json.loads(body) if body else None))
            answer = self.routes.get(asked, self.missing)
            if callable(answer):
                answer = answer(headers, json.loads(body) if body else None)
            if not isinstance(answer, bytes):
                answer = response(json.dumps(answer).encode(), kind="application/json")
            writer.write(answer)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def replaying(
    routes: Mapping[str, Answer], missing: bytes = b"", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Replay]:
    """Serve the routes on a free loopback port; anything else is answered with `missing`, a plain 404 unless given."""
    replay = Replay(routes, missing or response(b'{"detail":"Not Found"}', 404, "application/json"))
    server = await asyncio.start_server(replay.serve, "127.0.0.1", 0, ssl=tls)
    replay.port = server.sockets[0].getsockname()[1]
    try:
        yield replay
    finally:
        server.close()
        await server.wait_closed()
