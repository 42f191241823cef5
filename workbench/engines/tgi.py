"""Text Generation Inference. Built from documentation; not run."""

from __future__ import annotations

import asyncio

from workbench.domain.facts import Facts
from workbench.engines.base import Counters, Engine, Evidence, Probe, count_of, path_of, table_of, text_of
from workbench.engines.http import Http, HttpTrouble
from workbench.engines.metrics_text import parse_metrics
from workbench.engines.process import LocalServer

HINTS = {
    "quant": "not served: look for --quantize where the server was started",
    "parameters": "not served: look at the model's config.json or card",
    "tensor_parallel": "not served: look for --num-shard where the server was started",
    "kv_cache_type": "not served: look for --kv-cache-dtype where the server was started",
}


class TGI(Engine):
    name = "tgi"
    label = "Text Generation Inference"
    command_marks = ("text-generation-launcher", "text-generation-router")

    async def recognise(self, probe: Probe) -> Evidence | None:
        info = await probe.table("/info")
        if "model_id" in info and ("max_total_tokens" in info or "max_concurrent_requests" in info):
            return Evidence(3, "GET /info")
        return None

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        info = table_of(await http.get_json("/info"))
        source = "GET /info"
        facts = Facts()
        facts.set("engine", self.name, source)
        facts.set("version", text_of(info.get("version")), source)
        facts.set("model", path_of(info.get("model_id")), source)
        facts.set("digest", text_of(info.get("model_sha")), f"{source}, model_sha: the revision on the hub")
        facts.set("context", count_of(info.get("max_total_tokens")), f"{source}, max_total_tokens")
        facts.set("slots", count_of(info.get("max_concurrent_requests")), f"{source}, max_concurrent_requests")
        facts.set("compute_type", text_of(info.get("model_dtype")), source)
        if local is not None:
            facts.set("quant", local.option("quantize"), local.source, HINTS["quant"])
            facts.set("kv_cache_type", local.option("kv-cache-dtype"), local.source, HINTS["kv_cache_type"])
            shards = local.option("num-shard")
            if shards and shards.isdecimal():
                facts.set("tensor_parallel", int(shards), local.source)
        return self.finished(facts, model, local, HINTS)

    async def counters(self, http: Http) -> Counters | None:
        try:
            reply = await http.get("/metrics")
        except HttpTrouble:
            return None
        if reply.status != 200 or "tgi_" not in reply.text:
            return None
        page = parse_metrics(reply.text)
        return Counters(
            source="GET /metrics",
            running=page.count("tgi_batch_current_size"),
            waiting=page.count("tgi_queue_size"),
        )

    async def tokenize(self, http: Http, model: str, text: str) -> int | None:
        # It adds the model's special tokens to whatever it is given: the empty text is those alone.
        whole, empty = await asyncio.gather(
            http.post_json("/tokenize", {"inputs": text}), http.post_json("/tokenize", {"inputs": ""})
        )
        if not isinstance(whole, list):
            return None
        return len(whole) - (len(empty) if isinstance(empty, list) else 0)

    async def ready(self, http: Http) -> bool:
        return await self.answers(http, "/health")
