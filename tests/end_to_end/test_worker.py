"""The real worker process over real sockets: against the simulator's clock, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator
from time import perf_counter

import pytest
import pytest_asyncio

from tests.end_to_end import misbehaving
from tests.end_to_end.misbehaving import END, STREAM, WHOLE, Seen, event, serving
from workbench.domain.cell import cell_figures
from workbench.domain.plan import Timeouts
from workbench.measure.protocol import Connect, PromptText, RunCell
from workbench.session.workers import CellRun, Crew
from workbench.simulator.options import SimOptions
from workbench.simulator.process import SimulatorProcess

LIMITS = Timeouts(connect=2.0, first_byte=0.6, idle=0.5)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crew(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Crew]:
    """One crew for all: a session, too, uses its workers for one cell after another."""
    crew = Crew(tmp_path_factory.mktemp("crew") / "worker.log")
    yield crew
    await crew.close()


async def run(
    crew: Crew, base_url: str, *, key: str = "", timeouts: Timeouts = LIMITS, workers: int = 1, **fields: object
) -> CellRun:
    await crew.ensure(workers)
    crew.connect(Connect(base_url=base_url, key=key, timeouts=timeouts))
    cell = RunCell(
        cell=1,
        body={"model": "m", "max_tokens": 20, "temperature": 0, "stream": True},
        prompts=[PromptText(name="p", text="Say something.")],
        nonce_seed="test",
    )
    for name, value in {"requests": 1, **fields}.items():
        setattr(cell, name, value)
    async with asyncio.timeout(60):
        return await crew.run(cell, workers=workers, on_snapshot=lambda s: None, on_finished=lambda t: None)


def outcomes(done: CellRun) -> list[tuple[str, str]]:
    return [(trace.outcome, trace.error_class) for trace in done.traces]


@pytest.mark.timing
@pytest.mark.parametrize(("streams", "within_ms"), [(1, 2.0), (16, 5.0), (64, 5.0)])
async def test_ttft_agrees_with_the_servers_own_stamps(crew: Crew, streams: int, within_ms: float) -> None:
    async with SimulatorProcess(SimOptions(ttft_ms=100, itl_ms=20)) as simulator:
        body = {"model": "m", "max_tokens": 50, "stream": True}
        done = await run(
            crew, simulator.base_url, requests=max(6, streams), concurrency=streams, body=body, timeouts=Timeouts()
        )
    late = sorted((t.arrivals.at_ns[0] - t.arrivals.server_ns[0]) / 1e6 for t in done.traces)
    assert len(late) == max(6, streams)
    assert 0 < late[len(late) // 2] < within_ms
    cell = cell_figures(done.traces, concurrency=streams)
    assert cell.in_flight_peak == streams
    # The truth is what the server did, to its own stamps: on a busy machine it is late now and then.
    rates = []
    for trace, figures in zip(done.traces, cell.per_request, strict=True):
        stamps = trace.arrivals.server_ns
        rates.append((figures.decode_rate or 0) * (stamps[-1] - stamps[0]) / 1e9 / (len(stamps) - 1))
    # Beside other work on both cores the arrivals of 64 streams lag by some ms of the second they last.
    assert sorted(rates)[len(rates) // 2] == pytest.approx(1, rel=0.01 if streams == 1 else 0.03)


async def test_128_streams_are_in_flight_at_once(crew: Crew) -> None:
    async with SimulatorProcess(SimOptions(ttft_ms=300, itl_ms=20)) as simulator:
        done = await run(crew, simulator.base_url, requests=200, concurrency=128, timeouts=Timeouts())
    cell = cell_figures(done.traces, concurrency=128)
    assert (cell.ok, cell.in_flight_peak) == (200, 128)


async def test_two_workers_share_a_cell(crew: Crew) -> None:
    async with SimulatorProcess(SimOptions(ttft_ms=100, itl_ms=10)) as simulator:
        done = await run(crew, simulator.base_url, requests=16, concurrency=6, workers=2)
    assert sorted(trace.index for trace in done.traces) == list(range(16))
    cell = cell_figures(done.traces, concurrency=6)
    assert (cell.ok, cell.in_flight_peak, done.fitness.workers) == (16, 6, 2)


async def test_every_prompt_is_unique_and_the_headers_are_right(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")

    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(WHOLE)

    async with serving(reply) as seen:
        done = await run(crew, seen.base_url, requests=6, concurrency=2, key="k1", system="Be brief.")
    assert outcomes(done) == [("ok", "")] * 6
    bodies = [json.loads(body) for body in seen.bodies]
    openings = {body["messages"][0]["content"] for body in bodies}
    assert len(openings) == 6
    assert all(re.fullmatch(r"\[\d{10}\] Be brief\.", text) for text in openings)
    assert {body["messages"][1]["content"] for body in bodies} == {"Say something."}
    assert bodies[0]["stream_options"] == {"include_usage": True}
    head = seen.heads[0].lower()
    assert head.startswith(b"post /v1/chat/completions http/1.1\r\n")
    assert b"accept-encoding: identity" in head
    assert b"authorization: bearer k1" in head
    assert b"org-secret" not in head
    # Connections are opened ahead and kept: two are enough for six requests.
    assert seen.opened == 2
    assert all(trace.connect_ns is None for trace in done.traces)


async def test_nothing_listens(crew: Crew) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = await run(crew, f"http://127.0.0.1:{port}/v1", requests=3)
    assert outcomes(done) == [("failed", "refused")] * 3


async def test_a_port_that_never_accepts_times_out(crew: Crew) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        others = []
        for _ in range(4):
            other = socket.socket()
            other.setblocking(False)
            other.connect_ex(full.getsockname())
            others.append(other)
        limits = Timeouts(connect=0.3, first_byte=0.4, idle=0.4)
        done = await run(crew, f"http://127.0.0.1:{full.getsockname()[1]}/v1", timeouts=limits)
        for other in others:
            other.close()
    assert outcomes(done)[0][1] in ("timeout_connect", "timeout_first_byte")


MISBEHAVIOUR = {
    "closed before a reply": (b"", "failed", "connection"),
    "closed in mid-stream": (STREAM + event("a"), "failed", "truncated"),
    "garbage for HTTP": (b"HELLO there\r\n\r\n", "failed", "malformed"),
    "a redirect": (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "failed", "redirect"),
    "unauthorized": (b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno", "failed", "http_401"),
    "length and a whole body": (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n"
        b'{"choices":[{"message":{"content":0}',
        "failed",
        "malformed",
    ),
    "a body without length or chunks": (
        b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"choices":[{"delta":{"content":"a"},'
        b'"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
        "ok",
        "",
    ),
}


@pytest.mark.parametrize("name", MISBEHAVIOUR)
async def test_a_server_that_answers_and_closes(crew: Crew, name: str) -> None:
    data, outcome, error_class = MISBEHAVIOUR[name]

    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    async with serving(reply) as seen:
        done = await run(crew, seen.base_url, requests=4, concurrency=2)
    assert outcomes(done) == [(outcome, error_class)] * 4
    assert len(seen.bodies) == 4


async def test_a_reset_in_mid_stream_keeps_what_came(crew: Crew) -> None:
    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + event("a") + event("b"))
        await writer.drain()
        await asyncio.sleep(0.05)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with serving(reply) as seen:
        done = await run(crew, seen.base_url)
    assert outcomes(done) == [("failed", "truncated")]
    assert "2 chunks" in done.traces[0].error
    assert done.traces[0].content == "ab"


@pytest.mark.parametrize(("first", "error_class"), [(b"", "timeout_first_byte"), (STREAM + event("a"), "timeout_idle")])
async def test_a_server_that_goes_quiet(crew: Crew, first: bytes, error_class: str) -> None:
    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await writer.drain()
        await seen.client_left.wait()

    async with serving(reply) as seen:
        done = await run(crew, seen.base_url)
    assert outcomes(done) == [("failed", error_class)]


async def test_comments_hold_off_the_idle_timeout(crew: Crew) -> None:
    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM)
        for _ in range(6):
            writer.write(misbehaving.chunked(b": wait\n\n"))
            await writer.drain()
            await asyncio.sleep(0.2)
        writer.write(event("a", '"stop"') + END)

    async with serving(reply) as seen:
        done = await run(crew, seen.base_url)
    assert outcomes(done) == [("ok", "")]


async def test_done_ends_the_request_though_the_socket_stays_open(crew: Crew) -> None:
    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + event("a", '"stop"') + misbehaving.chunked(b"data: [DONE]\n\n"))
        await writer.drain()
        await asyncio.sleep(3)

    began = perf_counter()
    async with serving(reply) as seen:
        done = await run(crew, seen.base_url, requests=3)
    assert outcomes(done) == [("ok", "")] * 3
    assert perf_counter() - began < 8
    assert all(trace.end_ns - trace.sent_ns < 1e9 for trace in done.traces if trace.end_ns and trace.sent_ns)


async def test_a_kept_connection_that_the_server_closed_is_replaced(crew: Crew) -> None:
    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(WHOLE)
        await writer.drain()
        # Announced as kept, closed all the same: half at once, half when the next request is on its way.
        if len(seen.bodies) % 2:
            writer.close()

    async with serving(reply) as seen:
        done = await run(crew, seen.base_url, requests=8)
    assert outcomes(done) == [("ok", "")] * 8
    assert sorted(trace.index for trace in done.traces) == list(range(8))


async def test_100_continue_is_not_the_answer(crew: Crew) -> None:
    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(WHOLE)

    async with serving(reply) as seen:
        done = await run(crew, seen.base_url, requests=2)
    assert outcomes(done) == [("ok", "")] * 2
    assert {trace.content for trace in done.traces} == {"abc"}


@pytest.mark.parametrize("arrival", ["constant", "poisson"])
async def test_an_open_loop_keeps_its_schedule_whatever_the_server_does(crew: Crew, arrival: str) -> None:
    async with SimulatorProcess(SimOptions(ttft_ms=200, itl_ms=5, slots=1)) as simulator:
        done = await run(
            crew, simulator.base_url, requests=20, arrival=arrival, rate=40.0, concurrency=1, timeouts=Timeouts()
        )
    assert outcomes(done) == [("ok", "")] * 20
    stamps = [trace.scheduled_ns for trace in done.traces if trace.scheduled_ns]
    assert len(stamps) == 20
    late = [(trace.sent_ns or 0) - (trace.scheduled_ns or 0) for trace in done.traces]
    assert min(late) >= 0
    assert sorted(late)[10] < 50e6
    if arrival == "constant":
        assert max(stamps) - min(stamps) == pytest.approx(19 / 40 * 1e9, rel=0.01)
    cell = cell_figures(done.traces)
    assert cell.in_flight_peak > 5
    assert cell.stats["ttft_from_schedule_ms"].max >= cell.stats["ttft_ms"].max


async def test_a_duration_ends_the_sending_and_lets_what_is_in_flight_end(crew: Crew) -> None:
    async with SimulatorProcess(SimOptions(ttft_ms=50, itl_ms=5)) as simulator:
        done = await run(crew, simulator.base_url, requests=None, duration=1.0, concurrency=4)
    assert {trace.outcome for trace in done.traces} == {"ok"}
    assert done.duration_end_ns
    sends = [trace.sent_ns for trace in done.traces if trace.sent_ns]
    assert 0.9e9 < done.duration_end_ns - min(sends) < 1.3e9
    assert max(sends) <= done.duration_end_ns
    assert len(sends) > 8


async def test_stop_cancels_what_is_in_flight_and_closes_its_connections(crew: Crew) -> None:
    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + event("a"))
        await writer.drain()
        if len(seen.bodies) == 3:
            crew.stop()

    async with serving(reply) as seen:
        done = await run(crew, seen.base_url, requests=50, concurrency=3, timeouts=Timeouts())
        async with asyncio.timeout(5):
            await seen.client_left.wait()
    assert done.stopped
    assert outcomes(done) == [("cancelled", "")] * 3


async def test_a_killed_worker_is_said_and_what_had_ended_is_kept(crew: Crew) -> None:
    await crew.ensure(1)
    worker = crew.pids[0]

    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if len(seen.bodies) == 3:
            os.kill(worker, signal.SIGKILL)
        else:
            writer.write(WHOLE)

    async with serving(reply) as seen:
        done = await run(crew, seen.base_url, requests=5)
        assert "the measuring process ended" in done.trouble
        assert outcomes(done) == [("ok", "")] * 2
        # The next cell gets a fresh worker.
        again = await run(crew, seen.base_url, requests=1)
    assert outcomes(again) == [("ok", "")]
    assert crew.pids != [worker]


async def test_the_end_of_its_input_ends_the_worker(crew: Crew) -> None:
    await crew.ensure(1)
    pid = crew.pids[0]
    await crew.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_reader_that_stalls_does_not_slow_the_measuring(crew: Crew) -> None:
    async with SimulatorProcess(SimOptions(ttft_ms=50, itl_ms=1)) as simulator:
        await crew.ensure(1)
        crew.connect(Connect(base_url=simulator.base_url))
        cell = RunCell(
            cell=1,
            body={"model": "m", "max_tokens": 200, "stream": True},
            prompts=[PromptText(name="p", text="Talk.")],
            concurrency=16,
            requests=64,
            nonce_seed="stall",
        )
        pending = asyncio.ensure_future(crew.run(cell, on_snapshot=lambda s: None, on_finished=lambda t: None))
        await asyncio.sleep(0.1)
        # This process reads nothing for as long as the whole cell takes.
        time.sleep(2.5)  # noqa: ASYNC251
        done = await pending
    window = max(t.end_ns or 0 for t in done.traces) - min(t.sent_ns or 0 for t in done.traces)
    assert {trace.outcome for trace in done.traces} == {"ok"}
    assert window < 2.4e9
