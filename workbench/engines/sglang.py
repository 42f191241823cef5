"""SGLang. Built from documentation and its public source; not run."""

from __future__ import annotations

import asyncio
from typing import Any

from workbench.domain.facts import Facts
from workbench.engines.base import (
    Counters,
    Engine,
    Evidence,
    Probe,
    count_of,
    openai_models,
    path_of,
    table_of,
    text_of,
)
from workbench.engines.hf_folder import add_folder_facts
from workbench.engines.http import Http, HttpTrouble
from workbench.engines.metrics_text import Metrics, parse_metrics
from workbench.engines.process import LocalServer

# /server_info also prints the server's keys in clear: only what is named here is ever taken from it.
_FLAGS = (
    "attention_backend",
    "chunked_prefill_size",
    "cuda_graph_max_bs",
    "disable_cuda_graph",
    "disable_radix_cache",
    "dp_size",
    "enable_torch_compile",
    "ep_size",
    "max_prefill_tokens",
    "mem_fraction_static",
    "pp_size",
    "quantization",
    "sampling_backend",
    "schedule_policy",
    "speculative_algorithm",
    "tp_size",
)

HINTS = {
    "digest": "SGLang serves none: hash the weights' files",
    "parameters": "not served: look at the model's config.json or card",
    "quant": "not among its arguments: the model's config.json tells whether the weights are quantized",
}


class SGLang(Engine):
    name = "sglang"
    label = "SGLang"
    port = 30000
    ignore_eos = "honoured"
    command_marks = ("sglang",)

    async def recognise(self, probe: Probe) -> Evidence | None:
        if await probe.owner() == "sglang":
            return Evidence(3, "owned_by: sglang")
        if "SGLang" in (await probe.text("/"))[:200]:
            return Evidence(3, "GET / says SGLang")
        if "is_generation" in await probe.table("/model_info") or "is_generation" in await probe.table(
            "/get_model_info"
        ):
            return Evidence(3, "GET /model_info")
        return None

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        table, (info, route) = await asyncio.gather(http.get_json("/v1/models"), _server_info(http))
        facts = Facts()
        facts.set("engine", self.name, "GET /v1/models")
        item = next((item for item in openai_models(table_of(table)) if item.get("id") == model), None)
        if item is not None:
            facts.set("model", model, "GET /v1/models")
            facts.set("context", count_of(item.get("max_model_len")), "GET /v1/models, max_model_len")
        facts.set("version", text_of(info.get("version")), route)
        facts.set("path", path_of(info.get("model_path")), route)
        facts.set("quant", text_of(info.get("quantization")), route, HINTS["quant"])
        facts.set("compute_type", text_of(info.get("dtype")), route)
        facts.set("kv_cache_type", text_of(info.get("kv_cache_dtype")), route)
        facts.set("tensor_parallel", count_of(info.get("tp_size")), route)
        facts.set("slots", count_of(info.get("max_running_requests")), f"{route}, max_running_requests")
        facts.set("flash_attention", text_of(info.get("attention_backend")), f"{route}, attention_backend")
        flags = [f"{name}={info[name]}" for name in _FLAGS if isinstance(info.get(name), str | int | float)]
        if flags:
            facts.set("flags", flags, route)
        if local is not None:
            add_folder_facts(facts, text_of(info.get("model_path")))
        return self.finished(facts, model, local, HINTS)

    async def counters(self, http: Http) -> Counters | None:
        page = await _metrics(http)
        if page is None:
            return None
        return Counters(
            source="GET /metrics",
            running=_count(page, "num_running_reqs"),
            waiting=_count(page, "num_queue_reqs"),
            kv_cache_use=next(
                (use for prefix in _PREFIXES if (use := page.highest(f"{prefix}token_usage")) is not None), None
            ),
            prefix_hits=_count(page, "cached_tokens_total"),
            prefix_queries=_count(page, "prompt_tokens_total"),
            preemptions=_count(page, "num_retractions_total"),
            prompt_tokens=_count(page, "prompt_tokens_total"),
            output_tokens=_count(page, "generation_tokens_total"),
        )

    async def tokenize(self, http: Http, model: str, text: str) -> int | None:
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        count = table_of(await http.post_json("/tokenize", body)).get("count")
        return count if isinstance(count, int) else None

    async def reset_cache(self, http: Http) -> bool | None:
        try:
            reply = await http.post("/flush_cache", {}, timeout=30)
        except HttpTrouble:
            return None
        if reply.status in (404, 405):
            return None
        # The words are the same whether it was done or refused (400, while requests run): both must be right.
        return reply.status == 200 and "cache flushed" in reply.text.lower()

    async def ready(self, http: Http) -> bool:
        return await self.answers(http, "/health")


# The second is what its router makes of the name.
_PREFIXES = ("sglang:", "sglang_")


def _count(page: Metrics, name: str) -> int | None:
    return page.count(*(f"{prefix}{name}" for prefix in _PREFIXES))


async def _server_info(http: Http) -> tuple[dict[str, Any], str]:
    """The server's arguments and the route they came from; the second is its old name."""
    for route in ("/server_info", "/get_server_info"):
        info = table_of(await http.get_json(route))
        if info:
            return info, f"GET {route}"
    return {}, "GET /server_info"


async def _metrics(http: Http) -> Metrics | None:
    """The metrics page; None when the server was started without --enable-metrics."""
    try:
        reply = await http.get("/metrics")
    except HttpTrouble:
        return None
    return parse_metrics(reply.text) if reply.status == 200 and "sglang" in reply.text else None
