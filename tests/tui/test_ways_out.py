"""Stopping, pausing, quitting: nothing measured is lost, nothing is left running."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from tests.tui.conftest import SENTENCE, driven
from tests.tui.scripted_bench import ScriptedBench
from workbench.tui.terminal import own_terminal


async def test_x_stops_the_run_and_keeps_what_is_finished() -> None:
    async with driven(ScriptedBench(hold_at=9.0)) as screen:
        await screen.press("r")
        await screen.held()
        assert "x Stop" in screen.text()
        await screen.press("x")
        await screen.finished()
        assert screen.model.status == "interrupted"
        assert screen.model.ok > 0
        assert "interrupted" in screen.text()
        assert screen.model.baseline is None, "a stopped run is no baseline"


async def test_ctrl_c_stops_then_quits_with_130() -> None:
    async with driven(ScriptedBench(hold_at=9.0)) as screen:
        await screen.press("r")
        await screen.held()
        await screen.press("ctrl+c")
        await screen.finished()
        assert screen.bench.stop_reason == "interrupted by the user"
        assert screen.app.is_running
        await screen.pilot.press("ctrl+c")
        await screen.pilot.pause()
        assert screen.bench.closed
        assert screen.app.return_value == 130


async def test_q_asks_while_a_run_is_under_way() -> None:
    async with driven(ScriptedBench(hold_at=9.0)) as screen:
        await screen.press("r")
        await screen.held()
        await screen.press("q")
        assert "A run is under way" in screen.text()
        await screen.press("n")
        assert screen.model.running
        assert not screen.bench.closed
        await screen.press("q")
        await screen.pilot.press("y")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert screen.bench.stop_reason
        assert screen.bench.closed
        assert screen.app.return_value == 0
        assert screen.model.record is not None


async def test_q_quits_at_once_when_nothing_runs() -> None:
    async with driven() as screen:
        await screen.pilot.press("q")
        await screen.pilot.pause()
        assert screen.bench.closed
        assert screen.app.return_value == 0


async def test_a_held_screen_stands_still_while_measuring_goes_on() -> None:
    async with driven(ScriptedBench(hold_at=6.0)) as screen:
        await screen.press("r")
        await screen.held()
        await screen.press("space")
        assert "PAUSED" in screen.text()
        before, ok = screen.text(), screen.model.ok
        screen.bench.go.set()
        assert screen.app.measuring is not None
        await screen.app.measuring.wait()
        screen.app._tick()
        await screen.pilot.pause()
        assert screen.model.ok > ok
        assert screen.text() == before
        await screen.press("space")
        assert "complete" in screen.text()


async def test_y_copies_the_verdict() -> None:
    async with driven() as screen:
        await screen.press("r")
        await screen.finished()
        await screen.press("right", "r")
        await screen.finished()
        await screen.press("y")
        assert screen.app.clipboard == SENTENCE


async def test_an_error_of_our_own_in_a_run_is_one_line_and_the_screen_lives() -> None:
    class Broken(ScriptedBench):
        async def measure(self, *args: object, **kwargs: object):  # type: ignore[override,no-untyped-def]
            raise RuntimeError("a bug")

    async with driven(Broken()) as screen:
        await screen.press("r")
        await screen.finished()
        assert "the run ended by an error of Workbench itself (RuntimeError)" in screen.text()
        assert "r Run" in screen.text()


def test_what_writes_past_python_lands_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "screen.log"
    with own_terminal(log):
        os.write(2, b"a native library complains\n")
        logging.getLogger("workbench.somewhere").warning("and so do we")
        assert sys.__stderr__ is not None
        assert sys.__stderr__.fileno() != 2
    assert "a native library complains" in log.read_text()
    assert "and so do we" in log.read_text()
    before = log.read_bytes()
    os.write(2, b"")
    assert log.read_bytes() == before


def test_a_log_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    before = os.fstat(2)
    with own_terminal(tmp_path / "file" / "screen.log"):
        assert os.fstat(2) == before
