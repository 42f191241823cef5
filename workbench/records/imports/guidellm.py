"""guidellm's benchmarks.json, report versions 1 and 2 (guidellm before and since 0.4)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from workbench.domain.text import one_line
from workbench.records.imports.common import (
    OWN_CLOCK,
    Result,
    Run,
    Table,
    count,
    list_of,
    model_name,
    real,
    scaled,
    statistics,
    table_of,
    words,
)

NAMES = {"n": "count", "mean": "mean", "p50": "median", "min": "min", "max": "max", "std": "std_dev"}
TAILS = {"p95": "p95", "p99": "p99", "p90": "p90"}
FIGURES = {
    "time_to_first_token_ms": ("ttft_ms", 1.0),
    "request_latency": ("total_ms", 1000.0),
    "inter_token_latency_ms": ("tpot_ms", 1.0),
    "output_token_count": ("output_tokens", 1.0),
    "prompt_token_count": ("prompt_tokens", 1.0),
}
DIFFERENCES = [
    OWN_CLOCK,
    "tpot_ms is guidellm's inter_token_latency_ms: its time_per_output_token_ms includes the TTFT",
    "its total_ms ends with the request, not with the last output",
    "a request without a value counts as 0 in its own distributions",
    "durations are differences of wall-clock times",
    "throughput is the mean of guidellm's output_tokens_per_second",
]


def recognise(found: list[Any]) -> bool:
    """Whether the file is a guidellm report."""
    top = table_of(found[0])
    benchmarks = list_of(top.get("benchmarks"))
    if len(found) != 1 or not benchmarks:
        return False
    first = table_of(benchmarks[0])
    return "guidellm_version" in table_of(top.get("metadata")) or (
        "metrics" in first and ("run_stats" in first or "scheduler_metrics" in first or "type_" in first)
    )


def read(found: list[Any]) -> Result:
    """The report's benchmarks, one a cell."""
    top = table_of(found[0])
    metadata = table_of(top.get("metadata"))
    benchmarks = [table_of(item) for item in list_of(top.get("benchmarks"))]
    runs = [_run(item) for item in benchmarks]
    models = [name for item in benchmarks if (name := _model(item))]
    return Result(
        tool="guidellm",
        version=words(metadata.get("guidellm_version"), 40)
        or f"report version {words(str(metadata.get('version', 1)), 8)}",
        runs=runs,
        differences=DIFFERENCES,
        servers=[{"model": models[0]}] if models else [],
        started=runs[0].started if runs else "",
    )


def _run(item: Table) -> Run:
    metrics = table_of(item.get("metrics"))
    strategy = table_of(table_of(item.get("config")).get("strategy")) or table_of(
        table_of(item.get("args")).get("strategy")
    )
    totals = _totals(item, metrics)
    variables: dict[str, Any] = {}
    kind = words(strategy.get("type_"), 40)
    streams = 1 if kind == "synchronous" else count(strategy.get("streams"))
    if streams:
        variables["concurrency"] = streams
    model = _model(item)
    if model:
        variables["model"] = model
    rate = real(strategy.get("rate")) or real(strategy.get("initial_rate"))
    started, ended = real(item.get("start_time")), real(item.get("end_time"))
    duration = real(item.get("duration"))
    if duration is None and started is not None and ended is not None:
        duration = ended - started
    run = Run(
        variables=variables,
        ok=totals.get("successful"),
        failed=totals.get("errored"),
        cancelled=totals.get("incomplete") or 0,
        requests=totals.get("total"),
        started=_stamp(started),
        window_s=duration if duration and duration > 0 else None,
        throughput=_mean(metrics, "output_tokens_per_second"),
        request_rate=_mean(metrics, "requests_per_second"),
        label="" if streams else f"{kind} {rate:g}" if rate else kind,
    )
    for theirs, (ours, factor) in FIGURES.items():
        summary = table_of(table_of(metrics.get(theirs)).get("successful"))
        found = statistics(summary, NAMES, factor) | statistics(table_of(summary.get("percentiles")), TAILS, factor)
        if found.get("n", 1):
            run.summary[ours] = found
    run.columns = _columns(table_of(item.get("requests")))
    if run.columns and "outcome" in run.columns and run.ok is not None and run.columns["outcome"].count("ok") < run.ok:
        run.columns = {}  # the report holds a sample of its requests only: its own statistics are of all of them
    return run


def _totals(item: Table, metrics: Table) -> dict[str, int]:
    for place in (
        table_of(metrics.get("request_totals")),
        table_of(item.get("request_totals")),
        table_of(table_of(item.get("scheduler_metrics")).get("requests_made")),
        table_of(table_of(item.get("run_stats")).get("requests_made")),
    ):
        found = {
            name: number
            for name in ("successful", "incomplete", "errored", "total")
            if (number := count(place.get(name))) is not None
        }
        if found:
            return found
    return {}


def _mean(metrics: Table, name: str) -> float | None:
    value = real(table_of(table_of(metrics.get(name)).get("successful")).get("mean"))
    return value if value and value > 0 else None


def _model(item: Table) -> str:
    for place in (
        table_of(table_of(item.get("config")).get("backend")),
        table_of(item.get("benchmarker")),
        table_of(item.get("worker")),
    ):
        for name in ("model", "backend_model"):
            if words(place.get(name)):
                return model_name(place.get(name))
    return ""


def _stamp(seconds: float | None) -> str:
    try:
        return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        return ""


def _columns(requests: Table) -> dict[str, list[Any]]:
    """Per-request figures: ok ones with their times, errored ones with none."""
    rows = []
    start = None
    for status, outcome in (("successful", "ok"), ("errored", "failed"), ("incomplete", "cancelled")):
        for item in list_of(requests.get(status)):
            row = table_of(item)
            at = real(row.get("request_start_time")) or real(row.get("start_time"))
            rows.append((at, outcome, row))
            if at is not None:
                start = at if start is None else min(start, at)
    rows.sort(key=lambda each: (each[0] is None, each[0] or 0.0))
    names = (
        "started_ms",
        "ttft_ms",
        "total_ms",
        "tpot_ms",
        "decode_rate",
        "output_tokens",
        "prompt_tokens",
        "cached_tokens",
    )
    columns: dict[str, list[Any]] = {name: [] for name in (*names, "outcome", "error")}
    for at, outcome, row in rows:
        ok = outcome == "ok"
        tpot = real(row.get("inter_token_latency_ms")) if ok else None
        columns["started_ms"].append(None if at is None or start is None else (at - start) * 1000)
        columns["ttft_ms"].append(_above(real(row.get("time_to_first_token_ms"))) if ok else None)
        columns["total_ms"].append(_above(scaled(row.get("request_latency"), 1000.0)) if ok else None)
        columns["tpot_ms"].append(_above(tpot))
        columns["decode_rate"].append(1000 / tpot if tpot and tpot > 0 else None)
        for name in ("output_tokens", "prompt_tokens", "cached_tokens"):
            columns[name].append(count(row.get(name)) if ok else None)
        columns["outcome"].append(outcome)
        columns["error"].append(_error(row) if outcome == "failed" else "")
    return columns if rows else {}


def _above(value: float | None) -> float | None:
    """The value where it is above 0: guidellm writes 0 for what it doesn't have."""
    return value if value is not None and value > 0 else None


def _error(row: Table) -> str:
    text = row.get("error") or table_of(row.get("info")).get("error") or ""
    return f"guidellm: {one_line(str(text), 120)}"
