"""SGLang's `bench_serving --output-file`: one object a line, close kin to vLLM's."""

from __future__ import annotations

from typing import Any

from workbench.records.imports.common import OWN_CLOCK, Result, model_name, real, table_of, words
from workbench.records.imports.vllm_bench import run_of

DIFFERENCES = [
    OWN_CLOCK,
    "its ITL is the time between chunks, and a chunk is not a token",
    "its retokenized count of the output is kept apart: output_tokens_retokenized",
]


def recognise(found: list[Any]) -> bool:
    """Whether the file is made of such results."""
    return all(
        "completed" in table_of(item)
        and ("total_output_tokens_retokenized" in table_of(item) or "mean_e2e_latency_ms" in table_of(item))
        for item in found
    )


def read(found: list[Any]) -> Result:
    """The results, one a cell."""
    items = [table_of(item) for item in found]
    runs = [run_of(item, latency="e2e_latency") for item in items]
    for run, item in zip(runs, items, strict=True):
        tokens = real(item.get("total_output_tokens_retokenized"))
        if tokens and run.ok:
            run.summary["output_tokens_retokenized"] = {"mean": tokens / run.ok}
    info = table_of(items[0].get("server_info"))
    model = model_name(items[0].get("model_id") or info.get("model_path"))
    facts = {"model": model, "engine": words(items[0].get("backend"), 40), "version": words(info.get("version"), 40)}
    return Result(
        tool="sglang bench_serving",
        runs=runs,
        differences=DIFFERENCES,
        servers=[{name: value for name, value in facts.items() if value}] if any(facts.values()) else [],
    )
