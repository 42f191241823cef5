"""The command as a user meets it: real processes, exit statuses, one line for every trouble."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_records import made_record

from workbench import __version__
from workbench.cli.main import VERBS, main
from workbench.records.store import RecordWriter, as_json, load


def workbench(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workbench", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environ},
        timeout=60,
        check=False,
    )


def test_the_version_is_told_without_importing_anything_heavy() -> None:
    code = (
        "import sys; from workbench.cli.main import main; main(['--version']);"
        "heavy = {'msgspec', 'textual', 'openai', 'rich', 'asyncio', 'plotext', 'scipy', 'tomli_w'} & set(sys.modules);"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"workbench {__version__}\n", "")


def test_the_version_costs_little_more_than_python_itself() -> None:
    def seconds(*words: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *words], capture_output=True, check=True)
        return time.perf_counter() - start

    bare = min(seconds("-c", "import argparse") for _ in range(3))
    version = min(seconds("-m", "workbench", "--version") for _ in range(3))
    assert version < 2 * bare + 0.05


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_tells_its_options(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: workbench {verb}")
    assert main(["help", verb]) == 0


def test_help_lists_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {verb} " in listed for verb in VERBS)
    assert max(map(len, listed.split("\n"))) <= 120


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("rnu",), "workbench: no such command: rnu; did you mean `workbench run`?"),
        (("\x1b[2J",), "workbench: no such command: ␛[2J; `workbench --help` lists them"),
        (
            ("run", "--bogus"),
            "workbench run: unrecognized arguments: --bogus; `workbench run --help` lists the options",
        ),
        (("run", "--max-tokens", "0"), "workbench: --max-tokens 0: give 1 or more"),
        (("ab",), "workbench: an A/B flips one variable between two values"),
        (("show", "nothing", "--sessions", "/nowhere"), "workbench: no sessions in /nowhere"),
        (("rerun", "/nowhere/x.toml"), "workbench: /nowhere/x.toml: no such file"),
        (("run", "--fail-on", "verdict.ttft=slower", "--base-url", "http://127.0.0.1:9/v1"), "workbench: --fail-on"),
        (("sim", "--jitter", "7"), "workbench: --jitter 7"),
        (("calibrate", "--streams", "x"), "workbench: --streams 'x'"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    words: tuple[str, ...],
    line: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(line)
    assert told.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_no_server_is_status_3_and_nothing_is_saved(tmp_path: Path) -> None:
    done = workbench("run", "--base-url", "http://127.0.0.1:9/v1", "--sessions", str(tmp_path / "s"))
    assert done.returncode == 3
    assert done.stdout == ""
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_public_server_is_not_reached_unasked(tmp_path: Path) -> None:
    done = workbench("run", "--base-url", "http://8.8.8.8/v1", "--sessions", str(tmp_path))
    assert done.returncode == 3
    assert "agree with --yes" in done.stderr


def test_a_folder_that_can_not_be_written_is_told_before_measuring(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = workbench("run", "--base-url", "http://127.0.0.1:9/v1", "--sessions", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "a file is in the way" in done.stderr


def test_a_fault_of_our_own_is_one_line_with_its_traceback_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(namespace: object) -> int:
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr("workbench.cli.show.execute", broken)
    assert main(["show"]) == 3
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "ZeroDivisionError: one two" in told
    kept = Path(told.split()[-1])
    assert "Traceback" in kept.read_text()
    kept.unlink()


def test_ctrl_c_is_status_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(namespace: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.cli.show.execute", stopped)
    assert main(["show"]) == 130
    assert capsys.readouterr().err == "workbench: interrupted\n"


def test_show_prints_a_session_and_its_json(tmp_path: Path) -> None:
    file = RecordWriter(tmp_path, made_record((1, 2, 4))).file
    shown = workbench("show", "evening ladder", "--sessions", str(tmp_path), COLUMNS="80")
    assert shown.returncode == 0
    assert "TTFT ms" in shown.stdout
    assert "┌" not in shown.stdout
    assert max(map(len, shown.stdout.split("\n"))) <= 80
    plotted = workbench("show", str(file), "--plots", COLUMNS="100")
    assert "against concurrency" in plotted.stdout
    assert "\x1b" not in plotted.stdout
    data = json.loads(workbench("show", file.stem, "--json", WORKBENCH_SESSIONS=str(tmp_path)).stdout)
    assert data == json.loads(json.dumps(as_json(load(file))))


def test_show_alone_lists_sessions_and_names_broken_ones(tmp_path: Path) -> None:
    file = RecordWriter(tmp_path, made_record((1, 2))).file
    (tmp_path / "broken.toml").write_text("= =")
    listed = workbench("show", "--sessions", str(tmp_path))
    assert listed.returncode == 0
    assert file.stem in listed.stdout
    assert "broken.toml is not valid TOML" in listed.stderr
    data = json.loads(workbench("show", "--sessions", str(tmp_path), "--json").stdout)
    assert [entry["model"] for entry in data] == ["qwen2.5:7b", ""]


def test_a_reader_that_goes_away_is_no_trouble(tmp_path: Path) -> None:
    file = RecordWriter(tmp_path, made_record((1, 2, 4))).file
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", "show", str(file), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a device that is always full")
def test_a_result_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    file = RecordWriter(tmp_path, made_record((1, 2, 4))).file
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "workbench", "show", str(file)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "workbench: the result can't be printed: No space left on device\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_gets_substitutes(tmp_path: Path, encoding: str) -> None:
    file = RecordWriter(tmp_path, made_record((1,), model="千问")).file
    done = workbench("show", str(file), PYTHONIOENCODING=encoding)
    assert done.returncode == 0
    assert "TTFT ms" in done.stdout


def test_doctor_tells_facts_with_their_sources() -> None:
    done = workbench("doctor", "--json")
    assert done.returncode == 0
    facts = json.loads(done.stdout)
    assert facts["host"]["source"]["cpu"]
    assert facts["software"]["python"]
    text = workbench("doctor", COLUMNS="80").stdout
    assert text.startswith("host\n")
    assert "unknown" in text
