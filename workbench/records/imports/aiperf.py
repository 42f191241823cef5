"""AIPerf's profile_export_aiperf.json and GenAI-Perf's profile_export_genai_perf.json: metrics, each with its unit."""

from __future__ import annotations

from typing import Any

from workbench.records.imports.common import (
    OWN_CLOCK,
    Result,
    Run,
    Table,
    count,
    list_of,
    model_name,
    real,
    statistics,
    table_of,
    words,
)

NAMES = {
    "n": "count",
    "mean": "avg",
    "p50": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "min": "min",
    "max": "max",
    "std": "std",
}
TIMES = {
    "time_to_first_token": "ttft_ms",
    "time_to_first_output_token": "ttfa_ms",
    "request_latency": "total_ms",
    "inter_token_latency": "tpot_ms",
}
COUNTS = {"output_sequence_length": "output_tokens", "input_sequence_length": "prompt_tokens"}
TO_MS = {
    "ns": 1e-6,
    "nanoseconds": 1e-6,
    "us": 1e-3,
    "microseconds": 1e-3,
    "ms": 1.0,
    "milliseconds": 1.0,
    "s": 1e3,
    "sec": 1e3,
    "seconds": 1e3,
}
UNLIKE = 0.05
DIFFERENCES = [
    OWN_CLOCK,
    "tpot_ms is its inter_token_latency",
    "lengths are counted by its own tokenizer unless it was told to use the server's counts",
]


def recognise(found: list[Any]) -> bool:
    """Whether the file is such an export."""
    if len(found) != 1:
        return False
    metrics = _metrics(table_of(found[0]))
    latency = table_of(metrics.get("request_latency"))
    return "unit" in latency and "avg" in latency


def _metrics(top: Table) -> Table:
    """The metrics: at the top, or under one table in some older files."""
    if "request_latency" in top:
        return top
    return next((value for value in top.values() if isinstance(value, dict) and "request_latency" in value), {})


def read(found: list[Any]) -> Result:
    """The export as one cell."""
    top = table_of(found[0])
    metrics = _metrics(top)
    ours = "aiperf_version" in top or "schema_version" in top
    config = table_of(top.get("input_config"))
    variables: dict[str, Any] = {}
    concurrency = _concurrency(config)
    if concurrency:
        variables["concurrency"] = concurrency
    model = _model(config)
    if model:
        variables["model"] = model
    streaming = _find(config, "streaming")
    if isinstance(streaming, bool):
        variables["stream"] = streaming
    ok, failed = _single(metrics, "request_count"), _single(metrics, "error_request_count")
    run = Run(
        variables=variables,
        ok=count(ok),
        # Where there were no errors the count is left out, by AIPerf; GenAI-Perf never tells.
        failed=count(failed) if failed is not None else (0 if ours else None),
        window_s=_time_s(metrics, "benchmark_duration"),
        throughput=_single(metrics, "output_token_throughput"),
        request_rate=_single(metrics, "request_throughput"),
        goodput=_single(metrics, "goodput"),
        started=words(top.get("start_time"), 40),
        label="",
    )
    for theirs, name in TIMES.items():
        source = table_of(metrics.get(theirs))
        factor = TO_MS.get(words(source.get("unit")).casefold())
        if factor is not None:
            _keep(run, name, statistics(source, NAMES, factor), ok)
    for theirs, name in COUNTS.items():
        _keep(run, name, statistics(table_of(metrics.get(theirs)), NAMES), ok)
    tpot = run.summary.get("tpot_ms", {}).get("p50")
    if tpot:
        run.summary["decode_rate"] = {"p50": 1000 / tpot}
    differences = list(DIFFERENCES)
    if tpot:
        differences.append("the decode rate is 1000 / the median of its inter_token_latency")
    own, told = _single(metrics, "output_sequence_length"), _single(metrics, "usage_completion_tokens")
    if own and told and abs(own / told - 1) > UNLIKE:
        differences.append(f"it counted {own:.0f} output tokens a reply where the server reported {told:.0f}")
    return Result(
        tool="aiperf" if ours else "genai-perf",
        version=words(top.get("aiperf_version"), 40),
        runs=[run],
        differences=differences,
        servers=[{"model": model}] if model else [],
        started=words(top.get("start_time"), 40),
        finished=words(top.get("end_time"), 40),
    )


def _keep(run: Run, name: str, summary: dict[str, float], requests: float | None) -> None:
    if not summary:
        return
    if "n" not in summary and requests:
        summary["n"] = requests
    run.summary[name] = summary


def _single(metrics: Table, name: str) -> float | None:
    return real(table_of(metrics.get(name)).get("avg"))


def _time_s(metrics: Table, name: str) -> float | None:
    source = table_of(metrics.get(name))
    factor = TO_MS.get(words(source.get("unit")).casefold())
    value = real(source.get("avg"))
    return None if factor is None or value is None else value * factor / 1000


def _find(config: Any, name: str, depth: int = 6) -> Any:
    """The first value of a name in a nested configuration."""
    inner = list(config.values()) if isinstance(config, dict) else list_of(config)
    if isinstance(config, dict) and name in config:
        return config[name]
    for value in inner if depth else ():
        found = _find(value, name, depth - 1)
        if found is not None:
            return found
    return None


def _concurrency(config: Table) -> int | None:
    found = _find(config, "concurrency")
    return count(found[0] if isinstance(found, list) and len(found) == 1 else found)


def _model(config: Table) -> str:
    for name in ("model_names", "model", "models"):
        found = _find(config, name)
        if isinstance(found, dict):
            found = found.get("items", found.get("name"))
        if isinstance(found, list) and found:
            found = found[0]
        if isinstance(found, dict):
            found = found.get("name")
        if words(found):
            return model_name(found)
    return ""
