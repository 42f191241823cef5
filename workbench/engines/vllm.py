"""vLLM, verified against captured bytes of the real one (tests/wire/vllm, version 0.32 on CPU)."""

from __future__ import annotations

import asyncio

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

HINTS = {
    "digest": "vLLM serves none: hash the weights' files",
    "quant": "not served: look for --quantization where the server was started, and at the model's config.json",
    "parameters": "not served: look at the model's config.json or card",
    "slots": "not served: look for --max-num-seqs where the server was started",
    "compute_type": "not served: look for --dtype where the server was started",
    "tensor_parallel": "not served: look for --tensor-parallel-size where the server was started (1 unless set)",
    "flash_attention": "not served: the server's log names its attention backend",
}

_CACHE_FLAGS = (
    "block_size",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "kv_cache_size_tokens",
    "num_gpu_blocks",
    "sliding_window",
)


class VLLM(Engine):
    name = "vllm"
    label = "vLLM"
    port = 8000
    ignore_eos = "honoured"
    command_marks = ("vllm",)

    async def recognise(self, probe: Probe) -> Evidence | None:
        if await probe.owner() == "vllm":
            return Evidence(3, "owned_by: vllm")
        # With a key, /v1 is closed and the rest is open.
        if await probe.table("/version") and "\nvllm:" in await probe.text("/metrics"):
            return Evidence(3, "GET /version and vllm: metrics")
        return None

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        version, table, page = await asyncio.gather(
            http.get_json("/version"), http.get_json("/v1/models"), _metrics(http)
        )
        facts = Facts()
        facts.set("engine", self.name, "GET /v1/models")
        facts.set("version", text_of(table_of(version).get("version")), "GET /version")
        items = openai_models(table_of(table))
        if items:
            facts.set("loaded", [path_of(item.get("id")) or "" for item in items], "GET /v1/models")
        item = next((item for item in items if item.get("id") == model), None)
        if item is not None:
            facts.set("model", text_of(item.get("id")), "GET /v1/models")
            facts.set("path", path_of(item.get("root")), "GET /v1/models, root")
            facts.set("context", count_of(item.get("max_model_len")), "GET /v1/models, max_model_len")
        if page is not None:
            config = page.labels("vllm:cache_config_info")
            facts.set("kv_cache_type", text_of(config.get("cache_dtype")), "GET /metrics, cache_config_info")
            flags = [f"{name}={config[name]}" for name in _CACHE_FLAGS if name in config]
            if flags:
                facts.set("flags", flags, "GET /metrics, cache_config_info")
        if local is not None:
            self._started_with(facts, local)
            add_folder_facts(facts, text_of(item.get("root")) if item is not None else None)
        return self.finished(facts, model, local, HINTS)

    def _started_with(self, facts: Facts, local: LocalServer) -> None:
        quant = local.option("quantization", "q")
        if quant:
            facts.set("quant", quant, local.source)
        for fact, names in (
            ("slots", ("max-num-seqs",)),
            ("tensor_parallel", ("tensor-parallel-size", "tp")),
        ):
            value = local.option(*names)
            if value is not None and value.isdecimal():
                facts.set(fact, int(value), local.source)
        facts.set("compute_type", local.option("dtype"), local.source, HINTS["compute_type"])
        facts.set("flash_attention", local.option("attention-backend"), local.source, HINTS["flash_attention"])

    async def counters(self, http: Http) -> Counters | None:
        page = await _metrics(http)
        if page is None:
            return None
        return Counters(
            source="GET /metrics",
            running=page.count("vllm:num_requests_running"),
            waiting=page.count("vllm:num_requests_waiting"),
            # Several engines: the fullest one is where requests begin to wait.
            kv_cache_use=_first(page, "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            prefix_hits=page.count("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
            prefix_queries=page.count("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
            preemptions=page.count("vllm:num_preemptions_total"),
            spec_drafted=page.count("vllm:spec_decode_num_draft_tokens_total"),
            spec_accepted=page.count("vllm:spec_decode_num_accepted_tokens_total"),
            prompt_tokens=page.count("vllm:prompt_tokens_total"),
            output_tokens=page.count("vllm:generation_tokens_total"),
        )

    async def tokenize(self, http: Http, model: str, text: str) -> int | None:
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        count = table_of(await http.post_json("/tokenize", body)).get("count")
        return count if isinstance(count, int) else None

    async def ready(self, http: Http) -> bool:
        return await self.answers(http, "/health")


def _first(page: Metrics, *names: str) -> float | None:
    return next((value for name in names if (value := page.highest(name)) is not None), None)


async def _metrics(http: Http) -> Metrics | None:
    try:
        reply = await http.get("/metrics")
    except HttpTrouble:
        return None
    return parse_metrics(reply.text) if reply.status == 200 and "vllm:" in reply.text else None
