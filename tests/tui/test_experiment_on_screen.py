"""One variable at a time, driven by keys: the baseline is pinned, a second difference is named, the ways out work."""

from __future__ import annotations

from tests.tui.conftest import SENTENCE, driven
from tests.tui.script import World
from tests.tui.scripted_bench import ScriptedBench


async def test_the_first_finished_run_is_the_baseline_and_the_next_is_compared_with_it() -> None:
    async with driven() as screen:
        assert "no baseline yet" in screen.text()
        await screen.press("r")
        await screen.finished()
        assert screen.model.baseline == screen.bench.setting
        assert "Pinned as the baseline" in screen.text()
        await screen.press("right", "right")
        text = screen.text()
        assert "1 → 4" in text
        assert "one differs: fine" in text
        await screen.press("r")
        await screen.finished()
        assert [plan.baseline.concurrency for plan in screen.bench.plans] == [1, 4]
        assert screen.model.sentence == SENTENCE
        assert "3.6x more tokens per second" in screen.text()
        assert "base" in screen.text()
        assert screen.model.baseline == screen.bench.setting


async def test_a_run_in_which_nothing_succeeds_is_no_baseline() -> None:
    async with driven(ScriptedBench(World(failing=1.0))) as screen:
        await screen.press("r")
        await screen.finished()
        assert screen.model.baseline is None
        assert "no baseline yet" in screen.text()


async def test_a_second_difference_is_named_at_once_and_can_be_undone() -> None:
    async with driven() as screen:
        await screen.press("r")
        await screen.finished()
        await screen.press("right", "down", "right")
        assert screen.model.differing == ("concurrency", "temperature")
        text = screen.text()
        assert "2 differ: concurrency, temperature." in text
        assert "u undoes temperature" in text
        assert "r Run" not in text
        await screen.press("r")
        assert len(screen.bench.plans) == 1
        await screen.press("u")
        assert screen.model.differing == ("concurrency",)
        assert "r Run" in screen.text()


async def test_undo_takes_back_what_was_flipped_last() -> None:
    async with driven() as screen:
        await screen.press("r")
        await screen.finished()
        await screen.press("down", "right", "up", "right")
        assert screen.model.differing == ("concurrency", "temperature")
        await screen.press("u")
        assert screen.model.differing == ("temperature",)
        await screen.press("u")
        assert screen.model.differing == ()


async def test_the_current_setting_can_become_the_baseline() -> None:
    async with driven() as screen:
        await screen.press("r")
        await screen.finished()
        await screen.press("right", "down", "right", "b")
        assert screen.model.differing == ()
        assert screen.model.baseline is not None
        assert screen.model.baseline.concurrency == 2
        assert screen.model.baseline_cell is None
        assert "r measures it" in screen.text()
        await screen.press("r")
        await screen.finished()
        assert screen.model.baseline_cell is not None
        assert "Pinned as the baseline" in screen.text()


async def test_what_just_ran_becomes_the_baseline_with_its_record() -> None:
    async with driven() as screen:
        await screen.press("r")
        await screen.finished()
        await screen.press("right", "r")
        await screen.finished()
        await screen.press("b")
        assert screen.model.baseline_cell is not None
        assert screen.app.experiment.baseline_record is screen.model.record


async def test_an_ab_varies_what_was_flipped_in_counterbalanced_rounds() -> None:
    async with driven() as screen:
        await screen.press("a")
        assert screen.bench.plans == []
        await screen.press("r")
        await screen.finished()
        await screen.press("right", "right", "a")
        await screen.finished()
        plan = screen.bench.plans[-1]
        assert (plan.varied, plan.values, plan.rounds) == ("concurrency", (1, 4), 6)
        assert plan.order.count("A") == plan.order.count("B") == 6
        assert plan.order[1] == plan.order[2], "a round and the next are mirrored"
        assert screen.bench.requests_of == {"A": 5, "B": 8}
        assert "round 6 of 6" in screen.text()


async def test_a_ladder_measures_every_rung_with_enough_requests() -> None:
    async with driven() as screen:
        await screen.press("l")
        await screen.finished()
        plan = screen.bench.plans[-1]
        assert (plan.varied, plan.values) == ("concurrency", (1, 4, 8, 16, 32))
        assert screen.bench.requests_of == {"A": 20, "B": 20, "C": 24, "D": 48, "E": 96}
        assert [cell.label for cell in screen.model.cells] == ["1", "4", "8", "16", "32"]
        assert screen.model.baseline is None, "a ladder pins nothing"


async def test_failures_of_a_ladder_stand_in_its_table_and_stay_counted() -> None:
    async with driven(ScriptedBench(World(failing=0.1))) as screen:
        await screen.press("l")
        await screen.finished()
        failed = sum(cell.failed for cell in screen.model.cells)
        assert failed
        text = screen.text()
        assert f"{failed} FAILED" in text
        rows = [line.rsplit("││", 1)[-1].strip("│ ").split() for line in text.splitlines()]
        table = {row[0]: row[-1] for row in rows if len(row) == 7 and row[0].isdigit()}
        assert table == {cell.label: str(cell.failed or "-") for cell in screen.model.cells}


async def test_values_are_typed_and_checked() -> None:
    async with driven() as screen:
        await screen.press("enter", *"0", "enter")
        assert "concurrency can't be '0': it must be at least 1" in screen.text()
        await screen.press("backspace", *"24", "enter")
        assert screen.model.setting is not None
        assert screen.model.setting.concurrency == 24
        await screen.press("left")
        assert screen.model.setting.concurrency == 16, "a value between two choices goes to its neighbour"


async def test_a_choice_is_found_by_typing_part_of_it() -> None:
    async with driven() as screen:
        await screen.press("up", "up", "up", "up", "enter", *"llama", "down", "enter")
        assert screen.model.setting is not None
        assert screen.model.selected == "model"
        assert screen.model.setting.model == "llama3.1:8b"


async def test_the_ends_of_a_list_are_said() -> None:
    async with driven() as screen:
        await screen.press("left")
        assert "concurrency 1 is the first choice here" in screen.text()


async def test_a_server_that_cannot_be_measured_is_said_in_one_line() -> None:
    bench = ScriptedBench(trouble="http://127.0.0.1:1/v1 refuses connections: start the server")
    async with driven(bench) as screen:
        assert "refuses connections: start the server" in screen.text()
        await screen.press("r")
        assert bench.plans == []
