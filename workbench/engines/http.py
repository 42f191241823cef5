"""A small HTTP client for facts: never for measuring, never in a worker.

One request a connection, HTTP/1.1, no redirects followed, no proxy asked, bodies cut off at a limit, and one deadline
over the whole exchange, so that a server which hangs, drips headers or feeds endless bytes costs a stated time and no
more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from typing import Any, Literal
from urllib.parse import urlsplit

import httptools
import msgspec

from workbench import __version__
from workbench.domain.text import one_line

Kind = Literal[
    "bad url",
    "no such host",
    "refused",
    "unreachable",
    "timeout",
    "tls",
    "not http",
    "too long",
    "broken",
    "key",
    "loading",
    "not an llm server",
]

LIMIT = 4 << 20
"""Bytes of a body that are read by default; a server's metrics page is about 60 KB."""


class HttpTrouble(Exception):
    """A question a server did not answer. `sentence` is one line for a person; `kind` is for programs."""

    def __init__(self, kind: Kind, sentence: str) -> None:
        super().__init__(sentence)
        self.kind: Kind = kind
        self.sentence = sentence


class Reply(msgspec.Struct, frozen=True):
    """A server's answer: status, headers (names in lower case, the last of a name wins) and the body's bytes."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text, undecodable bytes replaced."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body's JSON value; None when it isn't JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Address(msgspec.Struct, frozen=True):
    """A server's address. `root` is where its own routes hang, `api` what an OpenAI client takes as its base URL.

    Neither ends in a slash; user info, query and fragment of what was given are gone (none of them is ever sent).
    """

    scheme: str
    host: str
    port: int
    path: str
    version: str

    @property
    def place(self) -> str:
        """`host:port`, as a person names it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def root(self) -> str:
        standard = 443 if self.scheme == "https" else 80
        place = self.place if self.port != standard else self.place.rsplit(":", 1)[0]
        return f"{self.scheme}://{place}{self.path}"

    @property
    def api(self) -> str:
        return f"{self.root}{self.version}"


def parse_url(url: str) -> Address:
    """The address in a base URL: with or without `http://`, `/v1` and a trailing slash.

    Raises HttpTrouble ("bad url").
    """
    text = url.strip()
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise HttpTrouble("bad url", f"{_shown(text)} is not a base URL: {one_line(str(error), 80)}") from None
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https"):
        raise HttpTrouble("bad url", f"{_shown(text)} is not a base URL: write http://HOST:PORT/v1")
    path = parts.path.rstrip("/")
    if not host or any(character <= " " or character in "\x7f\\" for character in host + path):
        raise HttpTrouble("bad url", f"{_shown(text)} is not a base URL: write http://HOST:PORT/v1")
    if port is None:
        port = 443 if scheme == "https" else 80
    head, _, last = path.rpartition("/")
    if last.startswith("v") and last[1:2].isdecimal():
        return Address(scheme, host, port, head, f"/{last}")
    return Address(scheme, host, port, path, "/v1")


def _shown(url: str) -> str:
    """The URL fit for a message: no user info, no query."""
    scheme, _, rest = url.partition("://")
    rest = rest.partition("?")[0].partition("#")[0]
    place, slash, path = rest.partition("/")
    return one_line(f"{scheme}://{place.rpartition('@')[2]}{slash}{path}", 120)


class Http:
    """Asks one server for facts. Paths are below the address's root; `/v1/` means whatever version the address names.

    `key` goes out as a bearer token, on every request, when it is not empty. `ca` names a PEM file of further
    certificate authorities. `timeout` is in seconds and covers a whole exchange. Raises HttpTrouble for a key that can't
    be sent.
    """

    def __init__(self, address: Address, *, key: str = "", ca: str = "", timeout: float = 5.0) -> None:
        if not key.isascii() or not key.isprintable() or " " in key:
            raise HttpTrouble("key", "the key holds characters that no HTTP header can carry")
        self.address = address
        self.timeout = timeout
        self._key = key
        self._ca = ca

    async def get(self, path: str, *, timeout: float | None = None, limit: int = LIMIT) -> Reply:
        """GET a path below the root. Raises HttpTrouble and nothing else."""
        return await self._ask("GET", path, None, timeout, limit)

    async def post(self, path: str, body: object, *, timeout: float | None = None, limit: int = LIMIT) -> Reply:
        """POST a JSON value to a path below the root. Raises HttpTrouble and nothing else."""
        return await self._ask("POST", path, json.dumps(body).encode(), timeout, limit)

    async def get_json(self, path: str) -> Any:
        """The JSON value at a path; None when it can't be had (trouble, a status that is not 200, no JSON)."""
        try:
            reply = await self.get(path)
        except HttpTrouble:
            return None
        return reply.json() if reply.status == 200 else None

    async def post_json(self, path: str, body: object) -> Any:
        """The JSON value a POST is answered with; None when it can't be had."""
        try:
            reply = await self.post(path, body)
        except HttpTrouble:
            return None
        return reply.json() if reply.status == 200 else None

    async def _ask(self, method: str, path: str, body: bytes | None, timeout: float | None, limit: int) -> Reply:
        if path.startswith("/v1/"):
            path = self.address.version + path[3:]
        place = self.address.place
        seconds = self.timeout if timeout is None else timeout
        collector = _Collector(limit)
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await self._connect()
                try:
                    writer.write(self._request(method, path, body))
                    await writer.drain()
                    while not collector.done and (data := await reader.read(1 << 16)):
                        collector.feed(data)
                finally:
                    # Aborted, not closed: a server that never closes its side must not be waited for.
                    writer.transport.abort()
        except TimeoutError:
            raise HttpTrouble("timeout", f"{place} gave no whole answer within {seconds:g} s") from None
        except httptools.HttpParserError:
            raise HttpTrouble("not http", f"{place} answers, but doesn't speak HTTP") from None
        except ssl.SSLCertVerificationError as error:
            why = one_line(error.verify_message, 80)
            raise HttpTrouble("tls", f"{place}: its certificate isn't trusted: {why}; --ca FILE adds one") from None
        except ssl.SSLError as error:
            why = one_line(error.reason or str(error), 80)
            raise HttpTrouble("tls", f"{place}: no TLS connection: {why}") from None
        except OSError as error:
            raise HttpTrouble("broken", f"{place} broke the connection: {_reason(error)}") from None
        if not collector.whole:
            raise HttpTrouble("broken", f"{place} closed the connection before its answer was whole")
        if collector.too_long:
            raise HttpTrouble("too long", f"{place} sent more than {limit} bytes as answer to {method} {path}")
        return Reply(collector.status, collector.headers, bytes(collector.body))

    def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        address = self.address
        lines = [
            f"{method} {address.path}{path} HTTP/1.1",
            f"Host: {address.place}",
            f"User-Agent: inference-workbench/{__version__}",
            "Accept: */*",
            "Accept-Encoding: identity",
            "Connection: close",
        ]
        if self._key:
            lines.append(f"Authorization: Bearer {self._key}")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + (body or b"")

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self.address
        context = self._tls() if address.scheme == "https" else None
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise HttpTrouble("no such host", f"no such host: {one_line(address.host, 80)}") from None
        trouble = HttpTrouble("no such host", f"no such host: {one_line(address.host, 80)}")
        for _, _, _, _, place in found:
            try:
                return await asyncio.open_connection(
                    str(place[0]), address.port, ssl=context, server_hostname=address.host if context else None
                )
            except ConnectionRefusedError:
                trouble = HttpTrouble("refused", f"nothing listens at {address.place}")
            except ssl.SSLError:
                raise
            except OSError as error:
                trouble = HttpTrouble("unreachable", f"{address.place} can't be reached: {_reason(error)}")
        raise trouble

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self._ca:
            try:
                context.load_verify_locations(self._ca)
            except (OSError, ssl.SSLError) as error:
                why = _reason(error) if not isinstance(error, ssl.SSLError) else "it holds no certificate"
                raise HttpTrouble("tls", f"--ca {one_line(self._ca, 80)} can't be used: {why}") from None
        return context


def _reason(error: OSError) -> str:
    return one_line(error.strerror or type(error).__name__, 80).lower()


class _Collector:
    """Callbacks of the parser, and what they gathered."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.too_long = False
        self._complete = False
        self._heading = 0
        self._parser = httptools.HttpResponseParser(self)

    @property
    def done(self) -> bool:
        return self._complete or self.too_long

    @property
    def whole(self) -> bool:
        """Was all of the answer read that there is (or that the limit allows)? A body without a stated length ends with
        the connection."""
        delimited = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        return self.done or (self.status > 0 and not delimited)

    def feed(self, data: bytes) -> None:
        if not self.status:
            self._heading += len(data)
            if self._heading > self.limit:
                self.too_long = True
                return
        with contextlib.suppress(httptools.HttpParserUpgrade):
            self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        room = self.limit - len(self.body)
        self.body += data[:room]
        self.too_long = self.too_long or len(data) > room

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self._complete = True
        else:
            # An interim answer (100, 103): the real one follows.
            self.status = 0
            self.headers.clear()
