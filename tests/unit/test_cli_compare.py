"""`compare` and `baseline`: two saved sessions side by side, and names for the ones to come back to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_records import made_record

from workbench.cli.main import main
from workbench.cli.tables import verdict_lines
from workbench.domain.record import KindVerdict, Verdict
from workbench.domain.variables import BadInput
from workbench.records.baselines import baseline_file, list_baselines, save_baseline
from workbench.records.listing import list_sessions
from workbench.records.store import RecordWriter, load

Told = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two ladders: `old`, and `new` whose TTFT is twice as long."""
    monkeypatch.setenv("WORKBENCH_SESSIONS", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    old, new = made_record((1, 2)), made_record((2, 4))
    old.session.name, new.session.name = "old", "new"
    for index, cell in enumerate(new.cells):
        cell.variables = dict(old.cells[index].variables)
    new.plan = dict(old.plan)
    RecordWriter(tmp_path, old)
    RecordWriter(tmp_path, new)
    return tmp_path


def test_two_sessions_side_by_side(folder: Path, capsys: Told) -> None:
    assert main(["compare", "old", "new"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[:2] == ["A old", "B new"]
    assert max(map(len, lines)) <= 80
    row = next(line.split() for line in lines if line.startswith("ttft_ms"))
    assert row[1:] == ["ms", "110", "118", "20", "210", "218", "20"]
    assert any(line.startswith("passed: ") for line in lines)


def test_the_comparison_as_json_has_the_stated_form(folder: Path, capsys: Told) -> None:
    assert main(["compare", "old", "new", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"a", "b", "checks", "figures", "verdict", "sentence"} <= told.keys()
    assert all(check.keys() == {"name", "result", "evidence", "remedy"} for check in told["checks"])
    assert {"ratio", "low", "high", "call", "rounds_needed"} <= told["verdict"]["ttft"].keys()
    assert told["verdict"].keys() == {"ttft", "request_time", "decode_rate", "throughput", "capacity"}


def test_a_gate_on_the_verdict_makes_the_status_1(folder: Path, capsys: Told) -> None:
    assert main(["compare", "old", "new", "--fail-on", "verdict.ttft.ratio>1.5"]) == 1
    assert "verdict.ttft.ratio is 1.9" in capsys.readouterr().err
    assert main(["compare", "old", "old", "--fail-on", "verdict.ttft.ratio>1.5"]) == 0
    assert main(["compare", "old", "new", "--fail-on", "failed>0"]) == 2
    assert "a comparison has a verdict only" in capsys.readouterr().err


def test_a_session_that_is_not_there_is_one_line(folder: Path, capsys: Told) -> None:
    assert main(["compare", "old", "newer"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_holds_for_several_kinds_is_said_once() -> None:
    kinds = {
        "ttft": KindVerdict(better="lower", note="one run each"),
        "throughput": KindVerdict(better="higher", note="at 4 at once; one run each"),
    }
    lines = verdict_lines(Verdict(sentence="s", kinds=kinds), 80)
    assert lines[-2:] == ["· TTFT, throughput: one run each", "· throughput: at 4 at once"]


# Baselines


def test_a_baseline_is_saved_listed_and_found(folder: Path, capsys: Told) -> None:
    assert main(["baseline", "save", "nightly", "old"]) == 0
    assert main(["baseline", "list"]) == 0
    assert capsys.readouterr().out.split("\n")[1].startswith("nightly")
    assert main(["baseline", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["id"] == load(folder / listed["session"]).session.id
    assert load(baseline_file(folder, "nightly")).session.name == "old"
    # The list of sessions is what it was.
    assert [each.trouble for each in list_sessions(folder)] == ["", ""]


def test_a_name_is_taken_from_nobody_unasked(folder: Path, capsys: Told) -> None:
    assert main(["baseline", "save", "nightly", "old"]) == 0
    assert main(["baseline", "save", "nightly", "new"]) == 2
    assert "there is a baseline nightly already" in capsys.readouterr().err
    assert main(["baseline", "save", "nightly", "new", "--replace"]) == 0
    assert load(baseline_file(folder, "nightly")).session.name == "new"


def test_a_session_elsewhere_can_be_a_baseline(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = RecordWriter(tmp_path_factory.mktemp("elsewhere"), made_record((1,))).file
    save_baseline(folder, "far", elsewhere, "x")
    assert baseline_file(folder, "far") == elsewhere


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden", "x" * 61, "a b", "\x1b[2J", "千"])
def test_no_name_leaves_the_folder(folder: Path, name: str) -> None:
    with pytest.raises(BadInput, match="can't name a baseline"):
        save_baseline(folder, name, folder / "x.toml", "x")


def test_troubles_of_baselines_are_told(folder: Path, capsys: Told) -> None:
    with pytest.raises(BadInput, match=r"no baseline nightly .* none yet"):
        baseline_file(folder, "nightly")
    assert main(["baseline", "save", "nightly", "old"]) == 0
    baseline_file(folder, "nightly").unlink()
    with pytest.raises(BadInput, match="session of baseline nightly is gone"):
        baseline_file(folder, "nightly")
    (folder / "baselines" / "broken.toml").write_text("= =")
    (folder / "baselines" / "foreign.toml").write_text('kind = "x"\n')
    troubles = {each.name: each.trouble for each in list_baselines(folder)}
    assert "not valid TOML" in troubles["broken"]
    assert "is no baseline" in troubles["foreign"]
    assert troubles["nightly"] == ""
    assert main(["baseline", "list"]) == 0
    assert main(["baseline", "check", "other"]) == 2
    assert "there are: broken, foreign, nightly" in capsys.readouterr().err
