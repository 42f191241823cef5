"""The options of `run`: what they become, and one clear line for what they can't be."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from workbench.cli.options import (
    RunOptions,
    add_run_options,
    bench_options,
    plan_of,
    requests_of,
    run_options,
    sessions_folder,
)
from workbench.domain.plan import Timeouts, cells
from workbench.domain.variables import BadInput


def parsed(*words: str) -> RunOptions:
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    parser.add_argument("--until")
    return run_options(parser.parse_args(words))


def test_what_is_not_said_is_as_the_contract_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKBENCH_SESSIONS", raising=False)
    options = parsed()
    plan = plan_of(options, options.setting)
    assert (plan.baseline.max_tokens, plan.baseline.temperature, plan.baseline.prompt) == (512, 0, ("short",))
    assert (plan.baseline.cache, plan.baseline.stream, plan.baseline.concurrency) == ("unique", True, 1)
    assert (plan.requests, plan.warmup, plan.rounds, plan.arrival, plan.order) == (20, 3, 1, "closed", ("A",))
    assert plan.timeouts == Timeouts()
    assert options.sessions == Path("sessions")
    assert options.given == frozenset()


def test_every_variable_is_taken() -> None:
    options = parsed(
        *("--base-url", "http://h:1/v1", "--model", "m", "--engine", "vllm", "--quant", "q", "--max-tokens", "7"),
        *("--prompt", "code", "--prompt", "my file.txt", "--temperature", "0.5", "--seed", "3", "--stop", "a,b"),
        *(
            "--stop",
            "c",
            "--system",
            "be brief",
            "--ignore-eos",
            "--cache",
            "warm",
            "--no-stream",
            "--concurrency",
            "9",
        ),
        *("--body", 'reasoning_effort="none"', "--body", "top_k=3"),
    )
    setting = options.setting
    assert (setting.base_url, setting.model, setting.engine, setting.quant) == ("http://h:1/v1", "m", "vllm", "q")
    assert (setting.prompt, setting.stop, setting.system) == (("code", "my file.txt"), ("a,b", "c"), "be brief")
    assert (setting.max_tokens, setting.temperature, setting.seed, setting.concurrency) == (7, 0.5, 3, 9)
    assert (setting.ignore_eos, setting.cache, setting.stream) == (True, "warm", False)
    assert setting.body == {"reasoning_effort": "none", "top_k": 3}
    assert {"base_url", "no_stream", "body"} <= options.given
    assert "rate" not in options.given


def test_a_ladder_is_a_varied_concurrency_with_its_own_requests_a_rung() -> None:
    options = parsed("--concurrency", "1,4,16")
    plan = plan_of(options, options.setting)
    assert (plan.varied, plan.values, plan.order) == ("concurrency", (1, 4, 16), ("A", "B", "C"))
    planned = cells(plan, requests_of(options, plan))
    assert [(cell.setting.concurrency, cell.requests) for cell in planned] == [(1, 20), (4, 20), (16, 48)]
    told = parsed("--concurrency", "1,4,16", "--requests", "5")
    assert requests_of(told, plan_of(told, told.setting)) == {}
    assert plan_of(told, told.setting).requests == 5


def test_an_ab_is_counterbalanced_over_six_rounds() -> None:
    options = parsed("--vary", "max-tokens=5,10", "--concurrency", "4")
    plan = plan_of(options, options.setting, ab=True)
    assert (plan.varied, plan.values, plan.rounds, plan.requests) == ("max_tokens", (5, 10), 6, 8)
    assert "".join(plan.order) in ("ABBA" * 3, "BAAB" * 3)
    assert plan.baseline.max_tokens == 5
    sweep = plan_of(options, options.setting)
    assert sweep.order == ("A", "B")


def test_open_loop_limits_and_the_rest() -> None:
    options = parsed(
        *("--rate", "2.5", "--duration", "30", "--limit", "ttft_ms=500", "--limit", "decode_rate=20", "--workers", "2"),
        *(
            "--timeout-connect",
            "1",
            "--timeout-first-byte",
            "2",
            "--timeout-idle",
            "3",
            "--budget",
            "60",
            "--until",
            "5%",
        ),
        *("--declare", "gpu=RTX 4090", "--name", "n", "--note", "x", "--events", "--json", "--yes"),
    )
    plan = plan_of(options, options.setting)
    assert (plan.rate, plan.arrival, plan.duration, plan.workers, plan.budget) == (2.5, "poisson", 30, 2, 60)
    assert (plan.limits, plan.until) == ({"ttft_ms": 500, "decode_rate": 20}, 0.05)
    assert plan.timeouts == Timeouts(connect=1, first_byte=2, idle=3)
    bench = bench_options(options, "workbench run")
    assert (bench.declared, bench.events, bench.consent, bench.command) == (
        {"gpu": "RTX 4090"},
        True,
        True,
        "workbench run",
    )


def test_where_sessions_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_SESSIONS", "/env")
    monkeypatch.setenv("HOME", "/home/me")
    assert sessions_folder(None) == Path("/env")
    assert sessions_folder("~/s") == Path("/home/me/s")
    assert sessions_folder("x", no_save=True) is None


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--concurrency", "1,2", "--vary", "quant=a,b"), "two variables"),
        (("--vary", "concurrency=1,2", "--concurrency", "4"), "give one of them"),
        (("--vary", "quant"), "write VAR=V1,V2"),
        (("--vary", "quant=a"), "at least two values"),
        (("--vary", "colour=a,b"), "no such variable"),
        (("--vary", "temperature=0,9"), "0 to 2"),
        (("--concurrency", "1,x"), "a number"),
        (("--concurrency", "0"), "at least 1"),
        (("--max-tokens", "0"), "without a limit"),
        (("--max-tokens", "-1"), "without a limit"),
        (("--max-tokens", "none"), "without a limit"),
        (("--requests", "0"), "from 1 to"),
        (("--requests", "2.5"), "not a whole number"),
        (("--rate", "-1"), "above 0"),
        (("--rate", "nan"), "above 0"),
        (("--rate", "inf"), "above 0"),
        (("--rate", "1", "--concurrency", "1,2"), "no concurrency to vary"),
        (("--arrival", "constant"), "give --rate too"),
        (("--rate", "1", "--arrival", "daily"), "poisson or constant"),
        (("--duration", "5", "--requests", "5"), "give one of them"),
        (("--limit", "ttft=5"), "NAME=NUMBER"),
        (("--limit", "ttft_ms=-5"), "above 0"),
        (("--body", "x"), "KEY=VALUE"),
        (("--body", "x=abc"), "not JSON"),
        (("--body", "x=NaN"), "not JSON"),
        (("--body", "messages=[]"), "sets this field itself"),
        (("--declare", "=x"), "KEY=VALUE"),
        (("--tokenizer", "/nowhere/t.json"), "no such file"),
        (("--ca", "/nowhere/ca.pem"), "no such file"),
        (("--cache", "cold"), "unique or warm"),
        (("--prompt", " "), "can't be empty"),
        (("--fail-on", "speed"), "FIGURE OP VALUE"),
        (("--until", "x"), "not a number"),
    ],
)
def test_what_can_not_be_is_one_line(words: tuple[str, ...], line: str) -> None:
    with pytest.raises(BadInput, match=line) as caught:
        parsed(*words)
    assert "\n" not in str(caught.value)
