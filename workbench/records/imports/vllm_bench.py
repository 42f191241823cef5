"""vLLM's `vllm bench serve --save-result`: one flat object, detailed or not, or several appended to one file."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from workbench.domain.text import one_line
from workbench.records.imports.common import (
    OWN_CLOCK,
    Result,
    Run,
    Table,
    count,
    each,
    list_of,
    model_name,
    real,
    scaled,
    statistics,
    table_of,
    words,
)

FIGURES = {"ttft": "ttft_ms", "tpot": "tpot_ms", "e2el": "total_ms", "itl": "chunk_gap_ms"}
STATISTICS = {
    "mean": "mean_{}_ms",
    "p50": "median_{}_ms",
    "std": "std_{}_ms",
    "p90": "p90_{}_ms",
    "p95": "p95_{}_ms",
    "p99": "p99_{}_ms",
}
DIFFERENCES = [
    OWN_CLOCK,
    "its TTFT stops at the first chunk, also one that carries the role only",
    "its ITL is the time between chunks, and a chunk is not a token",
    "its standard deviation is the population's",
    "output tokens are the server's usage, or counted by its tokenizer where there is none",
]


def flat(item: Table) -> bool:
    """Whether an object is such a result."""
    return "completed" in item and ("output_throughput" in item or "mean_ttft_ms" in item)


def recognise(found: list[Any]) -> bool:
    """Whether the file is one or more such results."""
    return all(flat(table_of(item)) for item in _objects(found)) and bool(_objects(found))


def _objects(found: list[Any]) -> list[Any]:
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def read(found: list[Any]) -> Result:
    """The results, one a cell."""
    items = [table_of(item) for item in _objects(found)]
    runs = [run_of(item) for item in items]
    model = model_name(items[0].get("model_id"))
    return Result(
        tool="vllm bench serve",
        runs=runs,
        differences=DIFFERENCES,
        servers=[{"model": model}] if model else [],
        started=runs[0].started,
    )


def run_of(item: Table, latency: str = "e2el") -> Run:
    """One result as a run. `latency`: the name of the whole request's time in its keys."""
    variables: dict[str, Any] = {}
    concurrency = count(item.get("max_concurrency"))
    if concurrency:
        variables["concurrency"] = concurrency
    model = model_name(item.get("model_id") or item.get("model"))
    if model:
        variables["model"] = model
    rate = real(item.get("request_rate"))
    ok, failed = count(item.get("completed")), count(item.get("failed"))
    asked = count(item.get("num_prompts"))
    if failed is None and ok is not None and asked is not None and asked >= ok:
        failed = asked - ok
    run = Run(
        variables=variables,
        requests=asked,
        ok=ok,
        failed=failed,
        started=_date(item.get("date")),
        window_s=real(item.get("duration")),
        throughput=real(item.get("output_throughput")),
        request_rate=real(item.get("request_throughput")),
        goodput=real(item.get("request_goodput")),
        label="" if concurrency or rate is None else f"rate {rate:g}",
    )
    for theirs, ours in FIGURES.items():
        key = latency if theirs == "e2el" else theirs
        summary = statistics(item, {name: pattern.format(key) for name, pattern in STATISTICS.items()})
        # With nothing completed the tool writes zeros; a latency of 0 is none.
        summary = {name: value for name, value in summary.items() if value > 0 or name == "std"}
        if "mean" in summary or "p50" in summary:
            run.summary[ours] = summary
    for total, ours in (("total_input_tokens", "prompt_tokens"), ("total_output_tokens", "output_tokens")):
        tokens = real(item.get(total))
        if tokens and ok:
            run.summary[ours] = {"mean": tokens / ok}
    run.columns = _columns(item)
    return run


def _columns(item: Table) -> dict[str, list[Any]]:
    """Per-request figures of a detailed result. Failed requests have zeros there, which are none."""
    ttfts, gaps = list_of(item.get("ttfts")), list_of(item.get("itls"))
    if not ttfts:
        return {}
    errors, starts = list_of(item.get("errors")), list_of(item.get("start_times"))
    first = min((value for each_ in starts if (value := real(each_)) is not None), default=None)
    names = ("started_ms", "ttft_ms", "total_ms", "tpot_ms", "decode_rate", "output_tokens", "prompt_tokens")
    columns: dict[str, list[Any]] = {name: [] for name in (*names, "outcome", "error")}
    lengths = list_of(item.get("output_lens")), list_of(item.get("input_lens"))
    for ttft, between, tokens, prompt, error, start, text in each(
        ttfts, gaps, *lengths, errors, starts, list_of(item.get("generated_texts"))
    ):
        first_ms, length = scaled(ttft, 1000.0), count(tokens)
        ok = not error and (first_ms or 0) > 0 and bool(length or text)
        decode_s = sum(value for gap in list_of(between) if (value := real(gap)) is not None)
        began = real(start)
        spread = ok and decode_s > 0 and length is not None and length > 1
        columns["started_ms"].append(None if began is None or first is None else (began - first) * 1000)
        columns["ttft_ms"].append(first_ms if ok else None)
        columns["total_ms"].append(first_ms + decode_s * 1000 if ok and first_ms is not None else None)
        columns["tpot_ms"].append(decode_s * 1000 / (length - 1) if spread and length else None)
        columns["decode_rate"].append((length - 1) / decode_s if spread and length else None)
        columns["output_tokens"].append(length if ok else None)
        columns["prompt_tokens"].append(count(prompt) if ok else None)
        columns["outcome"].append("ok" if ok else "failed")
        columns["error"].append("" if ok else f"failed: {one_line(str(error or 'no output'), 120)}")
    return columns


def _date(value: Any) -> str:
    """The tool's local date without a zone, as RFC 3339 without an offset; "" when it isn't one."""
    try:
        return datetime.strptime(words(value), "%Y%m%d-%H%M%S").isoformat()
    except ValueError:
        return ""
