"""What a session sends, in warm-up and in cells, and how it counts what comes; scripted (see scripted_session)."""

from __future__ import annotations

import msgspec
import pytest
from made_traces import steady, trace_of
from scripted_session import SETTING, Rig, ScriptedTarget, fine, ladder, plan_of, refused_as

from workbench.domain.events import RequestTrace, Usage
from workbench.domain.variables import Setting
from workbench.measure.protocol import RunCell, Snapshot
from workbench.session import cells as cells_module
from workbench.session.events import CountersView, Live, Notice, SessionStarted
from workbench.session.runner import duration_text

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
    # Bursts 1 and 5 are the first of a server (the next one is its tokenizer's probe); burst 9 is the third cell's
    # warm-up, on a server that is warm.
    assert [cell.cold_start for cell in record.cells] == [
        {"ttft_ms": 100.0, "total_ms": 240.0},
        {"ttft_ms": 500.0, "total_ms": 640.0},
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
