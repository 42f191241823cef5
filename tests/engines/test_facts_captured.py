"""Facts, models, counters and token counts from the bytes that real engines sent (tests/wire)."""

from __future__ import annotations

import pytest
from replay import captured, replaying, response, wire

from workbench.domain.facts import DECLARED
from workbench.domain.variables import Setting
from workbench.engines.base import FACT_NAMES
from workbench.engines.http import HttpTrouble
from workbench.engines.recognise import check_model, recognise

GGUF = "/srv/engines/models/SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER = "/srv/engines/models/SmolLM2-135M-Instruct-hf"


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm", "transformers-serve", "llama-cpp-python"])
async def test_each_is_recognised_as_itself(engine: str) -> None:
    async with replaying(wire(engine)) as replay:
        server = await recognise(replay.url)
        assert server.engine.name == engine
        assert server.evidence
        assert server.base_url == replay.url
        assert await server.ready()


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm", "transformers-serve", "llama-cpp-python"])
async def test_every_fact_is_known_with_a_source_or_unknown_with_a_way(engine: str) -> None:
    async with replaying(wire(engine)) as replay:
        facts = await (await recognise(replay.url)).facts("smollm2")
    assert set(FACT_NAMES) <= set(facts.values()) | set(facts.unknown)
    assert not set(facts.values()) & set(facts.unknown)
    assert all(fact.source for _, fact in facts)
    assert all(facts.unknown.values())


async def test_llamacpp_facts() -> None:
    async with replaying(wire("llama.cpp")) as replay:
        facts = await (await recognise(replay.url)).facts(GGUF)
    known = {
        "engine": "llama.cpp",
        "model": GGUF,
        "path": GGUF,
        "format": "gguf",
        "quant": "Q4_1",
        "bits": round(8 * 96576768 / 134515008, 2),
        "parameters": 134515008,
        "size": 96576768,
        "context": 2048,
        "context_trained": 8192,
        "slots": 4,
        "loaded": [GGUF],
    }
    assert facts.values() == known
    assert facts.source("quant") == "GET /props"
    # The capture's build calls itself "b0-unknown", which is no version.
    assert "--version" in facts.unknown["version"]


async def test_llamacpp_counters_under_load() -> None:
    routes = wire("llama.cpp")
    routes["GET /metrics"] = captured("llama.cpp", "metrics_under_load")
    routes["GET /slots"] = captured("llama.cpp", "slots_under_load")
    async with replaying(routes) as replay:
        counters = await (await recognise(replay.url)).counters()
    assert counters is not None
    assert (counters.running, counters.waiting) == (4, 2)
    assert counters.kv_cache_use == (144 + 144 + 144 + 143) / (4 * 2048)
    assert (counters.prefix_hits, counters.prefix_queries) == (2463, 2463 + 4569)
    assert counters.output_tokens == 1485


async def test_llamacpp_without_metrics_counts_its_slots() -> None:
    routes = wire("llama.cpp")
    routes["GET /metrics"] = response(b'{"error":{"code":501,"message":"not enabled"}}', 501, "application/json")
    routes["GET /slots"] = captured("llama.cpp", "slots_under_load")
    async with replaying(routes) as replay:
        counters = await (await recognise(replay.url)).counters()
    assert counters is not None
    assert counters.running == 4
    assert counters.waiting is None
    assert counters.source == "GET /slots"


async def test_llamacpp_counts_tokens_and_switches_its_cache() -> None:
    async with replaying(wire("llama.cpp")) as replay:
        server = await recognise(replay.url)
        assert await server.tokenize("smollm2", "Hello world") == 2
        assert replay.bodies("POST /tokenize") == [{"content": "Hello world"}]
    assert server.engine.extra_body(Setting(cache="unique")) == {"cache_prompt": False}
    assert server.engine.extra_body(Setting(cache="warm")) == {"cache_prompt": True}


async def test_llamacpp_that_guards_its_routes_refuses_the_key() -> None:
    routes = wire("llama.cpp")
    routes["GET /props"] = response(b'{"error":{"code":401,"message":"Invalid API Key"}}', 401, "application/json")
    async with replaying(routes) as replay:
        with pytest.raises(HttpTrouble, match="refuses the key") as trouble:
            await recognise(replay.url, key="wrong-key")
        assert trouble.value.kind == "key"
        assert "wrong-key" not in trouble.value.sentence


async def test_vllm_facts() -> None:
    async with replaying(wire("vllm")) as replay:
        facts = await (await recognise(replay.url)).facts("smollm2")
    assert facts.get("version") == "0.32.0"
    assert facts.source("version") == "GET /version"
    assert facts.get("path") == FOLDER
    assert facts.get("context") == 2048
    assert facts.get("kv_cache_type") == "auto"
    flags = facts.get("flags")
    assert isinstance(flags, list)
    assert "gpu_memory_utilization=0.92" in flags
    assert {"quant", "slots", "tensor_parallel"} <= set(facts.unknown)


async def test_vllm_counters_under_load() -> None:
    routes = wire("vllm")
    routes["GET /metrics"] = captured("vllm", "metrics_under_load")
    async with replaying(routes) as replay:
        server = await recognise(replay.url)
        counters = await server.counters()
        assert await server.tokenize("smollm2", "Hello world") == 2
    assert counters is not None
    assert (counters.running, counters.waiting) == (4, 2)
    assert counters.kv_cache_use == 0.011019283746556474
    assert (counters.prefix_hits, counters.prefix_queries, counters.preemptions) == (1152, 6882, 0)
    assert counters.spec_drafted is None


async def test_vllm_whose_engine_died_is_not_ready() -> None:
    async with replaying(wire("vllm")) as replay:
        server = await recognise(replay.url)
        assert await server.ready()
        replay.routes["GET /health"] = captured("vllm", "health_after_engine_death")
        assert not await server.ready()


async def test_vllm_with_a_key_is_recognised_and_asks_for_it() -> None:
    routes = wire("vllm")
    routes["GET /v1/models"] = response(b'{"error":"Unauthorized"}', 401, "application/json")
    async with replaying(routes) as replay:
        with pytest.raises(HttpTrouble, match="asks for a key"):
            await recognise(replay.url)


async def test_transformers_serve_offline_needs_a_typed_model() -> None:
    async with replaying(wire("transformers-serve")) as replay:
        server = await recognise(replay.url)
        with pytest.raises(HttpTrouble, match="--model"):
            await server.models()
        assert await check_model(server, FOLDER) == ""
        facts = await server.facts(FOLDER)
    assert facts.get("model") == FOLDER
    assert facts.source("model") == DECLARED
    assert facts.get("path") == FOLDER
    assert server.engine.ignore_eos == "refused"
    assert await server.counters() is None


async def test_llamacpp_python_facts() -> None:
    async with replaying(wire("llama-cpp-python")) as replay:
        server = await recognise(replay.url)
        facts = await server.facts("smollm2")
        assert await server.tokenize("smollm2", "Hello") is None
        assert [entry.id for entry in await server.models()] == ["smollm2"]
        assert await check_model(server, "no-such") == "no such model: no-such; it has: smollm2"
    assert facts.get("model") == "smollm2"
    assert "quant" in facts.unknown


async def test_the_key_goes_out_only_when_given() -> None:
    async with replaying(wire("vllm")) as replay:
        await recognise(replay.url)
        assert not any("authorization" in headers for _, headers, _ in replay.asked)
        replay.asked.clear()
        await recognise(replay.url, key="sk-abc")
        assert {headers["authorization"] for _, headers, _ in replay.asked} == {"Bearer sk-abc"}
