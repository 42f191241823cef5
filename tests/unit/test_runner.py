"""A session's own order of things, on scripted workers, server and machine (test doubles, see scripted_session)."""

from __future__ import annotations

import pytest
from made_traces import steady
from scripted_session import Rig, ScriptedTarget, fine, ladder, plan_of, refused_as

from workbench.domain.events import RequestTrace, Usage
from workbench.domain.record import KindVerdict, Record, Verdict
from workbench.domain.variables import BadInput, Setting
from workbench.measure.protocol import RunCell
from workbench.session.cells import NOT_MEASURABLE
from workbench.session.endpoint import NoServer
from workbench.session.events import (
    CellEnded,
    CellStarted,
    Notice,
    RequestEnded,
    ServerChanged,
    SessionEnded,
    SessionStarted,
    VerdictChanged,
)

# Order


async def test_cells_run_in_the_plans_order_and_are_kept_as_they_finish() -> None:
    rig = Rig(ladder(1, 2, order="ABBA"), requests_of={"B": 6})
    record = await rig.run()
    assert [(cell.id, cell.arm, cell.round, cell.requests) for cell in record.cells] == [
        *((1, "A", 1, 4), (2, "B", 1, 6), (3, "B", 2, 6), (4, "A", 2, 4))
    ]
    assert [run.concurrency for run in rig.crew.measured] == [1, 2, 2, 1]
    assert [run.requests for run in rig.crew.measured] == [4, 6, 6, 4]
    assert [cell.variables["concurrency"] for cell in record.cells] == [1, 2, 2, 1]
    assert [len(state["cells"]) for state in rig.kept.states[:4]] == [1, 2, 3, 4]
    assert {state["session"]["status"] for state in rig.kept.states[:-1]} == {"interrupted"}, "until it has ended"
    last = rig.kept.states[-1]["session"]
    assert (last["status"], last["reason"]) == ("complete", "")
    assert last["finished"] != ""
    assert rig.calibrations == 1
    assert record.environment["client"] == {"calibrated": "now"}


async def test_the_listener_hears_every_step_in_turn() -> None:
    rig = Rig(ladder(1, 2, order="AB"))
    record = await rig.run()
    assert isinstance(rig.events[0], SessionStarted)
    assert isinstance(rig.events[-1], SessionEnded)
    assert (rig.events[-1].record, rig.events[-1].path, rig.events[-1].status) == (
        *(record, "sessions/kept.toml", "complete"),
    )
    phases = [(event.number, event.of, event.phase) for event in rig.heard(CellStarted)]
    assert phases == [(number, 2, phase) for number in (1, 2) for phase in ("draining", "warm-up", "measuring")]
    assert [(event.cell, event.warmup) for event in rig.heard(RequestEnded)] == [
        *[(0, True)] * 3,
        *[(0, False)] * 4,
        *[(1, True)] * 3,
        *[(1, False)] * 4,
    ]
    assert [event.table for event in rig.heard(CellEnded)] == record.cells
    assert [event.server.id for event in rig.heard(ServerChanged)] == ["s1"]


async def test_every_cell_has_its_window_of_the_machine_and_its_checks() -> None:
    rig = Rig(ladder(1, 2, order="AB"))
    record = await rig.run()
    assert [cell.memory["host"]["window"] for cell in record.cells] == [[1, 2], [3, 4]]
    assert [cell.checks for cell in record.cells] == [{"seen": "pass: 1"}, {"seen": "pass: 2"}]
    assert rig.machine.followed == [1]


async def test_nothing_is_saved_when_nothing_should_be() -> None:
    rig = Rig(plan_of(), save=False)
    record = await rig.run()
    assert (record.session.status, len(record.cells), rig.kept.states) == ("complete", 1, [])
    assert rig.heard(SessionEnded)[0].path == ""


async def test_raw_events_are_kept_when_asked_for_and_never_the_warm_ups() -> None:
    rig = Rig(plan_of(), events=True)
    await rig.run()
    assert [len(traces) for traces in rig.kept.traces] == [4]
    silent = Rig(plan_of())
    await silent.run()
    assert silent.kept.traces == []


def test_an_order_that_can_not_be_run_is_bad_input() -> None:
    with pytest.raises(BadInput):
        Rig(ladder(1, 2, order="ABC"))


# Nothing to measure


@pytest.mark.parametrize("error_class", NOT_MEASURABLE)
async def test_a_first_request_that_is_refused_ends_it_with_nothing_saved(error_class: str) -> None:
    rig = Rig(ladder(1, 2), lambda run, number: refused_as(error_class, "no such thing"))
    with pytest.raises(NoServer) as caught:
        await rig.run()
    line = str(caught.value)
    assert line.startswith(f"http://127.0.0.1:1/s1 can't be measured: {error_class}: no such thing (")
    assert len(line.splitlines()) == 1
    assert len(rig.crew.runs) == 1, "the very first request was the last"
    assert (rig.kept.states, rig.record.cells, rig.heard(SessionEnded)) == ([], [], [])
    assert rig.calibrations == 0


@pytest.mark.parametrize(
    "error_class", ["http_400", "http_429", "http_500", "http_503", "timeout_first_byte", "truncated"]
)
async def test_any_other_failure_is_measured_and_kept(error_class: str) -> None:
    rig = Rig(plan_of(), lambda run, number: refused_as(error_class))
    record = await rig.run()
    assert (record.session.status, record.cells[0].failed, record.cells[0].errors) == ("complete", 4, {error_class: 4})
    assert (record.cells[0].warmup, record.cells[0].warmup_failed, record.cells[0].cold_start) == (3, 3, {})
    assert len([notice for notice in rig.heard(Notice) if notice.level == "warning"]) == 3


async def test_refusals_after_the_first_request_are_measured_too() -> None:
    def dies(run: RunCell, number: int) -> RequestTrace:
        return fine(run, number) if run.warmup and run.requests == 1 else refused_as("refused")

    rig = Rig(plan_of(), dies)
    record = await rig.run()
    assert (record.session.status, record.cells[0].failed, record.cells[0].warmup_failed) == ("complete", 4, 2)
    assert record.cells[0].stats == {}


async def test_a_server_that_has_answered_before_is_measured_though_it_refuses_now() -> None:
    rig = Rig(ladder(1, 2), lambda run, number: refused_as("refused") if rig.record.cells else fine(run, number))
    record = await rig.run()
    assert (record.session.status, [cell.failed for cell in record.cells]) == ("complete", [0, 4])
    assert record.cells[1].warmup_failed == record.cells[1].warmup == 3


async def test_a_server_that_is_gone_between_two_cells_leaves_what_was_measured() -> None:
    target = ScriptedTarget()

    def gone(setting: Setting) -> None:
        if setting.concurrency == 2:
            raise NoServer("http://127.0.0.1:1 does not answer: start it again")

    target.trouble = gone
    rig = Rig(ladder(1, 2, 4), target=target)
    record = await rig.run()
    assert (record.session.status, record.session.reason) == (
        *("failed", "http://127.0.0.1:1 does not answer: start it again"),
    )
    assert [cell.arm for cell in record.cells] == ["A"]
    assert rig.kept.states[-1]["session"]["status"] == "failed"


async def test_a_worker_that_dies_keeps_what_it_had_told() -> None:
    rig = Rig(ladder(1, 2))
    rig.crew.trouble = lambda run: "" if run.concurrency == 1 else "the measuring process ended (status -9)"
    record = await rig.run()
    assert (record.session.status, record.session.reason) == ("failed", "the measuring process ended (status -9)")
    assert [cell.arm for cell in record.cells] == ["A"]


# Stopping


@pytest.mark.parametrize("during", ["measuring", "warm-up"])
async def test_stopping_keeps_finished_cells_and_says_so(during: str) -> None:
    def script(run: RunCell, number: int) -> RequestTrace:
        if len(rig.record.cells) == 1 and run.warmup == (during == "warm-up") and number == run.requests // 2:
            rig.session.stop("stopped by the user")
            rig.session.stop("a second reason")
        return fine(run, number)

    rig = Rig(ladder(1, 2, 4), script)
    record = await rig.run()
    assert (record.session.status, record.session.reason) == ("interrupted", "stopped by the user")
    assert rig.kept.states[-1]["session"]["status"] == "interrupted"
    first, *rest = record.cells
    assert (first.arm, first.ok, first.stopped) == ("A", 4, "")
    if during == "warm-up":
        assert rest == []
    else:
        # The cell under way is kept with what it had, marked.
        assert [(cell.arm, cell.ok, cell.cancelled, cell.failed) for cell in rest] == [("B", 2, 1, 0)]
        assert rest[0].stopped == "stopped by the user"
    assert rig.calibrations == 0, "whoever stops wants to be gone"
    assert rig.heard(SessionEnded)[0].status == "interrupted"


async def test_stopping_before_anything_was_measured_saves_nothing() -> None:
    rig = Rig(plan_of())
    rig.session.stop("stopped by the user")
    record = await rig.run()
    assert (record.session.status, record.cells, rig.kept.states, rig.crew.runs) == ("interrupted", [], [], [])


async def test_a_stopped_cell_asks_the_server_for_nothing_more() -> None:
    def script(run: RunCell, number: int) -> RequestTrace:
        if not run.warmup and number == 2:
            rig.session.stop("stopped by the user")
        return steady(8, sent=number * 250.0, usage=Usage(prompt=80, completion=8, cached=16))

    rig = Rig(plan_of(), script)
    record = await rig.run()
    assert record.cells[0].ok == 2
    assert not rig.crew.runs[-1].warmup, "no probe for the template's length after the stop"


# Budget and --until


async def test_no_cell_is_begun_that_the_budget_can_not_hold() -> None:
    def slow(run: RunCell, number: int) -> RequestTrace:
        return steady(2, sent=number * 2e4, ttft=5_000, gap=5_000)

    # The next cell will take (1 + 4) x 10 s; the script itself takes none.
    for budget, cells in ((40.0, 1), (70.0, 3)):
        rig = Rig(ladder(1, 1, 1, order="ABC", warmup=1, budget=budget), slow)
        record = await rig.run()
        assert (record.session.status, len(record.cells)) == ("complete", cells)
        expected = "the time budget was spent after 1 of 3 cells" if cells == 1 else ""
        assert record.session.reason == expected


async def test_the_first_cell_runs_whatever_the_budget() -> None:
    rig = Rig(plan_of(budget=0.000001))
    assert len((await rig.run()).cells) == 1


def judged(low: float, high: float) -> Verdict:
    return Verdict(
        sentence="x",
        kinds={
            "ttft": KindVerdict(better="lower", ratio=1.0, low=low, high=high),
            "capacity": KindVerdict(better="higher", ratio=2.0),
        },
    )


@pytest.mark.parametrize(
    ("low", "high", "until", "cells"),
    [(0.99, 1.01, 0.05, 10), (0.9, 1.01, 0.05, 16), (0.99, 1.1, 0.05, 16), (0.99, 1.01, None, 16)],
)
async def test_until_looks_from_five_rounds_on(low: float, high: float, until: float | None, cells: int) -> None:
    rig = Rig(ladder(1, 2, order="ABBA" * 4, until=until, warmup=0), judge=lambda record: judged(low, high))
    record = await rig.run()
    assert (record.session.status, len(record.cells)) == ("complete", cells)
    narrow = f"the interval was narrow enough after {cells} of 16 cells"
    assert record.session.reason == (narrow if cells < 16 else "")


async def test_until_needs_an_interval() -> None:
    bare = Verdict(sentence="x", kinds={"ttft": KindVerdict(better="lower", ratio=1.0)})
    rig = Rig(ladder(1, 2, order="ABBA" * 3, until=0.05, warmup=0), judge=lambda record: bare)
    assert len((await rig.run()).cells) == 12


async def test_the_verdict_is_told_and_kept_as_it_grows() -> None:
    def judge(record: Record) -> Verdict | None:
        return Verdict(sentence=f"after {len(record.cells)}") if len(record.cells) > 1 else None

    rig = Rig(ladder(1, 2, 4), judge=judge)
    record = await rig.run()
    assert [event.verdict.sentence for event in rig.heard(VerdictChanged)] == ["after 2", "after 3"]
    assert record.verdict is not None
    assert rig.kept.states[1]["verdict"]["sentence"] == "after 2"
    plain = Rig(plan_of(), judge=judge)
    await plain.run()
    assert plain.record.verdict is None
