"""Verdicts and their sentences; each trap that makes a number look like a speed-up, on made records."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from made_comparisons import BASE, SERVER, Truth, made_ab, made_run

from workbench.domain.compare import capacity_of, compare_records, judge_record
from workbench.domain.record import Record, SessionTable, Verdict, from_table, to_table
from workbench.domain.sentence import ASK_COMMAND, ASK_SCREEN
from workbench.domain.variables import BadInput
from workbench.domain.wording import figure, interval, listed, milliseconds, number, times


def judged(record: Record, **options: Any) -> Verdict:
    verdict = judge_record(record, **options)
    assert verdict is not None
    return verdict


def vllm(**changes: Any) -> dict[str, Any]:
    return {**SERVER, "id": "s2", "engine": "vllm", "version": "0.9", **changes}


def test_throughput_that_rose_while_the_single_request_did_not():
    found = judged(made_ab("concurrency", (1, 16), (Truth(), Truth(throughput=120.0))))
    assert found.sentence.startswith("2.1x more tokens per second at 16 at once (95% interval ")
    assert "A single request is not faster: TTFT 199 ms before, 197 ms now." in found.sentence
    assert found.sentence.endswith("Only concurrency differs.")
    assert found.kinds["throughput"].call == "faster"
    assert found.kinds["ttft"].call == "no difference shown"
    assert (found.a, found.b) == ("concurrency 1", "concurrency 16")


def test_a_single_request_that_got_slower_under_load_is_named():
    found = judged(made_ab("concurrency", (1, 16), (Truth(), Truth(ttft_ms=900, rate=30, throughput=420.0))))
    assert "7.4x more tokens per second at 16 at once" in found.sentence
    assert "A single request is slower: TTFT 199 ms before, 887 ms now." in found.sentence


def test_stored_ratios_are_raw_and_say_which_way_is_better():
    kinds = judged(made_ab("quant", ("Q8_0", "Q8_0"), (Truth(), Truth(ttft_ms=100)))).kinds
    assert kinds["ttft"].better == "lower"
    assert kinds["ttft"].ratio == pytest.approx(0.5, rel=0.05)
    assert kinds["ttft"].low < kinds["ttft"].ratio < kinds["ttft"].high  # type: ignore[operator]
    assert kinds["ttft"].b / kinds["ttft"].a == pytest.approx(kinds["ttft"].ratio)  # type: ignore[operator]
    assert kinds["ttft"].call == "faster"
    assert kinds["decode_rate"].better == "higher"


def test_kinds_that_point_in_opposite_directions_are_both_said():
    record = made_ab(
        "quant",
        ("Q8_0", "F16"),
        (Truth(rate=76, ttft_ms=700), Truth(rate=43, ttft_ms=318, server="s2")),
        servers=[SERVER, {**SERVER, "id": "s2", "quant": "F16", "digest": "bb"}],
    )
    text = judged(record).sentence
    assert "TTFT 2.2x faster" in text
    assert "Decode 1.8x slower: 76.5 tokens/s before, 43.6 now." in text
    assert text.endswith("Only quant differs.")


def test_the_same_server_twice_shows_no_difference():
    found = judged(made_ab("concurrency", (4, 4), (Truth(), Truth())))
    assert found.sentence.startswith("No difference shown: TTFT ")
    assert found.sentence.endswith("The same setting was measured twice.")
    assert {found.kinds[kind].call for kind in ("ttft", "request_time", "decode_rate", "throughput")} == {
        "no difference shown"
    }


def test_undecided_says_how_many_rounds_would_tell():
    truths = (Truth(noise=0.1), Truth(rate=66, ttft_ms=215, noise=0.1))
    found = judged(made_ab("concurrency", (1, 2), truths, rounds=4))
    assert found.kinds["ttft"].call == "undecided"
    assert found.kinds["ttft"].rounds_needed is not None
    assert f"about {found.kinds['ttft'].rounds_needed} rounds would tell" in found.sentence
    assert "not faster" not in found.sentence


# The traps of the article.


@pytest.mark.parametrize("varied", ["temperature", "max_tokens"])
def test_trap_a_shorter_reply_is_no_speed(varied: str):
    values = (0.0, 1.0) if varied == "temperature" else (256, 130)
    found = judged(made_ab(varied, values, (Truth(tokens=256), Truth(tokens=130))))
    assert found.sentence.startswith("The reply merely got shorter: 256 tokens before, 130 now.")
    assert "At 130 tokens one request is no faster: 2.33 s before, 2.32 s now." in found.sentence
    assert found.kinds["request_time"].call == "no difference shown"
    assert "at 130 tokens" in found.kinds["request_time"].note


def test_trap_survivors_of_failures_win_nothing():
    found = judged(made_ab("concurrency", (4, 32), (Truth(), Truth(failed=18, ttft_ms=50))))
    assert found.sentence.startswith(
        "No winner: 108 of 120 requests failed with concurrency 32 (http_500 108), 0 of 120 with concurrency 4. "
        "The times left are the survivors'"
    )
    for kind in ("ttft", "request_time", "decode_rate", "throughput"):
        assert found.kinds[kind].call == "not comparable"
        assert found.kinds[kind].ratio is None


def test_trap_engine_and_quantization_changed_together():
    record = made_ab(
        "engine", ("llama.cpp", "vllm"), (Truth(), Truth(rate=120, server="s2")), servers=[SERVER, vllm(quant="AWQ")]
    )
    found = judged(record)
    assert found.sentence == (
        "Can't be attributed: the quantization changed with the engine: Q8_0 before, AWQ now. "
        "An engine's gain may be the quantization's: run both sides on one quantization."
    )
    assert {kind.call for kind in found.kinds.values()} == {"not comparable"}


def test_trap_a_tokenizer_that_splits_otherwise():
    record = made_ab(
        "model",
        ("qwen2.5-7b", "llama3"),
        (Truth(rate=60, characters_a_token=4.0), Truth(rate=120, characters_a_token=2.0, server="s2")),
        servers=[{**SERVER, "tokenizer_probe": [4, 9]}, vllm(engine="llama.cpp", tokenizer_probe=[8, 17], digest="zz")],
    )
    found = judged(record)
    assert "Tokens don't compare, 4.0 characters each before, 2.0 now, so rates are in characters." in found.sentence
    assert found.kinds["decode_rate"].call == "no difference shown"
    assert found.kinds["decode_rate"].note == "in characters"
    assert found.kinds["throughput"].call != "faster"


def test_other_tokenizers_without_characters_are_not_compared():
    record = made_ab(
        "model",
        ("qwen2.5-7b", "llama3"),
        (Truth(), Truth(rate=120, server="s2")),
        servers=[{**SERVER, "tokenizer_probe": [4, 9]}, vllm(engine="llama.cpp", tokenizer_probe=[8, 17])],
    )
    for cell in record.cells:
        del cell.per_request["characters"]
    assert judged(record).kinds["decode_rate"].call == "not comparable"


def test_trap_a_warm_cache_on_one_side():
    found = compare_records(made_run(rounds=4), made_run(Truth(ttft_ms=20, cached_tokens=95), rounds=4))
    assert found.sentence.startswith(
        "TTFT, request time and throughput are not compared: the cache did it, "
        "0% of the prompt tokens came from the prefix cache before, 95% now."
    )
    assert found.kinds["ttft"].call == "not comparable"
    assert found.kinds["decode_rate"].call == "no difference shown"


def test_a_cache_flipped_on_purpose_is_given_the_credit():
    record = made_ab("cache", ("unique", "warm"), (Truth(ttft_ms=5900), Truth(ttft_ms=130, cached_tokens=95)))
    assert judged(record).sentence.startswith("The cache did it: TTFT 46x faster")


def test_trap_a_client_that_was_the_bottleneck():
    busy = Truth(throughput=900, client={"cpu_share": 0.97, "lag_p99_ms": 45.0, "limited": "all"})
    found = judged(made_ab("concurrency", (1, 64), (Truth(), busy)))
    assert found.sentence.startswith(
        "No verdict: client-limited with concurrency 64: its loop ran 45.0 ms late (p99) at 97% of a core."
    )
    assert found.kinds["throughput"].call == "not comparable"


def test_trap_a_first_request_that_carries_the_load():
    record = made_ab("concurrency", (1, 2), (Truth(warmup=0, first_factor=10), Truth()), rounds=1, n=5)
    found = judged(record)
    assert (
        "Doubt: the first measured request with concurrency 1 took 43.5 s in all, the others 4.37 s" in found.sentence
    )
    assert found.kinds["ttft"].call != "faster"


def test_trap_throughput_claimed_as_latency():
    found = judged(made_ab("concurrency", (1, 16), (Truth(), Truth(throughput=790.0))))
    assert found.sentence.startswith("14x more tokens per second at 16 at once")
    assert "A single request is not faster" in found.sentence
    assert found.kinds["request_time"].call == "no difference shown"


def test_the_model_itself_is_said_only_when_all_else_is_verified():
    def found(**changes: Any) -> str:
        other = {**SERVER, "id": "s2", "model": "llama3", "digest": "zz", "parameters": 8_000_000_000, **changes}
        truths = (Truth(), Truth(rate=120, server="s2"))
        return judged(made_ab("model", ("qwen2.5-7b", "llama3"), truths, servers=[SERVER, other])).sentence

    assert found().endswith("The model itself changed: all else was verified equal.")
    assert "itself" not in found(kv_cache_type="")
    assert "itself" not in found(source={"quant": "declared"})
    assert "itself" not in found(source={"quant": "from the name"})
    assert "Can't be attributed: the quantization changed with the model" in found(quant="Q4_K_M")


# One run each, mid-run, sweeps.


def test_one_run_each_ends_with_the_way_to_more():
    record = made_ab("concurrency", (1, 16), (Truth(), Truth(throughput=120.0)), rounds=1)
    assert judged(record, ask=ASK_SCREEN).sentence.endswith("; one run each: press a for an A/B")
    assert judged(record, ask=ASK_COMMAND).sentence.endswith("; one run each: run `workbench ab` to be sure")


@pytest.mark.parametrize("figure", [0.0, -1.0, math.inf])
def test_a_request_whose_figure_can_not_be_makes_no_ratio(figure: float):
    record = made_ab("concurrency", (1, 4), (Truth(), Truth()), rounds=1)
    column = record.cells[1].per_request["ttft_ms"]
    column[:9] = [figure] * 9
    found = judged(record).kinds["ttft"]
    assert found.low is not None
    assert 0 < found.low <= found.ratio <= found.high < math.inf


def test_one_run_each_calls_only_wide_differences():
    near = made_ab("concurrency", (2, 2), (Truth(noise=0.001), Truth(rate=66, noise=0.001)), rounds=1)
    assert judged(near).kinds["decode_rate"].call != "faster"
    far = made_ab("concurrency", (2, 2), (Truth(noise=0.001), Truth(rate=78, noise=0.001)), rounds=1)
    assert judged(far).kinds["decode_rate"].call == "faster"


def test_a_verdict_in_mid_run_uses_the_rounds_both_have_finished():
    record = made_ab("concurrency", (1, 16), (Truth(), Truth(throughput=120.0)), rounds=6)
    cells = record.cells
    for count in range(len(cells) + 1):
        record.cells = cells[:count]
        verdict = judge_record(record)
        if count < 2:
            assert verdict is None
        else:
            assert verdict is not None
            assert ("runs each" in verdict.sentence or "one run each" in verdict.sentence) is (count < 6)


def test_nothing_varied_has_no_verdict():
    assert judge_record(made_run()) is None
    assert judge_record(Record(session=SessionTable(id="x"), plan={"varied": "quant"})) is None


def test_blocks_are_not_paired():
    order = ("A",) * 4 + ("B",) * 4
    record = made_ab("concurrency", (4, 4), (Truth(), Truth()), rounds=4, order=order)
    assert "Doubt: one side ran wholly before the other" in judged(record).sentence
    # A drift shared by both sides' rounds: paired, it would cancel and leave a point.
    for cell in record.cells:
        cell.per_request["ttft_ms"] = [100.0 * 1.1**cell.round] * len(cell.per_request["ttft_ms"])
    ttft = judged(record).kinds["ttft"]
    assert ttft.low is not None
    assert ttft.low < 0.9


def test_a_sweep_is_last_against_first_with_the_others_as_steps():
    truths = (Truth(), Truth(throughput=200.0), Truth(ttft_ms=300, throughput=500.0))
    found = judged(made_ab("concurrency", (1, 4, 16), truths, rounds=8))
    assert (found.a, found.b) == ("concurrency 1", "concurrency 16")
    assert [step["value"] for step in found.steps] == [4]
    assert found.steps[0]["throughput"]["call"] == "faster"
    assert found.steps[0]["ttft"]["call"] == "no difference shown"


def test_a_last_rung_that_failed_leaves_what_still_held():
    truths = (Truth(), Truth(throughput=200.0), Truth(throughput=500.0), Truth(failed=15))
    found = judged(made_ab("concurrency", (1, 4, 16, 32), truths, rounds=1))
    assert "15 of 20 requests failed with concurrency 32" in found.sentence
    assert found.sentence.endswith("16 at once still held: 8.5x the tokens per second.")


def test_a_few_failures_are_named_beside_the_verdict():
    record = made_ab("concurrency", (1, 4), (Truth(), Truth(throughput=200.0)), n=40, rounds=3)
    record.cells[1].failed, record.cells[1].ok, record.cells[1].errors = 1, 39, {"http_503": 1}
    assert judged(record).sentence.endswith("1 of 240 failed: see the server's log.")


def test_what_one_check_took_away_is_told_after_what_can_be_said_and_failures_still():
    late = Truth(throughput=240.0, client={"lag_p99_ms": 8.0})
    record = made_ab("concurrency", (1, 8), (Truth(), late), n=40)
    text = judged(record).sentence
    assert text.startswith("4.2x more tokens per second at 8 at once")
    assert "A single request is not faster: 4.4" in text
    assert "TTFT is not compared: client-limited for TTFT with concurrency 8" in text
    record.cells[1].failed, record.cells[1].ok = 1, 39
    assert judged(record).sentence.endswith("1 of 480 failed: see the server's log.")


def test_what_the_servers_log_said_is_quoted_beside_failures():
    record = made_ab("concurrency", (4, 32), (Truth(), Truth(failed=18)))
    record.cells[1].evidence["server_log"] = {"error": 3, "oom": 1, "says": "CUDA out\x1b of memory"}
    if record.cells[1].arm == "A":
        record.cells[0].evidence["server_log"] = record.cells[1].evidence.pop("server_log")
    text = judged(record).sentence
    assert "the server's log says: CUDA out" in text
    assert "\x1b" not in text


def test_a_verdict_survives_the_record():
    record = made_ab("concurrency", (1, 4, 16), (Truth(), Truth(throughput=200.0), Truth(failed=15)), rounds=1)
    record.verdict = judged(record)
    again = from_table(to_table(record))
    assert again.verdict is not None
    assert again.verdict.sentence == record.verdict.sentence
    assert again.verdict.kinds == record.verdict.kinds
    assert again.verdict.steps == record.verdict.steps


# Two sessions.


def test_compare_json_has_the_contracts_shape():
    found = compare_records(made_run(rounds=4), made_run(Truth(rate=120), rounds=4, version="b9999")).to_json()
    again = json.loads(json.dumps(found, allow_nan=False))
    assert set(again) >= {"a", "b", "checks", "figures", "verdict", "sentence"}
    assert set(again["checks"][0]) == {"name", "result", "evidence", "remedy"}
    assert set(again["verdict"]) == {"ttft", "request_time", "decode_rate", "throughput", "capacity"}
    for kind in again["verdict"].values():
        assert set(kind) >= {"ratio", "low", "high", "call", "rounds_needed"}
    assert again["figures"]["ttft_ms"]["unit"] == "ms"
    assert again["figures"]["decode_rate"]["b"] == pytest.approx(120, rel=0.05)
    assert again["verdict"]["decode_rate"]["call"] == "faster"
    assert "Doubt: the engine's version differs: b10488 before, b9999 now" in again["sentence"]


def test_two_sessions_are_not_paired():
    found = compare_records(made_run(rounds=4), made_run(rounds=6))
    assert found.rounds == 4
    assert found.kinds["ttft"].call == "no difference shown"


def test_the_same_plan_again_is_a_rerun():
    assert compare_records(made_run(rounds=4), made_run(rounds=4)).sentence.endswith(
        "The same setting was measured twice."
    )


def test_two_ladders_are_compared_rung_by_rung():
    def ladder(*truths: Truth) -> Record:
        return made_ab("concurrency", (1, 4, 16), truths, rounds=3, limits={"ttft_ms": 400.0})

    a = ladder(Truth(), Truth(throughput=200.0), Truth(ttft_ms=300, throughput=500.0))
    b = ladder(Truth(), Truth(throughput=200.0), Truth(ttft_ms=500, throughput=1000.0))
    assert capacity_of(a) == 16
    assert capacity_of(b) == 4
    found = compare_records(a, b)
    assert found.sentence.startswith("2.0x more tokens per second at 16 at once")
    assert "A single request is not faster" in found.sentence
    assert "Within the limits: 16 at once before, 4 at once now." in found.sentence
    assert found.kinds["capacity"].call == "slower"
    assert found.kinds["capacity"].ratio == 0.25
    assert [step["value"] for step in found.steps] == [1, 4, 16]


def test_a_single_run_finds_its_rung_in_a_ladder():
    ladder = made_ab("concurrency", (1, 4, 16), (Truth(), Truth(), Truth()), rounds=3)
    run = made_run(Truth(), rounds=3, base=msgspec.structs.replace(BASE, concurrency=4))
    found = compare_records(ladder, run)
    assert found.differing == ()


def test_a_record_without_cells_is_refused_in_one_line():
    empty = made_run()
    empty.cells = []
    with pytest.raises(BadInput, match="no finished cell"):
        compare_records(empty, made_run())


def test_lengths_that_can_not_be_brought_together():
    record = made_ab("stream", (True, False), (Truth(tokens=256), Truth(tokens=128, decode_absent="not streamed")))
    for cell in record.cells:
        if cell.arm == "B":
            cell.per_request["ttft_ms"] = [None] * len(cell.per_request["ttft_ms"])
            del cell.stats["ttft_ms"]
    kinds = judged(record).kinds
    assert kinds["request_time"].call == "not comparable"
    assert "one length" in kinds["request_time"].note
    assert kinds["ttft"].call == "not comparable"


def test_throughput_is_the_steady_window_where_both_sides_have_it():
    record = made_ab("concurrency", (4, 4), (Truth(), Truth()), rounds=3)
    for cell in record.cells:
        cell.steady_throughput, cell.steady_share = (400.0 if cell.arm == "A" else 800.0) + cell.id, 0.7
    assert judged(record).kinds["throughput"].ratio == pytest.approx(2, rel=0.02)
    record.cells[0].steady_share = 0.3
    assert judged(record).kinds["throughput"].ratio == pytest.approx(1, rel=0.1)


def test_numbers_as_a_person_says_them():
    assert [milliseconds(value) for value in (8.44, 212.3, 999.6, 1214, 12140, 121400)] == [
        "8.4 ms",
        "212 ms",
        "1.00 s",
        "1.21 s",
        "12.1 s",
        "121 s",
    ]
    assert [times(value) for value in (1.08, 2.13, 14.2, 0.77)] == ["1.08x", "2.1x", "14x", "0.77x"]
    assert interval(1.9, 2.3) == "1.9-2.3"
    assert interval(0.94, 1.12) == "0.94-1.12"
    assert interval(13.2, 15.1) == "13-15"
    assert interval(2.01, 2.03) == "2.01-2.03"
    assert [number(value) for value in (0.131, 8.44, 61.24, 60.04, 212.4, 3112)] == [
        "0.13",
        "8.44",
        "61.2",
        "60",
        "212",
        "3,112",
    ]
    assert figure("capacity", 16.0) == "16 at once"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert not math.isnan(float(number(1.0)))
