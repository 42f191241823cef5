"""Other tools' files as records: the tool's own figures, its failures, its definitions, and nothing it doesn't say."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from workbench.domain.compare import compare_records, judge_record
from workbench.domain.record import Record, from_table, to_table
from workbench.domain.variables import BadInput
from workbench.records.imports import common, import_file

FILES = Path(__file__).parent.parent / "imports"
MADE = FILES / "made"
EVERY = sorted([*FILES.glob("*.json"), *MADE.glob("*.json*")])


def imported(record: Record) -> dict[str, Any]:
    return record.extra["imported"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_every_file_becomes_a_record_that_survives_saving(path: Path):
    record = import_file(path)
    table = to_table(record)
    again = from_table(tomllib.loads(tomli_w.dumps(table)))
    assert to_table(again) == table
    assert imported(record)["tool"]
    assert imported(record)["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert imported(record)["differences_of_definition"]
    assert all(cell.evidence["summary_of"] == imported(record)["tool"] for cell in record.cells)
    assert "someone" not in json.dumps(table, default=str), "a folder of the other machine"
    compare_records(record, record)


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("guidellm-0.8.1.json", "guidellm"),
        ("aiperf-0.13.0.json", "aiperf"),
        ("llama-benchy-0.4.0.json", "llama-benchy"),
        ("made/guidellm-v1.json", "guidellm"),
        ("made/genai-perf.json", "genai-perf"),
        ("made/aiperf-nanoseconds.json", "aiperf"),
        ("made/vllm-plain.json", "vllm bench serve"),
        ("made/vllm-detailed.json", "vllm bench serve"),
        ("made/vllm-appended.json", "vllm bench serve"),
        ("made/sglang.jsonl", "sglang bench_serving"),
        ("made/llama-bench.json", "llama-bench"),
        ("made/llama-bench.jsonl", "llama-bench"),
    ],
)
def test_each_format_is_known_for_what_it_is(name: str, tool: str):
    assert imported(import_file(FILES / name))["tool"] == tool


def test_guidellm_figures_are_its_own():
    source = json.loads((FILES / "guidellm-0.8.1.json").read_text())
    record = import_file(FILES / "guidellm-0.8.1.json")
    assert imported(record)["version"] == "0.8.1"
    assert (record.plan["varied"], record.plan["values"]) == ("concurrency", [2, 4])
    for cell, benchmark in zip(record.cells, source["benchmarks"], strict=True):
        told = benchmark["metrics"]
        ttft = told["time_to_first_token_ms"]["successful"]
        assert cell.stats["ttft_ms"].p50 == ttft["median"]
        assert cell.stats["ttft_ms"].mean == ttft["mean"]
        assert cell.stats["ttft_ms"].p95 == ttft["percentiles"]["p95"]
        assert cell.stats["total_ms"].mean == pytest.approx(told["request_latency"]["successful"]["mean"] * 1000)
        assert cell.stats["tpot_ms"].mean == told["inter_token_latency_ms"]["successful"]["mean"]
        assert cell.throughput == told["output_tokens_per_second"]["successful"]["mean"]
        assert (cell.ok, cell.failed) == (10, 0)
        assert len(cell.per_request["ttft_ms"]) == 10
        # The simulator's truth: TTFT 60 ms, a token each 5 ms.
        assert cell.stats["ttft_ms"].p50 == pytest.approx(60, abs=5)
        assert cell.stats["decode_rate"].p50 == pytest.approx(200, rel=0.02)


def test_a_guidellm_ladder_has_a_verdict():
    verdict = judge_record(import_file(FILES / "guidellm-0.8.1.json"))
    assert verdict is not None
    assert verdict.kinds["throughput"].call == "faster"
    assert verdict.kinds["ttft"].call == "no difference shown"


def test_guidellm_version_1():
    record = import_file(MADE / "guidellm-v1.json")
    assert imported(record)["version"] == "report version 1"
    first = record.cells[0]
    assert (first.ok, first.failed, first.cancelled) == (20, 1, 2)
    assert first.window_s == 30
    assert first.stats["ttft_ms"].mean == 41.2
    assert first.stats["total_ms"].mean == pytest.approx(6200)
    assert first.per_request == {}, "a sample of the requests is not all of them"
    assert first.variables == {"concurrency": 1, "model": "org/m"}


def test_aiperf_figures_are_its_own_with_their_units():
    source = json.loads((FILES / "aiperf-0.13.0.json").read_text())
    cell = import_file(FILES / "aiperf-0.13.0.json").cells[0]
    assert cell.stats["ttft_ms"].p50 == source["time_to_first_token"]["p50"]
    assert cell.stats["total_ms"].max == source["request_latency"]["max"]
    assert cell.throughput == source["output_token_throughput"]["avg"]
    assert cell.window_s == pytest.approx(source["benchmark_duration"]["avg"])
    assert (cell.ok, cell.failed) == (12, 0)
    assert cell.variables == {"concurrency": 4, "model": "simulated", "stream": True}


def test_aiperf_counting_otherwise_than_the_server_is_named():
    differences = imported(import_file(FILES / "aiperf-0.13.0.json"))["differences_of_definition"]
    assert "it counted 93 output tokens a reply where the server reported 24" in differences


def test_the_unit_decides_and_not_the_name():
    cell = import_file(MADE / "aiperf-nanoseconds.json").cells[0]
    assert cell.stats["total_ms"].mean == pytest.approx(900)
    assert cell.stats["ttft_ms"].p50 == pytest.approx(59)
    assert (cell.ok, cell.failed, cell.success_rate) == (40, 3, pytest.approx(40 / 43))


def test_genai_perf():
    cell = import_file(MADE / "genai-perf.json").cells[0]
    assert cell.stats["ttft_ms"].p95 == 62
    assert cell.stats["ttft_ms"].n == 40
    assert cell.variables == {"concurrency": 4, "model": "org/m", "stream": True}


def test_llama_benchy_figures_are_its_own():
    source = json.loads((FILES / "llama-benchy-0.4.0.json").read_text())
    record = import_file(FILES / "llama-benchy-0.4.0.json")
    for cell, benchmark in zip(record.cells, source["benchmarks"], strict=True):
        assert cell.evidence["summary"]["ttft_ms"]["mean"] == benchmark["e2e_ttft"]["mean"]
        assert cell.evidence["summary"]["decode_rate"]["mean"] == benchmark["tg_req_throughput"]["mean"]
        assert cell.evidence["summary"]["generation_throughput"]["mean"] == benchmark["tg_throughput"]["mean"]
        assert cell.throughput is None, "its rate covers the generation phase only"
        assert cell.stats["decode_rate"].p50 == pytest.approx(200, rel=0.02)


def test_vllm_plain_states_no_p95_and_so_there_is_none():
    cell = import_file(MADE / "vllm-plain.json").cells[0]
    assert cell.stats == {}
    assert cell.evidence["summary"]["ttft_ms"] == {"mean": 88.1, "p50": 81.0, "std": 20.5, "p99": 214.0}
    assert (cell.requests, cell.ok, cell.failed) == (200, 198, 2)
    assert cell.throughput == 612.4
    assert cell.goodput is None
    assert cell.started == "2026-08-20T10:15:00"


def test_vllm_summaries_can_be_compared_without_an_interval():
    found = compare_records(import_file(MADE / "vllm-plain.json"), import_file(MADE / "vllm-appended.json"))
    assert found.kinds["ttft"].a == pytest.approx(81)
    assert found.kinds["ttft"].call == "undecided"
    assert found.kinds["ttft"].low is None


def test_vllm_detailed_leaves_failed_requests_out_of_the_times():
    cell = import_file(MADE / "vllm-detailed.json").cells[0]
    assert cell.per_request["outcome"] == ["ok", "ok", "failed", "ok"]
    assert cell.per_request["ttft_ms"] == [80, 100, None, 90]
    assert cell.stats["ttft_ms"].min == 80
    assert cell.per_request["total_ms"][1] == pytest.approx(180)
    assert cell.per_request["decode_rate"][0] == pytest.approx(100)
    assert cell.per_request["tpot_ms"][1] == pytest.approx(20)
    assert "\x1b" not in cell.per_request["error"][2]


def test_vllm_appended_runs_are_rounds_and_rungs():
    record = import_file(MADE / "vllm-appended.json")
    assert [(cell.arm, cell.round) for cell in record.cells] == [("A", 1), ("A", 2), ("B", 1)]
    assert (record.plan["varied"], record.plan["values"]) == ("concurrency", [8, 16])


def test_sglang():
    record = import_file(MADE / "sglang.jsonl")
    cell = record.cells[0]
    assert cell.evidence["summary"]["total_ms"]["p50"] == 3650
    assert cell.evidence["summary"]["output_tokens_retokenized"]["mean"] == pytest.approx(8100 / 64)
    assert record.environment["server"][0]["model"] == "qwen2.5-7b-instruct"
    assert cell.failed == 0


def test_llama_bench_repetitions_are_rounds_and_prefill_is_no_ttft():
    record = import_file(MADE / "llama-bench.json")
    decode = [cell for cell in record.cells if "decode_rate" in cell.stats]
    assert [cell.stats["decode_rate"].p50 for cell in decode] == [120.5, 121.0, 119.5]
    assert not any("ttft_ms" in cell.stats for cell in record.cells)
    server = record.environment["server"][0]
    assert server["quant"] == "Q4_K - Medium"
    assert server["version"] == "b6321 8f91ca54e"
    assert server["model"] == "qwen2.5-7b-q4_k_m.gguf"
    assert record.environment["gpu"] == [{"name": "RTX 4090"}]


def test_two_llama_bench_files_are_judged_on_decode_alone(tmp_path: Path):
    rows = [json.loads(line) for line in (MADE / "llama-bench.jsonl").read_text().splitlines()]
    for name, row in zip(("q4", "q8"), rows, strict=True):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    found = compare_records(import_file(tmp_path / "q4.jsonl"), import_file(tmp_path / "q8.jsonl"))
    assert found.kinds["decode_rate"].call == "slower"
    assert found.kinds["ttft"].call == "not comparable"
    assert found.flipped == "quant"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"not json", "no JSON that can be read, from line 1"),
        (b'{"a": 1}\n{"b": ', "from line 2"),
        (b"\xff\xfe\x00", "not a text file"),
        (b'{"hello": "world"}', "not a result file of guidellm"),
        (b"[" * 100_000, "no JSON that can be read"),
        (b'{"benchmarks": []}', "not a result file"),
        (b'{"metadata": {"guidellm_version": "1"}, "benchmarks": [3]}', ""),
        (
            b'{"completed": "many", "output_throughput": [], "itls": 3, "ttfts": [null, {}, "x"], "max_concurrency": -1}',
            "",
        ),
        (b'[{"n_gen": "x", "avg_ts": null}]', "no finished run"),
        (b'{"request_latency": {"unit": "fortnights", "avg": 1}}', ""),
        (b'{"benchmarks": [{"tg_throughput": 3, "concurrency": "x"}]}', ""),
        (b'{"completed": 1e400, "output_throughput": NaN, "duration": -Infinity}', ""),
    ],
)
def test_broken_files_are_refused_in_one_line_or_read_for_what_they_say(tmp_path: Path, content: bytes, says: str):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    if says:
        with pytest.raises(BadInput) as refused:
            import_file(path)
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)
        assert "x.json" in str(refused.value)
    else:
        record = import_file(path)
        tomli_w.dumps(to_table(record))
        compare_records(record, record)


def test_a_file_that_is_not_there_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BadInput, match="No such file"):
        import_file(tmp_path / "none.json")
    monkeypatch.setattr(common, "LARGEST", 10)
    (tmp_path / "big.json").write_text(" " * 11)
    with pytest.raises(BadInput, match="more than is read"):
        import_file(tmp_path / "big.json")
    (tmp_path / "x.yaml").write_text("a: 1")
    with pytest.raises(BadInput, match="YAML"):
        import_file(tmp_path / "x.yaml")


def test_what_a_file_does_not_state_is_unknown_and_not_a_default():
    a, b = import_file(MADE / "vllm-plain.json"), import_file(MADE / "genai-perf.json")
    found = compare_records(a, b)
    assert "max_tokens" not in found.differing
    assert "temperature" not in found.differing
    check = next(check for check in found.checks if check.name == "one-variable")
    assert "not stated" in check.evidence
