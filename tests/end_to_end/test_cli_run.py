"""`workbench run` and `rerun` from the outside: real processes against the simulator, real signals, files on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from workbench.domain.plan import plan_from_table
from workbench.domain.record import Record
from workbench.records.listing import list_sessions
from workbench.records.store import load
from workbench.simulator.options import SimOptions
from workbench.simulator.process import SimulatorProcess


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with SimulatorProcess(SimOptions(ttft_ms=20, itl_ms=2)) as simulator:
        yield simulator.base_url


def start(folder: Path, *words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "workbench", *words, "--sessions", str(folder / "sessions")],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm-256color"},
        start_new_session=True,
    )


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    process = start(folder, *words)
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def only_record(folder: Path) -> Record:
    (listed,) = list_sessions(folder / "sessions")
    return load(listed.path)


def read_until(stream: IO[str], words: str) -> str:
    """Lines up to the one that holds the words."""
    told = ""
    for line in stream:
        told += line
        if words in line:
            return told
    raise AssertionError(f"{words!r} never came: {told}")


def test_a_ladder_is_printed_and_saved(server: str, tmp_path: Path) -> None:
    status, out, err = run(
        tmp_path, "run", "--base-url", server, "--concurrency", "1,2,4", "--requests", "6", "--max-tokens", "8"
    )
    assert status == 0, err
    rows = [line.split() for line in out.split("\n")[2:5]]
    assert [row[:3] for row in rows] == [["1", "6", "0"], ["2", "6", "0"], ["4", "6", "0"]]
    assert "3 cells: concurrency 1, 2, 4, 6 requests each" in err
    assert err.count("TTFT") == 3
    record = only_record(tmp_path)
    assert record.session.status == "complete"
    assert "workbench run --base-url" in record.session.command
    assert [cell.variables["concurrency"] for cell in record.cells] == [1, 2, 4]
    assert all(cell.stats["ttft_ms"].p50 >= 20 for cell in record.cells)


def test_a_rerun_is_the_same_plan(server: str, tmp_path: Path) -> None:
    words = ("--vary", "max_tokens=4,8", "--rounds", "2", "--requests", "3", "--seed", "5", "--json")
    status, out, err = run(tmp_path, "ab", "--base-url", server, *words)
    assert status == 0, err
    first = json.loads(out)
    assert first["plan"]["order"] in (["A", "B", "B", "A"], ["B", "A", "A", "B"])
    status, out, err = run(tmp_path, "rerun", "last", "--json")
    assert status == 0, err
    again = json.loads(out)
    assert again["session"]["id"] != first["session"]["id"]
    # The texts of both, read back, give one plan; and the prompts are the very same.
    plans = [plan_from_table(load(listed.path).plan) for listed in list_sessions(tmp_path / "sessions")]
    assert plans[0] == plans[1]
    assert [item["sha256"] for item in again["plan"]["prompts"]] == [
        item["sha256"] for item in first["plan"]["prompts"]
    ]


def test_a_baseline_is_measured_again_and_compared(server: str, tmp_path: Path) -> None:
    words = ("--base-url", server, "--requests", "5", "--max-tokens", "6", "--name", "yesterday")
    assert run(tmp_path, "run", *words)[0] == 0
    assert run(tmp_path, "baseline", "save", "nightly", "yesterday")[0] == 0
    status, out, err = run(
        tmp_path, "baseline", "check", "nightly", "--name", "today", "--fail-on", "verdict.ttft.ratio>9"
    )
    assert status == 0, err
    assert "A yesterday\nB today" in out
    assert len(list_sessions(tmp_path / "sessions")) == 2
    status, out, err = run(
        tmp_path, "baseline", "check", "nightly", "--no-save", "--json", "--fail-on", "verdict.ttft.ratio>0.01"
    )
    assert status == 1
    assert "verdict.ttft.ratio is" in err
    assert json.loads(out)["a"] == "yesterday"


def test_a_run_that_is_not_to_be_saved_leaves_nothing(server: str, tmp_path: Path) -> None:
    status, _, err = run(tmp_path, "run", "--base-url", server, "--requests", "2", "--max-tokens", "3", "--no-save")
    assert status == 0, err
    assert "saved" not in err
    assert list(tmp_path.iterdir()) == []


def test_failures_limits_and_gates_make_the_status_1(tmp_path: Path) -> None:
    with SimulatorProcess(SimOptions(ttft_ms=20, itl_ms=2, fail_rate=1.0)) as simulator:
        status, out, err = run(
            tmp_path, "run", "--base-url", simulator.base_url, "--requests", "4", "--max-tokens", "3"
        )
    assert status == 1
    assert "4 x http_500" in out
    assert "4 of 4 FAILED (http_500 4)" in out
    assert "4 of 4 requests failed" in err
    assert only_record(tmp_path).cells[0].failed == 4


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--limit", "ttft_ms=1"), "limits missed in cell 1"),
        (("--fail-on", "ttft_ms.p50>1"), "--fail-on 'ttft_ms.p50>1': ttft_ms.p50 is"),
    ],
)
def test_a_missed_limit_is_said(server: str, tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    status, _, err = run(tmp_path, "run", "--base-url", server, "--requests", "2", "--max-tokens", "3", *words)
    assert status == 1
    assert why in err


@pytest.mark.parametrize(
    ("name", "reason"),
    [("SIGINT", "stopped by Ctrl-C"), ("SIGTERM", "stopped by SIGTERM"), ("SIGHUP", "the terminal went away")],
)
def test_a_signal_keeps_what_was_measured(server: str, tmp_path: Path, name: str, reason: str) -> None:
    """On a terminal, whose updating line tells when a request of the minute-long cell is in flight."""
    ours, theirs = os.openpty()
    words = ("run", "--base-url", server, "--requests", "120", "--max-tokens", "250", "--warmup", "1")
    process = start(tmp_path, *words, stderr=theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as screen:
        told = b""
        while b"1 in flight" not in told:
            told += screen.read(4096)
        process.send_signal(getattr(signal, name))
        with suppress(OSError):  # a terminal whose other end was closed ends by an error
            while part := screen.read(4096):
                told += part
    assert process.stdout is not None
    out = process.stdout.read()
    assert process.wait(timeout=60) == 130
    process.stdout.close()
    record = only_record(tmp_path)
    assert (record.session.status, record.session.reason) == ("interrupted", reason)
    assert record.cells[0].cancelled == 1
    assert record.cells[0].ok < 120
    assert "1 cancelled" in out
    # Nothing of the updating line stays on the screen.
    assert told.decode().rpartition("\x1b[K")[2].split("\r\n")[2].startswith("saved: /")


def test_a_signal_between_two_cells_keeps_the_first(server: str, tmp_path: Path) -> None:
    process = start(
        tmp_path, *("run", "--base-url", server, "--concurrency", "1,2", "--requests", "2", "--max-tokens", "250")
    )
    assert process.stderr is not None
    read_until(process.stderr, "concurrency 1:")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    record = only_record(tmp_path)
    assert record.session.status == "interrupted"
    assert record.cells[0].ok == 2
    assert "TTFT ms" in out


def test_kill_9_leaves_the_finished_cells(server: str, tmp_path: Path) -> None:
    process = start(
        tmp_path, "run", "--base-url", server, "--concurrency", "1,2,4,8", "--requests", "8", "--max-tokens", "9"
    )
    assert process.stderr is not None
    read_until(process.stderr, "concurrency 2:")
    process.kill()
    process.communicate(timeout=30)
    record = only_record(tmp_path)
    assert [cell.variables["concurrency"] for cell in record.cells][:2] == [1, 2]


def test_events_go_beside_the_record(server: str, tmp_path: Path) -> None:
    status, _, err = run(tmp_path, "run", "--base-url", server, "--requests", "3", "--max-tokens", "5", "--events")
    assert status == 0, err
    (beside,) = (tmp_path / "sessions").glob("*.events.jsonl")
    lines = [json.loads(line) for line in beside.read_text().splitlines()]
    assert [sum(line["arrivals"]["chunks"]) for line in lines] == [5, 5, 5]


def test_an_unknown_model_is_status_3_and_nothing_is_saved(server: str, tmp_path: Path) -> None:
    status, out, err = run(tmp_path, "run", "--base-url", server, "--model", "no-such-model", "--requests", "1")
    assert status == 3, err
    assert out == ""
    assert "no-such-model" in err
    assert not (tmp_path / "sessions").exists()
