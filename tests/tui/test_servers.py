"""The first screen: no server, one, several."""

from __future__ import annotations

import asyncio

from tests.tui.conftest import driven
from tests.tui.scripted_bench import ScriptedBench
from workbench.session.bench import FoundTarget
from workbench.session.options import BUILT_IN
from workbench.tui.latebench import LateBench

BUILT = FoundTarget(name=BUILT_IN, base_url="", engine="llama.cpp")
DEAD = FoundTarget(name="http://127.0.0.1:8000/v1", base_url="http://127.0.0.1:8000/v1", trouble="not an LLM server")
OLLAMA = FoundTarget(
    name="http://127.0.0.1:11434/v1", base_url="http://127.0.0.1:11434/v1", engine="ollama", models=("qwen2.5:7b",)
)
VLLM = FoundTarget(name="http://127.0.0.1:8001/v1", base_url="http://127.0.0.1:8001/v1", engine="vllm", models=("m",))


async def test_the_only_server_is_used_without_a_question() -> None:
    async with driven(ScriptedBench(found=[OLLAMA, DEAD, BUILT]), target=None) as screen:
        assert screen.bench.connected == [OLLAMA.name]
        assert "r Run" in screen.text()


async def test_without_a_server_the_built_in_engine_is_one_key_away() -> None:
    async with driven(ScriptedBench(found=[DEAD, BUILT]), target=None) as screen:
        text = screen.text()
        assert "No LLM server answered" in text
        assert "not an LLM server" in text
        assert "b Built-in engine" in text
        await screen.press("b")
        await screen.app.workers.wait_for_complete()
        await screen.settle()
        assert screen.bench.connected == [BUILT_IN]
        assert "r Run" in screen.text()


async def test_with_several_the_person_chooses() -> None:
    async with driven(ScriptedBench(found=[OLLAMA, VLLM, DEAD, BUILT]), target=None) as screen:
        text = screen.text()
        assert screen.bench.connected == []
        assert "qwen2.5:7b" in text
        assert "vllm" in text
        await screen.press("down", "down", "enter")
        assert "not an LLM server" in screen.lines()[0]
        await screen.press("up", "enter")
        await screen.app.workers.wait_for_complete()
        assert screen.bench.connected == [VLLM.name]


async def test_looking_again_finds_a_server_started_meanwhile() -> None:
    bench = ScriptedBench(found=[])
    async with driven(bench, target=None) as screen:
        assert "none yet" in screen.text()
        bench.found = [VLLM]
        await screen.press("r")
        assert "vllm" in screen.text()


async def test_measuring_starts_at_once_when_asked_for() -> None:
    async with driven(ScriptedBench(found=[OLLAMA]), target=None, run_at_once=True) as screen:
        await screen.finished()
        assert len(screen.bench.plans) == 1


async def test_a_late_bench_is_made_once_and_only_when_asked() -> None:
    made: list[ScriptedBench] = []

    def make() -> ScriptedBench:
        made.append(ScriptedBench())
        return made[-1]

    late = LateBench(make)
    await late.close()
    late.stop()
    assert made == []
    assert late.environment == {}
    servers = await asyncio.gather(late.connect("a"), late.connect("b"))
    assert len(made) == 1
    assert servers[0].engine == "ollama"
    assert late.start_setting() == made[0].setting
    await late.close()
    assert made[0].closed
