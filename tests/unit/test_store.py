"""Records on disk: whole or absent, equal when read back, never overwriting, and one clear line when something is wrong."""

from __future__ import annotations

import enum
import math
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import made_record

from workbench.domain.record import Record, SessionTable, Verdict, to_table
from workbench.records.store import RecordWriter, SaveTrouble, load, ready_folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_saved_record_loads_back_equal(tmp_path: Path) -> None:
    record = made_record()
    writer = RecordWriter(tmp_path / "new" / "folder", record)
    assert load(Path(writer.path)) == _as_stored(record)
    assert load(Path(writer.path)).cells[0].per_request["cached_tokens"] == [None] * 20


def _as_stored(record: Record) -> Record:
    """Absent parts of free tables are not stored: an empty `limits` is left out."""
    record.plan = {key: value for key, value in record.plan.items() if value != {}}
    return record


def test_the_name_holds_the_start_in_utc_and_the_model(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, made_record())
    assert re.fullmatch(r"20260304T213000Z-qwen2\.5-7b-[0-9a-f]{4}\.toml", writer.file.name)
    assert load(writer.file).session.id == writer.file.stem


@pytest.mark.parametrize(
    "model",
    [
        "../../etc/passwd",
        "..",
        "/",
        "",
        "a\x00b",
        "\x1b]0;x\x07",
        "千问",
        "x" * 4000,
        "org/Model-7B:Q4_K_M",
        ".hidden",
        "C:\\m",
    ],
)
def test_no_model_name_leaves_the_folder(tmp_path: Path, model: str) -> None:
    folder = tmp_path / "s"
    writer = RecordWriter(folder, made_record((1,), model=model))
    assert writer.file.parent == folder
    assert re.fullmatch(r"20260304T213000Z-[a-z0-9][a-z0-9.-]*-[0-9a-f]{4}\.toml", writer.file.name)
    assert names(tmp_path) == ["s"]


def test_two_sessions_of_one_second_never_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = made_record((1,))
    tokens = iter(["aaaa", "bbbb" * 3, "aaaa", "cccc" * 3, "dddd", "eeee" * 3])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(tokens))
    first, second = RecordWriter(tmp_path, record), RecordWriter(tmp_path, record)
    assert first.file.name.endswith("-aaaa.toml")
    assert second.file.name.endswith("-dddd.toml")
    assert len(names(tmp_path)) == 2


def test_each_cell_is_on_disk_as_it_finishes(tmp_path: Path) -> None:
    whole = made_record((1, 2, 4))
    cells, whole.cells = whole.cells, []
    writer = RecordWriter(tmp_path, whole)
    for count, cell in enumerate(cells, 1):
        whole.cells.append(cell)
        whole.verdict = Verdict(sentence=f"so far {count}", checks={"failures": "pass"})
        writer.write(whole)
        back = load(writer.file)
        assert [item.id for item in back.cells] == list(range(1, count + 1))
        assert back.verdict is not None
        assert back.verdict.sentence == f"so far {count}"
    assert names(tmp_path) == [writer.file.name]


def test_a_cell_that_changes_is_written_again(tmp_path: Path) -> None:
    record = made_record((1, 2))
    writer = RecordWriter(tmp_path, record)
    record.cells[0].checks["client"] = "doubt: late"
    writer.write(record)
    assert load(writer.file).cells[0].checks == {"client": "doubt: late"}


def test_the_verdict_stands_before_the_cells_and_short_arrays_on_one_line(tmp_path: Path) -> None:
    record = made_record((1, 2))
    record.verdict = Verdict(sentence="2.1x more tokens per second")
    text = RecordWriter(tmp_path, record).file.read_text()
    assert text.index("[verdict]") < text.index("[[cells]]")
    assert 'order = ["A", "B"]\n' in text
    assert max(map(len, text.splitlines())) <= 120


def test_foreign_values_are_stored_plain(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy comes with scipy")

    class Colour(enum.Enum):
        RED = "red"

    record = made_record((1,))
    record.plan["seed"] = numpy.int64(7)
    record.plan["path"] = Path("models/x.gguf")
    record.plan["colour"] = Colour.RED
    record.plan["nothing"] = None
    record.plan["spread"] = math.nan
    record.cells[0].window_s = numpy.float64(1.5)
    record.cells[0].per_request["ttft_ms"][0] = numpy.float32(0.5)
    record.cells[0].per_request["ttft_ms"][1] = math.inf
    back = load(RecordWriter(tmp_path, record).file)
    assert (back.plan["seed"], back.plan["path"], back.plan["colour"]) == (7, "models/x.gguf", "red")
    assert "nothing" not in back.plan
    assert "spread" not in back.plan
    assert back.cells[0].window_s == 1.5
    assert back.cells[0].per_request["ttft_ms"][:2] == [0.5, None]


@pytest.mark.parametrize("value", [object(), b"bytes", lambda: 0, 1j])
def test_what_has_no_place_is_refused_before_anything_is_written(tmp_path: Path, value: object) -> None:
    record = made_record((1,))
    writer = RecordWriter(tmp_path, record)
    before = writer.file.read_bytes()
    record.plan["odd"] = value
    with pytest.raises(SaveTrouble, match="can't be saved"):
        writer.write(record)
    assert writer.file.read_bytes() == before
    assert names(tmp_path) == [writer.file.name]


def test_nan_stands_in_request_columns_only(tmp_path: Path) -> None:
    record = made_record((1,))
    text = RecordWriter(tmp_path, record).file.read_text()
    head, _, columns = text.partition("[cells.per_request]")
    assert "nan" in columns
    assert "nan" not in head


HOSTILE = "\x1b]52;c;aGk=\x07 \x9b2J \u2028 \u202e \ud83d lone \r\n tab\t \"q\" \\ # = [\n    1,\n] '''"


def test_hostile_text_is_kept_and_steers_no_terminal(tmp_path: Path) -> None:
    record = made_record((1,))
    record.session.notes = HOSTILE
    record.plan[HOSTILE] = [HOSTILE, HOSTILE]
    file = RecordWriter(tmp_path, record).file
    kept = HOSTILE.replace("\ud83d", "\ufffd")
    assert load(file).session.notes == kept
    assert load(file).plan[kept] == [kept, kept]
    raw = file.read_bytes().decode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", raw)


@given(
    notes=st.text(),
    name=st.text(),
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    ),
)
def test_anything_reads_back_as_it_was_stored(
    tmp_path_factory: pytest.TempPathFactory, notes: str, name: str, body: object
) -> None:
    folder = tmp_path_factory.mktemp("any")
    record = Record(session=SessionTable(id="x", name=name, notes=notes), plan={"baseline": {"body": body}})
    file = RecordWriter(folder, record).file
    back = load(file)
    assert (back.session.name, back.session.notes) == (name, notes)
    assert to_table(load(RecordWriter(folder, back).file)) == to_table(back)


def test_a_folder_that_can_not_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SaveTrouble, match="a file is in the way") as caught:
            RecordWriter(folder, made_record((1,)))
        assert "\n" not in str(caught.value)
        with pytest.raises(SaveTrouble):
            ready_folder(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give up root's rights to be refused for real")
def test_no_right_to_write_keeps_the_file(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    record = made_record((1,))
    writer = RecordWriter(tmp_path, record)
    before = writer.file.read_bytes()
    os.seteuid(65534)
    try:
        with pytest.raises(SaveTrouble, match="may not write there"):
            writer.write(record)
        with pytest.raises(SaveTrouble, match="may not write there"):
            ready_folder(tmp_path)
    finally:
        os.seteuid(0)
    assert writer.file.read_bytes() == before
    assert names(tmp_path) == [writer.file.name]


def test_a_full_disk_keeps_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    """The kernel refuses to let a file grow, as a full disk would: RLIMIT_FSIZE, with its signal ignored."""
    record = made_record((1,))
    writer = RecordWriter(tmp_path, record)
    before = writer.file.read_bytes()
    record.cells += made_record((2, 4, 8)).cells
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, hard))
    try:
        with pytest.raises(SaveTrouble, match="may not get that big"):
            writer.write(record)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert writer.file.read_bytes() == before
    assert names(tmp_path) == [writer.file.name]
    writer.write(record)
    assert len(load(writer.file).cells) == 4


WRITES_FOR_EVER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from made_records import made_record
from workbench.records.store import RecordWriter
record = made_record((1, 2, 4))
writer = RecordWriter(Path({folder!r}), record)
print(writer.path, flush=True)
while True:
    record.session.notes += "x" * 1000
    writer.write(record)
"""


def test_kill_9_at_any_moment_leaves_a_whole_record(tmp_path: Path) -> None:
    code = WRITES_FOR_EVER.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    for wait_s in (0.0, 0.013, 0.031):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        time.sleep(wait_s)
        process.kill()
        process.wait()
        process.stdout.close()
        assert len(load(path).cells) == 3
