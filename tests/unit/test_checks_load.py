"""Checks of load, machine and trust: failures, cache, concurrency, hardware, client and the rest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_comparisons import BASE, GPU, HOST, SERVER, Truth, made_ab, made_run

from workbench.domain.answers import compare_answers, is_repetitive
from workbench.domain.checks import CheckResult, check_cell, check_pair, pair_in, pair_of, sides_of
from workbench.domain.record import Record


def in_one(record: Record, a: str = "A", b: str = "B") -> dict[str, CheckResult]:
    return {check.name: check for check in check_pair(pair_in(record, a, b))}


def of_two(a: Record, b: Record, rerun: bool = False) -> dict[str, CheckResult]:
    return {check.name: check for check in check_pair(pair_of(sides_of(a)["A"], sides_of(b)["A"], rerun))}


def with_server(**changes: Any) -> Record:
    """A second session on another server, whose facts are SERVER's but for the changes."""
    base = msgspec.structs.replace(BASE, base_url="http://127.0.0.1:9000/v1")
    return made_run(base=base, rounds=4, **{"id": "s1", "base_url": "http://127.0.0.1:9000/v1", **changes})


@pytest.mark.parametrize(
    ("failed", "result"), [((0, 0), "pass"), ((1, 1), "doubt"), ((0, 2), "fail"), ((12, 12), "fail")]
)
def test_failures(failed: tuple[int, int], result: str):
    truths = tuple(Truth(failed=count) for count in failed)
    check = in_one(made_ab("concurrency", (1, 4), truths))["failures"]  # type: ignore[arg-type]
    assert check.result == result
    if result == "fail":
        assert "capacity" not in check.takes
        assert "throughput" in check.takes


def test_few_failures_on_one_side_are_within_the_doubt():
    record = made_ab("concurrency", (1, 4), (Truth(), Truth()), n=40, rounds=1)
    record.cells[1].failed, record.cells[1].ok = 1, 39
    assert in_one(record)["failures"].result == "doubt"


def test_one_failure_in_twenty_is_not_over_five_points():
    record = made_ab("concurrency", (1, 4), (Truth(), Truth(failed=1)), n=20, rounds=1)
    assert in_one(record)["failures"].result == "doubt"


def test_empty_replies_are_named():
    check = in_one(made_ab("concurrency", (1, 4), (Truth(), Truth(empty=3))))["failures"]
    assert check.result == "doubt"
    assert "empty" in check.evidence


def test_cache_hits_on_one_side_fail():
    check = in_one(made_ab("concurrency", (1, 4), (Truth(), Truth(cached_tokens=95))))["cache"]
    assert check.result == "fail"
    assert {"ttft", "request_time"} <= set(check.takes)
    assert "decode_rate" not in check.takes
    assert in_one(made_ab("cache", ("unique", "warm"), (Truth(), Truth(cached_tokens=95))))["cache"].result == "pass"
    both = in_one(made_ab("concurrency", (1, 4), (Truth(cached_tokens=95), Truth(cached_tokens=95))))["cache"]
    assert both.result == "doubt"


def test_cache_hits_uneven_over_rounds_fail():
    record = made_ab("concurrency", (1, 4), (Truth(cached_tokens=50), Truth(cached_tokens=50)), rounds=2)
    for cell in record.cells:
        if cell.round == 1:
            cell.per_request["cached_tokens"] = [0] * len(cell.per_request["cached_tokens"])
    check = in_one(record)["cache"]
    assert check.result == "fail"
    assert "uneven" in check.evidence


def test_concurrency_that_was_not_reached_or_queues():
    record = made_ab("concurrency", (1, 16), (Truth(), Truth()), servers=[{**SERVER, "slots": 4}])
    record.cells[1].in_flight_peak = min(record.cells[1].in_flight_peak, 12)
    record.cells[0].in_flight_peak = min(record.cells[0].in_flight_peak, 12)
    check = in_one(record)["concurrency"]
    assert check.result == "doubt"
    assert "16 asked for" in check.evidence
    assert "4 slots" in check.evidence


def test_another_gpu_fails_and_another_driver_doubts():
    a, b = made_run(rounds=4), made_run(rounds=4)
    b.environment["gpu"] = [{**GPU, "driver": "999"}]
    assert of_two(a, b)["hardware"].result == "doubt"
    b.environment["gpu"] = [{**GPU, "name": "A100"}]
    assert of_two(a, b)["hardware"].result == "fail"
    b.environment["gpu"] = [dict(GPU), dict(GPU)]
    assert of_two(a, b)["hardware"].result == "fail"


def test_another_cpu_fails_where_there_is_no_gpu():
    a, b = made_run(rounds=4), made_run(rounds=4)
    for record in (a, b):
        record.environment["gpu"] = []
    b.environment["host"] = {**HOST, "cpu": "Another"}
    assert of_two(a, b)["hardware"].result == "fail"


def test_a_remote_server_hides_its_hardware():
    a, b = made_run(rounds=4), with_server()
    for record in (a, b):
        record.environment["scope"] = "Host and GPU are of this machine, not the server."
    b.environment["host"] = {"cpu": "Another laptop"}
    check = of_two(a, b)["hardware"]
    assert check.result == "doubt"
    assert "not known" in check.evidence


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ({"neighbours": ["python 4 GiB"]}, "others used"),
        ({"throttle": ["GPU 0: power"]}, "clocks"),
        ({"swap_in_mib": 800}, "swap"),
    ],
)
def test_disturbed_hardware_is_doubted(evidence: dict[str, Any], said: str):
    record = made_ab("concurrency", (1, 4), (Truth(), Truth()))
    record.cells[3].evidence = evidence
    check = in_one(record)["hardware"]
    assert check.result == "doubt"
    assert said in check.evidence


def test_engine_version_doubts_unless_the_engine_was_flipped():
    assert of_two(made_run(rounds=4), with_server(version="b9000"))["software"].result == "doubt"
    record = made_ab(
        "engine",
        ("llama.cpp", "vllm"),
        (Truth(), Truth(server="s2")),
        servers=[SERVER, {**SERVER, "id": "s2", "engine": "vllm", "version": "0.9", "flags": ["-x"], "slots": 4}],
    )
    assert in_one(record)["software"].result == "pass"


def test_sample_size():
    one = in_one(made_ab("concurrency", (1, 4), (Truth(), Truth()), rounds=1, n=10))["sample-size"]
    assert one.result == "doubt"
    assert "one run" in one.evidence
    assert "P95 of 10" in one.evidence


def test_drift_over_requests_and_over_rounds():
    record = made_ab("concurrency", (1, 4), (Truth(drift=0.5), Truth()), rounds=1, n=60)
    assert in_one(record)["drift"].result == "doubt"
    rounds = made_ab("concurrency", (1, 4), (Truth(noise=0.001), Truth(noise=0.001)), rounds=8)
    assert in_one(rounds)["drift"].result == "pass"
    for cell in rounds.cells:
        stats = cell.stats["ttft_ms"]
        cell.stats["ttft_ms"] = msgspec.structs.replace(stats, p50=stats.p50 * (1 + 0.05 * cell.round))
    assert in_one(rounds)["drift"].result == "doubt"


def test_sides_run_in_blocks_are_doubted():
    record = made_ab("concurrency", (1, 4), (Truth(), Truth()), rounds=3, order=("A", "A", "A", "B", "B", "B"))
    check = in_one(record)["drift"]
    assert check.result == "doubt"
    assert "before the other" in check.evidence


def test_jitter_quotes_what_was_seen():
    record = made_ab("concurrency", (1, 4), (Truth(), Truth()))
    record.cells[0].jitter = 4.2
    assert "look at" in in_one(record)["jitter"].remedy
    record.cells[0].evidence = {"swap_growth_mib": 1228, "tcp_retransmits": 7}
    check = in_one(record)["jitter"]
    assert "swap grew by 1228 MiB" in check.evidence
    assert "7 TCP" in check.evidence


def test_a_limited_client_fails_for_what_it_spoils():
    busy = Truth(client={"cpu_share": 0.95})
    check = in_one(made_ab("concurrency", (1, 4), (Truth(), busy)))["client"]
    assert check.result == "fail"
    assert "throughput" in check.takes
    late = Truth(client={"lag_p99_ms": 30.0})
    check = in_one(made_ab("concurrency", (1, 4), (Truth(), late)))["client"]
    assert check.takes == ("ttft",)


def test_a_proxy_that_gathers_the_stream_fails_for_ttft_and_decode():
    check = in_one(made_ab("concurrency", (1, 4), (Truth(), Truth(decode_absent="buffered"))))["client"]
    assert check.result == "fail"
    assert check.takes == ("ttft", "decode_rate")


def test_streaming_on_one_side_only():
    check = in_one(made_ab("concurrency", (1, 4), (Truth(), Truth(decode_absent="not streamed"))))["streaming"]
    assert check.result == "fail"
    assert check.takes == ("ttft", "decode_rate")
    flipped = made_ab("stream", (True, False), (Truth(), Truth(decode_absent="not streamed")))
    assert in_one(flipped)["streaming"].result == "pass"


def test_answers_that_lose_a_key_fact_or_repeat_themselves():
    record = made_ab("concurrency", (1, 4), (Truth(), Truth()))
    record.extra["answers"] = [
        {"arm": "A", "prompt": "fact", "text": "The capital of France is Paris.", "expected": ["Paris"]},
        {"arm": "B", "prompt": "fact", "text": "L'Étoile, " + "la France, " * 60},
    ]
    check = in_one(record)["answers"]
    assert check.result == "doubt"
    assert "Paris" in check.evidence
    assert "repeated" in check.evidence


def test_answers_compared():
    found = compare_answers("It was 42 km in Berlin, said Ada.", "It was 41 km in Berlin, said Ada.", ["ada"])
    assert not found.equal
    assert found.near
    assert found.lost == ["42"]
    assert "Berlin" in found.kept
    assert compare_answers("a  b", "a b").equal
    assert compare_answers("x", "y", ["Paris"]).missing == ["Paris"]
    assert not is_repetitive("The harbour froze and the old market town fell silent for a week. " * 2)


def test_memory_full_or_not_seen():
    record = made_ab("concurrency", (1, 4), (Truth(), Truth()))
    record.cells[0].memory = {"gpu": {"name": "RTX 4090", "kind": "gpu", "peak": 24000, "total": 24564}}
    assert "full" in in_one(record)["memory"].evidence
    for cell in record.cells:
        cell.memory = {}
    assert "not be observed" in in_one(record)["memory"].evidence


def test_a_cells_own_checks_are_stored_as_words():
    record = made_ab("concurrency", (1, 4), (Truth(), Truth(failed=3)))
    cell = next(cell for cell in record.cells if cell.arm == "B")
    stored = check_cell(cell, record)
    assert stored["client"] == "pass"
    assert stored["failures"].startswith("doubt: 3 of 20 requests failed (http_500 3)")
    assert check_cell(msgspec.structs.replace(cell, arm="Q"), record) == {}


def test_hostile_text_stays_harmless_in_evidence():
    evil = "vllm\x1b]52;c;evil\x07"
    found = of_two(made_run(rounds=4), with_server(version=evil))
    assert "\x1b" not in found["software"].evidence
    assert "\x07" not in found["software"].evidence
