"""Files beside a record, and reading records back: nothing is trusted, and one clear line says what is wrong."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import time
import tomllib
from pathlib import Path

import pytest
from made_records import made_cell, made_record, made_trace

from workbench.domain.plan import plan_from_table
from workbench.domain.record import Verdict
from workbench.domain.variables import BadInput, Setting
from workbench.records import store
from workbench.records.listing import find, list_sessions
from workbench.records.sidecar import events_path, requests_path
from workbench.records.store import RecordWriter, SaveTrouble, as_json, load, set_notes


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Many requests


def test_many_requests_go_to_a_file_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MANY_REQUESTS", 50)
    record = made_record((1, 2, 4))
    cells, record.cells = record.cells, []
    writer = RecordWriter(tmp_path, record)
    sizes = []
    for cell in cells:
        record.cells.append(cell)
        writer.write(record)
        beside = requests_path(writer.file)
        sizes.append(beside.stat().st_size if beside.exists() else 0)
        assert load(writer.file).cells == record.cells
    # Two cells of 20 stay inside; with the third all three move out, once.
    assert sizes[:2] == [0, 0]
    assert sizes[2] > 0
    first = tomllib.loads(writer.file.read_text())["cells"][0]["per_request"]
    assert first["file"] == beside.name
    assert first["rows"] == 20
    before = beside.read_bytes()
    writer.write(record)
    assert beside.read_bytes() == before
    record.cells.append(made_cell(4, Setting(concurrency=8), failures=2))
    writer.write(record)
    assert beside.read_bytes().startswith(before)
    assert load(writer.file).cells == record.cells


def test_a_torn_tail_of_the_file_beside_is_not_read_and_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MANY_REQUESTS", 30)
    record = made_record((1, 2))
    writer = RecordWriter(tmp_path, record)
    beside = requests_path(writer.file)
    with beside.open("ab") as file:
        file.write(b'{"cell": 9, "ttft_')
    assert load(writer.file).cells == record.cells
    record.cells.append(made_cell(3, Setting(concurrency=8)))
    writer.write(record)
    assert load(writer.file).cells == record.cells


@pytest.mark.parametrize("damage", ["edited", "cut", "gone"])
def test_requests_that_differ_from_the_record_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(store, "MANY_REQUESTS", 10)
    writer = RecordWriter(tmp_path, made_record((1,)))
    beside = requests_path(writer.file)
    data = beside.read_bytes()
    if damage == "edited":
        beside.write_bytes(data.replace(b'"ok"', b'"no"', 1))
    elif damage == "cut":
        beside.write_bytes(data[:-5])
    else:
        beside.unlink()
    with pytest.raises(BadInput, match=re.escape(beside.name)) as caught:
        load(writer.file)
    assert "\n" not in str(caught.value)


def test_a_record_can_not_point_at_files_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MANY_REQUESTS", 10)
    writer = RecordWriter(tmp_path, made_record((1,)))
    text = writer.file.read_text()
    writer.file.write_text(text.replace(requests_path(writer.file).name, "../secret"))
    with pytest.raises(BadInput, match="no proper file"):
        load(writer.file)


def test_a_five_thousand_request_session_of_many_cells_is_saved_quickly(tmp_path: Path) -> None:
    """Saving cell by cell must not grow with the square of the cells: the last save costs about what the first did."""
    record = made_record((1,), requests=50)
    cell = record.cells[0]
    record.cells = []
    writer = RecordWriter(tmp_path, record)
    taken = []
    for number in range(60):
        record.cells.append(made_cell(number + 1, Setting(), requests=50))
        start = time.process_time()
        writer.write(record)
        taken.append(time.process_time() - start)
    assert sum(taken[-10:]) < 6 * sum(taken[:10])
    assert cell.requests == 50


# Events


def test_raw_events_are_json_lines_beside_the_record(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, made_record((1,)), ["hunter2hunter2"])
    trace = made_trace(3)
    trace.content = "\x9b2J \x1b hunter2hunter2"
    writer.events([trace, made_trace(4, error="http_503: busy")])
    writer.events([made_trace(5)])
    data = events_path(writer.file).read_bytes()
    lines = [json.loads(line) for line in data.splitlines()]
    assert [line["index"] for line in lines] == [3, 4, 5]
    assert lines[0]["arrivals"]["at_ns"] == trace.arrivals.at_ns
    assert lines[0]["content"] == "\x9b2J \x1b <redacted>"
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", data.decode())


def test_a_lone_surrogate_in_a_reply_stops_no_event(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, made_record((1,)))
    trace = made_trace(0)
    trace.content = "half \ud83d"
    writer.events([trace])
    assert json.loads(events_path(writer.file).read_text())["content"] == "half \ufffd"


# Secrets


def test_a_key_in_use_reaches_no_file(tmp_path: Path) -> None:
    key = "pa55-word-of-mine"
    record = made_record((1,))
    record.cells.append(made_cell(2, Setting(), failures=3, error=f"http_401: bad key {key}"))
    record.session.command = f"workbench run --note {key}"
    record.plan["baseline"]["base_url"] = f"https://user:{key}@host:8443/v1?key={key}#x"
    writer = RecordWriter(tmp_path, record, [key])
    assert key not in writer.file.read_text()
    assert load(writer.file).plan["baseline"]["base_url"] == "https://host:8443/v1"
    assert load(writer.file).cells[1].per_request["error"][0] == "http_401: bad key <redacted>"


# Reading


BROKEN = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n", "is empty"),
    "keyless": (b"# nothing\n", "no keys"),
    "foreign": (b'[tool]\nname = "x"\n', "not a Workbench session"),
    "newer": (b'schema = 9\nkind = "workbench-session"\n', "schema 9"),
    "cut": (b'schema = 1\nkind = "workbench-sess', "not valid TOML"),
    "binary": (b"\xff\xfe\x00\x01", "not UTF-8"),
    "deep": (b"a = " + b"[" * 100_000, "nested too deeply"),
    "wrong type": (b'schema = 1\nkind = "workbench-session"\nsession = 3\n', "can't be read"),
    "cells": (b'schema = 1\nkind = "workbench-session"\ncells = 3\n[session]\nid = "x"\n', "can't be read"),
    "cell": (b'schema = 1\nkind = "workbench-session"\ncells = [3]\n[session]\nid = "x"\n', "can't be read"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_one_line_that_names_it(tmp_path: Path, kind: str) -> None:
    data, words = BROKEN[kind]
    path = tmp_path / "20260101T000000Z-x-0000.toml"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=re.escape(words)) as caught:
        load(path)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)
    (listed,) = list_sessions(tmp_path)
    assert path.name in listed.trouble or kind in ("cells", "cell")


def test_missing_folders_and_files_too_large_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, words in (
        (tmp_path / "none.toml", "no such file"),
        (tmp_path, "is a folder"),
        (Path("a\0b"), "can't be read"),
    ):
        with pytest.raises(BadInput, match=words):
            load(path)
    big = tmp_path / "big.toml"
    with big.open("wb") as file:
        file.truncate(40 * 1024 * 1024)
    with pytest.raises(BadInput, match="too large"):
        load(big)


def test_a_truncated_record_never_reads_as_another(tmp_path: Path) -> None:
    record = made_record((1, 2))
    data = RecordWriter(tmp_path, record).file.read_bytes()
    path = tmp_path / "cut.toml"
    for share in (0.1, 0.3, 0.7, 0.97):
        path.write_bytes(data[: data.index(b" = ", int(len(data) * share)) + 3])
        with pytest.raises(BadInput, match=r"cut\.toml is not valid TOML"):
            load(path)


def test_a_record_another_program_laid_out_is_read(tmp_path: Path) -> None:
    text = (
        "\ufeffkind = 'workbench-session'\r\nschema = 1\r\nplan.varied = 'quant'\r\n"
        "plan.values = [\r\n  'Q4', # four\r\n  'Q8',\r\n]\r\nplan.baseline = { model = 'm', engine = 'vllm' }\r\n"
        "session = { id = 'x1', name = 'mine', started = '2026-01-01T00:00:00Z', future = 3 }\r\nlater = { key = 1 }\r\n"
    )
    path = tmp_path / "20260101T000000Z-m-0001.toml"
    path.write_bytes(text.encode())
    (listed,) = list_sessions(tmp_path)
    assert (listed.id, listed.name, listed.model, listed.engine, listed.values) == (
        "x1",
        "mine",
        "m",
        "vllm",
        ("Q4", "Q8"),
    )
    record = load(path)
    assert record.extra == {"later": {"key": 1}}
    set_notes(path, notes="seen\nagain")
    again = tomllib.loads(path.read_text())
    assert again["session"] == {
        "id": "x1",
        "name": "mine",
        "started": "2026-01-01T00:00:00Z",
        "future": 3,
        "notes": "seen\nagain",
    }
    assert again["later"] == {"key": 1}


def test_notes_and_name_are_patched_and_nothing_else(tmp_path: Path) -> None:
    record = made_record((1, 2))
    file = RecordWriter(tmp_path, record).file
    before = load(file)
    set_notes(file, name="better", notes="after the fan was cleaned")
    after = load(file)
    assert (after.session.name, after.session.notes) == ("better", "after the fan was cleaned")
    after.session.name, after.session.notes = before.session.name, before.session.notes
    assert after == before
    foreign = tmp_path / "foreign.toml"
    foreign.write_text('[session]\nname = "x"\n')
    with pytest.raises(BadInput, match="not a Workbench session"):
        set_notes(foreign, name="y")
    assert foreign.read_text() == '[session]\nname = "x"\n'


def test_json_has_the_same_structure_with_null_for_absent(tmp_path: Path) -> None:
    record = made_record((1, 2))
    record.verdict = Verdict(sentence="s")
    file = RecordWriter(tmp_path, record).file
    data = json.loads(json.dumps(as_json(load(file)), allow_nan=False))
    table = tomllib.loads(file.read_text())
    assert data["cells"][0]["per_request"]["cached_tokens"] == [None] * 20
    assert data["cells"][0]["goodput"] is None

    def covered(stored: object, shown: object) -> None:
        if isinstance(stored, dict):
            assert isinstance(shown, dict)
            for key, value in stored.items():
                covered(value, shown[key])
        elif isinstance(stored, list):
            assert isinstance(shown, list)
            assert len(stored) == len(shown)
            for one, other in zip(stored, shown, strict=True):
                covered(one, other)
        elif not (isinstance(stored, float) and math.isnan(stored)):
            assert stored == shown

    covered(table, data)


# Lists and finding


def test_the_list_is_newest_first_and_says_what_was_measured(tmp_path: Path) -> None:
    old = made_record((1,), model="old")
    old.session.started = "2025-01-01T00:00:00Z"
    new = made_record((1, 2))
    new.verdict = Verdict(sentence='the "best" yet')
    RecordWriter(tmp_path, old)
    file = RecordWriter(tmp_path, new).file
    (tmp_path / "README.md").write_text("no session")
    (tmp_path / ".half.tmp").write_text("")
    (tmp_path / "broken.toml").write_text("= =")
    first, second, third = list_sessions(tmp_path)
    assert (first.path, first.id, first.name) == (file, file.stem, "evening ladder")
    assert (first.model, first.engine, first.quant, first.varied, first.values) == (
        "qwen2.5:7b",
        "ollama",
        "Q4_K_M",
        "concurrency",
        (1, 2),
    )
    assert first.sentence == 'the "best" yet'
    assert second.model == "old"
    assert "broken.toml" in third.trouble
    assert list_sessions(tmp_path / "nowhere") == []


def test_the_list_is_read_from_the_heads_alone(tmp_path: Path) -> None:
    """Against parsing whole files: a listing that did so would take longer than one load a file."""
    record = made_record((1, 2, 4, 8))
    record.plan["prompts"][0]["text"] = "a long document " * 2000
    for _ in range(100):
        RecordWriter(tmp_path, record)
    start = time.process_time()
    found = list_sessions(tmp_path)
    listing = time.process_time() - start
    start = time.process_time()
    for item in found[:5]:
        load(item.path)
    loading = (time.process_time() - start) / 5
    assert len(found) == 100
    assert listing / 100 < loading / 10


def test_a_session_is_found_by_what_a_person_calls_it(tmp_path: Path) -> None:
    one, two = made_record((1,)), made_record((1,), model="llama3")
    two.session.name = "other/name"
    two.session.started = "2026-04-01T00:00:00Z"
    first, second = RecordWriter(tmp_path, one).file, RecordWriter(tmp_path, two).file
    for wanted in (first.stem, first.name, "evening ladder", "20260304", first.stem[-4:], str(first)):
        assert find(tmp_path, wanted) == first
    assert find(tmp_path, "other/name") == second
    assert find(tmp_path, "last") == second
    with pytest.raises(BadInput, match="fits 2 sessions"):
        find(tmp_path, "2026")
    with pytest.raises(BadInput, match="no session 'zzz'"):
        find(tmp_path, "zzz")
    with pytest.raises(BadInput, match="no such file"):
        find(tmp_path, "./zzz.toml")
    with pytest.raises(BadInput, match="no session"):
        find(tmp_path, "")
    with pytest.raises(BadInput, match="no sessions in"):
        find(tmp_path / "none", "last")


def test_the_plan_can_be_run_again_from_the_file(tmp_path: Path) -> None:
    record = made_record((1, 2, 4))
    plan = plan_from_table(record.plan)
    assert plan_from_table(load(RecordWriter(tmp_path, record).file).plan) == plan


def test_a_saved_file_is_readable_as_the_umask_says(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        file = RecordWriter(tmp_path, made_record((1,))).file
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_what_would_not_read_back_is_never_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = made_record((1,))
    writer = RecordWriter(tmp_path, record)
    before = writer.file.read_bytes()
    right = store.render
    monkeypatch.setattr(store, "render", lambda table: right(table).replace("0.1.0", "0.2.0"))
    with pytest.raises(SaveTrouble, match="would not read back"):
        writer.write(record)
    assert writer.file.read_bytes() == before
