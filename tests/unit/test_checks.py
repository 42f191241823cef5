"""Each row of the checks: it passes on sound sides, sees its trouble, and survives a record with nothing in it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_comparisons import BASE, SERVER, Truth, made_ab, made_run

from workbench.domain.checks import CHECKS, CheckResult, check_pair, check_side, pair_in, pair_of, sides_of
from workbench.domain.checks.side import differing, same_model, same_quant
from workbench.domain.record import CellTable, Record, SessionTable
from workbench.domain.variables import Setting

ROWS = (
    "one-variable",
    "model-identity",
    "precision",
    "tokenizer",
    "prompt",
    "output-length",
    "sampling",
    "warm-up",
    "failures",
    "cache",
    "concurrency",
    "hardware",
    "software",
    "sample-size",
    "drift",
    "jitter",
    "client",
    "streaming",
    "answers",
    "memory",
)


def in_one(record: Record, a: str = "A", b: str = "B") -> dict[str, CheckResult]:
    return {check.name: check for check in check_pair(pair_in(record, a, b))}


def of_two(a: Record, b: Record, rerun: bool = False) -> dict[str, CheckResult]:
    return {check.name: check for check in check_pair(pair_of(sides_of(a)["A"], sides_of(b)["A"], rerun))}


def with_server(**changes: Any) -> Record:
    """A second session on another server, whose facts are SERVER's but for the changes."""
    base = msgspec.structs.replace(BASE, base_url="http://127.0.0.1:9000/v1")
    return made_run(base=base, rounds=4, **{"id": "s1", "base_url": "http://127.0.0.1:9000/v1", **changes})


def test_sound_sides_pass_every_check():
    found = in_one(made_ab("concurrency", (1, 4), (Truth(), Truth())))
    assert {name: check.evidence for name, check in found.items() if check.result != "pass"} == {}
    assert tuple(found) == ROWS


def test_two_sound_sessions_pass_every_check():
    other = msgspec.structs.replace(BASE, concurrency=4)
    found = of_two(made_run(rounds=4), made_run(rounds=4, base=other))
    assert {name: check.evidence for name, check in found.items() if check.result != "pass"} == {}


def test_no_check_stumbles_over_a_record_with_nothing_in_it():
    bare = Record(
        session=SessionTable(id="x"), cells=[CellTable(id=1, round=1, arm="A"), CellTable(id=2, round=1, arm="B")]
    )
    assert len(check_pair(pair_in(bare, "A", "B"))) == len(CHECKS)
    broken = Record(
        session=SessionTable(id="x"),
        plan={"varied": "engine", "values": "nonsense", "prompts": ["x", {"name": "short"}], "limits": 4},
        environment={"server": ["x", {"id": 3, "quant": []}], "gpu": {"a": 1}, "host": 4, "software": None},
        cells=[
            CellTable(
                id=1,
                round=1,
                arm=arm,
                variables={"concurrency": "many"},
                evidence={"summary": 3, "throttle": "hot", "swap_in_mib": "x"},
                memory={"gpu": {"peak": "all"}},
                per_request={"outcome": ["ok"], "ttft_ms": []},
            )
            for arm in "AB"
        ],
        extra={"imported": "yes", "answers": 5},
    )
    assert len(check_pair(pair_in(broken, "A", "B"))) == len(CHECKS)
    assert check_side(sides_of(broken)["A"])


def test_unknown_is_a_doubt_where_two_servers_are_compared():
    bare = dict.fromkeys(("digest", "version", "kv_cache_type", "compute_type", "parameters"), "")
    found = of_two(with_server(**bare), made_run(rounds=4))
    for name in ("model-identity", "precision", "software"):
        assert found[name].result == "doubt", name
    assert "unknown" in found["precision"].evidence
    assert "version" in found["software"].evidence


def test_two_variables_can_not_be_attributed():
    other = msgspec.structs.replace(BASE, concurrency=4, max_tokens=64)
    found = of_two(made_run(rounds=4), made_run(rounds=4, base=other))
    check = found["one-variable"]
    assert check.result == "fail"
    assert set(check.takes) == {"ttft", "request_time", "decode_rate", "throughput", "capacity"}
    assert "max_tokens" in check.evidence
    assert "concurrency" in check.evidence


def test_nothing_flipped_passes_for_a_rerun_only():
    a, b = made_run(rounds=4), made_run(rounds=4)
    assert of_two(a, b, rerun=True)["one-variable"].result == "pass"
    assert of_two(a, b)["one-variable"].result == "doubt"


def test_addresses_are_no_differences():
    ollama = Setting(base_url="http://a/v1", engine="ollama", model="qwen2.5:7b", quant="F16")
    vllm = Setting(base_url="http://b/v1", engine="vllm", model="Qwen/Qwen2.5-7B-Instruct", quant="float16")
    sides = [sides_of(made_run(base=setting, **_facts(setting)))["A"] for setting in (ollama, vllm)]
    assert differing(*sides) == ("engine",)


def _facts(setting: Setting) -> dict[str, Any]:
    return {"engine": setting.engine, "quant": setting.quant, "model": setting.model, "base_url": setting.base_url}


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("qwen2.5:7b", "Qwen/Qwen2.5-7B-Instruct", True),
        ("llama3", "meta/llama3.1-8b", False),
        ("llama3:8b", "llama3:70b", False),
        ("smollm2-135m-q8_0", "/models/SmolLM2-135M-Instruct.Q4_1.gguf", True),
        ("", "", False),
    ],
)
def test_model_ids_that_may_name_one_model(a: str, b: str, same: bool):
    assert same_model(a, b) is same


def test_on_one_server_two_ids_are_two_models_unless_their_digest_is_one():
    other = msgspec.structs.replace(BASE, model="qwen2.5-7b-instruct")
    ids = [sides_of(made_run(base=base, digest=""))["A"] for base in (BASE, other)]
    assert differing(*ids) == ("model",)
    alike = [sides_of(made_run(base=base, digest="aa"))["A"] for base in (BASE, other)]
    assert differing(*alike) == ()


def test_quantization_spellings():
    assert same_quant("Q4_K - Medium", "q4_k_m")
    assert same_quant("F16", "float16")
    assert not same_quant("Q4_K_M", "Q4_K_S")


def test_another_digest_fails_unless_it_follows():
    found = of_two(made_run(rounds=4), with_server(digest="bb22"))
    assert found["model-identity"].result == "fail"
    quants = made_ab(
        "quant",
        ("Q8_0", "F16"),
        (Truth(), Truth(server="s2")),
        servers=[SERVER, {**SERVER, "id": "s2", "quant": "F16", "digest": "bb22"}],
    )
    assert in_one(quants)["model-identity"].result == "pass"


def test_a_fingerprint_supports_and_never_refutes():
    same = of_two(made_run(rounds=4, digest="", fingerprint="f1"), with_server(digest="", fingerprint="f1"))
    assert same["model-identity"].result == "pass"
    other = of_two(made_run(rounds=4, digest="", fingerprint="f1"), with_server(digest="", fingerprint="f2"))
    assert other["model-identity"].result == "doubt"
    assert "proves nothing" in other["model-identity"].evidence


@pytest.mark.parametrize(
    ("fact", "value", "result"),
    [
        ("quant", "Q4_0", "fail"),
        ("kv_cache_type", "q8_0", "fail"),
        ("kv_cache_type", "auto", "doubt"),
        ("compute_type", "bfloat16", "doubt"),
        ("format", "safetensors", "pass"),
    ],
)
def test_precision_that_changed_with_the_engine(fact: str, value: str, result: str):
    vllm = {**SERVER, "id": "s2", "engine": "vllm", "format": "gguf", fact: value}
    record = made_ab(
        "engine",
        ("llama.cpp", "vllm"),
        (Truth(), Truth(server="s2")),
        servers=[{**SERVER, "format": "gguf"}, vllm],
    )
    assert in_one(record)["precision"].result == result


def test_the_weight_format_may_not_change_by_itself():
    found = of_two(made_run(rounds=4, format="gguf"), with_server(format="safetensors"))
    assert found["precision"].result == "fail"


def test_tokenizer_by_probe_and_by_the_prompts_counts():
    probed = of_two(made_run(rounds=4, tokenizer_probe=[4, 9]), with_server(tokenizer_probe=[4, 14]))
    assert probed["tokenizer"].result == "doubt"
    assert "characters" in probed["tokenizer"].evidence
    alike = of_two(made_run(rounds=4, tokenizer_probe=[4, 9]), with_server(tokenizer_probe=[4, 9]))
    assert alike["tokenizer"].result == "pass"
    base = msgspec.structs.replace(BASE, base_url="http://127.0.0.1:9000/v1")
    counted = of_two(
        made_run(Truth(prompt_tokens=500), rounds=4), made_run(Truth(prompt_tokens=800), rounds=4, base=base)
    )
    assert counted["tokenizer"].result == "doubt"
    assert "different numbers" in counted["tokenizer"].evidence


def test_a_cut_prompt_fails():
    record = made_ab("concurrency", (1, 4), (Truth(prompt_tokens=2050), Truth(prompt_tokens=2050)))
    record.plan["prompts"] = [{"name": "short", "characters": 31000, "tokens": 7900, "token_source": "tokenizer"}]
    check = in_one(record)["prompt"]
    assert check.result == "fail"
    assert "7900" in check.evidence
    assert "2050" in check.evidence


def test_a_tiny_prompt_is_doubted():
    record = made_ab("concurrency", (1, 4), (Truth(prompt_tokens=12), Truth(prompt_tokens=12)))
    record.plan["prompts"] = [{"name": "short", "characters": 30, "tokens": 11, "token_source": "tokenizer"}]
    check = in_one(record)["prompt"]
    assert check.result == "doubt"
    assert "12 tokens" in check.evidence


def test_output_length_doubts_unless_it_follows():
    truths = (Truth(tokens=256), Truth(tokens=200))
    assert in_one(made_ab("concurrency", (1, 4), truths))["output-length"].result == "doubt"
    assert in_one(made_ab("max_tokens", (256, 200), truths))["output-length"].result == "pass"
    near = (Truth(tokens=256), Truth(tokens=250))
    assert in_one(made_ab("concurrency", (1, 4), near))["output-length"].result == "pass"


def test_sampling_that_was_not_the_flip_fails():
    settings = (BASE, msgspec.structs.replace(BASE, concurrency=4, temperature=0.7))
    found = in_one(made_ab("concurrency", (1, 4), (Truth(), Truth()), settings=settings))
    assert found["sampling"].result == "fail"
    assert "temperature" in found["sampling"].evidence
    assert in_one(made_ab("temperature", (0.0, 0.7), (Truth(), Truth())))["sampling"].result == "pass"


def test_warm_up_left_out_and_a_first_request_that_loads():
    found = in_one(made_ab("concurrency", (1, 4), (Truth(warmup=0, first_factor=12), Truth())))["warm-up"]
    assert found.result == "doubt"
    assert "no warm-up" in found.evidence
    assert "first measured request" in found.evidence
