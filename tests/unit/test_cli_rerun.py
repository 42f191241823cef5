"""`rerun`: the record's plan as it was, with what was typed in its place."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from made_records import made_record

from workbench.cli.options import RunOptions, add_run_options, run_options
from workbench.cli.rerun import on_target, plan_again, requests_again, with_target
from workbench.domain.plan import interleaved, plan_from_table
from workbench.domain.record import Record
from workbench.domain.variables import BadInput, Setting
from workbench.records.store import RecordWriter, load


def typed(*words: str) -> RunOptions:
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    return run_options(parser.parse_args(words))


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """A ladder as it comes back from disk, in a folder without settings."""
    monkeypatch.chdir(tmp_path)
    made = made_record((1, 2, 4))
    made.plan["targets"] = [{"name": "ollama", "address": "http://127.0.0.1:8000/v1"}]
    made.plan["requests_of"] = {"A": 20, "B": 20, "C": 24}
    return load(RecordWriter(tmp_path, made).file)


def test_nothing_typed_gives_the_same_plan(record: Record) -> None:
    assert plan_again(record, typed()) == plan_from_table(record.plan)
    assert requests_again(record, typed()) == {"A": 20, "B": 20, "C": 24}


def test_what_is_typed_takes_the_place_of_what_it_names(record: Record) -> None:
    options = typed(
        *("--requests", "5", "--max-tokens", "16", "--temperature", "1", "--rounds", "2", "--no-stream"),
        *("--limit", "ttft_ms=100", "--timeout-idle", "9", "--prompt", "code", "--seed", "7"),
    )
    before, plan = plan_from_table(record.plan), plan_again(record, options)
    assert (plan.requests, plan.rounds, plan.order) == (5, 2, ("A", "B", "C") * 2)
    assert (plan.baseline.max_tokens, plan.baseline.temperature, plan.baseline.stream) == (16, 1, False)
    assert (plan.baseline.prompt, plan.baseline.seed, plan.limits) == (("code",), 7, {"ttft_ms": 100})
    assert (plan.timeouts.idle, plan.timeouts.connect) == (9, before.timeouts.connect)
    assert (plan.varied, plan.values, plan.warmup) == (before.varied, before.values, before.warmup)
    assert requests_again(record, options) == {}


def test_an_interleaved_order_stays_interleaved(record: Record) -> None:
    record.plan.update(varied="max_tokens", values=[5, 10], rounds=4, order=list(interleaved(2, 4, 0, True)))
    assert plan_again(record, typed("--rounds", "6")).order == interleaved(2, 6, 0, True)


def test_what_the_record_varied_can_not_be_set(record: Record) -> None:
    with pytest.raises(BadInput, match="the record varied concurrency"):
        plan_again(record, typed("--concurrency", "8"))


def test_the_server_is_the_records_unless_another_is_typed(record: Record) -> None:
    plan = plan_again(record, typed())
    assert with_target(record, plan, typed()).setting.base_url == "http://127.0.0.1:8000/v1"
    assert with_target(record, plan, typed()).setting.engine == ""
    other = with_target(record, plan, typed("--base-url", "http://other/v1"))
    assert (other.setting.base_url, other.setting.model, other.target) == ("http://other/v1", "qwen2.5:7b", "")
    engine = with_target(record, plan, typed("--engine", "vllm"))
    assert (engine.setting.base_url, engine.setting.engine) == ("", "vllm")


def test_our_own_engine_and_named_targets_are_found_by_name(record: Record) -> None:
    record.plan["targets"] = [{"name": "built-in", "address": "http://127.0.0.1:41234/v1"}]
    ours = with_target(record, plan_again(record, typed()), typed())
    assert (ours.target, ours.setting.base_url) == ("built-in", "")
    Path("workbench.toml").write_text('[targets.box]\nurl = "http://10.0.0.9:8000/v1"\n')
    record.plan["targets"] = [{"name": "box", "address": "http://10.0.0.1:8000/v1"}]
    named = with_target(record, plan_again(record, typed()), typed())
    assert (named.target, named.setting.base_url) == ("box", "")


def test_the_target_gives_address_model_and_quant_and_nothing_else(record: Record) -> None:
    plan = plan_again(record, typed())
    settled = on_target(plan, Setting(base_url="http://x/v1", engine="e", model="m", quant="q", max_tokens=9))
    assert (settled.baseline.base_url, settled.baseline.engine) == ("http://x/v1", "e")
    assert (settled.baseline.model, settled.baseline.quant) == ("m", "q")
    assert settled.baseline.max_tokens == plan.baseline.max_tokens
    assert settled.order == plan.order


def test_a_plan_that_is_none_is_one_line(record: Record) -> None:
    record.plan["requests"] = "many"
    with pytest.raises(BadInput, match="plan can't be read"):
        plan_again(record, typed())
