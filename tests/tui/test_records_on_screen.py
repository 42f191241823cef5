"""Saved sessions on screen, with real files: listed, filtered, opened, compared, named, run again, replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tui.conftest import driven
from tests.tui.scripted_bench import Clock, ScriptedBench
from tests.unit.made_records import made_cell, made_record
from workbench.domain.cell import stated_throughput
from workbench.domain.plan import Plan, plan_table
from workbench.domain.record import Record, SessionTable
from workbench.domain.variables import BadInput, Setting
from workbench.records.store import RecordWriter, load
from workbench.tui.model import LiveModel
from workbench.tui.replay import play, replay_events

SETTING = Setting(
    base_url="http://127.0.0.1:8000/v1", engine="ollama", model="qwen2.5:7b", quant="Q4_K_M", max_tokens=8
)


def single(name: str, concurrency: int, started: str, failures: int = 0, ttft_ms: float = 100.0) -> Record:
    setting = Setting(
        **{field: getattr(SETTING, field) for field in Setting.__struct_fields__} | {"concurrency": concurrency}
    )
    plan = Plan(baseline=setting, requests=20)
    return Record(
        session=SessionTable(id="", name=name, started=started, finished=started, workbench="0"),
        plan=plan_table(plan),
        environment={"server": [{"id": "s1", "engine": "ollama", "version": "0.30.1", "model": "qwen2.5:7b"}]},
        cells=[made_cell(1, setting, failures=failures, ttft_ms=ttft_ms)],
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    for record in (
        made_record(),
        single("before lunch", 1, "2026-03-05T10:00:00.000+00:00"),
        single("after lunch", 4, "2026-03-05T13:00:00.000+00:00", failures=3),
    ):
        RecordWriter(tmp_path, record)
    (tmp_path / "broken.toml").write_text("kind = ")
    return tmp_path


async def test_the_list_shows_newest_first_and_a_broken_file_with_its_trouble(saved: Path) -> None:
    async with driven(sessions=saved) as screen:
        await screen.press("s")
        await screen.app.workers.wait_for_complete()
        text = screen.text()
        assert text.index("after lunch") < text.index("before lunch") < text.index("evening ladder")
        assert "broken.toml" in text
        assert "4 sessions" in text
        assert "concurrency 1 2 4" in text


async def test_a_filter_narrows_the_list(saved: Path) -> None:
    async with driven(sessions=saved) as screen:
        await screen.press("s", "slash", *"lunch", "enter")
        text = screen.text()
        assert "2 of 4 sessions" in text
        assert "evening" not in text
        await screen.press("escape")
        assert "evening ladder" in screen.text()
        await screen.press("escape")
        assert "no requests yet" in screen.text()


async def test_a_session_is_read_with_its_failures(saved: Path) -> None:
    async with driven(sessions=saved) as screen:
        await screen.press("s", "enter")
        text = screen.text()
        assert "after lunch" in text
        assert "17" in text
        assert "3 http_503" in text
        await screen.press("escape", "down", "down", "enter")
        text = screen.text()
        assert "evening ladder" in text
        assert "workbench run --concurrency 1,2,4" in text
        await screen.press("end")
        assert "tokens/s in all" in screen.text()


async def test_two_marked_sessions_are_compared_checks_first(saved: Path) -> None:
    async with driven(sessions=saved) as screen:
        await screen.press("s")
        assert "c Compare" not in screen.text()
        await screen.press("m", "down", "m")
        assert "c Compare" in screen.text()
        await screen.press("c")
        await screen.app.workers.wait_for_complete()
        await screen.settle()
        text = screen.text()
        assert text.index("before lunch") < text.index("after lunch"), "the older one is A"
        assert "checks" in text
        assert "FAIL" in text or "doubt" in text
        pages = text
        for _ in range(3):
            await screen.press("pagedown")
            pages += screen.text()
        assert "1 → 4" in pages
        assert pages.index("what differs") < pages.index("figures") < pages.index("│ verdict")


def the_file(folder: Path, word: str) -> Path:
    return next(path for path in folder.glob("*.toml") if word in path.read_text())


async def test_a_session_is_named_and_its_notes_stay(saved: Path) -> None:
    path = the_file(saved, "after lunch")
    async with driven(sessions=saved) as screen:
        await screen.press("s", "n")
        await screen.app.workers.wait_for_complete()
        await screen.settle()
        await screen.press("ctrl+u", *"quiet", "enter", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.settle()
        assert "quiet" in screen.text()
    record = load(path)
    assert record.session.name == "quiet"
    assert len(record.cells[0].per_request["ttft_ms"]) == 20


async def test_a_record_is_run_again_and_compared_with_itself(saved: Path) -> None:
    async with driven(sessions=saved) as screen:
        await screen.press("s", "down", "r")
        await screen.finished()
        plan = screen.bench.plans[-1]
        assert (plan.baseline.concurrency, plan.requests) == (1, 20)
        assert screen.model.baseline is not None
        assert screen.model.baseline.model == "qwen2.5:7b"
        assert screen.model.baseline_cell is not None
        assert screen.model.baseline_cell.ttft_p50 == pytest.approx(109.5)


async def played(record: Record) -> tuple[LiveModel, list[str]]:
    clock = Clock()
    model = LiveModel(clock)
    states = []

    async def sleep(seconds: float) -> None:
        clock.now += seconds
        states.extend(entry.state for entry in model.requests.newest() if entry.kind == "request")

    await play(record, model, sleep=sleep)
    return model, states


async def test_a_replay_tells_what_the_record_holds() -> None:
    record = single("x", 4, "2026-03-05T10:00:00.000+00:00", failures=3)
    model, states = await played(record)
    assert (model.ok, model.failed) == (17, 3)
    assert model.replay
    cell = record.cells[0]
    summary = model.finished_cell
    assert summary is not None
    assert summary.ttft_p50 == cell.stats["ttft_ms"].p50
    assert summary.throughput == stated_throughput(cell)
    assert {"waiting", "stream", "ok", "FAILED"} <= set(states)
    assert sorted(value for _, value in model.ttft) == sorted(
        value
        for value, outcome in zip(cell.per_request["ttft_ms"], cell.per_request["outcome"], strict=True)
        if outcome == "ok"
    )


def test_a_replay_takes_as_long_as_the_session_took() -> None:
    record = made_record()
    *_, (end, _) = replay_events(record)
    whole = sum(
        max(
            start + last for start, last in zip(cell.per_request["started_ms"], cell.per_request["end_ms"], strict=True)
        )
        for cell in record.cells
    )
    assert end == pytest.approx(whole / 1000, rel=0.01)


async def test_a_replay_of_nothing_says_so() -> None:
    record = single("x", 1, "2026-03-05T10:00:00.000+00:00")
    record.cells.clear()
    with pytest.raises(BadInput, match="nothing to play"):
        await play(record, LiveModel())


async def test_a_replay_is_marked_and_gives_the_setting_back(saved: Path) -> None:
    async with driven(ScriptedBench(), sessions=saved) as screen:
        mine = screen.model.setting
        await screen.press("s", "w")
        assert " REPLAY " in screen.lines()[0]
        assert "x Stop" in screen.text()
        await screen.press("x")
        await screen.app.workers.wait_for_complete()
        await screen.settle()
        assert "Esc End replay" in screen.text()
        await screen.press("escape")
        assert "REPLAY" not in screen.lines()[0]
        assert screen.model.setting == mine
        assert screen.bench.plans == []
