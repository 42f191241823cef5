"""Launch profiles from the outside: real servers started, flipped, crashed and ended by `workbench`; nothing outlives it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import tomli_w

from workbench.domain.record import Record
from workbench.records.listing import list_sessions
from workbench.records.store import load
from workbench.simulator.options import SimOptions
from workbench.simulator.process import SimulatorProcess

SIM = [sys.executable, "-m", "workbench.simulator", "--port", "{port}", "--ttft-ms", "20"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listeners(*ports: int) -> list[psutil.Process]:
    return [
        psutil.Process(each.pid)
        for each in psutil.net_connections("tcp")
        if each.pid and each.status == psutil.CONN_LISTEN and each.laddr.port in ports
    ]


def profile(name: str, port: int, command: list[str], **more: Any) -> str:
    """One target of workbench.toml."""
    return tomli_w.dumps(
        {"targets": {name: {"url": f"http://127.0.0.1:{port}/v1", "launch": {"command": command, **more}}}}
    )


def start(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "workbench", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "80", "WORKBENCH_SESSIONS": str(folder / "sessions"), **environment},
        start_new_session=True,
    )


def run(folder: Path, *words: str, **environment: str) -> tuple[int, str]:
    """Exit status and stderr."""
    process = start(folder, *words, **environment)
    _, said = process.communicate(timeout=100)
    return process.returncode, said


def only_record(folder: Path) -> Record:
    (listed,) = list_sessions(folder / "sessions")
    return load(listed.path)


def read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    told = ""
    for line in process.stderr:
        told += line
        if words in line:
            return told
    raise AssertionError(f"{words!r} never came: {told}")


@pytest.fixture
def port() -> Iterator[int]:
    """A free port, on which nothing may be left listening at the end."""
    number = free_port()
    yield number
    assert listeners(number) == []


def test_flipping_the_engine_stops_one_server_and_starts_the_other(tmp_path: Path, port: int) -> None:
    other = free_port()
    a = profile("a", port, [*SIM, "--itl-ms", "6"], env_from={"SIM_KEY": "MY_KEY"}, env={"OMP_NUM_THREADS": "2"})
    (tmp_path / "workbench.toml").write_text(a + profile("b", other, [*SIM, "--itl-ms", "2"]))
    words = ("ab", "--target", "a", "--vary", "engine=a,b", "--rounds", "2", "--requests", "3", "--max-tokens", "20")
    status, said = run(tmp_path, *words, MY_KEY="s3cret-of-mine")
    assert status == 0, said
    record = only_record(tmp_path)
    rates = {cell.arm: cell.stats["decode_rate"].p50 for cell in record.cells}
    assert rates["B"] / rates["A"] == pytest.approx(3, rel=0.25)
    # Each start is a cold server: its first request is kept apart, and the whole warm-up is done again.
    flips = [
        cell
        for before, cell in zip([None, *record.cells], record.cells, strict=False)
        if not before or before.arm != cell.arm
    ]
    assert [cell.warmup for cell in flips] == [3, 3, 3]
    assert all(cell.cold_start for cell in flips)
    assert [cell.server for cell in record.cells] == ["a" if cell.arm == "A" else "b" for cell in record.cells]
    first, second = record.plan["targets"]
    assert (first["name"], second["name"], second["address"]) == ("a", "b", f"http://127.0.0.1:{other}/v1")
    assert "--itl-ms 2" in second["launch"]["command"]
    server = next(each for each in record.environment["server"] if each["id"] == "a")
    assert server["command"].endswith(f"--port {port} --ttft-ms 20 --itl-ms 6")
    assert server["added_environment"] == ["OMP_NUM_THREADS=2", "SIM_KEY (from ours)"]
    assert server["source"]["command"] == "the launch profile"
    assert len(server["tokenizer_probe"]) == 6
    assert record.verdict is not None
    assert record.verdict.checks["tokenizer"] == "pass"
    assert [cell.evidence["server_log"] for cell in record.cells] == [{"error": 0, "oom": 0}] * 4
    logs = sorted((tmp_path / "sessions" / "logs").iterdir())
    assert [log.name[0] for log in logs].count("b") == 1 or [log.name[0] for log in logs].count("a") == 1
    assert (tmp_path / "sessions" / server["log"]) in logs
    kept = [path.read_text() for path in (tmp_path / "sessions").rglob("*") if path.is_file()]
    assert not any("s3cret-of-mine" in text for text in kept)
    assert listeners(other) == []


def test_flipping_the_quant_restarts_the_server_with_what_the_quant_names(tmp_path: Path, port: int) -> None:
    quants = {"Q4_1": {"itl": "3"}, "Q8_0": {"itl": "9"}}
    (tmp_path / "workbench.toml").write_text(profile("lab", port, [*SIM, "--itl-ms", "{itl}"], quants=quants))
    words = ("--rounds", "1", "--requests", "3", "--max-tokens", "20", "--target", "lab")
    status, said = run(tmp_path, "ab", "--vary", "quant=q4_1,Q8_0", *words)
    assert status == 0, said
    record = only_record(tmp_path)
    rates = {cell.server: cell.stats["decode_rate"].p50 for cell in record.cells}
    assert rates["lab-Q4_1"] / rates["lab-Q8_0"] == pytest.approx(3, rel=0.25)
    assert {each["quant"] for each in record.environment["server"]} == {"Q4_1", "Q8_0"}
    status, said = run(tmp_path, "run", "--target", "lab", "--quant", "F16", "--no-save")
    assert (status, said.strip().splitlines()[-1]) == (
        3,
        "workbench: target lab can't be launched as F16; it has: Q4_1, Q8_0",
    )


def test_a_record_is_measured_again_by_its_profile(tmp_path: Path, port: int) -> None:
    (tmp_path / "workbench.toml").write_text(profile("lab", port, SIM))
    words = ("--requests", "2", "--max-tokens", "4")
    assert run(tmp_path, "run", "--target", "lab", *words)[0] == 0
    status, said = run(tmp_path, "rerun", "last")
    assert status == 0, said
    assert len(list_sessions(tmp_path / "sessions")) == 2


def test_a_server_that_was_running_before_is_used_and_never_stopped(tmp_path: Path) -> None:
    with SimulatorProcess(SimOptions(ttft_ms=20, itl_ms=2)) as simulator:
        port = int(simulator.base_url.rsplit(":", 1)[1].removesuffix("/v1"))
        quants: dict[str, Any] = {"Q4_1": {}, "Q8_0": {}}
        (tmp_path / "workbench.toml").write_text(profile("lab", port, ["/nowhere/serve", "{quant}"], quants=quants))
        words = ("--target", "lab", "--requests", "2", "--max-tokens", "4")
        status, said = run(tmp_path, "run", *words)
        assert status == 0, said
        (still,) = listeners(port)
        assert still.pid == simulator.pid
        assert not (tmp_path / "sessions" / "logs").exists()
        status, said = run(tmp_path, "ab", "--vary", "quant=Q4_1,Q8_0", "--rounds", "1", *words)
        assert status == 1
        assert "target lab was running before Workbench and is not restarted as Q8_0: stop it" in said
        assert [each.pid for each in listeners(port)] == [simulator.pid]


OOM = "import sys; print('loading'); print('CUDA out of memory. Tried to allocate 2 GiB', file=sys.stderr); sys.exit(1)"


@pytest.mark.parametrize(
    ("command", "more", "says"),
    [
        (["/nowhere/serve"], {}, "can't be launched: No such file or directory: /nowhere/serve"),
        (["serve"], {"cwd": "/nowhere"}, "can't be launched: No such file or directory: /nowhere"),
        (["/etc"], {}, "can't be launched: Permission denied: /etc"),
        (
            [sys.executable, "-c", OOM],
            {},
            "its server ended before it was ready (exit status 1): CUDA out of memory. Tried",
        ),
        (
            [sys.executable, "-c", "import time; print('still loading', flush=True); time.sleep(999)"],
            {"ready_timeout": 1.5},
            "was launched, but isn't ready after 1.5 s: still loading (log: ",
        ),
        ([*SIM], {"ready": "/nothing", "ready_timeout": 1.5}, "isn't ready after 1.5 s"),
        ([*SIM], {"env_from": {"A": "NOT_SET_HERE"}}, "environment variable NOT_SET_HERE is not set"),
    ],
)
def test_what_can_not_be_launched_is_said_in_one_line(
    tmp_path: Path, port: int, command: list[str], more: dict[str, Any], says: str
) -> None:
    (tmp_path / "workbench.toml").write_text(profile("lab", port, command, **more))
    status, said = run(tmp_path, "run", "--target", "lab")
    assert status in (2, 3), said
    line = said.strip().splitlines()[-1]
    assert says in line
    assert "Traceback" not in said
    assert not list((tmp_path / "sessions").glob("*.toml"))


def test_a_port_that_something_else_has_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        (tmp_path / "workbench.toml").write_text(profile("lab", taken.getsockname()[1], SIM))
        status, said = run(tmp_path, "run", "--target", "lab")
    assert status == 3
    assert f"can't be launched: 127.0.0.1:{taken_port(said)} is taken: " in said.strip().splitlines()[-1]


def taken_port(said: str) -> str:
    return said.partition("127.0.0.1:")[2].partition(" ")[0]


def test_a_server_that_dies_in_mid_run_ends_the_session_with_its_last_words(tmp_path: Path, port: int) -> None:
    (tmp_path / "workbench.toml").write_text(profile("lab", port, [*SIM, "--itl-ms", "10"]))
    words = ("--target", "lab", "--concurrency", "1,2,4", "--requests", "8", "--max-tokens", "20")
    process = start(tmp_path, "run", *words)
    read_until(process, "concurrency 1:")
    (server,) = listeners(port)
    (log,) = (tmp_path / "sessions" / "logs").iterdir()
    with log.open("a") as file:
        file.write("std::bad_alloc, said the server\n")
    server.kill()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    record = only_record(tmp_path)
    assert record.session.status == "failed"
    assert record.session.reason.startswith(
        "target lab: its server ended by itself (killed by SIGKILL, as the system does when memory runs out): "
        "std::bad_alloc, said the server (log: "
    )
    assert (record.cells[0].failed, record.cells[0].evidence["server_log"]) == (0, {"error": 0, "oom": 0})
    assert record.cells[1].failed > 0
    assert record.cells[1].evidence["server_log"] == {"error": 1, "oom": 1, "says": "std::bad_alloc, said the server"}


WITH_CHILD = f"""
import subprocess, sys
subprocess.Popen(["sleep", "600"], start_new_session=True)
subprocess.run({[sys.executable, "-m", "workbench.simulator"]!r} + sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_server_outlives_us(tmp_path: Path, port: int, number: signal.Signals) -> None:
    """Nor what it started, even in a session of its own."""
    command = [sys.executable, "-c", WITH_CHILD, "--port", "{port}", "--itl-ms", "10"]
    (tmp_path / "workbench.toml").write_text(profile("lab", port, command))
    process = start(tmp_path, "run", "--target", "lab", "--concurrency", "1,2", "--requests", "4", "--max-tokens", "30")
    read_until(process, "concurrency 1:")
    (server,) = listeners(port)
    keeper = server.parent().parent()
    assert "workbench.engines.keeper" in keeper.cmdline()
    family = [keeper, *keeper.children(recursive=True)]
    assert any(each.name() == "sleep" for each in family)
    process.send_signal(number)
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []


def test_stopping_while_a_server_starts_ends_it(tmp_path: Path, port: int) -> None:
    code = "import os, signal, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(999)"
    started = tmp_path / "started"
    os.mkfifo(started)
    (tmp_path / "workbench.toml").write_text(profile("lab", port, [sys.executable, "-c", code, str(started)]))
    process = start(tmp_path, "run", "--target", "lab")
    server = psutil.Process(int(started.read_text()))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert not server.is_running()


def test_the_log_of_a_server_started_elsewhere_is_followed(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("ERROR: of yesterday\n")
    with SimulatorProcess(SimOptions(ttft_ms=20, itl_ms=5)) as simulator:
        words = ("--base-url", simulator.base_url, "--concurrency", "1,2", "--requests", "6", "--max-tokens", "20")
        process = start(tmp_path, "run", *words, "--server-log", str(log))
        read_until(process, "concurrency 1:")
        with log.open("a") as file:
            file.write("slot 1 is free\nERROR: out of memory, api_key=abcdef12345\nWARN: slow\nerror: again\n")
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    first, second = only_record(tmp_path).cells
    assert first.evidence["server_log"] == {"error": 0, "oom": 0}
    assert second.evidence["server_log"] == {"error": 2, "oom": 1, "says": "ERROR: out of memory, api_key=<redacted>"}
    status, said = run(tmp_path, "run", "--server-log", "/nowhere/x.log")
    assert status == 2
    assert "--server-log /nowhere/x.log: no such file" in said


@pytest.mark.engine
def test_the_real_engine_by_command_in_two_quants(tmp_path: Path, port: int) -> None:
    command = [sys.executable, "-m", "workbench.engines.serve_builtin", "--quant", "{quant}", "--port", "{port}"]
    command += ["--slots", "1", "--context", "512"]
    (tmp_path / "workbench.toml").write_text(profile("mine", port, command))
    words = (
        "--target",
        "mine",
        "--rounds",
        "1",
        "--requests",
        "1",
        "--warmup",
        "1",
        "--max-tokens",
        "4",
        "--fingerprint",
    )
    status, said = run(tmp_path, "ab", "--vary", "quant=Q4_1,Q8_0", *words)
    assert status == 0, said
    record = only_record(tmp_path)
    four, eight = (
        next(each for each in record.environment["server"] if each["id"] == f"mine-{quant}")
        for quant in ("Q4_1", "Q8_0")
    )
    assert [four["quant"], eight["quant"]] == ["Q4_1", "Q8_0"]
    assert four["source"]["quant"] == "GET /props", "the server's own word, not the profile's"
    assert four["tokenizer_probe"] == eight["tokenizer_probe"]
    assert four["weights_digest"].startswith("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53")
    assert eight["weights_digest"] != four["weights_digest"]
    assert eight["header_sha256"] != four["header_sha256"]
    assert eight["file_bytes"] > four["file_bytes"]
    assert all(len(each["fingerprint"]) == 16 for each in (four, eight))
