"""What goes wrong around a measurement: servers that never end a reply, stops at a bad moment, full disks, dead workers."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.end_to_end.misbehaving import END, STREAM, WHOLE, Reply, Seen, chunked, event, serving
from workbench.cli.main import main
from workbench.domain.record import Record
from workbench.records.listing import list_sessions
from workbench.records.store import load

MODELS = b'{"object":"list","data":[{"id":"m","object":"model"}]}'


def answer(body: bytes, status: bytes = b"200 OK", kind: bytes = b"application/json", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Type: %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status, kind, more, len(body), body)


@asynccontextmanager
async def server(chat: Reply) -> AsyncIterator[Seen]:
    """A server with one model, whose chat completions are `chat`'s business."""

    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        line = seen.heads[-1].split(b"\r\n")[0]
        if b"/chat/completions" in line:
            await chat(seen, writer)
        else:
            listed = line.startswith(b"GET /v1/models ")
            writer.write(answer(MODELS) if listed else answer(b"{}", b"404 Not Found"))

    async with serving(reply) as seen:
        yield seen


def whole(data: bytes) -> Reply:
    """A chat that always answers the same."""

    async def chat(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return chat


def endless(head: bytes, part: bytes, pause_s: float = 0.0) -> Reply:
    async def chat(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return chat


async def stalled(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def workbench(folder: Path, *words: str, before: Callable[[], None] | None = None, **variables: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "workbench",
        *words,
        cwd=folder,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, "COLUMNS": "80", **variables},
        start_new_session=True,
        preexec_fn=before,
    )


async def ended(process: Process) -> tuple[int, str, str]:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def run(
    folder: Path, base_url: str, *words: str, before: Callable[[], None] | None = None, **variables: str
) -> tuple[int, str, str]:
    usual = ("run", "--base-url", base_url, "--requests", "1", "--warmup", "0")
    return await ended(await workbench(folder, *usual, *words, before=before, **variables))


def only_record(folder: Path) -> Record:
    (listed,) = list_sessions(folder / "sessions")
    return load(listed.path)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that another process does without telling."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


TEXT = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("chat", "status", "errors"),
    [
        (endless(TEXT % (b"500 No", b"text/plain"), chunked(b"sorry " * 30_000)), 1, {"http_500": 1}),
        (endless(TEXT % (b"200 OK", b"application/json"), chunked(b"[" * 1_000_000)), 1, {"malformed": 1}),
        (endless(STREAM, chunked(b"y" * 1_000_000)), 1, {"malformed": 1}),
        (endless(STREAM + event("a", '"stop"') + chunked(b"data: [DONE]\n\n"), chunked(b":\n\n"), 0.01), 0, {}),
    ],
    ids=["error", "json", "line", "after-done"],
)
async def test_a_reply_that_never_ends_is_ended(
    tmp_path: Path, chat: Reply, status: int, errors: dict[str, int]
) -> None:
    async with server(chat) as seen:
        got, _, err = await run(tmp_path, seen.base_url)
    assert got == status, err
    assert only_record(tmp_path).cells[0].errors == errors


@pytest.mark.parametrize("content", [b'"\\ud83d"', b'"\xff\x9b"', b'"a"}}],"timings":{"x":1e999},"y":[{"z":{"a":1'])
async def test_text_that_is_not_quite_json_is_still_text(tmp_path: Path, content: bytes) -> None:
    part = chunked(b'data: {"choices":[{"delta":{"content":%s}}]}\n\n' % content)
    async with server(whole(STREAM + part + event("b", '"stop"') + END)) as seen:
        status, _, err = await run(tmp_path, seen.base_url)
    assert status == 0, err
    assert only_record(tmp_path).cells[0].ok == 1


async def test_a_packed_reply_is_called_so(tmp_path: Path) -> None:
    async with server(
        whole(answer(b"\x1f\x8b\x08", kind=b"text/event-stream", more=b"Content-Encoding: gzip\r\n"))
    ) as seen:
        status, _, _ = await run(tmp_path, seen.base_url)
    assert status == 1
    assert "packed (gzip)" in " ".join(only_record(tmp_path).cells[0].per_request["error"])


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
async def test_a_stop_while_the_workers_start_leaves_none_behind(tmp_path: Path, name: str) -> None:
    async with server(whole(WHOLE)) as seen:
        process = await workbench(tmp_path, "run", "--base-url", seen.base_url)
        # They were started at once, and the session is about to wait for them.
        await until(lambda: bool(children(process.pid) and seen.heads))
        workers = children(process.pid)
        process.send_signal(getattr(signal, name))
        status, out, err = await ended(process)
    assert (status, out, err) == (130, "", "workbench: interrupted at once: nothing was measured\n")
    await until(lambda: gone(workers))


async def test_a_worker_that_dies_in_the_warm_up_ends_the_session(tmp_path: Path) -> None:
    async with server(stalled) as seen:
        process = await workbench(tmp_path, "run", "--base-url", seen.base_url)
        await until(lambda: any(b"/chat/completions" in head for head in seen.heads))
        (worker,) = children(process.pid)
        os.kill(worker, signal.SIGKILL)
        status, _, err = await ended(process)
    assert status == 3
    assert "the measuring process ended (killed by SIGKILL" in err
    assert not (tmp_path / "sessions").exists()


async def test_what_no_disk_takes_is_said_and_the_result_still_shown(tmp_path: Path) -> None:
    reply = STREAM + event("a") * 300 + event("b", '"stop"') + END

    def before() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (25_000, 25_000))

    async with server(whole(reply)) as seen:
        words = ("--events", "--requests", "20", "--concurrency", "1,2")
        status, out, err = await run(tmp_path, seen.base_url, *words, before=before)
    assert status == 2
    assert "TTFT ms" in out
    assert err.count("warning: can't save") == 1
    assert err.endswith("events.jsonl: files there may not get that big: give another folder with --sessions DIR\n")
    assert (only_record(tmp_path).session.status, len(only_record(tmp_path).cells)) == ("complete", 2)


@pytest.mark.parametrize(("most", "status"), [(4096, 0), (64, 1)])
async def test_too_few_open_files_are_no_failure_of_the_server(tmp_path: Path, most: int, status: int) -> None:
    """A shell's soft limit is raised; a hard one ends the cell."""
    async with server(whole(WHOLE)) as seen:
        words = ("--concurrency", "100", "--requests", "200")
        got, _, err = await run(
            tmp_path, seen.base_url, *words, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
        )
    assert got == status, err
    record = only_record(tmp_path)
    assert record.cells[0].failed == 0
    assert record.session.status == ("complete" if status == 0 else "failed")
    assert ("ulimit -n" in record.session.reason) == bool(status)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
async def test_closed_streams_are_no_trouble(tmp_path: Path, closed: tuple[int, ...]) -> None:
    def before() -> None:
        for number in closed:
            os.close(number)

    async with server(whole(WHOLE)) as seen:
        status, out, err = await run(tmp_path, seen.base_url, before=before)
    assert status == 0, err
    assert ("TTFT ms" in out) == (1 not in closed)
    assert only_record(tmp_path).cells[0].ok == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--concurrency", ","), "--concurrency ',': give numbers"),
        (("--vary", "concurrency=1,100000000"), "concurrency 100000000: 65536 is the most"),
        (("--body", "x=" + "[" * 5000), "--body x: it is nested too deeply"),
        (("--rate", "1e300"), "--rate 1e300: it must be above 0 and no more than 100000"),
    ],
)
def test_options_that_no_machine_can_follow_are_bad_input(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words]) == 2
    assert said in capsys.readouterr().err
