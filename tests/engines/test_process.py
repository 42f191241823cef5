"""The process behind a server: a real one, listening, with options that a record may and may not show."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from replay import replaying, wire

from workbench.engines.llamacpp import LlamaCpp
from workbench.engines.process import LocalServer, find_server, read_options
from workbench.engines.vllm import VLLM

SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """A process called llama-server that listens; its port."""
    program = tmp_path / "llama-server"
    program.write_text(SERVER)
    options = f"-m {Path.home()}/models/x.gguf -np 2 --cache-type-k q8_0 --api-key sk-abc123 sk-def456 --alias=a"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        program,
        *options.split(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "LLAMA_ARG_FLASH_ATTN": "on", "SECRET": "hidden"},
    )
    assert process.stdout is not None
    assert process.stdin is not None
    yield int(await process.stdout.readline())
    process.stdin.close()
    await process.wait()


async def test_its_options_settings_and_no_secret(port: int) -> None:
    found = await find_server("127.0.0.1", port, LlamaCpp.command_marks, LlamaCpp.settings_read)
    assert found is not None
    assert found.option("cache-type-k", "ctk") == "q8_0"
    assert found.settings == {"LLAMA_ARG_FLASH_ATTN": "on"}
    assert {"np=2", "alias=a"} <= set(found.flags)
    everything = repr(found) + repr(found.flags)
    assert "sk-" not in everything
    assert "hidden" not in everything
    assert str(Path.home()) not in repr(found.flags)


async def test_a_port_of_something_else_is_not_the_engines(port: int) -> None:
    assert await find_server("127.0.0.1", port, VLLM.command_marks) is None
    assert await find_server("192.0.2.1", port, LlamaCpp.command_marks) is None


async def test_llamacpp_facts_from_its_command_line(port: int) -> None:
    local = await find_server("localhost", port, LlamaCpp.command_marks, LlamaCpp.settings_read)
    async with replaying(wire("llama.cpp")) as replay:
        facts = await LlamaCpp().facts(replay.http(), "x", local)
    assert (facts.get("kv_cache_type"), facts.source("kv_cache_type")) == ("q8_0", "its command line")
    assert (facts.get("flash_attention"), facts.source("flash_attention")) == ("on", "its LLAMA_ARG_FLASH_ATTN")


def local_server(command: str) -> LocalServer:
    options, words = read_options(command.split())
    return LocalServer(pid=1, pids=(1,), options=options, words=words, settings={}, settings_known=True)


async def test_llamacpp_default_is_named_as_one() -> None:
    async with replaying(wire("llama.cpp")) as replay:
        facts = await LlamaCpp().facts(replay.http(), "x", local_server("-m x.gguf"))
    assert facts.get("kv_cache_type") == "f16"
    assert "default" in facts.source("kv_cache_type")


async def test_vllm_facts_from_its_command_line() -> None:
    local = local_server("serve m --quantization awq --max-num-seqs 4 -tp 2 --dtype=bfloat16 --hf-token abcdef")
    async with replaying(wire("vllm")) as replay:
        facts = await VLLM().facts(replay.http(), "smollm2", local)
    assert (facts.get("quant"), facts.get("slots"), facts.get("tensor_parallel")) == ("awq", 4, 2)
    assert facts.get("compute_type") == "bfloat16"
    flags = facts.get("flags")
    assert isinstance(flags, list)
    assert "max-num-seqs=4" in flags
    assert "block_size=128" in flags
    assert "abcdef" not in str(flags)


async def test_vllm_weights_folder_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"max_position_embeddings": 8192, "torch_dtype": "float16", '
        '"quantization_config": {"quant_method": "gptq", "bits": 4}}'
    )
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1000)
    listed = {"object": "list", "data": [{"id": "m", "owned_by": "vllm", "root": str(tmp_path), "max_model_len": 2048}]}
    async with replaying({**wire("vllm"), "GET /v1/models": listed}) as replay:
        facts = await VLLM().facts(replay.http(), "m", local_server("serve m"))
        remote = await VLLM().facts(replay.http(), "m")
    assert (facts.get("quant"), facts.get("size"), facts.get("context_trained")) == ("gptq-4bit", 1000, 8192)
    assert facts.source("quant") == "config.json beside the weights"
    assert "quant" in remote.unknown


def test_options_in_all_spellings() -> None:
    command = "serve dir --a 1 --b=2 -c -3 --d --e x y --api-key k1 k2 --f"
    options, words = read_options(command.split())
    assert options == {"a": "1", "b": "2", "c": "-3", "d": "", "e": "x", "api-key": "<redacted>", "f": ""}
    assert words == ("serve", "dir", "y")
