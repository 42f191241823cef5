"""The tokenizer's fingerprint is one figure whether a server's tokenizer route counts or its `prompt_tokens` do."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Sequence

import pytest

from workbench.domain.events import RequestTrace, Usage
from workbench.engines.builtin import start_builtin
from workbench.engines.recognise import recognise
from workbench.session.probes import TEXTS, tokenizer_probe
from workbench.simulator.options import SimOptions
from workbench.simulator.process import SimulatorProcess


def prompt_tokens(base_url: str, model: str, text: str) -> int:
    body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return int(json.load(reply)["usage"]["prompt_tokens"])


async def both_ways(base_url: str) -> list[list[int]]:
    server = await recognise(base_url)
    model = (await server.models())[0].id

    async def by_route(text: str) -> int | None:
        return await server.tokenize(model, text)

    async def not_at_all(text: str) -> int | None:
        return None

    async def ask(texts: Sequence[str], tokens: int) -> list[RequestTrace]:
        counts = [await asyncio.to_thread(prompt_tokens, base_url, model, text) for text in texts]
        return [RequestTrace(index=n, outcome="ok", usage=Usage(prompt=count)) for n, count in enumerate(counts)]

    probes = [await tokenizer_probe(count, ask) for count in (by_route, not_at_all)]
    return [probe[0] for probe in probes if probe is not None]


async def test_on_the_simulator() -> None:
    async with SimulatorProcess(SimOptions(ttft_ms=0)) as simulator:
        route, usage = await both_ways(simulator.base_url)
    assert route == usage
    assert len(route) == len(TEXTS)


@pytest.mark.engine
async def test_on_the_built_in_engine() -> None:
    """A real tokenizer with a real chat template around the text."""
    async with await start_builtin(slots=1, context=1024) as engine:
        route, usage = await both_ways(engine.base_url)
    assert route == usage
    assert len(set(route)) > 3, "texts of several kinds"
