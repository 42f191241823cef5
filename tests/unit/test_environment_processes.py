"""Processes and command lines: who is busy, whose is whose, and that no secret leaves a command line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workbench.environment.files import LINUX, Files
from workbench.environment.processes import (
    Process,
    Table,
    busiest,
    own_processes,
    process_command,
    process_name,
    scan,
)
from workbench.environment.redact import GONE, hide_home, is_secret_name, redact_command, redact_text


def process(pid: int, cpu_s: float, *, parent: int = 1, started: float = 1.0, name: str = "p") -> Process:
    return Process(pid, parent, name, started, cpu_s, 10.0)


def table(t_s: float, *processes: Process) -> Table:
    return Table(int(t_s * 1e9), {one.pid: one for one in processes})


def test_busiest_is_by_cpu_time_of_the_window() -> None:
    before = table(10, process(1, 100.0), process(2, 50.0), process(3, 0.0), process(4, 9.0))
    after = table(
        12, process(1, 101.0), process(2, 54.0), process(3, 0.1), process(4, 1.0, started=11.0), process(5, 0.5)
    )
    assert [(busy.pid, busy.cpu_percent) for busy in busiest(before, after)] == [(2, 200), (1, 50), (4, 50), (5, 25)]
    assert [busy.pid for busy in busiest(before, after, leave_out={2, 4})] == [1, 5]
    assert [busy.pid for busy in busiest(before, after, most=1)] == [2]


def test_a_process_first_seen_with_an_old_cpu_time_is_not_called_busy() -> None:
    assert busiest(table(10), table(11, process(9, 5000.0))) == []


def test_trees_and_lines() -> None:
    family = table(
        0, process(1, 0, parent=0), process(2, 0), process(3, 0, parent=2), process(4, 0, parent=3), process(5, 0)
    )
    assert family.tree([2]) == {2, 3, 4}
    assert family.tree([99]) == set()
    assert family.line(4) == {4, 3, 2, 1}


def test_a_name_with_brackets_and_spaces_is_read_whole(tmp_path: Path) -> None:
    folder = tmp_path / "proc/77"
    folder.mkdir(parents=True)
    (folder / "stat").write_text("77 (a) R (b c\x1b[2J) S 1 " + "0 " * 9 + "250 50 0 0 20 0 1 0 4200 0 512 0\n")
    if not LINUX:
        pytest.skip("reads /proc")
    found = scan(Files(str(tmp_path))).processes[77]
    ticks = os.sysconf("SC_CLK_TCK")
    assert found.name.startswith("a) R (b c")
    assert "\x1b" not in found.name
    assert (found.parent, found.cpu_s, found.started) == (1, 300 / ticks, 4200 / ticks)
    assert found.rss_mib == 512 * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def test_this_process_is_seen_with_its_child() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            found = scan()
            assert {os.getpid(), os.getppid(), child.pid} <= own_processes(found)
            assert found.processes[child.pid].parent == os.getpid()
            assert found.processes[os.getpid()].rss_mib > 5
        finally:
            child.kill()
    assert process_name(child.pid) is None


def test_a_busy_process_is_found_for_real() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    ) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            first = scan()
            end = time.perf_counter() + 20
            while child.pid not in {busy.pid for busy in busiest(first, scan(), most=99)}:
                assert time.perf_counter() < end
        finally:
            child.kill()


def test_the_command_of_a_real_process_is_redacted() -> None:
    secret = "sk-abcdefghijklmnop"
    code = "print('up', flush=True); input()"
    command = [sys.executable, "-c", code, "--api-key", secret, "--port", "8000", f"{Path.home()}/models/x.gguf"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            shown = process_command(child.pid)
        finally:
            child.kill()
    assert shown is not None
    assert secret not in shown
    assert "--port 8000" in shown
    assert "~/models/x.gguf" in shown
    assert process_command(child.pid) is None


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["vllm", "serve", "m", "--api-key", "abc", "--port", "1"], f"vllm serve m --api-key {GONE} --port 1"),
        (["vllm", "serve", "--api-key", "k1", "k2", "--port", "1"], f"vllm serve --api-key {GONE} --port 1"),
        (["x", "--api-key=abc", "--max-tokens", "512"], f"x --api-key={GONE} --max-tokens 512"),
        (["x", "--tokenizer", "a/b", "--api-key-file", "/etc/k"], "x --tokenizer a/b --api-key-file /etc/k"),
        (["env", "HF_TOKEN=hf_x", "OLLAMA_HOST=0.0.0.0", "ollama"], f"env HF_TOKEN={GONE} OLLAMA_HOST=0.0.0.0 ollama"),
        (["x", "http://me:pw@host:1/v1?key=abc#f"], "x http://host:1/v1"),
        (["x", "-H", "Authorization: Bearer abcdef123456"], f"x -H 'Authorization: {GONE}'"),
        (["x", "/home/ann/m.gguf", "/Users/bob/m", "/mnt/c/Users/cy/m"], "x ~/m.gguf ~/m ~/m"),
        (["vllm serve m --api-key abc --port 1"], f"vllm serve m --api-key {GONE} --port 1"),
        (["sh", "-c", "vllm serve --api-key abc --port 1"], f"sh -c 'vllm serve --api-key {GONE} --port 1'"),
        (["x", '{"api_key": "abc", "n": 2}'], f'x \'{{"api_key": {GONE}, "n": 2}}\''),
    ],
)
def test_command_lines(arguments: list[str], shown: str) -> None:
    assert redact_command(arguments) == shown


def test_names_that_hold_secrets() -> None:
    for name in ("--api-key", "--apiKey", "HF_TOKEN", "--hf-token", "OPENAI_API_KEY", "--password", "--auth-token"):
        assert is_secret_name(name), name
    for name in ("--tokenizer", "--max-tokens", "--ssl-keyfile", "--api-key-file", "--monkey", "-k", "--host"):
        assert not is_secret_name(name), name


def test_login_names_in_paths_are_hidden() -> None:
    assert hide_home("/scratch/ann/m.gguf:/scratch/anna/m", ["ann"]) == "/scratch/<user>/m.gguf:/scratch/anna/m"
    assert hide_home(r"C:\Users\ann\models") == r"~\models"
    assert hide_home("/roots/x /root/x") == "/roots/x ~/x"


SECRETS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=12, max_size=30).map(
    lambda text: "Zq" + text
)


@given(SECRETS, st.sampled_from(range(10)))
@example("Zq0123456789ab", 0)
def test_a_secret_never_survives_in_any_usual_place(secret: str, place: int) -> None:
    arguments = [
        ["x", "--api-key", secret],
        ["x", f"--api-key={secret}"],
        ["x", "-H", f"Authorization: Bearer {secret}"],
        ["x", "-H", f"X-Api-Key: {secret}"],
        ["x", f"OPENAI_API_KEY={secret}"],
        ["x", f"https://user:{secret}@host/v1"],
        ["x", f"https://host/v1?api_key={secret}"],
        ["x", f'{{"token": "{secret}"}}'],
        [f"x --hf-token {secret} --port 3"],
        ["sh", "-c", f"HF_TOKEN={secret} x --password '{secret}'"],
    ][place]
    assert secret not in redact_command(arguments)


@pytest.mark.parametrize(
    "shape", ["sk-proj-0123456789", "hf_ABCDEFGHIJ", "ghp_0123456789abcdefXYZ", "nvapi-0123456789"]
)
def test_known_shapes_of_keys_go_wherever_they_stand(shape: str) -> None:
    assert redact_text(f"the server said: no such key {shape}!") == f"the server said: no such key {GONE}!"


def test_plain_text_is_left_alone() -> None:
    text = "loaded 12 layers in 3.4 s: max_tokens=512, tokenizer: gpt2, http://127.0.0.1:8000/v1"
    assert redact_text(text) == text
