"""Claims: what is given and missing, what it could be, what to ask and run, and what sessions say to it."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any

import msgspec
import pytest
from made_comparisons import BASE, Truth, made_ab, made_run

from workbench.cli.options import add_run_options, run_options
from workbench.domain.claim import (
    CONDITIONS,
    Claim,
    check_claim,
    claim_from_toml,
    make_claim,
    parse_factor,
    parse_given,
)
from workbench.domain.claim_facts import FACTS
from workbench.domain.claim_text import claim_markdown, claim_text
from workbench.domain.compare import Comparison, compare_records
from workbench.domain.record import Record
from workbench.domain.variables import BadInput

LISTED = {
    "model",
    "precision",
    "engine",
    "hardware",
    "prompt_tokens",
    "output_tokens",
    "concurrency",
    "batch",
    "streaming",
    "warm_up",
    "sample_size",
    "mean",
    "p95",
    "success_rate",
    "evidence",
}

EVERYTHING = dict.fromkeys(LISTED, "stated") | {"concurrency": "16", "output_tokens": "256"}


def batched(throughput: float, rounds: int = 6) -> Comparison:
    """Two sessions at 16 at once: the candidate's throughput is as given, one request is as fast as before."""
    base = msgspec.structs.replace(BASE, concurrency=16)
    before = made_run(Truth(throughput=60.0), rounds=rounds, base=base)
    return compare_records(before, made_run(Truth(throughput=throughput), rounds=rounds, base=base))


def test_a_bare_claim_misses_every_fact():
    report = check_claim(make_claim(14))
    assert set(report.missing) == LISTED == {fact.key for fact in FACTS}
    assert list(report.possible) == ["ttft", "request_time", "decode_rate", "throughput", "capacity", CONDITIONS]
    assert report.sentence.startswith("14x is a headline, not a result: 15 of 15 facts a reader needs are missing.")
    assert report.verdict == {}


def test_facts_are_known_by_the_names_people_give_them():
    report = check_claim(make_claim(2, given={"GPU": "A100", "Max-Tokens": "512", "quant": "FP8", "weather": "fine"}))
    assert report.given == {"hardware": "A100", "output_tokens": "512", "precision": "FP8", "weather": "fine"}
    assert not {"hardware", "output_tokens", "precision"} & set(report.missing)


def test_what_a_missing_fact_could_hide_has_sizes_with_their_source():
    report = check_claim(make_claim(14)).to_json()
    for items in report["could_hide"].values():
        for item in items:
            assert bool(item["size"]) == bool(item["source"])
            assert item["source"] in ("", "the method article") or item["source"].startswith("measured here on")
    concurrency = report["could_hide"]["concurrency"][0]
    assert concurrency["times"] == 14
    assert concurrency["enough_alone"] is True
    assert report["could_hide"]["precision"][0]["enough_alone"] is False


def test_a_stated_concurrency_of_one_rules_throughput_out():
    report = check_claim(make_claim(3, "tokens/s", given={"concurrency": "1"}))
    assert "throughput" not in report.possible
    assert "decode_rate" in report.possible
    assert "concurrency of 1" in report.excluded["throughput"]


def test_a_metric_with_two_meanings_leaves_both_and_is_asked_about():
    report = check_claim(make_claim(3, "tokens per second"))
    assert [kind for kind in report.possible if kind != CONDITIONS] == ["decode_rate", "throughput"]
    assert report.questions[0].startswith("What became 3x:")
    assert not check_claim(make_claim(3, "ttft", source="a paper")).questions[0].startswith("What became")


def test_questions_ask_for_what_is_missing_and_no_more():
    report = check_claim(make_claim(2, "ttft", source="a paper", given=EVERYTHING))
    assert report.questions == []
    assert report.missing == []
    assert report.excluded[CONDITIONS].startswith("model, precision")


def parsed(command: str) -> Any:
    """A reproduction command through the program's own parser: its verb, and its options as values."""
    words = shlex.split(command)
    assert words[0] == "workbench"
    if words[1] not in ("run", "ab"):
        return words[1], None
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    return words[1], run_options(parser.parse_args(words[2:]))


def test_the_reproduction_plan_is_made_of_commands_that_parse():
    report = check_claim(make_claim(14, given={"prompt_tokens": "90", "output_tokens": "256", "concurrency": "24"}))
    plan = [parsed(step.command) for step in report.reproduction]
    assert [verb for verb, _ in plan] == ["ab", "run", "run", "compare", "claim", "ab", "ab"]
    single, ladder = plan[0][1], plan[1][1]
    assert single.values == ("OLD", "NEW")
    assert single.setting.max_tokens == 256
    assert single.setting.prompt == ("short",)
    assert ladder.values == (1, 4, 8, 16, 32, 24)
    assert plan[-1][1].setting.model == "SMALLER"


def test_the_plan_flips_what_the_claim_says_changed():
    report = check_claim(make_claim(2, "ttft", given={"quant": "FP16 -> INT4; $(rm -rf x)"}))
    verb, options = parsed(report.reproduction[0].command)
    assert verb == "ab"
    assert options.varied == "quant"
    assert options.values == ("FP16", "INT4; $(rm -rf x)")
    assert not any("ladder" in step.why for step in report.reproduction)


def test_throughput_claimed_as_latency_is_contradicted_and_named():
    report = check_claim(make_claim(14, "request_time"), batched(60.0 * 14))
    assert report.verdict["request_time"].call == "contradicted"
    assert report.verdict["throughput"].call == "supported"
    assert not report.verdict["throughput"].claimed
    assert (
        report.sentence
        == "14x is contradicted as request time. What rose that much is throughput, which is another thing."
    )


def test_an_unknown_metric_is_judged_kind_by_kind():
    report = check_claim(make_claim(14), batched(60.0 * 14))
    assert report.sentence == "14x is supported as throughput; contradicted as TTFT, request time and decode rate."
    assert report.verdict["throughput"].measured == pytest.approx(14, rel=0.05)
    assert report.verdict["capacity"].call == "not comparable"


def test_a_smaller_gain_contradicts_the_factor_while_its_direction_holds():
    found = check_claim(make_claim(14, "throughput"), batched(120.0)).verdict["throughput"]
    assert found.call == "contradicted"
    assert found.direction == "holds"


def test_a_larger_gain_supports_the_claim():
    assert check_claim(make_claim(1.5, "throughput"), batched(120.0)).verdict["throughput"].call == "supported"


def test_a_wide_interval_leaves_the_claim_undecided():
    record = made_ab("concurrency", (4, 4), (Truth(noise=0.15), Truth(rate=75, noise=0.15)), rounds=3)
    other = made_run(Truth(rate=75, noise=0.2), rounds=3, base=msgspec.structs.replace(BASE, concurrency=4))
    comparison = compare_records(record, other)
    assert check_claim(make_claim(1.25, "decode_rate"), comparison).verdict["decode_rate"].call == "undecided"


def test_what_can_not_be_compared_says_nothing_of_the_claim():
    busy = made_run(Truth(failed=15), rounds=4)
    report = check_claim(make_claim(2, "ttft"), compare_records(made_run(rounds=4), busy))
    assert report.verdict["ttft"].call == "not comparable"
    assert report.sentence == "2x is not comparable as TTFT."


def test_capacity_is_held_against_the_claim_without_an_interval():
    def ladder(slow: float) -> Record:
        truths = (Truth(), Truth(throughput=200.0), Truth(ttft_ms=slow, throughput=500.0))
        return made_ab("concurrency", (1, 4, 16), truths, rounds=3, limits={"ttft_ms": 400.0})

    report = check_claim(make_claim(4, "capacity"), compare_records(ladder(900), ladder(300)))
    assert report.verdict["capacity"].call == "supported"
    assert report.verdict["capacity"].measured == 4


def test_json_has_the_contracts_shape():
    report = json.loads(json.dumps(check_claim(make_claim(14), batched(840.0)).to_json(), allow_nan=False))
    assert isinstance(report["given"], dict)
    for name in ("missing", "possible_kinds", "questions", "reproduction"):
        assert all(isinstance(item, str) for item in report[name]), name
    assert set(report["verdict"]) == {"ttft", "request_time", "decode_rate", "throughput", "capacity"}
    assert all(command.startswith("workbench ") for command in report["reproduction"])


def test_text_keeps_to_its_width_and_markdown_to_its_cells():
    evil = "x\x1b]52;c;eA==\x07 | `y` <script>alert(1)</script>\nnew line"
    report = check_claim(make_claim(14, source=evil, given={"gpu": evil, evil: "z"}, text=evil), batched(840.0))
    text, page = claim_text(report, 72), claim_markdown(report)
    prose = [line for line in text.splitlines() if not line.startswith("  workbench ")]
    assert max(len(line) for line in prose) <= 72
    for shown in (text, page):
        assert "\x1b" not in shown
        assert "\x07" not in shown
    assert "<script>" not in page
    rows = [line for line in page.splitlines() if line.startswith("| hardware")]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 3
    for title in ("Given", "Missing", "It could be", "It can't be", "Reproduce it", "Against the sessions"):
        assert title in text or title == "It can't be"


@pytest.mark.parametrize(
    ("text", "factor"), [("14", 14), ("14x", 14), ("1.5 times", 1.5), ("14倍", 14), ("1400%", 14), (" 2,5 X", 2.5)]
)
def test_factors_as_people_write_them(text: str, factor: float):
    assert parse_factor(text) == factor


@pytest.mark.parametrize("text", ["", "0", "-2", "fast", "nan", "1e9", "14xx", "9999999"])
def test_factors_that_are_none(text: str):
    with pytest.raises(BadInput, match="--factor"):
        parse_factor(text)


def test_given_items():
    assert parse_given(["gpu=A100 80G", "flags=a=b"]) == {"gpu": "A100 80G", "flags": "a=b"}
    for bad in ("gpu", "=x", "gpu="):
        with pytest.raises(BadInput, match="KEY=VALUE"):
            parse_given([bad])


def test_a_metric_that_means_nothing_is_refused():
    with pytest.raises(BadInput, match="--metric"):
        make_claim(2, "awesomeness")


def test_claims_from_a_file():
    table = {"factor": 14, "metric": "TTFT", "given": {"gpu": "A100", "concurrency": 16}, "source": "a post"}
    expected = Claim(factor=14.0, metric="ttft", source="a post", given={"gpu": "A100", "concurrency": "16"})
    assert claim_from_toml(table) == expected
    assert claim_from_toml({"claim": table}) == expected


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({}, "factor is missing"),
        ({"factor": "many"}, "--factor"),
        ({"factor": 2, "given": ["x"]}, "given must be a table"),
        ({"factor": 2, "metric": 3}, "metric must be a text"),
        ({"factor": 2, "colour": "red"}, "no such key: 'colour'"),
        ({"claim": 3}, "must be a table"),
    ],
)
def test_files_that_are_no_claim(table: dict[str, Any], says: str):
    with pytest.raises(BadInput, match=says):
        claim_from_toml(table)
