"""The request stream: what a row says, how it scrolls, what is let go."""

from __future__ import annotations

import time

from tests.tui.conftest import driven
from tests.tui.script import World
from tests.tui.scripted_bench import ScriptedBench
from workbench.domain.events import RequestTrace
from workbench.domain.metrics import RequestFigures
from workbench.session.events import Row
from workbench.tui.requestlog import DETAILED, KEPT, TEXT_KEPT, RequestLog
from workbench.tui.widgets.requests import Requests

PANE = ("tab", "tab", "tab", "tab")


def filled(log: RequestLog, count: int) -> None:
    for index in range(count):
        figures = RequestFigures(
            index=index, prompt="short", outcome="ok", finish="length", ttft_ms=100.0 + index, output_tokens=8
        )
        log.ended(0, figures, RequestTrace(index=index, content=f"answer {index}"), warmup=False)


def test_a_growing_text_keeps_what_stood_and_adds_what_is_new() -> None:
    log = RequestLog()
    whole = "".join(f"word{number} " for number in range(200))
    for end in range(10, len(whole), 37):
        log.rows(0, [Row(index=0, state="stream", wait_ms=1.0, ttft_ms=1.0, chunks=end, tail=whole[:end][-160:])])
        entry = next(log.newest())
        assert whole[:end].endswith(entry.text)
        assert len(entry.text) == min(end, TEXT_KEPT)


def test_a_tail_that_lost_touch_starts_anew() -> None:
    log = RequestLog()
    log.rows(0, [Row(index=0, state="stream", wait_ms=1.0, tail="a" * 160)])
    log.rows(0, [Row(index=0, state="stream", wait_ms=1.0, tail="b" * 160)])
    assert next(log.newest()).text.endswith("b" * 160)


def test_an_ended_request_is_not_revived_by_a_late_snapshot() -> None:
    log = RequestLog()
    filled(log, 1)
    log.rows(0, [Row(index=0, state="stream", wait_ms=1.0, tail="late")])
    assert next(log.newest()).state == "ok"
    assert len(log) == 1


def test_memory_stays_flat() -> None:
    log = RequestLog()
    filled(log, KEPT + 500)
    assert len(log) == KEPT
    assert log.dropped == 500
    assert log.at(499) is None
    oldest = log.at(500)
    assert oldest is not None
    assert oldest.number == 501
    assert sum(entry.trace is not None for entry in log.newest()) == DETAILED


def test_two_bursts_of_a_warm_up_are_two_rows() -> None:
    log = RequestLog()
    for _ in range(2):
        log.rows(0, [Row(index=0, state="waiting", wait_ms=1.0)], warmup=True)
        log.ended(0, RequestFigures(index=0, prompt="", outcome="ok"), RequestTrace(index=0), warmup=True)
    assert [entry.state for entry in log.newest()] == ["warm-up", "warm-up"]


async def test_the_wait_of_a_waiting_request_grows() -> None:
    bench = ScriptedBench(World(ttft_ms=5000.0, memory=()), hold_at=25.0)
    async with driven(bench) as screen:
        await screen.press("r")
        await screen.held()
        waiting = next(line for line in screen.lines() if "waiting" in line)
        seconds = float(waiting.split()[3])
        entry = next(screen.model.requests.newest())
        entry.wait_ms += 1000
        screen.model.touch("requests")
        await screen.settle()
        again = next(line for line in screen.lines() if "waiting" in line)
        assert float(again.split()[3]) == seconds + 1.0


async def test_the_cursor_stays_on_its_request_while_others_come() -> None:
    async with driven() as screen:
        filled(screen.model.requests, 50)
        screen.model.touch()
        await screen.press(*PANE, "down", "down", "down")
        marked = "answer 46"
        top = next(line for line in screen.lines() if "answer" in line)
        filled_before = screen.model.requests.appended
        for index in range(50, 60):
            figures = RequestFigures(index=index, prompt="", outcome="ok", output_tokens=8)
            screen.model.requests.ended(0, figures, RequestTrace(index=index, content=f"answer {index}"), warmup=False)
        screen.model.touch("requests")
        await screen.settle()
        assert screen.model.requests.appended == filled_before + 10
        assert next(line for line in screen.lines() if "answer" in line) == top, "what is read stays in place"
        await screen.press("enter")
        assert marked in screen.text()
        await screen.press("escape", "home")
        assert "answer 59" in screen.text()


async def test_ten_thousand_requests_scroll_as_quickly_as_ten() -> None:
    async def press_down(count: int) -> float:
        async with driven() as screen:
            filled(screen.model.requests, count)
            screen.model.touch()
            await screen.settle()
            pane = screen.app.screen.query_one(Requests)
            pane.focus()
            await screen.settle()
            begun = time.process_time()
            for _ in range(100):
                pane.action_move(1)
            return time.process_time() - begun

    few, many = await press_down(200), await press_down(10_000)
    assert many < 3 * few + 0.02


async def test_details_show_what_the_server_said() -> None:
    bench = ScriptedBench(World(failing=1.0, error="CUDA out of memory\nat layer 7"))
    async with driven(bench) as screen:
        await screen.press("r")
        await screen.finished()
        await screen.press(*PANE, "enter")
        text = screen.text()
        assert "FAILED" in text
        assert "at layer 7" in text
        assert "status 500" in text
        assert "x-request-id" in text


async def test_details_of_an_old_request_say_that_its_text_is_gone() -> None:
    async with driven() as screen:
        filled(screen.model.requests, DETAILED + 20)
        screen.model.touch()
        await screen.press(*PANE, "end", "enter")
        assert "are let go" in screen.text()


async def test_details_of_a_request_in_flight_grow() -> None:
    async with driven(ScriptedBench(World(ttft_ms=100.0), hold_at=8.0)) as screen:
        await screen.press("r")
        await screen.held()
        await screen.press(*PANE, "enter")
        entry = next(screen.model.requests.newest())
        assert not entry.over
        entry.text += " and then the text went on"
        screen.model.touch("requests")
        screen.app._tick()
        await screen.pilot.pause()
        assert "and then the text went on" in screen.text()
