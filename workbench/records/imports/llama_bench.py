"""llama.cpp's `llama-bench -o json` and `-o jsonl`: the engine alone, without HTTP, tokenizing or sampling."""

from __future__ import annotations

import re
from typing import Any

from workbench.records.imports.common import (
    Result,
    Run,
    Table,
    count,
    list_of,
    model_name,
    real,
    scaled,
    table_of,
    words,
)

DIFFERENCES = [
    "measured inside the engine: no HTTP, no tokenizing, no sampling, so there is no TTFT and no request",
    "decode_rate is the rate of a tg test: generated tokens over all of its time, the first token included",
    "prompt_rate is the rate of a pp test; a test of both kinds gives neither",
    "its standard deviation is the sample's",
    "each repetition is taken as a round",
]
_QUANT = re.compile(r"\b(?:I?Q\d\w*(?: - \w+)?|TQ\d_\d|MXFP4\w*|BF16|F16|F32|all F32|mostly \w+)", re.IGNORECASE)


def _rows(found: list[Any]) -> list[Table]:
    items = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    return [table_of(item) for item in items]


def recognise(found: list[Any]) -> bool:
    """Whether the file is made of llama-bench tests."""
    rows = _rows(found)
    return bool(rows) and all("n_gen" in row and "avg_ts" in row for row in rows)


def read(found: list[Any]) -> Result:
    """Each repetition of each test as a round."""
    rows = _rows(found)
    servers: list[dict[str, Any]] = []
    runs: list[Run] = []
    for row in rows:
        server = _server(row)
        if server not in servers:
            servers.append(server)
        runs += _runs(row, servers.index(server))
    first = rows[0]
    gpus = words(first.get("gpu_info"))
    environment: dict[str, Any] = {"host": {"cpu": cpu}} if (cpu := words(first.get("cpu_info"))) else {}
    if gpus:
        environment["gpu"] = [{"name": name.strip()} for name in gpus.split(", ")]
    return Result(
        tool="llama-bench",
        version=str(servers[0].get("version", "")),
        runs=runs,
        differences=DIFFERENCES,
        servers=servers,
        environment=environment,
        started=words(first.get("test_time"), 40),
    )


def _server(row: Table) -> dict[str, Any]:
    kind = words(row.get("model_type"))
    quant = _QUANT.search(kind)
    build, commit = count(row.get("build_number")), words(row.get("build_commit"), 40)
    names = ("n_batch", "n_ubatch", "n_threads", "n_gpu_layers", "split_mode", "flash_attn", "no_kv_offload")
    flags = [f"{name}={words(str(row[name]), 20)}" for name in names if name in row]
    facts: dict[str, Any] = {
        "engine": "llama.cpp",
        "version": f"b{build} {commit}".strip() if build is not None else commit,
        "model": model_name(words(row.get("model_filename")).replace("\\", "/").rpartition("/")[2]),
        "quant": quant.group() if quant else "",
        "size": count(row.get("model_size")),
        "parameters": count(row.get("model_n_params")),
        "kv_cache_type": words(row.get("type_k"), 20),
        "flags": flags,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [])}


def _runs(row: Table, server: int) -> list[Run]:
    prompt, generated, depth = (count(row.get(name)) or 0 for name in ("n_prompt", "n_gen", "n_depth"))
    label = f"pp{prompt}" if not generated else f"tg{generated}" if not prompt else f"pp{prompt}+tg{generated}"
    label += f" @ d{depth}" if depth else ""
    figure = "prompt_rate" if not generated else "decode_rate" if not prompt else ""
    rates = [rate for item in list_of(row.get("samples_ts")) if (rate := real(item)) and rate > 0]
    times = [scaled(item, 1e-6) for item in list_of(row.get("samples_ns"))]
    if not rates and (average := real(row.get("avg_ts"))):
        rates, times = [average], [scaled(row.get("avg_ns"), 1e-6)]
    runs = []
    for index, rate in enumerate(rates):
        total = times[index] if index < len(times) else None
        columns: dict[str, list[Any]] = {"outcome": ["ok"], "total_ms": [total]}
        if figure == "decode_rate":
            columns |= {"decode_rate": [rate], "output_tokens": [generated], "tpot_ms": [1000 / rate]}
        elif figure == "prompt_rate":
            columns["prompt_tokens"] = [prompt]
        summary = {"mean": real(row.get("avg_ts")), "std": real(row.get("stddev_ts"))}
        known = {name: value for name, value in summary.items() if value is not None}
        runs.append(
            Run(
                variables={"concurrency": 1},
                requests=1,
                ok=1,
                failed=0,
                started=words(row.get("test_time"), 40),
                columns=columns,
                summary={figure: known} if figure and known else {},
                server=server,
                label=label,
            )
        )
    return runs
