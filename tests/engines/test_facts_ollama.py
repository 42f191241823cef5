"""Ollama: bytes captured of a real server (0.33.0-rc2, CPU), and a live one when OLLAMA_HOST names one that answers."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from replay import captured, replaying, response, wire

from workbench.engines.base import FACT_NAMES, prompt_cut
from workbench.engines.discover import ollama_url
from workbench.engines.http import HttpTrouble
from workbench.engines.ollama import Ollama
from workbench.engines.process import LocalServer
from workbench.engines.recognise import Server, check_model, recognise


def ollama() -> dict[str, Any]:
    """All routes captured of Ollama; /api/show answers by model."""

    def show(headers: dict[str, str], body: Any) -> bytes:
        known = {"smollm2:q8_0": "show_q8", "smollm2:q4_1": "show_q4"}
        return captured("ollama", known.get(body["model"], "show_unknown"))

    return {**wire("ollama"), "POST /api/show": show}


BLOB = "/srv/engines/ollama/models/blobs/sha256-21aa6201baadd1dcd06a9fc097bd8c5eced7521b2d08ef2ae57df177a5d2a380"


async def test_recognised_and_its_models() -> None:
    async with replaying(ollama()) as replay:
        server = await recognise(replay.url)
        models = {entry.id: entry for entry in await server.models()}
        assert server.engine.name == "ollama"
        assert await check_model(server, "SmolLM2:q8_0") == ""
        # No tag means :latest, which it does not have.
        assert await check_model(server, "smollm2") == "no such model: smollm2; it has: smollm2:q8_0, smollm2:q4_1"
        assert await server.ready()
    assert set(models) == {"smollm2:q8_0", "smollm2:q4_1"}
    assert (models["smollm2:q8_0"].quant, models["smollm2:q8_0"].size) == ("Q8_0", 144811545)
    assert models["smollm2:q8_0"].loaded is False


async def test_facts_of_a_model_that_is_not_loaded() -> None:
    async with replaying(ollama()) as replay:
        facts = await (await recognise(replay.url)).facts("smollm2:q8_0")
    expected = {
        "engine": "ollama",
        "version": "0.33.0-rc2",
        "model": "smollm2:q8_0",
        "digest": "1884f8a271dfb3bf360f62cbda9337357f56407a3a103d0b75113f23a79bf386",
        "format": "gguf",
        "family": "llama",
        "quant": "Q8_0",
        "size": 144811545,
        "parameters": 134515008,
        "context_trained": 8192,
        "path": BLOB,
        "weights_digest": BLOB.rpartition("-")[2],
        "bits": round(8 * 144811545 / 134515008, 2),
        "loaded": [],
    }
    assert facts.values() == expected
    assert "load the model" in facts.unknown["context"]
    assert "OLLAMA_NUM_PARALLEL" in facts.unknown["slots"]
    assert set(FACT_NAMES) <= set(facts.values()) | set(facts.unknown)


async def test_facts_of_a_loaded_model() -> None:
    routes = ollama()
    routes["GET /api/ps"] = captured("ollama", "get_api_ps_after")
    async with replaying(routes) as replay:
        server = await recognise(replay.url)
        facts = await server.facts("smollm2:q8_0")
        loaded = {entry.id: entry.loaded for entry in await server.models()}
    assert (facts.get("context"), facts.source("context")) == (4096, "GET /api/ps, one slot's")
    assert (facts.get("memory"), facts.get("gpu_memory")) == (257142291, 0)
    assert "estimate" in facts.source("memory")
    assert loaded == {"smollm2:q8_0": True, "smollm2:q4_1": False}


async def test_quants_are_the_tags_of_one_model() -> None:
    async with replaying(ollama()) as replay:
        quants = await (await recognise(replay.url)).quants("smollm2:q8_0")
    assert [(entry.id, entry.quant) for entry in quants] == [("smollm2:q4_1", "Q4_1"), ("smollm2:q8_0", "Q8_0")]


async def test_memory_that_only_repeats_the_files_size_is_unknown() -> None:
    routes = ollama()
    table = json.loads(captured("ollama", "get_api_ps_after").partition(b"\r\n\r\n")[2])
    table["models"][0]["size"] = table["models"][0]["size_vram"] = 144811545
    routes["GET /api/ps"] = table
    async with replaying(routes) as replay:
        facts = await (await recognise(replay.url)).facts("smollm2:q8_0")
    assert "memory" in facts.unknown
    assert facts.get("gpu_memory") is None


async def test_size_vram_left_out_means_none_on_the_gpu() -> None:
    routes = ollama()
    table = json.loads(captured("ollama", "get_api_ps_after").partition(b"\r\n\r\n")[2])
    del table["models"][0]["size_vram"]
    routes["GET /api/ps"] = table
    async with replaying(routes) as replay:
        facts = await (await recognise(replay.url)).facts("smollm2:q8_0")
    assert facts.get("gpu_memory") == 0


async def test_what_its_process_and_child_tell() -> None:
    child = {"model": BLOB, "port": "40005", "np": "2", "c": "8192", "cache-type-k": "q8_0", "flash-attn": "on"}
    local = LocalServer(
        pid=1,
        pids=(1, 2),
        options={},
        words=("serve",),
        settings={"OLLAMA_NUM_PARALLEL": "2"},
        settings_known=True,
        children=({"model": "/other"}, child),
    )
    async with replaying(ollama()) as replay:
        facts = await Ollama().facts(replay.http(), "smollm2:q8_0", local)
        without = await Ollama().facts(replay.http(), "smollm2:q4_1", local)
    assert (facts.get("slots"), facts.get("kv_cache_type"), facts.get("flash_attention")) == (2, "q8_0", "on")
    assert facts.source("slots") == "its llama-server's command line"
    assert facts.get("flags") == ["OLLAMA_NUM_PARALLEL=2", "np=2", "c=8192", "cache-type-k=q8_0", "flash-attn=on"]
    assert "slots" in without.unknown


async def test_a_cloud_model_is_marked() -> None:
    routes = ollama()
    table = json.loads(captured("ollama", "get_api_tags").partition(b"\r\n\r\n")[2])
    table["models"][0] |= {"remote_host": "https://ollama.com:443", "remote_model": "big"}
    routes["GET /api/tags"] = table
    async with replaying(routes) as replay:
        models = await (await recognise(replay.url)).models()
    assert [entry.remote for entry in models] == [True, False]


async def test_no_models_at_all() -> None:
    routes = ollama()
    routes["GET /v1/models"] = response(b'{"object":"list","data":null}\n', 200, "application/json")
    routes["GET /api/tags"] = {"models": []}
    async with replaying(routes) as replay:
        server = await recognise(replay.url)
        assert server.engine.name == "ollama"
        assert await server.models() == []
        assert await check_model(server, "x") == f"no such model: x; 127.0.0.1:{replay.port} has none"


async def test_loading_is_asked_for_and_its_answer_checked() -> None:
    routes = ollama()
    routes["POST /api/generate"] = captured("ollama", "api_load")
    async with replaying(routes) as replay:
        server = await recognise(replay.url)
        assert await server.keep_alive("smollm2:q8_0", 300) is True
        assert replay.bodies("POST /api/generate") == [{"model": "smollm2:q8_0", "keep_alive": 300, "stream": False}]
        replay.routes["POST /api/generate"] = captured("ollama", "unknown_model")
        assert await server.keep_alive("nope", 300) is False


def _usage(name: str) -> int:
    body = captured("ollama", name).rpartition(b'"prompt_tokens":')[2]
    return int(body.partition(b",")[0])


def test_its_silent_cut_is_detected() -> None:
    # The captured prompt is 700 times a sentence of 10 tokens, in a window of 4,096.
    assert _usage("too_long_stream") == 2050
    assert (
        prompt_cut(7000, 2050, 4096)
        == "prompt cut: sent about 7,000 tokens, the server used 2,050 (its window is 4,096)"
    )
    assert prompt_cut(7000, _usage("too_long_nonstream"))
    assert _usage("chat_stream_usage") == 15
    # A template only adds; another tokenizer may count a quarter more.
    assert prompt_cut(7, 15, 4096) == ""
    assert prompt_cut(1300, 1000, 4096) == ""
    assert prompt_cut(1000, 999, exact=True)
    assert prompt_cut(1000, 1000, exact=True) == ""
    # It fits no window, and yet fewer were used.
    assert prompt_cut(5000, 4090, 4096)
    assert prompt_cut(0, 0) == ""


@pytest.fixture
async def live() -> Server:
    """The Ollama that OLLAMA_HOST names."""
    host = os.environ.get("OLLAMA_HOST", "")
    if not host:
        pytest.skip("no real Ollama: OLLAMA_HOST is not set")
    try:
        server = await recognise(ollama_url(host))
    except HttpTrouble as trouble:
        pytest.skip(f"no real Ollama: {trouble.sentence}")
    if server.engine.name != "ollama":
        pytest.skip(f"no real Ollama: OLLAMA_HOST names {server.engine.label}")
    return server


async def _small(server: Server) -> list[str]:
    """Its models below a gigabyte, which load quickly, smallest first."""
    entries = [entry for entry in await server.models() if not entry.remote and 0 < (entry.size or 0) < 1 << 30]
    if not entries:
        pytest.skip("the real Ollama has no model below 1 GiB")
    return [entry.id for entry in sorted(entries, key=lambda entry: entry.size or 0)]


async def test_real_ollama_facts_before_and_after_a_load(live: Server) -> None:
    model = (await _small(live))[0]
    assert await live.unload(model) is True
    cold = await live.facts(model)
    assert cold.source("digest").startswith("GET /api/tags")
    assert cold.get("quant")
    assert model not in (cold.get("loaded") or [])
    assert await live.keep_alive(model, 60) is True
    warm = await live.facts(model)
    assert model in (warm.get("loaded") or [])
    assert warm.source("context") == "GET /api/ps, one slot's"
    assert await live.unload(model) is True
    assert model not in ((await live.facts(model)).get("loaded") or [])


async def test_real_ollama_flips_between_quants(live: Server) -> None:
    for model in await _small(live):
        quants = await live.quants(model)
        if len({entry.quant for entry in quants}) > 1:
            for entry in quants:
                assert (await live.facts(entry.id)).get("quant") == entry.quant
            return
    pytest.skip("the real Ollama has no model in two quantizations")


async def test_real_ollama_slots_of_a_loaded_model(live: Server) -> None:
    local = await live.local()
    if local is None:
        pytest.skip("the real Ollama's process can't be seen from here")
    model = (await _small(live))[0]
    assert await live.keep_alive(model, 60) is True
    facts = await live.facts(model)
    await live.unload(model)
    assert isinstance(facts.get("slots"), int)
    assert facts.source("slots") == "its llama-server's command line"
