"""Ollama: a scheduler of models, each quantization a tag of its own, each loaded model served by a llama-server child."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from workbench.domain.facts import Facts
from workbench.engines.base import (
    Engine,
    Evidence,
    ModelEntry,
    Probe,
    bits_per_weight,
    count_of,
    list_of,
    path_of,
    table_of,
    text_of,
)
from workbench.engines.http import Http, HttpTrouble
from workbench.engines.process import LocalServer, show_options

# A load reads the whole model from disk; its own limit for one that makes no progress is five minutes.
LOAD_TIMEOUT_S = 600.0
UNLOAD_TIMEOUT_S = 30.0

HINTS = {
    "version": "this build doesn't know its own: run `ollama --version`",
    "context": "load the model first: GET /api/ps then tells the window of one request",
    "slots": "no route tells it: look for OLLAMA_NUM_PARALLEL where the server was started (1 unless set)",
    "kv_cache_type": "no route tells it: look for OLLAMA_KV_CACHE_TYPE where the server was started (f16 unless set)",
    "flash_attention": "no route tells it: look for OLLAMA_FLASH_ATTENTION where the server was started (auto unless set)",
    "tensor_parallel": "no route tells it: the server's log shows how layers were split",
}

_BLOB = re.compile(r"^FROM\s+(\S.*?)\s*$", re.MULTILINE)
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)
_SHA256 = re.compile(r"sha256[-:]([0-9a-f]{64})")


class Ollama(Engine):
    name = "ollama"
    label = "Ollama"
    port = 11434
    ignore_eos = "ignored"
    command_marks = ("ollama",)
    settings_read = (
        "OLLAMA_NUM_PARALLEL",
        "OLLAMA_KV_CACHE_TYPE",
        "OLLAMA_FLASH_ATTENTION",
        "OLLAMA_CONTEXT_LENGTH",
        "OLLAMA_MAX_LOADED_MODELS",
        "OLLAMA_MAX_QUEUE",
        "OLLAMA_KEEP_ALIVE",
    )

    async def recognise(self, probe: Probe) -> Evidence | None:
        if "Ollama is running" in await probe.text("/"):
            return Evidence(3, "GET / says Ollama is running")
        # SGLang has /api/tags too, and other programs an /api/version: only both with /api/ps are Ollama's.
        if "version" in await probe.table("/api/version") and "models" in await probe.table("/api/ps"):
            return Evidence(2, "GET /api/version and /api/ps")
        return None

    async def models(self, http: Http) -> list[ModelEntry]:
        tags, running = await asyncio.gather(http.get("/api/tags"), http.get_json("/api/ps"))
        table = table_of(tags.json())
        if tags.status != 200 or "models" not in table:
            raise HttpTrouble(
                "broken", f"{http.address.place} doesn't list its models (HTTP {tags.status}): name one with --model"
            )
        loaded = {text_of(item.get("name")) for item in list_of(table_of(running).get("models"))}
        known = isinstance(running, dict)
        return [_entry(item, loaded, known) for item in list_of(table.get("models")) if text_of(item.get("name"))]

    def same_model(self, asked: str, listed: str) -> bool:
        return _full_name(asked) == _full_name(listed)

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        version, tags, running, shown = await asyncio.gather(
            http.get_json("/api/version"),
            http.get_json("/api/tags"),
            http.get_json("/api/ps"),
            http.post_json("/api/show", {"model": model}),
        )
        facts = Facts()
        facts.set("engine", self.name, "GET /")
        # An unstamped build says 0.0.0.
        number = text_of(table_of(version).get("version"))
        facts.set("version", number if number != "0.0.0" else None, "GET /api/version", HINTS["version"])
        tag = self._item(tags, model)
        here = self._item(running, model)
        self._tag_facts(facts, tag)
        self._show_facts(facts, table_of(shown))
        facts.set("bits", bits_per_weight(facts.get("size"), facts.get("parameters")), "8 x size / parameters")
        self._load_facts(facts, here, tag)
        loaded = [name for item in list_of(table_of(running).get("models")) if (name := text_of(item.get("name")))]
        if isinstance(running, dict):
            facts.set("loaded", loaded, "GET /api/ps")
        if local is not None:
            self._started_with(facts, local, _blob(table_of(shown)))
        return self.finished(facts, model, local, HINTS)

    def _item(self, table: object, model: str) -> dict[str, Any]:
        items = list_of(table_of(table).get("models"))
        return next((item for item in items if self.same_model(model, text_of(item.get("name")) or "")), {})

    def _tag_facts(self, facts: Facts, tag: dict[str, Any]) -> None:
        source = "GET /api/tags"
        details = table_of(tag.get("details"))
        facts.set("model", text_of(tag.get("name")), source)
        facts.set("digest", text_of(tag.get("digest")), f"{source}, of the manifest")
        facts.set("format", text_of(details.get("format")), source)
        facts.set("family", text_of(details.get("family")), source)
        facts.set("quant", _quant(details), f"{source}, quantization_level")
        facts.set("size", count_of(tag.get("size")), source)
        if text_of(tag.get("remote_host")):
            facts.set("remote", text_of(tag.get("remote_host")), f"{source}, remote_host")

    def _show_facts(self, facts: Facts, shown: dict[str, Any]) -> None:
        source = "POST /api/show"
        info = table_of(shown.get("model_info"))
        architecture = text_of(info.get("general.architecture"))
        facts.set("parameters", count_of(info.get("general.parameter_count")), f"{source}, model_info")
        facts.set("context_trained", count_of(info.get(f"{architecture}.context_length")), f"{source}, model_info")
        if info.get("general.file_type") == 0 and "quant" not in facts:
            facts.set("quant", "F32", f"{source}, general.file_type 0")
        blob = _blob(shown)
        facts.set("path", path_of(blob), f"{source}, FROM of the modelfile")
        digest = _SHA256.search(blob)
        if digest is not None:
            facts.set("weights_digest", digest.group(1), f"{source}, FROM of the modelfile")
        asked = _NUM_CTX.search(shown["parameters"]) if isinstance(shown.get("parameters"), str) else None
        if asked is not None:
            facts.set("context", int(asked.group(1)), f"{source}, the model's num_ctx; not loaded yet")

    def _load_facts(self, facts: Facts, here: dict[str, Any], tag: dict[str, Any]) -> None:
        if not here:
            return
        facts.set("context", count_of(here.get("context_length")), "GET /api/ps, one slot's", HINTS["context"])
        size, vram = here.get("size"), here.get("size_vram", 0)
        if not isinstance(size, int) or not isinstance(vram, int):
            return
        if size == vram == tag.get("size"):
            # What it says when it could not read its child's log: the file's size, "100 % GPU", even on a CPU.
            facts.set("memory", None, "", "GET /api/ps repeats the file's size: the server could not tell")
            return
        facts.set("memory", size, "GET /api/ps, the server's own estimate")
        facts.set("gpu_memory", vram, "GET /api/ps, the server's own estimate")

    def _started_with(self, facts: Facts, local: LocalServer, blob: str) -> None:
        """What its process tells: the model's llama-server child when it is loaded, else the server's own settings."""
        child = next((child for child in local.children if blob and child.get("model") == blob), None)
        settings = [f"{name}={value}" for name, value in local.settings.items()]
        options = {name: value for name, value in (child or {}).items() if name not in ("model", "port")}
        if settings or options:
            facts.set("flags", [*settings, *show_options(options)], "its environment, its llama-server's command line")
        if child is None:
            if "context" not in facts and local.settings.get("OLLAMA_CONTEXT_LENGTH", "").isdecimal():
                facts.set("context", int(local.settings["OLLAMA_CONTEXT_LENGTH"]), "its OLLAMA_CONTEXT_LENGTH")
            return
        source = "its llama-server's command line"
        slots = child.get("np", child.get("parallel", ""))
        if slots.isdecimal():
            facts.set("slots", int(slots), source)
        facts.set("flash_attention", child.get("flash-attn") or None, source, HINTS["flash_attention"])
        kind = child.get("cache-type-k")
        if kind:
            facts.set("kv_cache_type", kind, source)
        else:
            facts.set("kv_cache_type", "f16", f"{source} leaves it at llama.cpp's default")

    async def keep_alive(self, http: Http, model: str, seconds: float) -> bool | None:
        # Without a prompt the route only loads; the time holds for later requests on /v1 too. Negative is for ever.
        body = {"model": model, "keep_alive": seconds, "stream": False}
        try:
            reply = await http.post("/api/generate", body, timeout=LOAD_TIMEOUT_S)
        except HttpTrouble:
            return False
        return reply.status == 200 and table_of(reply.json()).get("done_reason") == "load"

    async def unload(self, http: Http, model: str) -> bool | None:
        try:
            reply = await http.post("/api/generate", {"model": model, "keep_alive": 0, "stream": False}, timeout=60)
            if reply.status != 200:
                return False
            # It answers before the model is gone.
            async with asyncio.timeout(UNLOAD_TIMEOUT_S):
                while self._item(table_of((await http.get("/api/ps")).json()), model):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        except (HttpTrouble, TimeoutError):
            return False
        return True

    async def ready(self, http: Http) -> bool:
        return await self.answers(http, "/api/version")


def _entry(item: Mapping[str, Any], loaded: set[str | None], known: bool) -> ModelEntry:
    details = table_of(item.get("details"))
    name = text_of(item.get("name")) or ""
    return ModelEntry(
        id=name,
        quant=_quant(details),
        size=count_of(item.get("size")),
        loaded=name in loaded if known else None,
        family=text_of(details.get("family")) or "",
        parameters=text_of(details.get("parameter_size")) or "",
        digest=text_of(item.get("digest")) or "",
        remote=bool(item.get("remote_host")),
    )


def _quant(details: dict[str, Any]) -> str | None:
    level = text_of(details.get("quantization_level"))
    return None if level is None or level.lower() == "unknown" else level


def _full_name(name: str) -> str:
    """A name as the server means it: `library/` and `:latest` are understood, case doesn't count."""
    text = name.strip().lower().removeprefix("registry.ollama.ai/").removeprefix("library/")
    return text if ":" in text.rpartition("/")[2] else f"{text}:latest"


def _blob(shown: dict[str, Any]) -> str:
    """The weights' file, after FROM in the modelfile; "" when it names none."""
    modelfile = shown.get("modelfile")
    found = _BLOB.findall(modelfile) if isinstance(modelfile, str) else []
    return found[0] if found and _SHA256.search(found[0]) else ""
