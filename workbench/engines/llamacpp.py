"""llama.cpp's `llama-server`, verified against captured bytes of the real one (tests/wire/llama.cpp)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from workbench.domain.facts import Facts
from workbench.domain.variables import Setting
from workbench.engines.base import (
    Counters,
    Engine,
    Evidence,
    ModelEntry,
    Probe,
    bits_per_weight,
    count_of,
    list_of,
    openai_models,
    path_of,
    table_of,
    text_of,
)
from workbench.engines.http import Http, HttpTrouble
from workbench.engines.metrics_text import Metrics, parse_metrics
from workbench.engines.names import quant_in
from workbench.engines.process import LocalServer
from workbench.environment.redact import hide_home

KV_CACHE_TYPE = (("cache-type-k", "ctk"), "LLAMA_ARG_CACHE_TYPE_K")
FLASH_ATTENTION = (("flash-attn", "fa"), "LLAMA_ARG_FLASH_ATTN")

HINTS = {
    "version": "this build doesn't know its own: run llama-server --version",
    "digest": "the server has none: hash the GGUF file",
    "kv_cache_type": "not served: look for --cache-type-k where the server was started (f16 unless set)",
    "flash_attention": "not served: look for --flash-attn where the server was started (auto unless set)",
    "tensor_parallel": "not served: look for --split-mode and --tensor-split where the server was started",
}


class LlamaCpp(Engine):
    name = "llama.cpp"
    label = "llama.cpp server"
    port = 8080
    ignore_eos = "honoured"
    command_marks = ("llama-server", "llama-cpp-server")
    settings_read = ("LLAMA_ARG_CACHE_TYPE_K", "LLAMA_ARG_FLASH_ATTN")

    async def recognise(self, probe: Probe) -> Evidence | None:
        if await probe.header("/v1/models", "server") == "llama.cpp":
            return Evidence(3, "Server: llama.cpp")
        if await probe.owner() == "llamacpp":
            return Evidence(3, "owned_by: llamacpp")
        props = await probe.table("/props")
        if "total_slots" in props and "default_generation_settings" in props:
            return Evidence(3, "GET /props")
        return None

    def entry(self, item: Mapping[str, Any]) -> ModelEntry:
        name = text_of(item.get("id")) or ""
        meta = table_of(item.get("meta"))
        # A router lists models it hasn't loaded; a plain server has loaded all it lists.
        state = text_of(table_of(item.get("status")).get("value"))
        return ModelEntry(
            id=name,
            quant=text_of(meta.get("ftype")) or quant_in(name),
            size=count_of(meta.get("size")),
            loaded=state in (None, "loaded"),
        )

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        props, table = await asyncio.gather(http.get_json("/props"), http.get_json("/v1/models"))
        props, table = table_of(props), table_of(table)
        facts = Facts()
        facts.set("engine", self.name, "Server: llama.cpp, GET /v1/models")
        # "b0-unknown" is a build made outside its own git repository.
        build = text_of(props.get("build_info"))
        facts.set("version", build if build and not build.startswith("b0-") else None, "GET /props", HINTS["version"])
        item = _item(table, model)
        if item is not None:
            facts.set("model", text_of(item.get("id")), "GET /v1/models")
        loaded = [entry.id for entry in map(self.entry, openai_models(table)) if entry.loaded]
        if loaded:
            facts.set("loaded", [hide_home(name) for name in loaded], "GET /v1/models")
        facts.set("path", path_of(props.get("model_path")), "GET /props")
        self._weights(facts, props, table, table_of((item or {}).get("meta")))
        window = count_of(table_of(props.get("default_generation_settings")).get("n_ctx"))
        facts.set("context", window, "GET /props, one slot's")
        facts.set("slots", count_of(props.get("total_slots")), "GET /props")
        self._started_with(facts, local)
        return self.finished(facts, model, local, HINTS)

    def _weights(self, facts: Facts, props: dict[str, Any], table: dict[str, Any], meta: dict[str, Any]) -> None:
        listed = list_of(table.get("models"))
        form = text_of(table_of(listed[0].get("details")).get("format")) if listed else None
        facts.set("format", form, "GET /v1/models")
        quant = text_of(props.get("model_ftype"))
        if quant:
            facts.set("quant", quant, "GET /props")
        else:
            facts.set("quant", text_of(meta.get("ftype")), "GET /v1/models")
        facts.set("parameters", count_of(meta.get("n_params")), "GET /v1/models")
        facts.set("size", count_of(meta.get("size")), "GET /v1/models")
        facts.set(
            "bits",
            bits_per_weight(facts.get("size"), facts.get("parameters")),
            "8 x size / parameters of GET /v1/models",
        )
        facts.set("context_trained", count_of(meta.get("n_ctx_train")), "GET /v1/models")

    def _started_with(self, facts: Facts, local: LocalServer | None) -> None:
        if local is None:
            return
        facts.set("kv_cache_type", *_setting(local, *KV_CACHE_TYPE, "f16"), HINTS["kv_cache_type"])
        facts.set("flash_attention", *_setting(local, *FLASH_ATTENTION, "auto"), HINTS["flash_attention"])

    async def counters(self, http: Http) -> Counters | None:
        page, slots = await asyncio.gather(_metrics(http), http.get_json("/slots"))
        busy = [slot for slot in list_of(slots) if slot.get("is_processing")]
        windows = [count_of(slot.get("n_ctx")) or 0 for slot in list_of(slots)]
        # A slot's n_prompt_tokens grows with the tokens it makes: it is what the request holds in the cache.
        held = sum(count_of(slot.get("n_prompt_tokens")) or 0 for slot in busy)
        use = min(held / sum(windows), 1.0) if sum(windows) else None
        if page is None:
            if not windows:
                return None
            return Counters(source="GET /slots", running=len(busy), kv_cache_use=use)
        cached = page.count("llamacpp:prompt_tokens_cached_total")
        worked = page.count("llamacpp:prompt_tokens_total")
        return Counters(
            source="GET /metrics, GET /slots" if windows else "GET /metrics",
            running=page.count("llamacpp:requests_processing"),
            waiting=page.count("llamacpp:requests_deferred"),
            kv_cache_use=use,
            prefix_hits=cached,
            prefix_queries=None if cached is None or worked is None else cached + worked,
            spec_drafted=page.count("llamacpp:spec_decode_num_draft_tokens_total"),
            spec_accepted=page.count("llamacpp:spec_decode_num_accepted_tokens_total"),
            prompt_tokens=worked,
            output_tokens=page.count("llamacpp:tokens_predicted_total"),
        )

    async def tokenize(self, http: Http, model: str, text: str) -> int | None:
        tokens = table_of(await http.post_json("/tokenize", {"content": text})).get("tokens")
        return len(tokens) if isinstance(tokens, list) else None

    async def ready(self, http: Http) -> bool:
        return await self.answers(http, "/health")

    def extra_body(self, setting: Setting) -> dict[str, Any]:
        return {"cache_prompt": setting.cache == "warm"}


def _item(table: dict[str, Any], model: str) -> dict[str, Any] | None:
    """The model's item, by id or alias; a plain server's only one whatever the name, since it serves that for any."""
    items = openai_models(table)
    for item in items:
        aliases = item.get("aliases")
        if item.get("id") == model or (isinstance(aliases, list) and model in aliases):
            return item
    return items[0] if len(items) == 1 and "status" not in items[0] else None


def _setting(local: LocalServer, names: tuple[str, ...], variable: str, default: str) -> tuple[str | None, str]:
    """A start setting with its source: the option, else the variable, else the documented default when neither is set."""
    given = local.option(*names)
    if given is not None:
        return given or "on", local.source
    if variable in local.settings:
        return local.settings[variable], f"its {variable}"
    if local.settings_known:
        return default, f"llama.cpp's default: neither --{names[0]} nor {variable} is set"
    return None, ""


async def _metrics(http: Http) -> Metrics | None:
    """The metrics page; None when the server was started without --metrics."""
    try:
        reply = await http.get("/metrics")
    except HttpTrouble:
        return None
    return parse_metrics(reply.text) if reply.status == 200 and "llamacpp:" in reply.text else None
