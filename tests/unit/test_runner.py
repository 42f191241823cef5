"""A session's own order of things, on scripted workers, server and machine (test doubles, see scripted_session)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_traces import steady, trace_of
from scripted_session import Rig, ScriptedTarget, fine, refused_as

from workbench.domain.events import RequestTrace, Usage
from workbench.domain.plan import Plan
from workbench.domain.record import KindVerdict, Record, Verdict
from workbench.domain.variables import BadInput, Setting
from workbench.measure.protocol import RunCell, Snapshot
from workbench.session import cells as cells_module
from workbench.session.cells import NOT_MEASURABLE
from workbench.session.endpoint import NoServer
from workbench.session.events import (
    CellEnded,
    CellStarted,
    CountersView,
    Live,
    Notice,
    RequestEnded,
    ServerChanged,
    SessionEnded,
    SessionStarted,
    VerdictChanged,
)
from workbench.session.runner import duration_text

SETTING = Setting(model="m", max_tokens=8)


def plan_of(**fields: Any) -> Plan:
    return Plan(**{"baseline": SETTING, "requests": 4, **fields})


def ladder(*rungs: int, order: str = "", **fields: Any) -> Plan:
    return plan_of(varied="concurrency", values=rungs, order=tuple(order), **fields)


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


# Warm-up and cold start


async def test_the_first_warm_up_request_runs_alone_and_the_others_as_the_cell_will() -> None:
    rig = Rig(ladder(2, 8, order="ABAB", warmup=4))
    record = await rig.run()
    bursts = [(run.requests, run.concurrency) for run in rig.crew.warmups]
    assert bursts == [(1, 1), (3, 2), (1, 1), (3, 3), (1, 1), (1, 1)]
    assert [(cell.warmup, cell.warmup_failed) for cell in record.cells] == [(4, 0), (4, 0), (1, 0), (1, 0)]
    assert [cell.requests for cell in record.cells] == [4] * 4, "warm-up enters no figure"


async def test_no_warm_up_when_none_is_asked_for() -> None:
    rig = Rig(plan_of(warmup=0))
    record = await rig.run()
    assert (rig.crew.warmups, record.cells[0].warmup, record.cells[0].cold_start) == ([], 0, {})


async def test_failed_warm_up_requests_are_counted_and_told() -> None:
    def script(run: RunCell, number: int) -> RequestTrace:
        return refused_as("http_503", "loading") if run.warmup and number == 1 else fine(run, number)

    rig = Rig(plan_of(), script)
    record = await rig.run()
    assert (record.cells[0].warmup, record.cells[0].warmup_failed, record.cells[0].failed) == (3, 1, 0)
    assert [n.text for n in rig.heard(Notice) if n.level == "warning"] == [
        "a warm-up request failed: http_503: loading"
    ]


async def test_the_cold_start_is_each_servers_first_request() -> None:
    def script(run: RunCell, number: int) -> RequestTrace:
        return steady(8, sent=number * 250.0, ttft=100.0 * len(rig.crew.runs))

    target = ScriptedTarget(lambda setting: setting.model)
    plan = plan_of(varied="model", values=("a", "b"), order=tuple("ABAB"))
    rig = Rig(plan, script, target=target)
    record = await rig.run()
    # Bursts 1 and 4 are the first of a server; burst 7 is the third cell's warm-up, on a server that is warm.
    assert [cell.cold_start for cell in record.cells] == [
        {"ttft_ms": 100.0, "total_ms": 240.0},
        {"ttft_ms": 400.0, "total_ms": 540.0},
        *({}, {}),
    ]
    assert [cell.server for cell in record.cells] == ["a", "b", "a", "b"]
    assert {server["id"] for server in record.environment["server"]} == {"a", "b"}
    assert set(record.environment["unknown"]) == {"server.a.slots", "server.b.slots"}
    assert [connect.base_url[-1] for connect in rig.crew.connects] == ["a", "b", "a", "b"]


async def test_a_server_that_was_restarted_is_cold_again() -> None:
    target = ScriptedTarget()

    def restart(setting: Setting) -> None:
        target.pids["s1"] = 100 + setting.concurrency

    target.trouble = restart
    rig = Rig(ladder(1, 2, order="ABB"), target=target)
    record = await rig.run()
    assert [bool(cell.cold_start) for cell in record.cells] == [True, True, False]
    assert rig.machine.followed == [101, 102]
    assert len(record.environment["server"]) == 1


# What a server refuses


async def test_stream_options_is_withdrawn_once_and_outside_the_sample() -> None:
    def script(run: RunCell, number: int) -> RequestTrace:
        if run.include_usage:
            return refused_as("http_400", "Unknown parameter: 'stream_options'.")
        return fine(run, number)

    rig = Rig(ladder(1, 2), script)
    record = await rig.run()
    assert [run.include_usage for run in rig.crew.runs] == [True] + [False] * (len(rig.crew.runs) - 1)
    assert [(cell.warmup, cell.warmup_failed, cell.failed, cell.ok) for cell in record.cells] == [(3, 0, 0, 4)] * 2
    assert record.cells[0].cold_start != {}
    assert any("stream_options" in notice.text for notice in rig.heard(Notice) if notice.level == "warning")


async def test_max_tokens_takes_its_newer_name_where_the_old_one_is_refused() -> None:
    def script(run: RunCell, number: int) -> RequestTrace:
        if "max_tokens" in run.body:
            return refused_as("http_400", "Use 'max_completion_tokens' instead.")
        return fine(run, number)

    rig = Rig(plan_of(), script)
    record = await rig.run()
    assert [run.body.get("max_completion_tokens") for run in rig.crew.runs] == [None, 8, 8, 8]
    assert (record.cells[0].ok, record.cells[0].warmup_failed) == (4, 0)


async def test_a_server_that_refuses_whatever_is_sent_is_asked_a_last_time() -> None:
    both = "stream_options and max_completion_tokens"
    rig = Rig(plan_of(warmup=1), lambda run, number: refused_as("http_422", both))
    record = await rig.run()
    assert len(rig.crew.warmups) == 3
    assert (record.cells[0].warmup, record.cells[0].warmup_failed, record.cells[0].failed) == (1, 1, 4)


async def test_what_one_server_refuses_the_other_still_gets() -> None:
    def script(run: RunCell, number: int) -> RequestTrace:
        if run.include_usage and run.body["model"] == "a":
            return refused_as("http_400", "stream_options")
        return fine(run, number)

    plan = plan_of(varied="model", values=("a", "b"), order=tuple("ABA"))
    rig = Rig(plan, script, target=ScriptedTarget(lambda setting: setting.model))
    await rig.run()
    assert [run.include_usage for run in rig.crew.measured] == [False, True, False]


# What is sent


async def test_the_request_is_the_setting() -> None:
    setting = Setting(
        model="m",
        prompt=("short", "code"),
        max_tokens=9,
        temperature=0.5,
        stop=("END",),
        seed=3,
        system="be brief",
        ignore_eos=True,
        stream=False,
        body={"top_k": 1},
    )
    rig = Rig(plan_of(baseline=setting), prompts=("short", "code"))
    rig.target.body = {"options": {"num_ctx": 8}}
    await rig.run()
    for run in rig.crew.runs:
        assert run.body == {
            "model": "m",
            "max_tokens": 9,
            "temperature": 0.5,
            "stream": False,
            "seed": 3,
            "stop": ["END"],
            "ignore_eos": True,
            "options": {"num_ctx": 8},
            "top_k": 1,
        }
        assert run.system == "be brief"
        assert [(prompt.name, prompt.text) for prompt in run.prompts] == [
            *(("short", "text of short"), ("code", "text of code"))
        ]


async def test_unique_prompts_are_unique_in_every_burst_and_session_and_warm_ones_are_as_they_are() -> None:
    rig, other = Rig(ladder(1, 2, order="ABAB")), Rig(ladder(1, 2, order="ABAB"))
    await rig.run()
    await other.run()
    seeds = [run.nonce_seed for run in rig.crew.runs]
    assert "" not in seeds
    assert len(set(seeds)) == len(seeds)
    measured = {run.nonce_seed for run in rig.crew.measured}
    assert not measured & {run.nonce_seed for run in other.crew.measured}, "a server may still hold yesterday's"
    warm = Rig(plan_of(baseline=msgspec.structs.replace(SETTING, cache="warm")))
    await warm.run()
    assert {run.nonce_seed for run in warm.crew.runs} == {""}


async def test_a_stated_time_replaces_the_number_of_requests_and_a_rate_makes_a_schedule() -> None:
    rig = Rig(plan_of(duration=2.0, arrival="poisson", rate=5.0, seed=7))
    await rig.run()
    (run,) = rig.crew.measured
    assert (run.requests, run.duration, run.arrival, run.rate, run.schedule_seed) == (None, 2.0, "poisson", 5.0, 7)
    assert {(run.duration, run.rate) for run in rig.crew.warmups} == {(None, None)}


@pytest.mark.parametrize(("streams", "asked", "workers"), [(1, 0, 1), (256, 0, 1), (257, 0, 2), (4, 3, 3)])
async def test_many_streams_get_more_workers(streams: int, asked: int, workers: int) -> None:
    rig = Rig(plan_of(baseline=msgspec.structs.replace(SETTING, concurrency=streams), workers=asked, requests=1))
    await rig.run()
    assert rig.crew.workers == [1] * len(rig.crew.warmups) + [workers]


async def test_the_key_goes_to_the_workers_and_nowhere_else() -> None:
    def echoes(run: RunCell, number: int) -> RequestTrace:
        return refused_as("http_500", "bad key sk-secret-123456") if number == 1 else fine(run, number)

    target = ScriptedTarget()
    target.key = "sk-secret-123456"
    rig = Rig(ladder(1, 2), echoes, target=target, secrets=("sk-secret-123456",), events=True)
    await rig.run()
    assert [connect.key for connect in rig.crew.connects] == ["sk-secret-123456"], "told once: it is one server"
    told = repr([event for event in rig.events if not isinstance(event, SessionStarted)])
    assert "bad key" in told
    assert "sk-secret" not in told + repr(rig.kept.states) + repr(rig.kept.traces)


# Draining


async def test_a_cell_waits_until_the_server_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells_module, "DRAIN_POLL_S", 0)
    target = ScriptedTarget()
    target.told = [CountersView(running=1.0), CountersView(running=0.0, waiting=2.0), CountersView(running=0.0)]
    rig = Rig(plan_of(), target=target)
    record = await rig.run()
    assert target.told == []
    assert "left_over" not in record.cells[0].evidence


async def test_what_is_left_over_after_the_wait_is_in_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells_module, "DRAIN_S", -1.0)
    target = ScriptedTarget()
    target.told = [CountersView(running=1.0, waiting=2.0)]
    record = await Rig(plan_of(), target=target).run()
    assert "still had 3 requests running or waiting" in record.cells[0].evidence["left_over"]


# Counting


async def test_outputs_the_server_did_not_count_are_counted_by_its_tokenizer() -> None:
    def uncounted(run: RunCell, number: int) -> RequestTrace:
        if number == 3:
            return trace_of(sent=number * 250.0, end=number * 250.0 + 9)
        return steady(8, sent=number * 250.0, counted_by_server=None)

    rig = Rig(plan_of(), uncounted)
    rig.target.tokens = lambda text: len(text) // 2
    record = await rig.run()
    assert (record.cells[0].token_source, record.cells[0].empty) == ("tokenize", 1)
    assert record.cells[0].per_request["output_tokens"] == [16, 16, 16, 0]
    plain = Rig(plan_of(), uncounted)
    assert (await plain.run()).cells[0].token_source == "chunks"


async def test_cache_hits_up_to_the_template_are_none() -> None:
    def cached(run: RunCell, number: int) -> RequestTrace:
        if run.prompts[0].text == "":
            assert (run.requests, run.body["max_tokens"], run.nonce_seed) == (1, 1, "")
            return trace_of((5, 1, 1), usage=Usage(prompt=20, completion=1), streamed=False)
        return steady(8, sent=number * 250.0, usage=Usage(prompt=80, completion=8, cached=16 if number else 48))

    rig = Rig(ladder(1, 2), cached)
    record = await rig.run()
    assert [cell.per_request["cached_tokens"] for cell in record.cells] == [[48, 0, 0, 0]] * 2
    assert sum(run.prompts[0].text == "" for run in rig.crew.runs) == 1, "asked once a server"


async def test_a_prompts_length_is_learnt_from_the_server() -> None:
    rig = Rig(plan_of(), lambda run, number: steady(8, usage=Usage(prompt=83, completion=8), prompt="short"))
    record = await rig.run()
    assert record.plan["prompts"] == [{"name": "short", "tokens": 83, "token_source": "usage"}]


# Live


async def test_what_is_shown_live_is_the_sum_over_the_workers() -> None:
    rig = Rig(plan_of())
    rig.crew.snapshots = [
        Snapshot(cell=1, at_ns=0, sent=3, finished=1, in_flight=2, chunks=9, chunk_rate=50.0, lag_p99_ms=0.3, rows=[])
    ]
    await rig.run()
    (live,) = rig.heard(Live)
    assert (live.sent, live.finished, live.in_flight, live.tokens_rate, live.each, live.lag_p99_ms) == (
        *(3, 1, 2, 50.0),
        *(25.0, 0.3),
    )
    assert live.eta_s is not None


async def test_the_duration_is_told_after_the_first_warm_up() -> None:
    rig = Rig(ladder(1, 2))
    await rig.run()
    assert rig.events[0].predicted_s is None, "nothing has been seen yet"
    # 240 ms a request: (3 + 4) + (1 + 1 + 2) of them, and half a second a cell.
    assert [n.text for n in rig.heard(Notice) if n.level == "info"] == [
        "about 4 s in all, by the warm-up's first request"
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (89.4, "89 s"), (90, "2 min"), (600, "10 min"), (5400, "1.5 h")]
)
def test_a_duration_as_a_person_says_it(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
