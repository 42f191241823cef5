"""`import` on the command line: the other tool's figures under its name, saved as a session that the other verbs read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workbench.cli.main import main
from workbench.records.store import as_json, load

Told = pytest.CaptureFixture[str]

FILES = Path(__file__).parent.parent / "imports"
EVERY = sorted([*FILES.glob("*.json"), *(FILES / "made").glob("*.json*")])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of sessions, empty, and a terminal of 80 columns."""
    monkeypatch.setenv("WORKBENCH_SESSIONS", str(tmp_path / "s"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "s"


def only(folder: Path) -> Path:
    (file,) = folder.glob("*.toml")
    return file


def row(lines: list[str], name: str) -> list[str]:
    return next(line.split() for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_every_format_is_saved_and_shown_within_80_columns(path: Path, folder: Path, capsys: Told) -> None:
    assert main(["import", str(path)]) == 0
    told = capsys.readouterr()
    file = only(folder)
    assert told.err == f"workbench: saved: {file}\n"
    lines = told.out.split("\n")
    assert max(map(len, lines)) <= 80
    record = load(file)
    tool = record.extra["imported"]["tool"]
    assert tool in record.session.name
    assert any(line.startswith(f"by {tool}") for line in lines)
    text = " ".join(told.out.split())
    assert f"Where {tool}'s figures differ in definition from Workbench's:" in text
    for difference in record.extra["imported"]["differences_of_definition"]:
        assert difference in text
    assert main(["show", file.stem, "--no-plots"]) == 0
    assert main(["compare", file.stem, file.stem]) == 0


def test_the_figures_are_the_tools_own(capsys: Told) -> None:
    assert main(["import", str(FILES / "made" / "vllm-plain.json")]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert "concurrency 8: 198 ok, 2 FAILED, 612 tokens/s, 4.75 requests/s" in lines
    assert row(lines, "by")[4:] == ["mean", "std", "p50", "p99"]
    # Mean, standard deviation, median and P99 as the file has them; no P95, and so no column of it.
    source = json.loads((FILES / "made" / "vllm-plain.json").read_text())
    stated = [source[f"{name}_ttft_ms"] for name in ("mean", "std", "median", "p99")]
    assert row(lines, "ttft_ms")[2:] == [f"{value:.1f}" for value in stated]


def test_what_workbench_reckoned_is_marked(capsys: Told) -> None:
    assert main(["import", str(FILES / "guidellm-0.8.1.json")]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert row(lines, "decode_rate*")[1] == "tokens/s"
    assert row(lines, "ttft_ms")[2] == "10"
    assert "* over the requests in the file, by Workbench; the other statistics are" in lines
    assert main(["import", str(FILES / "made" / "vllm-plain.json")]) == 0
    assert not any(line.startswith("*") for line in capsys.readouterr().out.split("\n"))


def test_repetitions_summed_up_once_are_shown_once(capsys: Told) -> None:
    assert main(["import", str(FILES / "made" / "llama-bench.jsonl")]) == 0
    out = capsys.readouterr().out
    assert out.count("by llama-bench") == 2
    assert "A, qwen2.5-7b-q4_k_m.gguf, concurrency 1: 3 ok, 0 failed" in out
    assert "B, qwen2.5-7b-q8_0.gguf, concurrency 1: 3 ok, 0 failed" in out
    # Whole runs appended to one file are rounds, each with its own rates.
    assert main(["import", str(FILES / "made" / "vllm-appended.json")]) == 0
    out = capsys.readouterr().out
    assert "concurrency 8, round 1: 198 ok, 2 FAILED, 612 tokens/s" in out
    assert "concurrency 8, round 2: 198 ok, 2 FAILED, 620 tokens/s" in out


def test_json_is_the_saved_record(tmp_path: Path, capsys: Told) -> None:
    elsewhere = tmp_path / "elsewhere"
    file = str(FILES / "guidellm-0.8.1.json")
    assert main(["import", file, "--sessions", str(elsewhere), "--name", "tuesday", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads(json.dumps(as_json(load(only(elsewhere)))))
    assert data["session"]["name"] == "tuesday"
    assert data["session"]["id"] == only(elsewhere).stem
    assert data["imported"]["tool"] == "guidellm"
    assert data["verdict"]["throughput"]["call"] == "faster"
    assert {"schema", "kind", "plan", "environment", "cells"} <= data.keys()


def test_imported_sessions_are_named_for_their_tool(folder: Path, capsys: Told) -> None:
    assert main(["import", str(FILES / "made" / "sglang.jsonl")]) == 0
    capsys.readouterr()
    assert main(["compare", "sglang bench_serving sglang", "last"]) == 0
    assert capsys.readouterr().out.startswith("A sglang bench_serving sglang\nB sglang bench_serving sglang\n")


def test_the_same_file_twice_overwrites_nothing(folder: Path) -> None:
    for _ in range(2):
        assert main(["import", str(FILES / "guidellm-0.8.1.json")]) == 0
    assert len(list(folder.glob("*.toml"))) == 2


def test_hostile_text_of_a_file_steers_no_terminal(tmp_path: Path, capsys: Told) -> None:
    source = json.loads((FILES / "made" / "vllm-plain.json").read_text())
    source["model_id"] = "m\x1b]52;c;eA==\x07\u202e\nx"
    file = tmp_path / "a\x1b[2J.json"
    file.write_text(json.dumps(source))
    assert main(["import", str(file)]) == 0
    told = capsys.readouterr()
    assert not {"\x1b", "\x07", "\u202e"} & set(told.out + told.err)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "workbench import: the following arguments are required: FILE"),
        (("none.json",), "workbench: none.json: No such file or directory"),
        (("x.csv",), "workbench: x.csv: CSV isn't read; have the tool write JSON"),
        (("x.toml",), "workbench: x.toml: import reads other tools' JSON; a session is shown with"),
        (("other.json",), "workbench: other.json: not a result file of guidellm, "),
        (("empty.json",), "workbench: empty.json: empty"),
        (("cut.json",), "workbench: cut.json: no JSON that can be read, from line 1 on"),
        ((".",), "workbench: . is not a file"),
        (("/dev/null",), "workbench: /dev/null is not a file"),
        (
            (str(FILES / "guidellm-0.8.1.json"), "--sessions", "x.csv"),
            "workbench: can't save x.csv/",
        ),
    ],
)
def test_troubles_are_one_line_and_status_2(
    words: tuple[str, ...], line: str, tmp_path: Path, folder: Path, capsys: Told
) -> None:
    for name, content in {
        "x.csv": "a,b",
        "x.toml": "a = 1",
        "other.json": "{}",
        "empty.json": "",
        "cut.json": '{"a',
    }.items():
        (tmp_path / name).write_text(content)
    assert main(["import", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(line)
    assert told.err.count("\n") == 1
    assert not folder.exists()
