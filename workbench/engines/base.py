"""What an engine's file provides: how it is recognised, its facts, models, quants and counters, its cache and readiness.

Each engine is one file with one subclass of `Engine`; what it can't do it leaves as it is here, which says so by None.
Only questions are asked: nothing here starts, loads or changes anything, but `keep_alive`, `unload` and `reset_cache`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

from workbench.domain.facts import DECLARED, FROM_THE_NAME, Facts, Value
from workbench.domain.text import one_line
from workbench.domain.variables import Setting
from workbench.engines.http import Http, HttpTrouble, Reply
from workbench.engines.names import base_name, quant_in
from workbench.engines.process import LocalServer
from workbench.environment.redact import hide_home

FACT_NAMES: dict[str, str] = {
    "engine": "name it with --engine",
    "version": "ask the engine's own command for its version",
    "model": "name it with --model",
    "digest": "hash the weights file on the server's machine",
    "path": "look at how the server was started",
    "format": "look at the weights file",
    "quant": "look at the weights' file name or config, then --declare quant=...",
    "bits": "needs the size of the weights and their number of parameters",
    "parameters": "look at the model's card, then --declare parameters=...",
    "size": "look at the size of the weights file",
    "context": "look at how the server was started, then --declare context=...",
    "context_trained": "look at the model's config",
    "slots": "look at how the server was started, then --declare slots=...",
    "kv_cache_type": "look at how the server was started, then --declare kv_cache_type=...",
    "compute_type": "look at how the server was started, then --declare compute_type=...",
    "tensor_parallel": "look at how the server was started, then --declare tensor_parallel=...",
    "flash_attention": "look at how the server was started, then --declare flash_attention=...",
    "flags": "run Workbench on the server's machine: it then reads the server's command line",
    "loaded": "not served",
}
"""The facts asked of every server, with how each can be learnt where an engine's file knows no better way.

`size` is in bytes, `bits` in bits a weight, `context` in tokens of one request now, `parameters` a count.
"""


class Evidence(msgspec.Struct, frozen=True):
    """Why a server is taken for an engine. `weight` 3: its own mark; 2: fits it and nothing else known; 1: OpenAI routes."""

    weight: int
    text: str


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model a server lists. `size` is in bytes; `remote`: it runs elsewhere and may cost money; None: not told."""

    id: str
    quant: str | None = None
    size: int | None = None
    loaded: bool | None = None
    family: str = ""
    parameters: str = ""
    digest: str = ""
    remote: bool = False


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself now; None is not told. `prefix_*`, `spec_*`, `preemptions` and `*_tokens` only grow.

    `running` and `waiting` are requests, `kv_cache_use` a share (0 to 1), `prefix_queries` the prompt tokens looked up in
    the prefix cache and `prefix_hits` those found, `spec_drafted` and `spec_accepted` tokens of speculative decoding.
    """

    source: str
    running: int | None = None
    waiting: int | None = None
    kv_cache_use: float | None = None
    prefix_hits: int | None = None
    prefix_queries: int | None = None
    preemptions: int | None = None
    spec_drafted: int | None = None
    spec_accepted: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None


class Probe:
    """One server's answers, each path asked at most once, however many engines want to see it."""

    def __init__(self, http: Http) -> None:
        self.http = http
        self._asked: dict[str, asyncio.Task[Reply | HttpTrouble]] = {}

    async def get(self, path: str) -> Reply | HttpTrouble:
        """The answer to GET `path`, or the trouble."""
        if path not in self._asked:
            self._asked[path] = asyncio.ensure_future(self._ask(path))
        return await self._asked[path]

    async def status(self, path: str) -> int:
        """The status of an answer; 0 when there was trouble."""
        reply = await self.get(path)
        return reply.status if isinstance(reply, Reply) else 0

    async def header(self, path: str, name: str) -> str:
        """A header of an answer; "" when it has none."""
        reply = await self.get(path)
        return reply.headers.get(name, "") if isinstance(reply, Reply) else ""

    async def text(self, path: str) -> str:
        """The text of a 200; "" otherwise."""
        reply = await self.get(path)
        return reply.text if isinstance(reply, Reply) and reply.status == 200 else ""

    async def table(self, path: str) -> dict[str, Any]:
        """The JSON object of a 200; {} otherwise."""
        reply = await self.get(path)
        return table_of(reply.json()) if isinstance(reply, Reply) and reply.status == 200 else {}

    async def owner(self) -> str:
        """`owned_by` of the first model listed; "" when there is none."""
        listed = openai_models(await self.table("/v1/models"))
        return text_of(listed[0].get("owned_by")) or "" if listed else ""

    async def _ask(self, path: str) -> Reply | HttpTrouble:
        try:
            return await self.http.get(path)
        except HttpTrouble as trouble:
            return trouble


class Engine:
    """One kind of server. Also the plainest: what every OpenAI-compatible server can be asked."""

    name: ClassVar[str] = "openai"
    label: ClassVar[str] = "OpenAI-compatible server"
    port: ClassVar[int | None] = None
    lists_all: ClassVar[bool] = True
    """Is a model that the server doesn't list one it doesn't have?"""
    ignore_eos: ClassVar[Literal["honoured", "ignored", "refused", "not known"]] = "not known"
    """What the server does with `ignore_eos` in a request's body."""
    command_marks: ClassVar[tuple[str, ...]] = ()
    """Words, one of which the command line of such a server's process holds."""
    settings_read: ClassVar[tuple[str, ...]] = ()
    """Environment variables of a local server's process that are read. None of them is a secret."""

    async def recognise(self, probe: Probe) -> Evidence | None:
        """Is this server one of these? The evidence, or None."""
        if openai_models(await probe.table("/v1/models")):
            return Evidence(1, "GET /v1/models lists models")
        # The route may list nothing, fail (an offline server that wants to look online), or ask for a key.
        if await probe.status("/v1/chat/completions") == 405:
            return Evidence(1, "/v1/chat/completions is there, for POST")
        if "data" in await probe.table("/v1/models"):
            return Evidence(1, "GET /v1/models answers with a list")
        return None

    async def models(self, http: Http) -> list[ModelEntry]:
        """The models the server lists. Raises HttpTrouble when it doesn't."""
        reply = await http.get("/v1/models")
        if reply.status in (401, 403):
            raise HttpTrouble("key", f"{http.address.place} refuses the key (HTTP {reply.status})")
        if reply.status == 503:
            raise HttpTrouble("loading", f"{http.address.place} is still loading its model")
        table = table_of(reply.json())
        if reply.status != 200 or "data" not in table:
            raise HttpTrouble(
                "broken", f"{http.address.place} doesn't list its models (HTTP {reply.status}): name one with --model"
            )
        return [self.entry(item) for item in openai_models(table)]

    def entry(self, item: Mapping[str, Any]) -> ModelEntry:
        """One item of `/v1/models`."""
        name = text_of(item.get("id")) or ""
        return ModelEntry(id=name, quant=quant_in(name))

    def same_model(self, asked: str, listed: str) -> bool:
        """Do two names mean the same model on such a server?"""
        return asked == listed

    async def quants(self, http: Http, model: str) -> list[ModelEntry]:
        """The models on the server that are `model` in some quantization, itself included, smallest first.

        Empty when the server doesn't have `model`, or can't tell quantizations. Raises HttpTrouble.
        """
        entries = await self.models(http)
        own = next((entry for entry in entries if self.same_model(model, entry.id)), None)
        if own is None or own.quant is None:
            return []
        alike = [entry for entry in entries if entry.quant is not None and same_weights(own, entry)]
        return sorted(alike, key=lambda entry: (entry.size or 0, entry.id))

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        """What the server tells of itself and of `model`; `local` is its process when that runs on this machine.

        Every name of FACT_NAMES is in the result, known or unknown. Never raises: what fails is unknown.
        """
        facts = Facts()
        facts.set("engine", self.name, "GET /v1/models")
        facts.set("model", model, "GET /v1/models")
        return self.finished(facts, model, local)

    def finished(
        self, facts: Facts, model: str, local: LocalServer | None, hints: Mapping[str, str] | None = None
    ) -> Facts:
        """Add what only the name and the process can tell; put all the rest under unknown with a way to learn it."""
        if local is not None:
            served, source = facts.get("flags"), facts.source("flags")
            if isinstance(served, list) and local.flags:
                facts.set("flags", [*local.flags, *served], f"{local.source}; {source}")
            elif served is None:
                facts.set("flags", local.flags, local.source)
        quant = quant_in(model)
        if "quant" not in facts and quant is not None:
            facts.set("quant", quant, FROM_THE_NAME)
        named = facts.get("model")
        if isinstance(named, str):
            facts.set("model", hide_home(named), facts.source("model"))
        else:
            facts.set("model", hide_home(one_line(model)), DECLARED)
        for name, way in FACT_NAMES.items():
            if name not in facts:
                facts.set(name, None, "", (hints or {}).get(name, way))
        return facts

    async def counters(self, http: Http) -> Counters | None:
        """The server's own counters, asked without side effects; None when it serves none."""
        return None

    async def tokenize(self, http: Http, model: str, text: str) -> int | None:
        """Tokens of the bare text (no template, no special tokens), counted by the server; None when it can't."""
        return None

    async def reset_cache(self, http: Http) -> bool | None:
        """Empty the prefix cache. True: the server says it did; False: it says it did not; None: it has no such thing."""
        return None

    async def keep_alive(self, http: Http, model: str, seconds: float) -> bool | None:
        """Ask that `model` be loaded and stay so for `seconds` after its last use. None: there is no such thing."""
        return None

    async def unload(self, http: Http, model: str) -> bool | None:
        """Ask that `model` be dropped from memory. None: there is no such thing."""
        return None

    async def ready(self, http: Http) -> bool:
        """Would the server take a request now?"""
        return await self.answers(http, "/v1/models")

    async def answers(self, http: Http, path: str) -> bool:
        """Is GET `path` answered 200?"""
        try:
            return (await http.get(path)).status == 200
        except HttpTrouble:
            return False

    def extra_body(self, setting: Setting) -> dict[str, Any]:
        """Fields that such a server needs in a request's body to treat its cache as the setting says."""
        return {}


def openai_models(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of a `/v1/models` answer that have an id."""
    return [item for item in list_of(table.get("data")) if text_of(item.get("id"))]


def same_weights(a: ModelEntry, b: ModelEntry) -> bool:
    """Do two names look like one model in two quantizations? Same base name, and no contradiction in what is known."""
    return (
        base_name(a.id) == base_name(b.id)
        and (not a.family or not b.family or a.family == b.family)
        and (not a.parameters or not b.parameters or a.parameters == b.parameters)
    )


def prompt_cut(sent_tokens: int, used_tokens: int, context: int | None = None, exact: bool = False) -> str:
    """One sentence when the server has used less of a prompt than was sent; "" when it has not.

    `sent_tokens` is the prompt's length by our count, `used_tokens` the server's `prompt_tokens`, both without regard to the
    template, which only adds. With `exact` the first is the server's own count of the text; otherwise it is another
    tokenizer's or an estimate, and a quarter is allowed for that, less where the text fits no window of `context` tokens.
    """
    if sent_tokens <= 0 or used_tokens <= 0:
        return ""
    allowed = 1.0 if exact else 0.75
    if not exact and context and sent_tokens > context >= used_tokens:
        allowed = 0.95
    if used_tokens >= sent_tokens * allowed:
        return ""
    about = "" if exact else "about "
    window = f" (its window is {context:,})" if context else ""
    return f"prompt cut: sent {about}{sent_tokens:,} tokens, the server used {used_tokens:,}{window}"


def bits_per_weight(size: Value | None, parameters: Value | None) -> float | None:
    """Bits of storage a weight takes on average: 8 x bytes / parameters."""
    if not isinstance(size, int) or not isinstance(parameters, int) or parameters <= 0 or size <= 0:
        return None
    return round(8 * size / parameters, 2)


def table_of(value: object) -> dict[str, Any]:
    """A JSON object, or {} for anything else."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[dict[str, Any]]:
    """The objects in a JSON list; [] for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: object, limit: int = 400) -> str | None:
    """A server's text, harmless and on one line; None when it isn't text, or is empty."""
    return one_line(value, limit) or None if isinstance(value, str) else None


def path_of(value: object) -> str | None:
    """A server's path, with home directories as `~`."""
    text = text_of(value)
    return None if text is None else hide_home(text)


def count_of(value: object) -> int | None:
    """A whole number above zero; None for anything else: servers write 0 or -1 where they don't know."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**63:
        return None
    return int(value)
