"""SGLang, LM Studio and TGI: stand-ins built from documentation. None of these engines was run."""

from __future__ import annotations

import json
from typing import Any

from replay import replaying, response

from workbench.engines.recognise import check_model, recognise

SGLANG_MODELS = {
    "object": "list",
    "data": [{"id": "qwen", "object": "model", "owned_by": "sglang", "root": "qwen", "max_model_len": 32768}],
}
SGLANG_INFO = {
    "model_path": "/home/alice/models/Qwen2.5-7B-Instruct-AWQ",
    "served_model_name": "qwen",
    "quantization": "awq",
    "dtype": "half",
    "kv_cache_dtype": "fp8_e5m2",
    "tp_size": 2,
    "max_running_requests": 48,
    "attention_backend": "fa3",
    "mem_fraction_static": 0.88,
    "api_key": "sk-very-secret",
    "admin_api_key": "adm-very-secret",
    "internal_states": [{"last_gen_throughput": 1.0}],
    "version": "0.5.6",
}
SGLANG_METRICS = b"""# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="qwen"} 3.0
sglang:num_queue_reqs{model_name="qwen"} 5.0
sglang:token_usage{model_name="qwen"} 0.28
sglang:cache_hit_rate{model_name="qwen"} 0.007
sglang:prompt_tokens_total{model_name="qwen"} 8128902.0
sglang:cached_tokens_total{model_name="qwen"} 1000.0
sglang:generation_tokens_total{model_name="qwen"} 7557572.0
"""
FLUSH_WORDS = b"Cache flushed.\nPlease check backend logs for more details. (When there are running ...)\n"


def sglang() -> dict[str, Any]:
    return {
        "GET /": response(b"SGLang is running"),
        "GET /v1/models": SGLANG_MODELS,
        "GET /server_info": SGLANG_INFO,
        "GET /health": response(b""),
        "GET /metrics": response(SGLANG_METRICS),
        "GET /api/tags": {"models": [{"name": "qwen"}]},
        "POST /tokenize": {"tokens": [1, 2, 3], "count": 3, "max_model_len": 32768},
        "POST /flush_cache": response(FLUSH_WORDS),
    }


async def test_sglang_facts_without_its_keys() -> None:
    async with replaying(sglang()) as replay:
        server = await recognise(replay.url)
        facts = await server.facts("qwen")
    assert server.engine.name == "sglang"
    assert facts.get("version") == "0.5.6"
    assert facts.get("quant") == "awq"
    assert facts.get("kv_cache_type") == "fp8_e5m2"
    assert (facts.get("tensor_parallel"), facts.get("slots"), facts.get("context")) == (2, 48, 32768)
    assert facts.get("path") == "~/models/Qwen2.5-7B-Instruct-AWQ"
    assert "secret" not in json.dumps(facts.table())
    assert "alice" not in json.dumps(facts.table())


async def test_sglang_by_its_old_route_names_and_its_routers_metrics() -> None:
    routes = sglang()
    routes["GET /get_server_info"] = routes.pop("GET /server_info")
    routes["GET /metrics"] = response(SGLANG_METRICS.replace(b"sglang:", b"sglang_"))
    async with replaying(routes) as replay:
        server = await recognise(replay.url)
        facts, counters = await server.facts("qwen"), await server.counters()
    assert facts.source("version") == "GET /get_server_info"
    assert counters is not None
    assert (counters.running, counters.waiting, counters.kv_cache_use) == (3, 5, 0.28)
    assert (counters.prefix_hits, counters.prefix_queries) == (1000, 8128902)


async def test_sglang_cache_is_reset_only_when_status_and_words_say_so() -> None:
    async with replaying(sglang()) as replay:
        server = await recognise(replay.url)
        assert await server.reset_cache() is True
        # The words are the same while requests run; a gateway may answer 200 to anything.
        replay.routes["POST /flush_cache"] = response(FLUSH_WORDS, 400)
        assert await server.reset_cache() is False
        replay.routes["POST /flush_cache"] = response(b"ok")
        assert await server.reset_cache() is False
        del replay.routes["POST /flush_cache"]
        assert await server.reset_cache() is None


LMSTUDIO_V1 = {
    "models": [
        {
            "type": "llm",
            "key": "qwen2.5-7b-instruct@q4_k_m",
            "architecture": "qwen2",
            "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
            "size_bytes": 4683073184,
            "params_string": "7B",
            "loaded_instances": [
                {
                    "id": "qwen2.5-7b-instruct@q4_k_m",
                    "config": {"context_length": 4096, "parallel": 4, "flash_attention": True},
                }
            ],
            "max_context_length": 32768,
            "format": "gguf",
        },
        {
            "type": "llm",
            "key": "qwen2.5-7b-instruct@q8_0",
            "architecture": "qwen2",
            "quantization": {"name": "Q8_0", "bits_per_weight": 8},
            "size_bytes": 8098525216,
            "params_string": "7B",
            "loaded_instances": [],
            "max_context_length": 32768,
            "format": "gguf",
        },
        {"type": "embedding", "key": "nomic", "quantization": None, "loaded_instances": []},
    ]
}
LMSTUDIO_V0 = {
    "object": "list",
    "data": [
        {
            "id": "meta-llama-3.1-8b-instruct",
            "type": "llm",
            "arch": "llama",
            "compatibility_type": "gguf",
            "quantization": "Q4_K_M",
            "state": "loaded",
            "max_context_length": 131072,
            "loaded_context_length": 8192,
        },
        {"id": "nomic", "type": "embeddings", "compatibility_type": "gguf", "state": "not-loaded"},
    ],
}
OPENAI_LIST = {"object": "list", "data": [{"id": "x", "object": "model", "owned_by": "organization_owner"}]}


def unexpected() -> bytes:
    """What it says to a route that it doesn't have: with status 200."""
    return response(b'{"error":"Unexpected endpoint or method."}', 200, "application/json")


async def test_lmstudio_v1_facts_and_quants() -> None:
    routes = {"GET /v1/models": OPENAI_LIST, "GET /api/v1/models": LMSTUDIO_V1}
    async with replaying(routes, missing=unexpected()) as replay:
        server = await recognise(replay.url)
        facts = await server.facts("qwen2.5-7b-instruct@q4_k_m")
        quants = await server.quants("qwen2.5-7b-instruct@q8_0")
        models = await server.models()
        other = await server.facts("qwen2.5-7b-instruct@q8_0")
        assert await server.counters() is None
    assert server.engine.name == "lm-studio"
    assert facts.get("quant") == "Q4_K_M"
    assert (facts.get("bits"), facts.get("size"), facts.get("parameters")) == (4, 4683073184, 7_000_000_000)
    assert (facts.get("context"), facts.get("context_trained"), facts.get("slots")) == (4096, 32768, 4)
    assert facts.get("flash_attention") is True
    assert "context" in other.unknown
    assert [entry.quant for entry in quants] == ["Q4_K_M", "Q8_0"]
    assert [entry.loaded for entry in models] == [True, False]


async def test_lmstudio_before_0_4() -> None:
    routes = {"GET /v1/models": OPENAI_LIST, "GET /api/v0/models": LMSTUDIO_V0}
    async with replaying(routes, missing=unexpected()) as replay:
        server = await recognise(replay.url)
        facts = await server.facts("meta-llama-3.1-8b-instruct")
        assert "no such model" in await check_model(server, "nope")
    assert server.engine.name == "lm-studio"
    assert (facts.get("quant"), facts.get("format"), facts.get("context")) == ("Q4_K_M", "gguf", 8192)
    assert facts.get("loaded") == ["meta-llama-3.1-8b-instruct"]


TGI_INFO = {
    "model_id": "teknium/OpenHermes-2.5-Mistral-7B",
    "model_sha": "24c0bea14d53e6f67f1fbe2eca5bfe7cae389b33",
    "model_dtype": "torch.float16",
    "max_concurrent_requests": 128,
    "max_input_tokens": 4095,
    "max_total_tokens": 4096,
    "version": "3.3.6",
}


async def test_tgi_facts_counters_and_tokens() -> None:
    def tokens(headers: dict[str, str], body: Any) -> Any:
        begin = [{"id": 1, "text": "<s>", "start": 0, "stop": 0}]
        return begin + [{"id": 2, "text": word, "start": 0, "stop": 0} for word in body["inputs"].split()]

    routes = {
        "GET /v1/models": {"object": "list", "data": [{"id": TGI_INFO["model_id"], "owned_by": TGI_INFO["model_id"]}]},
        "GET /info": TGI_INFO,
        "GET /metrics": response(b"tgi_queue_size 3\ntgi_batch_current_size 8\n"),
        "POST /tokenize": tokens,
    }
    async with replaying(routes) as replay:
        server = await recognise(replay.url)
        facts, counters = await server.facts("x"), await server.counters()
        assert await server.tokenize("x", "Hello big world") == 3
    assert server.engine.name == "tgi"
    assert (facts.get("version"), facts.get("context"), facts.get("slots")) == ("3.3.6", 4096, 128)
    assert "quant" in facts.unknown
    assert counters is not None
    assert (counters.running, counters.waiting) == (8, 3)


async def test_quant_from_the_name_is_said_to_be() -> None:
    name = "TheBloke/Mistral-7B-Instruct-AWQ"
    routes = {"GET /v1/models": {"object": "list", "data": [{"id": name, "owned_by": "someone"}]}}
    async with replaying(routes) as replay:
        server = await recognise(replay.url)
        facts = await server.facts(name)
    assert server.engine.name == "openai"
    assert (facts.get("quant"), facts.source("quant")) == ("AWQ", "from the name")
    assert facts.get("owned_by") == "someone"
    assert "engine" in facts.unknown


async def test_programs_that_look_a_little_like_ollama_are_not() -> None:
    # Another program with a version route and a page of its own, beside OpenAI routes.
    routes = {
        "GET /": response(b"<html>Chat</html>", kind="text/html"),
        "GET /api/version": {"version": "0.6.5"},
        "GET /v1/models": {"object": "list", "data": [{"id": "a", "owned_by": "koboldcpp"}]},
        "GET /api/tags": {"models": []},
    }
    async with replaying(routes) as replay:
        assert (await recognise(replay.url)).engine.name == "openai"


async def test_the_simulator_is_itself() -> None:
    from workbench.simulator.options import SimOptions
    from workbench.simulator.server import serve

    serving = await serve(SimOptions())
    try:
        server = await recognise(serving.base_url)
        assert server.engine.name == "simulator"
        counters = await server.counters()
        assert counters is not None
        assert (counters.running, counters.waiting) == (0, 0)
        model = (await server.models())[0].id
        assert await server.tokenize(model, "Hello world") is not None
    finally:
        await serving.close()
