"""`transformers serve`, verified against captured bytes of the real one (tests/wire/transformers-serve)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.domain.facts import Facts
from workbench.engines.base import Engine, Evidence, ModelEntry, Probe, openai_models, table_of, text_of
from workbench.engines.hf_folder import add_folder_facts
from workbench.engines.http import Http
from workbench.engines.names import quant_in
from workbench.engines.process import LocalServer
from workbench.environment.redact import hide_home

HINTS = {
    "version": "not served: run `transformers version` where it was started",
    "quant": "not served: look for --quantization where the server was started, and at the model's config.json",
    "context": "not served: the model's config.json bounds it",
    "slots": "it takes one request at a time, unless started with --continuous-batching",
    "compute_type": "not served: look for --dtype where the server was started",
    "kv_cache_type": "not served",
}


class TransformersServe(Engine):
    name = "transformers-serve"
    label = "transformers serve"
    port = 8000
    lists_all = False
    ignore_eos = "refused"
    command_marks = ("transformers",)

    async def recognise(self, probe: Probe) -> Evidence | None:
        if await probe.table("/health") != {"status": "ok"} or await probe.status("/v1/chat/completions") != 405:
            return None
        if await probe.status("/load_model") == 405:
            return Evidence(3, "its /load_model route")
        # It stamps every answer, its plain 404s too, with a request id.
        stamped = await probe.header("/version", "x-request-id")
        if stamped and await probe.status("/version") == 404 and await probe.status("/metrics") == 404:
            return Evidence(2, "GET /health, and a request id on every answer")
        return None

    def entry(self, item: Mapping[str, Any]) -> ModelEntry:
        name = text_of(item.get("id")) or ""
        state = text_of(table_of(item.get("status")).get("value"))
        return ModelEntry(id=name, quant=quant_in(name), loaded=None if state is None else state == "loaded")

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        facts = Facts()
        facts.set("engine", self.name, "GET /health and its request ids")
        items = openai_models(table_of(await http.get_json("/v1/models")))
        if any(item.get("id") == model for item in items):
            facts.set("model", model, "GET /v1/models")
        loaded = [entry.id for entry in map(self.entry, items) if entry.loaded]
        if loaded:
            facts.set("loaded", loaded, "GET /v1/models, status")
        if model.startswith("/"):
            facts.set("path", hide_home(model), "the model's name is its path")
        if local is not None:
            facts.set("quant", local.option("quantization"), local.source, HINTS["quant"])
            facts.set("compute_type", local.option("dtype", "torch-dtype"), local.source, HINTS["compute_type"])
            facts.set("flash_attention", local.option("attn-implementation"), local.source)
            add_folder_facts(facts, model)
        return self.finished(facts, model, local, HINTS)

    async def ready(self, http: Http) -> bool:
        return await self.answers(http, "/health")
