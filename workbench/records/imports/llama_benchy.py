"""llama-benchy's `--format json`: one benchmark a combination of lengths, depth and concurrency."""

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

NAMES = {"mean": "mean", "std": "std"}
DIFFERENCES = [
    OWN_CLOCK,
    "ttft_ms is its e2e_ttft; its ttfr stops at the first response, also one without text",
    "the decode rate is its tg_req_throughput (tg_throughput at one stream)",
    "its tg_throughput covers the generation phase only, so it is kept as generation_throughput and not as throughput",
    "its standard deviation is the population's",
    "values are one a request for latencies, one a batch for totals",
]


def recognise(found: list[Any]) -> bool:
    """Whether the file is such a report."""
    top = table_of(found[0])
    first = table_of(next(iter(list_of(top.get("benchmarks"))), {}))
    return len(found) == 1 and ("tg_throughput" in first or "pp_throughput" in first)


def read(found: list[Any]) -> Result:
    """The report's benchmarks, one a cell."""
    top = table_of(found[0])
    model = model_name(top.get("model"))
    stamp = words(top.get("timestamp"), 40).removesuffix("Z").replace(" ", "T")
    return Result(
        tool="llama-benchy",
        version=words(top.get("version"), 40),
        runs=[_run(table_of(item), model) for item in list_of(top.get("benchmarks"))],
        differences=DIFFERENCES,
        servers=[{"model": model}] if model else [],
        started=f"{stamp}+00:00" if stamp else "",
    )


def _run(item: Table, model: str) -> Run:
    streams = count(item.get("concurrency")) or 1
    sizes = [count(item.get(name)) for name in ("context_size", "prompt_size", "response_size")]
    rate = table_of(item.get("tg_req_throughput")) or (table_of(item.get("tg_throughput")) if streams == 1 else {})
    sources = {
        "ttft_ms": table_of(item.get("e2e_ttft")),
        "first_response_ms": table_of(item.get("ttfr")),
        "decode_rate": rate,
        "prompt_rate": table_of(item.get("pp_req_throughput")) or table_of(item.get("pp_throughput")),
        "generation_throughput": table_of(item.get("tg_throughput")),
    }
    variables: dict[str, Any] = {"concurrency": streams}
    if model:
        variables["model"] = model
    run = Run(
        variables=variables,
        label=" ".join(
            f"{name} {size}" for name, size in zip(("depth", "prompt", "reply"), sizes, strict=True) if size is not None
        ),
    )
    for name, source in sources.items():
        summary = statistics(source, NAMES)
        if summary:
            run.summary[name] = summary
    ttfts, rates = (_values(sources[name]) for name in ("ttft_ms", "decode_rate"))
    number = max(len(ttfts), len(rates))
    if number:
        run.columns = {"outcome": ["ok"] * number}
        if len(ttfts) == number:
            run.columns["ttft_ms"] = ttfts
        if len(rates) == number:
            run.columns["decode_rate"] = rates
    return run


def _values(source: Table) -> list[Any]:
    return [
        value if (value := real(item)) is not None and value > 0 else None for item in list_of(source.get("values"))
    ]
