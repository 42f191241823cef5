"""Records for comparisons, built from a handful of true figures with seeded noise; not measured anywhere."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from workbench.domain.cell import stats_of
from workbench.domain.plan import Plan, arm_name, interleaved, plan_table
from workbench.domain.record import CellTable, Record, SessionTable
from workbench.domain.variables import Setting, assignment, with_value

BASE = Setting(
    base_url="http://127.0.0.1:8000/v1", engine="llama.cpp", model="qwen2.5-7b", quant="Q8_0", max_tokens=256
)
SERVER = {
    "id": "s1",
    "engine": "llama.cpp",
    "version": "b10488",
    "model": "qwen2.5-7b",
    "digest": "aa11",
    "quant": "Q8_0",
    "kv_cache_type": "f16",
    "compute_type": "f16",
    "context": 8192,
    "slots": 32,
    "parameters": 7_615_616_512,
    "base_url": "http://127.0.0.1:8000/v1",
}
HOST = {"cpu": "Some CPU", "memory_mib": 64000}
GPU = {"name": "RTX 4090", "memory_mib": 24564, "driver": "570.1", "power_limit_w": 450.0}
PROMPTS = [{"name": "short", "sha256": "ab" * 32, "characters": 400, "tokens": 90, "token_source": "tokenize"}]


class Truth(msgspec.Struct, kw_only=True):
    """What one side is really like. Times in ms, rates in tokens/s; `first_factor` slows the arm's very first request."""

    ttft_ms: float = 200.0
    rate: float = 60.0
    tokens: int = 256
    characters_a_token: float = 4.0
    prompt_tokens: int = 100
    cached_tokens: int | None = 0
    failed: int = 0
    error: str = "http_500"
    empty: int = 0
    warmup: int = 3
    first_factor: float = 1.0
    throughput: float | None = None
    drift: float = 0.0
    client: dict[str, Any] = {}
    decode_absent: str = ""
    server: str = "s1"
    noise: float = 0.02


def made_cell(number: int, setting: Setting, truth: Truth, *, arm: str, round_: int, n: int = 20) -> CellTable:
    """A cell whose requests are the truth, give or take its noise (per round and per request)."""
    rng = Random(f"{number} {arm} {round_}")
    shared = 1 + rng.gauss(0, truth.noise)
    columns: dict[str, list[Any]] = {
        name: []
        for name in (
            "started_ms",
            "ttft_ms",
            "total_ms",
            "output_tokens",
            "prompt_tokens",
            "cached_tokens",
            "decode_rate",
            "tpot_ms",
            "characters",
            "prompt",
            "finish",
            "outcome",
            "error",
        )
    }
    for index in range(n):
        failed = index >= n - truth.failed
        wobble = shared * (1 + rng.gauss(0, truth.noise)) * (1 + truth.drift * index / n)
        if index == 0 and round_ == 1:
            wobble *= truth.first_factor
        ttft, rate = truth.ttft_ms * wobble, truth.rate / wobble
        tpot = 1000 / rate
        row = {
            "started_ms": 100.0 * index,
            "ttft_ms": ttft,
            "total_ms": ttft + (truth.tokens - 1) * tpot,
            "output_tokens": truth.tokens,
            "prompt_tokens": truth.prompt_tokens,
            "cached_tokens": truth.cached_tokens,
            "decode_rate": None if truth.decode_absent else rate,
            "tpot_ms": None if truth.decode_absent else tpot,
            "characters": int(truth.tokens * truth.characters_a_token),
        }
        for name, value in row.items():
            columns[name].append(None if failed and name != "started_ms" else value)
        columns["prompt"].append("short")
        columns["finish"].append("none" if failed else "length")
        columns["outcome"].append("failed" if failed else "ok")
        columns["error"].append(f"{truth.error}: boom" if failed else "")
    stats = {}
    for name in ("ttft_ms", "total_ms", "output_tokens", "prompt_tokens", "cached_tokens", "decode_rate", "tpot_ms"):
        found = stats_of(columns[name])
        if found is not None:
            stats[name] = found
    ok = n - truth.failed
    each = (truth.ttft_ms + (truth.tokens - 1) * 1000 / truth.rate) / 1000
    throughput = truth.throughput if truth.throughput is not None else setting.concurrency * truth.tokens / each
    return CellTable(
        id=number,
        round=round_,
        arm=arm,
        server=truth.server,
        variables=assignment(setting),
        requests=n,
        ok=ok,
        failed=truth.failed,
        empty=truth.empty,
        success_rate=ok / n,
        in_flight_peak=setting.concurrency,
        token_source="usage",
        throughput=throughput / shared if ok else None,
        stats=stats,
        errors={truth.error: truth.failed} if truth.failed else {},
        decode_absent={truth.decode_absent: ok} if truth.decode_absent else {},
        warmup=truth.warmup if round_ == 1 else 1,
        client={"lag_p99_ms": 0.4, "cpu_share": 0.1, "limited": "", **truth.client},
        memory={"gpu": {"name": "RTX 4090", "kind": "gpu", "peak": 18000, "total": 24564}},
        per_request=columns,
    )


def made_ab(
    varied: str,
    values: tuple[Any, ...],
    truths: tuple[Truth, ...],
    *,
    rounds: int = 6,
    n: int = 20,
    base: Setting = BASE,
    servers: list[dict[str, Any]] | None = None,
    settings: tuple[Setting, ...] | None = None,
    limits: dict[str, float] | None = None,
    order: tuple[str, ...] | None = None,
    **plan: Any,
) -> Record:
    """An A/B (or a sweep) over one variable. `settings` overrides what each arm really ran with."""
    arms = [arm_name(index) for index in range(len(values))]
    order = order or interleaved(len(values), rounds, 0, counterbalance=len(values) == 2)
    made = Plan(
        baseline=base, varied=varied, values=values, rounds=rounds, order=order, limits=limits or {}, requests=n, **plan
    )
    seen: dict[str, int] = {}
    cells = []
    for index, arm in enumerate(order):
        seen[arm] = seen.get(arm, 0) + 1
        which = arms.index(arm)
        setting = settings[which] if settings else with_value(base, varied, values[which])
        cells.append(made_cell(index + 1, setting, truths[which], arm=arm, round_=seen[arm], n=n))
    return Record(
        session=SessionTable(id="20261201T000000Z-qwen2-5-7b-abcd", name="made", started="2026-12-01T00:00:00+00:00"),
        plan={**plan_table(made), "prompts": PROMPTS},
        environment={"host": dict(HOST), "gpu": [dict(GPU)], "server": servers or [dict(SERVER)]},
        cells=cells,
    )


def made_run(
    truth: Truth | None = None, *, rounds: int = 1, n: int = 20, base: Setting = BASE, **changes: Any
) -> Record:
    """One setting, measured alone. `changes`: facts of its server that are other than SERVER's."""
    cells = [made_cell(k + 1, base, truth or Truth(), arm="A", round_=k + 1, n=n) for k in range(rounds)]
    return Record(
        session=SessionTable(id="20261201T000000Z-qwen2-5-7b-0001", name="", started="2026-12-01T00:00:00+00:00"),
        plan={**plan_table(Plan(baseline=base, rounds=rounds, requests=n, order=("A",) * rounds)), "prompts": PROMPTS},
        environment={"host": dict(HOST), "gpu": [dict(GPU)], "server": [{**SERVER, **changes}]},
        cells=cells,
    )
