"""The built-in engine for real: what it serves, how it ends, what reaches the terminal."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from workbench.engines import builtin, serve_builtin, weights
from workbench.engines.builtin import EngineUnavailable, available, start_builtin
from workbench.engines.weights import weights_path

pytestmark = pytest.mark.engine

SERVE = [sys.executable, "-m", "workbench.engines.serve_builtin", "--threads=1"]
HOST = "127.0.0.1"


def get(base_url: str, path: str) -> Any:
    """The JSON, or for /metrics the text, of an answer."""
    with urllib.request.urlopen(base_url.removesuffix("/v1") + path, timeout=60) as reply:
        text = reply.read().decode()
    return text if path == "/metrics" else json.loads(text)


def post(base_url: str, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        base_url.removesuffix("/v1") + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read())


def count(base_url: str, name: str) -> int:
    """One of the server's own counts now."""
    lines = get(base_url, "/metrics").splitlines()
    return next(int(float(line.split()[1])) for line in lines if line.startswith(f"llamacpp:{name} "))


def port_of(base_url: str) -> int:
    return int(base_url.removesuffix("/v1").rpartition(":")[2])


def ask(base_url: str, text: str, **fields: Any) -> socket.socket:
    """Send a streaming chat request over a raw socket."""
    body = {"messages": [{"role": "user", "content": text}], "stream": True, "temperature": 0, **fields}
    data = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    line = socket.create_connection((HOST, port_of(base_url)), timeout=60)
    line.sendall(f"{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)
    return line


def read_all(line: socket.socket) -> str:
    with line:
        return b"".join(iter(lambda: line.recv(65536), b"")).decode()


def until(true: Callable[[], bool], limit: float = 60.0) -> None:
    """Ask the server again and again until something of it is so."""
    deadline = time.monotonic() + limit
    while not true():
        assert time.monotonic() < deadline, "it never came"


def serving(*options: str, **settings: Any) -> tuple[subprocess.Popen[bytes], str]:
    """A server process and its base URL."""
    process = subprocess.Popen([*SERVE, *options], stdout=subprocess.PIPE, **settings)
    assert process.stdout is not None
    return process, process.stdout.readline().decode().strip()


def ended(process: subprocess.Popen[bytes]) -> int:
    status = process.wait(30)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return status


@pytest.fixture(scope="module")
def base_url(builtin_cache: Path) -> Iterator[str]:
    """One server for the tests that leave it as it was."""
    process, url = serving("--until-stdin-closes", stdin=subprocess.PIPE)
    yield url
    assert process.stdin is not None
    process.stdin.close()
    assert ended(process) == 0, "the end of stdin ends it"


def test_it_is_what_was_asked_for(base_url: str) -> None:
    props, models = get(base_url, "/props"), get(base_url, "/v1/models")
    assert [model["id"] for model in models["data"]] == ["smollm2-135m-instruct"]
    assert models["data"][0]["meta"]["ftype"] == "Q4_1"
    assert props["total_slots"] == 4
    assert props["default_generation_settings"]["n_ctx"] == 4608
    assert props["model_path"] == "SmolLM2-135M-Instruct.Q4_1.gguf", "no directory of this machine is shown"
    assert [slot["n_ctx"] for slot in get(base_url, "/slots")] == [4608] * 4


def test_only_the_loopback_address_is_served(base_url: str) -> None:
    listening = [c for c in psutil.net_connections("tcp") if c.laddr and c.laddr.port == port_of(base_url)]
    assert {c.laddr.ip for c in listening if c.status == psutil.CONN_LISTEN} == {HOST}


def test_other_sites_pages_may_not_read_from_it(base_url: str) -> None:
    request = urllib.request.Request(
        base_url.removesuffix("/v1") + "/props", headers={"Origin": "http://elsewhere.example"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert reply.headers.get("Access-Control-Allow-Origin") == f"http://{HOST}"


def test_a_chat_streams(base_url: str) -> None:
    wire = read_all(ask(base_url, "Name a colour.", max_tokens=12, stream_options={"include_usage": True}))
    assert wire.startswith("HTTP/1.1 200")
    events = [json.loads(line[6:]) for line in wire.splitlines() if line.startswith("data: {")]
    assert "data: [DONE]" in wire
    text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"])
    assert text.strip()
    assert 1 <= events[-1]["usage"]["completion_tokens"] <= 12


def test_four_are_served_at_once_and_the_others_wait(base_url: str) -> None:
    lines = [ask(base_url, f"{i}: tell a long story.", max_tokens=4000, ignore_eos=True) for i in range(6)]
    try:
        until(lambda: count(base_url, "requests_processing") == 4 and count(base_url, "requests_deferred") == 2)
        assert sum(slot["is_processing"] for slot in get(base_url, "/slots")) == 4
    finally:
        for line in lines:
            line.close()
    until(lambda: count(base_url, "requests_processing") == 0)


def test_the_counters_answer_while_many_wait(base_url: str) -> None:
    """llama.cpp's own number of HTTP threads (8 on 2 cores) leaves GET /metrics waiting behind the streams."""
    lines = [ask(base_url, f"{i}: tell a long story.", max_tokens=4000, ignore_eos=True) for i in range(20)]
    try:
        until(lambda: count(base_url, "requests_deferred") == 16)
    finally:
        for line in lines:
            line.close()
    until(lambda: count(base_url, "requests_processing") == 0)


def test_a_repeated_prompt_is_read_from_the_cache(base_url: str) -> None:
    body = {"messages": [{"role": "user", "content": "One two three four. " * 40}], "max_tokens": 2, "temperature": 0}
    first, again = (post(base_url, "/v1/chat/completions", body)["usage"] for _ in range(2))
    assert first["prompt_tokens_details"]["cached_tokens"] < first["prompt_tokens"] / 2
    assert again["prompt_tokens_details"]["cached_tokens"] == again["prompt_tokens"] - 1


def test_a_prompt_longer_than_a_slot_is_refused_with_the_slots_size(base_url: str) -> None:
    body = {"messages": [{"role": "user", "content": "ocean " * 4700}], "max_tokens": 1}
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(base_url, "/v1/chat/completions", body)
    error = json.loads(caught.value.read())["error"]
    assert (caught.value.code, error["n_ctx"]) == (400, 4608)


@pytest.mark.parametrize("quant", ["Q4_1", "Q8_0", "F16"])
async def test_each_quantization_is_served_and_knows_the_days(quant: str, builtin_cache: Path) -> None:
    await builtin.prepare(quant)
    async with await start_builtin(quant) as engine:
        props = await asyncio.to_thread(get, engine.base_url, "/props")
        assert props["model_ftype"] == quant
        body = {"prompt": "Sunday, Monday, Tuesday, Wednesday,", "n_predict": 1, "temperature": 0}
        reply = await asyncio.to_thread(post, engine.base_url, "/completion", body)
        assert reply["content"] == " Thursday"
        facts = engine.facts()
        assert facts.get("quant") == quant
        assert facts.get("path") == f"models/{weights_path(quant).name}"
        assert str(builtin_cache) not in str(facts.table())
        assert ("re-encoded from Q4_1" in str(facts.get("origin"))) == (quant != "Q4_1")
        assert ("re-encoded from Q4_1" in facts.source("quant")) == (quant != "Q4_1")
        assert str(facts.get("digest")).startswith("sha256:")
        assert facts.get("slots") == props["total_slots"]
        assert facts.get("context") == props["default_generation_settings"]["n_ctx"]
    assert engine.returncode == 0


async def test_it_runs_in_a_session_of_its_own(builtin_cache: Path) -> None:
    """Ctrl-C at the terminal goes to the whole foreground group; the engine must outlast it until the record is saved."""
    told: list[str] = []
    async with await start_builtin(progress=told.append) as engine:
        assert os.getsid(engine.pid) == engine.pid
        assert "llama" in engine.log_path.read_text()
    assert told == ["Starting the built-in engine (Q4_1)"]
    await engine.stop()  # once more does no harm


async def test_stopping_while_a_reply_streams(builtin_cache: Path) -> None:
    engine = await start_builtin()
    line = ask(engine.base_url, "Tell a long story.", max_tokens=4000, ignore_eos=True)
    assert line.recv(1)
    async with asyncio.timeout(4):
        await engine.stop()
    assert engine.returncode == 0
    read_all(line)


async def test_cancelling_the_start_leaves_no_process(builtin_cache: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    begun = asyncio.Event()
    start = asyncio.create_task(start_builtin(progress=lambda _: begun.set()))
    await begun.wait()
    await asyncio.to_thread(until, lambda: bool({child.pid for child in psutil.Process().children()} - before))
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert {child.pid for child in psutil.Process().children()} <= before


async def test_weights_that_do_not_load_are_told_with_the_engines_own_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    path = weights_path("Q4_1")
    path.parent.mkdir()
    path.write_bytes(b"no weights at all")
    state = path.stat()
    note = weights.Note(sha256=weights.Q4_1_SHA256, bytes=state.st_size, mtime_ns=state.st_mtime_ns)
    path.with_name(path.name + ".json").write_bytes(msgspec.json.encode(note))
    with pytest.raises(EngineUnavailable, match=r"can't serve .*invalid magic characters.*\(log: .*\.log\)") as caught:
        await start_builtin()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it(number: signal.Signals, status: int, builtin_cache: Path) -> None:
    process, url = serving()
    assert get(url, "/health") == {"status": "ok"}
    process.send_signal(number)
    assert ended(process) == status


def test_a_signal_while_the_model_loads_ends_it_too(builtin_cache: Path, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    process = subprocess.Popen([*SERVE, "--log", str(log)], stdout=subprocess.PIPE)
    until(lambda: log.exists() and "load_model" in log.read_text())
    process.send_signal(signal.SIGTERM)
    assert ended(process) == 0


@pytest.mark.parametrize("told_by", ["stdin", "kernel"])
def test_it_ends_when_its_parent_is_killed(told_by: str, builtin_cache: Path) -> None:
    """By the end of stdin; on Linux by the kernel too, for while it loads, when it can't watch its stdin."""
    if told_by == "kernel" and sys.platform != "linux":
        pytest.skip("only Linux tells a process of its parent's death")
    stdin = "subprocess.PIPE" if told_by == "stdin" else "0"  # 0: the parent's own, which this test keeps open
    script = f"""
import subprocess
child = subprocess.Popen({[*SERVE, "--until-stdin-closes"]!r}, stdin={stdin}, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    engine = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    try:
        engine.wait(20)
    finally:
        ended(parent)


def test_a_reader_that_is_gone_does_not_matter(builtin_cache: Path) -> None:
    read, write = os.pipe()
    process = subprocess.Popen([*SERVE, "--until-stdin-closes"], stdin=subprocess.PIPE, stdout=write)
    os.close(write)
    os.close(read)
    assert process.stdin is not None
    process.stdin.close()
    assert ended(process) == 0


def test_a_taken_port_is_named(builtin_cache: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        run = subprocess.run([*SERVE, f"--port={port}"], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (3, "")
    assert run.stderr == f"port {port} on 127.0.0.1 is taken: choose another with --port, or 0 for any\n"


def test_a_port_that_was_chosen_is_used(builtin_cache: Path) -> None:
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    process, url = serving(f"--port={port}")
    process.terminate()
    assert ended(process) == 0
    assert url == f"http://127.0.0.1:{port}/v1"


def test_a_model_that_cannot_be_loaded_is_named(builtin_cache: Path, tmp_path: Path) -> None:
    bad, log = tmp_path / "bad.gguf", tmp_path / "engine.log"
    bad.write_text("root:x:0:0")
    run = subprocess.run([*SERVE, f"--model={bad}", f"--log={log}"], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (3, "")
    assert run.stderr.startswith("can't serve bad.gguf: ")
    assert "invalid magic characters" in run.stderr
    assert run.stderr.endswith(f"(log: {log})\n")
    assert run.stderr.count("\n") == 1


def test_the_terminal_shows_one_line_and_nothing_else(builtin_cache: Path) -> None:
    control, terminal = pty.openpty()
    process = subprocess.Popen([*SERVE], stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    seen = b""
    while b"\n" not in seen:
        seen += os.read(control, 4096)
    read_all(ask(seen.decode().strip(), "Hello", max_tokens=4))
    process.terminate()
    assert ended(process) == 0
    while select.select([control], [], [], 0)[0]:
        try:
            seen += os.read(control, 4096)
        except OSError:  # Linux: the other end has closed
            break
    os.close(control)
    assert seen.decode() == seen.decode().strip() + "\r\n"
    assert seen.startswith(b"http://127.0.0.1:")


def test_the_verb_serves_in_the_foreground(builtin_cache: Path) -> None:
    script = """
import argparse, sys
from workbench.engines.builtin import add_arguments, run_foreground
parser = argparse.ArgumentParser()
add_arguments(parser)
sys.exit(run_foreground(parser.parse_args()))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script, "--slots=2", "--context=512"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    url = process.stdout.readline().decode().strip()
    assert [slot["n_ctx"] for slot in get(url, "/slots")] == [512, 512]
    assert b"until Ctrl-C; log: " in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.stdout.read() == b""
    assert ended(process) == 130


def test_old_logs_are_cleared_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    made = [serve_builtin.new_log("Q4_1") for _ in range(14)]
    assert len(set(made)) == 14
    assert len(list((tmp_path / "logs").iterdir())) == 10
    assert made[-1].exists()


def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert available() is None
    monkeypatch.setattr(builtin.importlib.util, "find_spec", lambda name: None if name == "xllamacpp" else object())
    assert available() == (
        "the built-in engine is not installed (xllamacpp missing): pip install 'inference-workbench[local]'"
    )
    monkeypatch.setattr(builtin.platform, "machine", lambda: "riscv64")
    assert "no ready build for Linux riscv64" in str(available()) or sys.platform != "linux"


def test_asking_whether_it_is_available_imports_nothing_heavy() -> None:
    check = "import sys; from workbench.engines.builtin import available; available(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.split()
    assert not {"xllamacpp", "gguf", "numpy", "openai", "textual"} & set(loaded)


@pytest.mark.parametrize(
    ("cpus", "quota", "threads"), [(1, None, 1), (2, None, 1), (6, None, 5), (64, None, 8), (64, 2.0, 1)]
)
def test_threads_leave_a_cpu_free(
    cpus: int, quota: float | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.environment import container, cpu

    monkeypatch.setattr(cpu, "usable_cpus", lambda: cpus)
    monkeypatch.setattr(container, "cgroup_limits", lambda _: container.CgroupLimits(2, quota, None))
    assert serve_builtin.default_threads() == threads


@pytest.mark.parametrize("words", [["--port=-1"], ["--port=65536"], ["--slots=0"], ["--threads=x"], ["--quant=Q2"]])
def test_bad_options_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    builtin.add_arguments(parser)
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(words)
    assert caught.value.code == 2
    assert words[0].partition("=")[0] in capsys.readouterr().err


def test_the_cache_is_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "here"))
    assert weights_path("Q8_0") == tmp_path / "here" / "models" / "SmolLM2-135M-Instruct.Q8_0-from-Q4_1.gguf"
    monkeypatch.delenv("WORKBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "there"))
    if sys.platform == "linux":
        assert weights.cache_dir() == tmp_path / "there" / "workbench"
