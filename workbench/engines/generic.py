"""Servers of which nothing more is known than that they speak OpenAI's routes; and the simulator."""

from __future__ import annotations

from workbench.domain.facts import Facts
from workbench.engines.base import Counters, Engine, Evidence, Probe, count_of, openai_models, table_of, text_of
from workbench.engines.http import Http, HttpTrouble
from workbench.engines.metrics_text import parse_metrics
from workbench.engines.process import LocalServer


class OpenAICompatible(Engine):
    """The last resort. Its engine stays unknown, but for the owner that the model list names."""

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        facts = Facts()
        table = table_of(await http.get_json("/v1/models"))
        item = next((item for item in openai_models(table) if item.get("id") == model), None)
        if item is not None:
            facts.set("model", model, "GET /v1/models")
            owner = text_of(item.get("owned_by"), 60)
            if owner:
                facts.set("owned_by", owner, "GET /v1/models")
        return self.finished(facts, model, local)


class Simulator(Engine):
    """`workbench sim`: known timing instead of a model."""

    name = "simulator"
    label = "Workbench's simulator"
    ignore_eos = "honoured"

    async def recognise(self, probe: Probe) -> Evidence | None:
        if await probe.owner() == "workbench-sim":
            return Evidence(3, "owned_by: workbench-sim")
        return None

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        facts = Facts()
        facts.set("engine", self.name, "GET /v1/models")
        for item in openai_models(table_of(await http.get_json("/v1/models"))):
            if item.get("id") == model:
                facts.set("model", model, "GET /v1/models")
                facts.set("context", count_of(item.get("max_model_len")), "GET /v1/models, max_model_len")
        return self.finished(facts, model, local)

    async def counters(self, http: Http) -> Counters | None:
        try:
            reply = await http.get("/metrics")
        except HttpTrouble:
            return None
        page = parse_metrics(reply.text)
        if reply.status != 200 or "workbench_sim_requests_running" not in page:
            return None
        return Counters(
            source="GET /metrics",
            running=page.count("workbench_sim_requests_running"),
            waiting=page.count("workbench_sim_requests_waiting"),
        )

    async def tokenize(self, http: Http, model: str, text: str) -> int | None:
        count = table_of(await http.post_json("/tokenize", {"model": model, "prompt": text})).get("count")
        return count if isinstance(count, int) else None

    async def ready(self, http: Http) -> bool:
        return await self.answers(http, "/health")
