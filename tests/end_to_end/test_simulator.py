"""The simulator over real sockets: routes, streams, slots, failures, hostile bytes."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.end_to_end.simulator_client import Wire, ask, chat, counters, request, say, simulator
from workbench import __version__
from workbench.simulator.connection import BODY_LIMIT, HEAD_LIMIT, PIPELINE_LIMIT
from workbench.simulator.options import MAX_MODEL_LEN
from workbench.simulator.text import count_tokens

FAST: dict[str, Any] = {"ttft_ms": 2, "itl_ms": 1}
CHAT = "/v1/chat/completions"


async def test_the_small_routes() -> None:
    async with simulator() as url:
        health = await ask(url, "/health")
        assert (health.status, health.json) == (200, {"status": "ok"})
        assert health.headers["server"] == f"workbench-sim/{__version__}"
        (model,) = (await ask(url, "/v1/models?x=1")).json["data"]
        assert (model["id"], model["owned_by"], model["max_model_len"]) == ("simulated", "workbench-sim", 32768)
        assert len((await ask(url, "/tokenize", {"content": "a b a"})).json["tokens"]) == 3
        counted = (await ask(url, "/tokenize", {"model": "simulated", "prompt": "a b a"})).json
        assert (counted["count"], counted["tokens"][0]) == (3, counted["tokens"][2])
        assert (await ask(url, "/tokenize", {})).status == 400
        missing = await ask(url, "/v1/nothing")
        assert (missing.status, missing.json["error"]["code"]) == (404, 404)
        wrong = await ask(url, CHAT)
        assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
        assert (await ask(url, "/health", method="HEAD")).status == 405


async def test_a_chat_stream() -> None:
    async with simulator(**FAST) as url:
        reply = await say(url, "one two three", max_tokens=12, unknown={"a": [1]}, top_p=0.5)
    assert reply.headers["content-type"].startswith("text/event-stream")
    role, *output, finish, usage = reply.events
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(event["choices"][0]["delta"]["content"].strip() for event in output)
    assert all(event["choices"][0]["finish_reason"] is None for event in (role, *output))
    assert len(output) == 12
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "length"}]
    assert usage["usage"] == {"prompt_tokens": 3, "completion_tokens": 12, "total_tokens": 15}
    assert count_tokens(reply.text) == 12
    assert {event["model"] for event in reply.events} == {"simulated"}
    assert len({event["id"] for event in reply.events}) == 1
    assert all(set(event["sim"]) == {"sent_ns", "due_ns", "received_ns"} for event in reply.events)


async def test_without_include_usage_there_is_none() -> None:
    async with simulator(**FAST) as url:
        reply = await say(url, max_tokens=3, stream_options=None)
    assert [event for event in reply.events if "usage" in event] == []


async def test_a_completion_stream_and_its_prompt_forms() -> None:
    async with simulator(**FAST) as url:
        for prompt, tokens in (("a b", 2), (["a b"], 2), ([5, 6, 7], 3)):
            body = {"prompt": prompt, "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}}
            reply = await ask(url, "/v1/completions", body)
            *output, finish, usage = reply.events
            assert count_tokens("".join(event["choices"][0]["text"] for event in output)) == 4
            assert finish["choices"][0]["finish_reason"] == "length"
            assert usage["usage"]["prompt_tokens"] == tokens
        assert (await ask(url, "/v1/completions", {"prompt": ["a", "b"]})).status == 400


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
async def test_a_reply_that_is_not_streamed_says_the_same(path: str) -> None:
    body = {"messages": [{"role": "user", "content": "x y"}], "prompt": "x y", "max_tokens": 5}
    async with simulator(**FAST) as url:
        whole = (await ask(url, path, body)).json
        streamed = await ask(url, path, {**body, "stream": True})
    (choice,) = whole["choices"]
    said = [event["choices"][0] for event in streamed.events]
    if path == CHAT:
        assert choice["message"] == {"role": "assistant", "content": streamed.text}
    else:
        assert choice["text"] == "".join(event["text"] for event in said)
    assert choice["finish_reason"] == "length"
    assert whole["usage"] == {"prompt_tokens": 2, "completion_tokens": 5, "total_tokens": 7}
    stamp = whole["sim"]
    assert stamp["due_ns"] == stamp["received_ns"] + 2_000_000 + 4 * 1_000_000


async def test_how_a_reply_ends() -> None:
    async with simulator(natural_tokens=6, **FAST) as url:

        async def ending(**fields: Any) -> tuple[int, str]:
            finish, usage = (await say(url, **fields)).events[-2:]
            return usage["usage"]["completion_tokens"], finish["choices"][0]["finish_reason"]

        assert await ending() == (6, "stop")
        assert await ending(max_tokens=4) == (4, "length")
        assert await ending(max_completion_tokens=5, max_tokens=3) == (5, "length")
        assert await ending(ignore_eos=True, max_tokens=9) == (9, "length")
        assert await ending(sim={"tokens": 2}) == (2, "stop")
        assert await ending(sim={"tokens": 0}) == (0, "stop")
    async with simulator(ttft_ms=0, itl_ms=0) as url:
        assert await ending() == (128, "length")


async def test_the_text_follows_from_the_prompt_at_temperature_0() -> None:
    async with simulator(**FAST) as url:

        async def text(prompt: str, **fields: Any) -> str:
            return (await say(url, prompt, max_tokens=20, **fields)).text

        assert await text("a", temperature=0) == await text("a", temperature=0)
        assert await text("a", temperature=0) != await text("b", temperature=0)
        assert await text("a", temperature=1, seed=3) == await text("a", temperature=1, seed=3)
        assert await text("a", temperature=1) != await text("a", temperature=1)


async def test_tokens_per_chunk() -> None:
    async with simulator(tokens_per_chunk=4, **FAST) as url:
        reply = await say(url, max_tokens=10)
    output = [event["choices"][0]["delta"]["content"] for event in reply.events[1:-2]]
    assert [count_tokens(text) for text in output] == [4, 4, 2]
    assert reply.events[-1]["usage"]["completion_tokens"] == 10


async def test_the_prefix_cache() -> None:
    async with simulator(cache_speedup=10, ttft_ms=100, itl_ms=1) as url:
        for prompt, ttft_ms, cached in (("a b c", 100, 0), ("a b c", 10, 3), ("a b d", 100, 0)):
            reply = await say(url, prompt, max_tokens=2)
            first = reply.stamps[0]
            assert first["due_ns"] - first["received_ns"] == ttft_ms * 1_000_000
            assert reply.events[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": cached}


async def test_failures_are_a_seeded_share() -> None:
    async def outcomes(seed: int) -> list[int]:
        async with simulator(fail_rate=0.3, seed=seed, ttft_ms=0, itl_ms=0) as url, await Wire.open(url) as wire:
            statuses = []
            for _ in range(200):
                wire.send(CHAT, chat(max_tokens=1))
                reply = await wire.read()
                statuses.append(reply.status)
                assert reply.status == 200 or reply.json["error"]["type"] == "server_error"
            assert (await counters(url))["requests_failed_total"] == statuses.count(500)
            return statuses

    first = await outcomes(1)
    assert set(first) == {200, 500}
    assert 35 <= first.count(500) <= 85
    assert await outcomes(1) == first
    assert await outcomes(2) != first


async def test_a_request_may_ask_for_its_own_timing_or_failure() -> None:
    async with simulator(ttft_ms=60_000) as url:
        reply = await say(url, max_tokens=3, sim={"ttft_ms": 7.5, "itl_ms": 2.5})
        assert [stamp["due_ns"] - stamp["received_ns"] for stamp in reply.stamps] == [7_500_000, 10_000_000, 12_500_000]
        assert (await say(url, sim={"fail": True})).status == 500


async def test_slots_queue_in_order_and_each_wait_starts_when_a_slot_frees() -> None:
    async with simulator(slots=2, ttft_ms=30, itl_ms=5) as url:
        wires = [await Wire.open(url) for _ in range(4)]
        for index, wire in enumerate(wires):
            wire.send(CHAT, chat(f"{index}", max_tokens=20))
            assert (await wire.head())[0] == 200
        figures = await counters(url)
        assert (figures["requests_running"], figures["requests_waiting"]) == (2, 2)
        ends, firsts = [], []
        for wire in wires:
            chunks = [chunk async for chunk in _chunks(wire)]
            firsts.append(_stamp(chunks[0]))
            ends.append(_stamp(chunks[-1]))
            wire.writer.close()
        assert (await counters(url))["requests_running"] == 0
    for first in firsts[:2]:
        assert first["due_ns"] == first["received_ns"] + 30_000_000
    for waited, freed in zip(firsts[2:], ends[:2], strict=True):
        assert waited["received_ns"] < freed["sent_ns"]
        # A slot frees right after the last write of the reply that held it, which its stamp precedes.
        assert 30_000_000 <= waited["due_ns"] - freed["sent_ns"] < 45_000_000


async def _chunks(wire: Wire) -> Any:
    while chunk := await wire.chunk():
        yield chunk


def _stamp(chunk: bytes) -> dict[str, int]:
    fields = chunk.partition(b'"sim":{')[2].partition(b"}")[0].decode().split(",")
    return {name.strip('"'): int(value) for name, value in (field.split(":") for field in fields)}


async def test_a_client_that_leaves_frees_its_slot_and_its_place_in_the_queue() -> None:
    async with simulator(slots=1, **FAST) as url:
        holder, patient, impatient = [await Wire.open(url) for _ in range(3)]
        for wire in (holder, patient, impatient):
            wire.send(CHAT, chat(max_tokens=30_000, sim={"ttft_ms": 0}))
            await wire.head()
        await holder.chunk()
        impatient.writer.close()
        while (figures := await counters(url))["requests_dropped_total"] == 0:
            pass
        assert (figures["requests_running"], figures["requests_waiting"]) == (1, 1)
        left_ns = time.perf_counter_ns()
        holder.writer.close()
        assert _stamp(await patient.chunk())["due_ns"] > left_ns
        figures = await counters(url)
        assert figures["requests_running"] == 1
        assert figures["requests_waiting"] == 0
        assert figures["requests_dropped_total"] == 2
        patient.writer.close()


async def test_many_streams_are_held_at_once() -> None:
    async with simulator(ttft_ms=50, itl_ms=20) as url:
        wires = await asyncio.gather(*(Wire.open(url) for _ in range(128)))
        for index, wire in enumerate(wires):
            wire.send(CHAT, chat(f"prompt {index}", max_tokens=100))
        for wire in wires:
            await wire.head()
            await wire.chunk()
        assert (await counters(url))["requests_running"] == 128
        # Each is followed to its end: the right number of tokens, whatever the others do.
        lengths = [len([chunk async for chunk in _chunks(wire)]) for wire in wires]
        assert lengths == [99] * 128
        for wire in wires:
            wire.writer.close()


async def test_one_connection_serves_many_requests_and_pipelined_ones_in_order() -> None:
    async with simulator(**FAST) as url, await Wire.open(url) as wire:
        wire.writer.write(
            request(CHAT, chat("slow", max_tokens=8))
            + request("/health")
            + request(CHAT, chat("whole", stream=False, max_tokens=2))
            + request("/v1/nothing")
        )
        assert count_tokens((await wire.read()).text) == 8
        assert (await wire.read()).json == {"status": "ok"}
        assert (await wire.read()).json["usage"]["completion_tokens"] == 2
        assert (await wire.read()).status == 404
        wire.send("/health")
        assert (await wire.read()).status == 200


async def test_more_pipelined_requests_than_are_kept_are_all_answered() -> None:
    async with simulator(**FAST) as url, await Wire.open(url) as wire:
        wire.writer.write(request(CHAT, chat(max_tokens=3)) + request("/health") * (2 * PIPELINE_LIMIT))
        # The head of the first answer says that the first batch was read: from here on the server reads no more.
        await wire.head()
        wire.writer.write(request("/health") * PIPELINE_LIMIT)
        while await wire.chunk():
            pass
        for _ in range(3 * PIPELINE_LIMIT):
            assert (await wire.read()).status == 200


async def test_a_request_in_single_bytes_is_received_at_its_last_one() -> None:
    async with simulator(**FAST) as url, await Wire.open(url) as wire:
        sent = request(CHAT, chat(max_tokens=2))
        for index in range(len(sent) - 1):
            wire.writer.write(sent[index : index + 1])
            await wire.writer.drain()
        # By the answer on another connection, the server has read what came before.
        await ask(url, "/health")
        before_ns = (await say(url, max_tokens=1)).stamps[0]["sent_ns"]
        wire.writer.write(sent[-1:])
        assert (await wire.read()).stamps[0]["received_ns"] > before_ns


async def test_chunked_request_bodies_and_expect_continue() -> None:
    body = request("", chat(max_tokens=2)).partition(b"\r\n\r\n")[2]
    async with simulator(**FAST) as url, await Wire.open(url) as wire:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n"
        wire.writer.write(head.encode() + b"Expect: 100-continue\r\n\r\n")
        assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert count_tokens((await wire.read()).text) == 2


async def test_http_1_0_and_connection_close_end_with_the_connection() -> None:
    async with simulator(**FAST) as url:
        async with await Wire.open(url) as wire:
            wire.writer.write(request(CHAT, chat(max_tokens=2)).replace(b"HTTP/1.1", b"HTTP/1.0"))
            reply = await wire.read()
            assert "transfer-encoding" not in reply.headers
            assert count_tokens(reply.text) == 2
        async with await Wire.open(url) as wire:
            wire.send("/health", extra="Connection: close\r\n")
            assert (await wire.read()).headers["connection"] == "close"
            assert await wire.reader.read() == b""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"x":' + b"[" * 100_000,
        b'{"messages":[]}',
        b'{"messages":"hello"}',
        b'{"messages":[{"content":5}]}',
        b'{"messages":[{"content":"a"}],"max_tokens":0}',
        b'{"messages":[{"content":"a"}],"max_tokens":"many"}',
        b'{"messages":[{"content":"a"}],"sim":{"ttft_ms":-1}}',
        b'{"messages":[{"content":"a"}],"sim":{"itl_ms":1e300}}',
        b'{"messages":[{"content":"' + b"a " * MAX_MODEL_LEN + b'"}]}',
    ],
)
async def test_a_body_that_can_not_be_served_is_a_400_and_the_connection_goes_on(body: bytes) -> None:
    async with simulator(**FAST) as url, await Wire.open(url) as wire:
        wire.send(CHAT, body)
        reply = await wire.read()
        assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request_error")
        wire.send("/health")
        assert (await wire.read()).status == 200
        assert (await counters(url))["requests_running"] == 0


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"POST /health HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /health HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nX: " + b"a" * (HEAD_LIMIT + 1), 431),
        (b"POST /tokenize HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_LIMIT + 1) + b" " * (BODY_LIMIT + 1), 413),
    ],
)
async def test_bytes_that_are_no_request_are_refused_and_the_connection_ends(
    raw: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client must see the end because the server says it, not because the server gave up on it.
    monkeypatch.setattr("workbench.simulator.connection.LINGER_S", 3600.0)
    async with simulator(**FAST) as url:
        async with await Wire.open(url) as wire:
            wire.writer.write(raw)
            reply = await wire.read()
            assert (reply.status, reply.json["error"]["code"]) == (status, status)
            assert await wire.reader.read() == b""
        assert (await ask(url, "/health")).status == 200


async def test_a_malformed_request_behind_a_good_one_waits_its_turn() -> None:
    async with simulator(**FAST) as url, await Wire.open(url) as wire:
        wire.writer.write(request(CHAT, chat(max_tokens=5)) + b"nonsense\r\n\r\n")
        assert count_tokens((await wire.read()).text) == 5
        assert (await wire.read()).status == 400
        assert await wire.reader.read() == b""


async def test_the_prompt_takes_room_from_the_reply() -> None:
    async with simulator(ttft_ms=0, itl_ms=0) as url:
        reply = await say(url, "a " * (MAX_MODEL_LEN - 3), max_tokens=100)
    assert reply.events[-1]["usage"]["completion_tokens"] == 3
