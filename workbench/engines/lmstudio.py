"""LM Studio. Built from documentation (REST v1 of 0.4.0, v0 before it); not run."""

from __future__ import annotations

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
    table_of,
    text_of,
)
from workbench.engines.http import Http, HttpTrouble
from workbench.engines.process import LocalServer

HINTS = {
    "version": "LM Studio serves none: look at its About window, or run `lms version`",
    "digest": "LM Studio serves none: hash the weights' file",
    "path": "run `lms ls --json`",
    "context": "load the model first: the list then tells the window it was loaded with",
    "slots": "load the model first; LM Studio 0.4 then tells how many requests run at once",
    "kv_cache_type": "not served: look at the model's load settings",
}


class LMStudio(Engine):
    name = "lm-studio"
    label = "LM Studio"
    port = 1234
    command_marks = ("LM Studio", "lm-studio", "llmster")

    async def recognise(self, probe: Probe) -> Evidence | None:
        # It answers routes it doesn't have with 200 and an error object: only the content counts.
        if any("loaded_instances" in item for item in list_of((await probe.table("/api/v1/models")).get("models"))):
            return Evidence(3, "GET /api/v1/models")
        if any("compatibility_type" in item for item in list_of((await probe.table("/api/v0/models")).get("data"))):
            return Evidence(3, "GET /api/v0/models")
        if await probe.owner() == "organization_owner":
            return Evidence(2, "owned_by: organization_owner")
        return None

    async def models(self, http: Http) -> list[ModelEntry]:
        items, _ = await _listed(http)
        entries = [_entry(item) for item in items if item.get("type") not in ("embedding", "embeddings")]
        if entries:
            return entries
        return await super().models(http)

    def same_model(self, asked: str, listed: str) -> bool:
        # A loaded instance may carry a number: "name:2".
        return asked == listed or asked.partition(":")[0] == listed

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        items, route = await _listed(http)
        facts = Facts()
        facts.set("engine", self.name, route)
        loaded = [_entry(item).id for item in items if _entry(item).loaded]
        if loaded:
            facts.set("loaded", loaded, route)
        item = next((item for item in items if self.same_model(model, _entry(item).id)), None)
        if item is not None:
            self._model_facts(facts, item, model, route)
        return self.finished(facts, model, local, HINTS)

    def _model_facts(self, facts: Facts, item: Mapping[str, Any], model: str, route: str) -> None:
        entry = _entry(item)
        facts.set("model", entry.id, route)
        facts.set("quant", entry.quant, route)
        facts.set("size", entry.size, route)
        facts.set("parameters", _parameters(entry.parameters), f"{route}, rounded")
        bits = table_of(item.get("quantization")).get("bits_per_weight")
        if isinstance(bits, int | float) and not isinstance(bits, bool):
            facts.set("bits", bits, route)
        else:
            facts.set("bits", bits_per_weight(facts.get("size"), facts.get("parameters")), "8 x size / parameters")
        facts.set("format", text_of(item.get("format")) or text_of(item.get("compatibility_type")), route)
        facts.set("context_trained", count_of(item.get("max_context_length")), route)
        instances = list_of(item.get("loaded_instances"))
        instance = next((one for one in instances if one.get("id") == model), instances[0] if instances else {})
        config = table_of(instance.get("config"))
        window = count_of(config.get("context_length")) or count_of(item.get("loaded_context_length"))
        facts.set("context", window, f"{route}, the loaded instance's", HINTS["context"])
        facts.set("slots", count_of(config.get("parallel")), f"{route}, the loaded instance's", HINTS["slots"])
        flash = config.get("flash_attention")
        if isinstance(flash, bool):
            facts.set("flash_attention", flash, f"{route}, the loaded instance's")


def _entry(item: Mapping[str, Any]) -> ModelEntry:
    """One item of either list: v1 names it by `key`, v0 by `id`."""
    quantization = item.get("quantization")
    name = text_of(item.get("key")) or text_of(item.get("id")) or ""
    if "loaded_instances" in item:
        loaded: bool | None = bool(list_of(item.get("loaded_instances")))
    else:
        state = text_of(item.get("state"))
        loaded = None if state is None else state == "loaded"
    return ModelEntry(
        id=name,
        quant=text_of(table_of(quantization).get("name")) or text_of(quantization),
        size=count_of(item.get("size_bytes")),
        loaded=loaded,
        family=text_of(item.get("architecture")) or text_of(item.get("arch")) or "",
        parameters=text_of(item.get("params_string")) or "",
    )


def _parameters(text: str) -> int | None:
    """A count from "7B" or "270M"."""
    scale = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}.get(text[-1:].upper())
    try:
        return round(float(text[:-1]) * scale) if scale else None
    except (ValueError, OverflowError):
        return None


async def _listed(http: Http) -> tuple[list[dict[str, Any]], str]:
    """The models of its own list, all that are downloaded, and the route it came from."""
    for route, key, mark in (
        ("/api/v1/models", "models", "loaded_instances"),
        ("/api/v0/models", "data", "compatibility_type"),
    ):
        try:
            reply = await http.get(route)
        except HttpTrouble:
            continue
        items = [item for item in list_of(table_of(reply.json()).get(key)) if mark in item]
        if reply.status == 200 and items:
            return items, f"GET {route}"
    return [], "GET /v1/models"
