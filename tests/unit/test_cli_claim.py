"""`claim` on the command line: the report in its three forms, sessions held against it, one line for every trouble."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from made_comparisons import BASE, Truth, made_run

from workbench.cli.main import main
from workbench.records.store import RecordWriter

Told = pytest.CaptureFixture[str]

FILES = Path(__file__).parent.parent / "imports"
CONTRACT = {"given", "missing", "possible_kinds", "questions", "reproduction", "verdict"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sessions at 16 at once: `new` has 14 times the throughput of `old` and no faster request."""
    monkeypatch.setenv("WORKBENCH_SESSIONS", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    base = msgspec.structs.replace(BASE, concurrency=16)
    made = {
        "old": made_run(Truth(throughput=60.0), rounds=6, base=base),
        "new": made_run(Truth(throughput=840.0), rounds=6, base=base),
        "noisy": made_run(Truth(throughput=110.0, noise=0.3), rounds=3, base=base),
        "failing": made_run(Truth(throughput=840.0, failed=15), rounds=6, base=base),
    }
    for name, record in made.items():
        record.session.id, record.session.name = "", name
        RecordWriter(tmp_path, record)
    return tmp_path


def reported(capsys: Told, *words: str) -> dict[str, object]:
    assert main(["claim", *words, "--json"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    report: dict[str, object] = json.loads(told.out)
    return report


def test_a_bare_claim_as_json_has_the_contracts_shape(folder: Path, capsys: Told) -> None:
    report = reported(capsys, "--factor", "14")
    assert report.keys() >= CONTRACT
    assert report["given"] == {}
    assert report["verdict"] == {}
    assert len(report["missing"]) == 15  # type: ignore[arg-type]
    for name in CONTRACT - {"given", "verdict"}:
        items = report[name]
        assert isinstance(items, list)
        assert items
        assert all(isinstance(item, str) for item in items)


def test_what_is_given_is_no_longer_missing(folder: Path, capsys: Told) -> None:
    report = reported(
        capsys, "--factor", "2x", "--metric", "TTFT", "--given", "gpu=A100 80G", "--given", "quant=FP16 -> INT4"
    )
    assert report["given"] == {"hardware": "A100 80G", "precision": "FP16 -> INT4"}
    assert not {"hardware", "precision"} & set(report["missing"])  # type: ignore[call-overload]
    assert report["possible_kinds"] == ["ttft", "other conditions"]
    assert "--vary quant=FP16,INT4" in report["reproduction"][0]  # type: ignore[index]


@pytest.mark.parametrize(
    ("factor", "metric", "candidate", "kind", "call"),
    [
        ("14", "throughput", "new", "throughput", "supported"),
        ("14", "request_time", "new", "request_time", "contradicted"),
        ("1.9", "throughput", "noisy", "throughput", "undecided"),
        ("14", "throughput", "failing", "throughput", "not comparable"),
    ],
)
def test_sessions_held_against_the_claim(
    folder: Path, capsys: Told, factor: str, metric: str, candidate: str, kind: str, call: str
) -> None:
    sides = ("--baseline", "old", "--candidate", candidate)
    report = reported(capsys, "--factor", factor, "--metric", metric, *sides)
    verdict = report["verdict"]
    assert isinstance(verdict, dict)
    assert verdict.keys() == {"ttft", "request_time", "decode_rate", "throughput", "capacity"}
    assert (verdict[kind]["call"], verdict[kind]["claimed"]) == (call, True)
    assert f"is {call} as " in str(report["sentence"])


def test_the_report_at_80_columns_names_sessions_and_the_other_kind(folder: Path, capsys: Told) -> None:
    words = ["claim", "--factor", "14", "--metric", "request_time", "--source", "a post"]
    assert main([*words, "--baseline", "old", "--candidate", "new"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "Claim: 14x faster (request time, from a post)"
    assert "throughput, which is" in lines[1]
    assert "Against the sessions: old before, new after" in lines
    assert max(len(line) for line in lines if not line.startswith("  workbench ")) <= 80


def test_the_report_as_markdown(folder: Path, capsys: Told) -> None:
    assert main(["claim", "--factor", "14", "--source", "<b>|x", "--markdown"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# Claim: 14x faster")
    assert "&lt;b>\\|x" in page
    assert page.endswith("```\n")


def test_a_claim_from_a_file_with_more_typed_over_it(folder: Path, capsys: Told) -> None:
    (folder / "claim").mkdir()
    file = folder / "claim" / "c.toml"
    file.write_text(
        '\ufefffactor = "14x"\nmetric = "ttft"\nsource = "会议"\ncandidate = "new"\n[given]\ngpu = "A100"\nn = 3\n'
    )
    assert main(["claim", "--file", str(file), "--baseline", "old", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert (read["claim"]["metric"], read["claim"]["source"]) == ("ttft", "会议")
    assert read["given"] == {"hardware": "A100", "sample_size": "3"}
    assert read["verdict"]["ttft"]["call"] == "contradicted"
    typed = reported(
        capsys,
        "--file",
        str(file),
        "--baseline",
        "old",
        "--factor",
        "3",
        "--metric",
        "throughput",
        "--given",
        "gpu=H100",
    )
    assert typed["claim"]["factor"] == 3  # type: ignore[index]
    assert typed["given"] == {"hardware": "H100", "sample_size": "3"}
    assert typed["verdict"]["throughput"]["call"] == "supported"  # type: ignore[index]


def test_another_tools_file_is_a_side_as_it_stands(folder: Path, capsys: Told) -> None:
    file = str(FILES / "guidellm-0.8.1.json")
    before = sorted(folder.iterdir())
    report = reported(capsys, "--factor", "2", "--metric", "ttft", "--baseline", file, "--candidate", file)
    assert report["verdict"]["ttft"]["call"] == "contradicted"  # type: ignore[index]
    assert report["claim"]["baseline"] == "guidellm-0.8.1"  # type: ignore[index]
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "workbench: a claim says how many times faster: give --factor 14, or --file claim.toml"),
        (("--factor", "fast"), "workbench: --factor 'fast': write how many times faster"),
        (("--factor", "2", "--metric", "zip"), "workbench: --metric 'zip': it is unknown, or one of ttft, "),
        (("--factor", "2", "--given", "gpu"), "workbench: --given 'gpu': write KEY=VALUE"),
        (("--factor", "2", "--baseline", "old"), "workbench: --baseline alone can't be held against the claim"),
        (("--factor", "2", "--candidate", "old"), "workbench: --candidate alone can't be held against the claim"),
        (("--factor", "2", "--baseline", "old", "--candidate", "x"), "workbench: no session 'x' in "),
        (("--factor", "2", "--baseline", "no.json", "--candidate", "old"), "workbench: no.json: No such file"),
        (("--file", "none.toml"), "workbench: none.toml: no such file"),
        (("--file", "."), "workbench: --file . is a folder: give a TOML file"),
        (("--file", "broken"), "workbench: broken is not valid TOML"),
        (("--file", "odd"), "workbench: odd: claim: no such key: 'colour'"),
        (("--file", "wild"), "workbench: wild: --factor '\\x1b[2J': write how many"),
        (("--factor", "2", "--json", "--markdown"), "workbench claim: argument --markdown: not allowed with"),
    ],
)
def test_troubles_are_one_line_and_status_2(folder: Path, capsys: Told, words: tuple[str, ...], line: str) -> None:
    (folder / "broken").write_text("= =")
    (folder / "odd").write_text('factor = 2\ncolour = "red"\n')
    (folder / "wild").write_text('factor = "\\u001b[2J"\n')
    assert main(["claim", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(line)
    assert told.err.count("\n") == 1
