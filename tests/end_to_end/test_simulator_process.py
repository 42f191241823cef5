"""The simulator as a program: its timing against its own stamps, its start and its ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from itertools import pairwise

import msgspec
import pytest
from openai import AsyncOpenAI

from tests.end_to_end.simulator_client import Wire, chat, say, simulator
from workbench.simulator.options import SimOptions
from workbench.simulator.process import spawn

COMMAND = [sys.executable, "-m", "workbench.simulator"]


def start(*options: str, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, *options], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.timing
async def test_chunks_leave_on_their_deadlines_never_before() -> None:
    async with spawn(SimOptions(ttft_ms=60, itl_ms=10)) as child:
        replies = await asyncio.gather(*(say(child.base_url, f"{index}", max_tokens=60) for index in range(4)))
    lateness = []
    for reply in replies:
        stamps = reply.stamps
        received_ns = stamps[0]["received_ns"]
        # The truth itself is exact: one deadline each 10 ms from the reading of the request, whatever came late.
        assert [stamp["due_ns"] - received_ns for stamp in stamps] == [
            60_000_000 + index * 10_000_000 for index in range(60)
        ]
        lateness += [stamp["sent_ns"] - stamp["due_ns"] for stamp in stamps]
    assert min(lateness) >= 0
    assert statistics.median(lateness) < 1_500_000


@pytest.mark.timing
async def test_the_stamps_agree_with_the_clock_of_another_process() -> None:
    async with spawn(SimOptions(ttft_ms=30, itl_ms=5)) as child:
        sent_ns = time.perf_counter_ns()
        reply = await say(child.base_url, max_tokens=10)
        read_ns = time.perf_counter_ns()
    stamps = reply.stamps
    assert sent_ns < stamps[0]["received_ns"] < stamps[0]["sent_ns"]
    assert stamps[-1]["sent_ns"] < read_ns


async def test_jitter_is_seeded_and_its_deadlines_are_absolute() -> None:
    async def gaps(seed: int) -> list[int]:
        async with simulator(ttft_ms=1, itl_ms=4, jitter=0.5, seed=seed) as url:
            due = [stamp["due_ns"] for stamp in (await say(url, max_tokens=80)).stamps]
        return [later - earlier for earlier, later in pairwise(due)]

    first = await gaps(1)
    assert 2_000_000 <= min(first) < 2_500_000
    assert 5_500_000 < max(first) <= 6_000_000
    assert await gaps(1) == first
    assert await gaps(2) != first


async def test_the_openai_client_reads_a_stream_and_a_whole_reply() -> None:
    async with (
        spawn(SimOptions(ttft_ms=5, itl_ms=1)) as child,
        AsyncOpenAI(base_url=child.base_url, api_key="none", max_retries=0) as client,
    ):
        assert [model.id async for model in client.models.list()] == ["simulated"]
        stream = await client.chat.completions.create(
            model="simulated",
            messages=[{"role": "user", "content": "hello"}],
            max_tokens=16,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        whole = await client.chat.completions.create(
            model="simulated", messages=[{"role": "user", "content": "hello"}], max_tokens=16
        )
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert whole.choices[0].message.content == said
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 16
    assert whole.usage == chunks[-1].usage


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_signals_end_it_cleanly_in_mid_stream(sent: signal.Signals, status: int) -> None:
    process = start("--itl-ms", "5")
    url = first_line(process)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1\n", url)
    async with await Wire.open(url.strip()) as wire:
        wire.send("/v1/chat/completions", chat(max_tokens=30_000))
        await wire.head()
        await wire.chunk()
        process.send_signal(sent)
        out, errors = await asyncio.to_thread(process.communicate, timeout=20)
        assert (process.returncode, out, errors) == (status, "", "")
        rest = await wire.reader.read()
        assert not rest.endswith(b"0\r\n\r\n")


def test_it_ends_when_stdin_does() -> None:
    process = start("--until-stdin-closes", stdin=subprocess.PIPE)
    assert first_line(process).startswith("http://")
    assert process.poll() is None
    out, errors = process.communicate(timeout=20)
    assert (process.returncode, out, errors) == (0, "", "")


def test_a_stdin_without_input_is_a_closed_one() -> None:
    process = start("--until-stdin-closes")
    assert first_line(process).startswith("http://")
    assert process.wait(timeout=20) == 0
    process.communicate()


def test_a_child_does_not_outlive_its_parent() -> None:
    code = (
        "import os; from workbench.simulator.process import spawn\n"
        "child = spawn(); print(child.start(), child.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    parent = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    url, pid = parent.stdout.split()
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=20) as held:
            held.recv(1)
    except TimeoutError:
        os.kill(int(pid), signal.SIGKILL)
        pytest.fail("the simulator outlived its parent")
    except ConnectionError:
        pass


def test_a_port_in_use_is_one_line_and_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run([*COMMAND, "--port", str(port)], capture_output=True, text=True, timeout=30)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert f"127.0.0.1:{port}" in done.stderr
        with pytest.raises(RuntimeError, match=f"127.0.0.1:{port}"), spawn(SimOptions(port=port)):
            pass


def test_a_host_that_is_none_is_one_line_and_2() -> None:
    for host in ("256.0.0.1", "a" * 300):
        done = subprocess.run([*COMMAND, "--host", host], capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert host in done.stderr


async def test_it_serves_on_when_nobody_reads_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    read, write = os.pipe()
    os.close(read)
    process = start("--port", str(port), stdout=write)
    os.close(write)
    url = f"http://127.0.0.1:{port}/v1"
    while True:
        try:
            reply = await say(url, max_tokens=1)
            break
        except ConnectionRefusedError:
            assert process.poll() is None
    assert reply.status == 200
    process.terminate()
    _, errors = await asyncio.to_thread(process.communicate, timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_a_bad_option_is_2_and_named() -> None:
    done = subprocess.run([*COMMAND, "--jitter", "3"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "--jitter 3" in done.stderr
    assert "Traceback" not in done.stderr


def test_spawn_leaves_nothing_behind_and_keeps_its_options() -> None:
    options = SimOptions(ttft_ms=3)
    with spawn(options) as child:
        pid = child.pid
        assert pid is not None
        assert child.options == msgspec.structs.replace(options, until_stdin_closes=True)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
