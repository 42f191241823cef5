"""Which engine answers at a base URL, and the server as one thing to ask."""

from __future__ import annotations

import asyncio

from workbench.domain.facts import Facts
from workbench.domain.text import one_line
from workbench.engines.base import Counters, Engine, Evidence, ModelEntry, Probe
from workbench.engines.generic import OpenAICompatible, Simulator
from workbench.engines.http import Address, Http, HttpTrouble, Reply, parse_url
from workbench.engines.llamacpp import LlamaCpp
from workbench.engines.llamacpp_python import LlamaCppPython
from workbench.engines.lmstudio import LMStudio
from workbench.engines.ollama import Ollama
from workbench.engines.process import LocalServer, find_server
from workbench.engines.sglang import SGLang
from workbench.engines.tgi import TGI
from workbench.engines.transformers_serve import TransformersServe
from workbench.engines.vllm import VLLM

ENGINES: tuple[Engine, ...] = (
    Ollama(),
    VLLM(),
    LlamaCpp(),
    SGLang(),
    LMStudio(),
    TGI(),
    TransformersServe(),
    LlamaCppPython(),
    Simulator(),
    OpenAICompatible(),
)
"""All engines known, the plainest last. A new one is a file and a line here."""


class Server:
    """A recognised server. Its methods ask it; what they raise and return is said at `Engine`'s methods of that name."""

    def __init__(self, http: Http, engine: Engine, evidence: str) -> None:
        self.http = http
        self.engine = engine
        self.evidence = evidence

    @property
    def address(self) -> Address:
        return self.http.address

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes, `http://HOST:PORT/v1`: no user info, no query; fit for a record."""
        return self.address.api

    async def local(self) -> LocalServer | None:
        """The server's process, when it runs on this machine and may be seen."""
        engine = self.engine
        return await find_server(self.address.host, self.address.port, engine.command_marks, engine.settings_read)

    async def facts(self, model: str) -> Facts:
        return await self.engine.facts(self.http, model, await self.local())

    async def models(self) -> list[ModelEntry]:
        return await self.engine.models(self.http)

    async def quants(self, model: str) -> list[ModelEntry]:
        return await self.engine.quants(self.http, model)

    async def counters(self) -> Counters | None:
        return await self.engine.counters(self.http)

    async def tokenize(self, model: str, text: str) -> int | None:
        return await self.engine.tokenize(self.http, model, text)

    async def reset_cache(self) -> bool | None:
        return await self.engine.reset_cache(self.http)

    async def keep_alive(self, model: str, seconds: float) -> bool | None:
        return await self.engine.keep_alive(self.http, model, seconds)

    async def unload(self, model: str) -> bool | None:
        return await self.engine.unload(self.http, model)

    async def ready(self) -> bool:
        return await self.engine.ready(self.http)


def engine_named(name: str) -> Engine | None:
    """The engine of that name (as facts and records write it); None when there is none."""
    return next((engine for engine in ENGINES if engine.name == name), None)


async def recognise(url: str, *, key: str = "", ca: str = "", timeout: float = 5.0) -> Server:
    """The server at a base URL, with or without `/v1`. `timeout` is in seconds, for each of two rounds of questions.

    Raises HttpTrouble: nothing listens, no HTTP, not an LLM server, the key refused, ...
    """
    http = Http(parse_url(url), key=key, ca=ca, timeout=timeout)
    probe = Probe(http)
    first = await probe.get("/v1/models")
    if isinstance(first, HttpTrouble):
        # No connection, no HTTP, no answer in time or no end of it: more questions would cost as much again.
        raise first
    found = await asyncio.gather(*(engine.recognise(probe) for engine in ENGINES))
    best: tuple[Engine, Evidence] | None = None
    for engine, evidence in zip(ENGINES, found, strict=True):
        if evidence is not None and (best is None or evidence.weight > best[1].weight):
            best = engine, evidence
    asked = first.status
    if best is not None and best[0].name == "llama.cpp":
        # It lists its models to anyone and guards the rest.
        asked = await probe.status("/props")
    if asked in (401, 403):
        raise HttpTrouble("key", _key_sentence(http, key, asked))
    if best is None:
        raise HttpTrouble("not an llm server", await _other_sentence(http, probe, first))
    return Server(http, best[0], best[1].text)


def _key_sentence(http: Http, key: str, status: int) -> str:
    place = http.address.place
    if key:
        return f"{place} refuses the key (HTTP {status})"
    return f"{place} asks for a key (HTTP {status}): give one in the environment or a key file"


async def _other_sentence(http: Http, probe: Probe, first: Reply) -> str:
    """What answers there, as far as it says."""
    if 300 <= first.status < 400:
        where = _shown(first.headers.get("location", ""))
        return f"{http.address.place} redirects to {where}: give that address instead"
    front = await probe.get("/")
    server = one_line((front if isinstance(front, Reply) else first).headers.get("server", ""), 40)
    who = f"{server!r}, " if server else ""
    return f"{http.address.place} answers, but isn't an LLM server: {who}HTTP {first.status} at /v1/models"


def _shown(location: str) -> str:
    try:
        return (
            parse_url(location).root if "://" in location else one_line(location.partition("?")[0], 80) or "elsewhere"
        )
    except HttpTrouble:
        return "elsewhere"


async def check_model(server: Server, model: str) -> str:
    """One sentence when the server can't serve `model`; "" when it can, or when only a request would tell."""
    try:
        entries = await server.models()
    except HttpTrouble as trouble:
        return trouble.sentence if trouble.kind == "key" else ""
    if any(server.engine.same_model(model, entry.id) for entry in entries) or not server.engine.lists_all:
        return ""
    if not entries:
        return f"no such model: {one_line(model, 80)}; {server.address.place} has none"
    named = [one_line(entry.id, 80) for entry in entries]
    shown = ", ".join(named[:8]) + (f" and {len(named) - 8} more" if len(named) > 8 else "")
    return f"no such model: {one_line(model, 80)}; it has: {shown}"
