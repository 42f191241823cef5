"""What every importer shares: reading a foreign file within limits, and turning its runs into a record.

What a file doesn't say stays absent. Statistics that a tool reports are kept as it reports them (`evidence.summary` of a
cell); the record's own statistics are filled only where all of them are known.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from workbench.domain.cell import Stats, stats_of
from workbench.domain.plan import arm_name
from workbench.domain.record import CellTable, Record, SessionTable
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput

LARGEST = 256 * 1024 * 1024
"""Bytes of a file that is read at all."""
MOST_RUNS = 2_000
MOST_REQUESTS = 1_000_000

OWN_CLOCK = (
    "its times start and end by its own rules, not at the last byte sent and the first visible output as Workbench's do"
)

Table = Mapping[str, Any]


class Run(msgspec.Struct, kw_only=True):
    """One run of another tool: a cell to be. `variables` holds what the file states; `summary` the tool's statistics by
    figure (mean, p50, p95, p99, std, min, max, n); `columns` per-request figures, `outcome` among them. `label` tells
    arms apart where no variable does."""

    variables: dict[str, Any] = {}
    requests: int | None = None
    ok: int | None = None
    failed: int | None = None
    cancelled: int = 0
    started: str = ""
    window_s: float | None = None
    throughput: float | None = None
    request_rate: float | None = None
    goodput: float | None = None
    token_source: str = ""
    summary: dict[str, dict[str, float]] = {}
    columns: dict[str, list[Any]] = {}
    errors: dict[str, int] = {}
    server: int = 0
    label: str = ""


class Result(msgspec.Struct, kw_only=True):
    """A file as an importer read it. `differences`: definitions that are not Workbench's."""

    tool: str
    version: str = ""
    runs: list[Run]
    differences: list[str]
    servers: list[dict[str, Any]] = []
    environment: dict[str, Any] = {}
    started: str = ""
    finished: str = ""
    command: str = ""


def read_text(path: Path) -> bytes:
    """A file's bytes. Raises BadInput, one line, when it can't be read or is too large."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise BadInput(f"{path.name}: {size / 1e6:.0f} MB is more than is read ({LARGEST / 1e6:.0f} MB)")
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None


def documents(name: str, content: bytes) -> list[Any]:
    """The JSON values of a file: one, one a line, or appended to each other. Raises BadInput."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{name}: not a text file in UTF-8") from None
    decoder = json.JSONDecoder()
    found: list[Any] = []
    at, end = 0, len(text)
    try:
        while True:
            while at < end and text[at] in " \t\r\n,":
                at += 1
            if at >= end:
                break
            value, at = decoder.raw_decode(text, at)
            found.append(value)
            if len(found) > MOST_REQUESTS:
                raise BadInput(f"{name}: more than {MOST_REQUESTS} values in it")
    except BadInput:
        raise
    except (ValueError, RecursionError) as error:
        line = text.count("\n", 0, at) + 1
        raise BadInput(f"{name}: no JSON that can be read, from line {line} on ({one_line(str(error), 80)})") from None
    if not found:
        raise BadInput(f"{name}: empty")
    return found


def table_of(value: Any) -> Table:
    """The value as a table; empty when it is none."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: Any) -> list[Any]:
    """The value as a list; empty when it is none."""
    return value if isinstance(value, list) else []


def real(value: Any) -> float | None:
    """The value as a finite number; None when it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def count(value: Any) -> int | None:
    """The value as a count; None when it is none."""
    number = real(value)
    return int(number) if number is not None and 0 <= number < 1e15 and number == int(number) else None


def words(value: Any, limit: int = 200) -> str:
    """The value as one harmless line; "" when it is no text."""
    return one_line(value, limit) if isinstance(value, str) else ""


def scaled(value: Any, factor: float) -> float | None:
    """A number times a factor, for units."""
    number = real(value)
    return None if number is None else number * factor


def statistics(
    source: Table, names: Mapping[str, str], factor: float = 1.0, keep: Callable[[str], bool] = lambda name: True
) -> dict[str, float]:
    """A tool's statistics under our names (mean, p50, p95, ...), scaled; what it doesn't say is left out."""
    found = {}
    for ours, theirs in names.items():
        number = count(source.get(theirs)) if ours == "n" else scaled(source.get(theirs), factor)
        if number is not None and keep(ours):
            found[ours] = float(number)
    return found


def model_name(value: Any) -> str:
    """A model's id without the folders of someone's machine."""
    text = words(value)
    if re.match(r"(/|~|[A-Za-z]:[\\/])", text):
        return re.split(r"[\\/]", text.rstrip("/\\"))[-1]
    return text


def record_of(result: Result, sha256: str) -> Record:
    """The record of a result. Raises BadInput when it holds no run."""
    if not result.runs:
        raise BadInput(f"{result.tool}: the file holds no finished run")
    if len(result.runs) > MOST_RUNS:
        raise BadInput(f"{result.tool}: {len(result.runs)} runs in one file; at most {MOST_RUNS} are read")
    arms = _arms(result.runs)
    names = {key: arm_name(index) for index, key in enumerate(dict.fromkeys(arms))}
    rounds: dict[str, int] = {}
    cells, order = [], []
    servers = [{"id": f"imported-{index + 1}", **server} for index, server in enumerate(result.servers)]
    for index, (run, key) in enumerate(zip(result.runs, arms, strict=True)):
        arm = names[key]
        rounds[arm] = rounds.get(arm, 0) + 1
        order.append(arm)
        cell = _cell(run, index + 1, rounds[arm], arm, result.tool)
        if run.server < len(servers):
            cell.server = str(servers[run.server]["id"])
        cells.append(cell)
    varied, values = _varied(result.runs, arms)
    return Record(
        session=SessionTable(
            id="",
            name="",
            started=result.started or result.runs[0].started,
            finished=result.finished,
            command=result.command,
            notes=f"imported from {result.tool}{f' {result.version}' if result.version else ''}",
        ),
        plan={
            "varied": varied,
            "values": values,
            "order": order,
            "rounds": max(rounds.values()),
            "baseline": dict(result.runs[0].variables),
        },
        environment={**result.environment, **({"server": servers} if servers else {})},
        cells=cells,
        extra={
            "imported": {
                "tool": result.tool,
                "version": result.version,
                "sha256": sha256,
                "differences_of_definition": list(result.differences),
            }
        },
    )


def _arms(runs: list[Run]) -> list[tuple[Any, ...]]:
    """What tells the runs' arms apart: their variables and labels; runs alike in both are rounds of one arm."""
    return [(run.label, run.server, *sorted((key, str(value)) for key, value in run.variables.items())) for run in runs]


def _varied(runs: list[Run], arms: list[tuple[Any, ...]]) -> tuple[str, list[Any]]:
    """The one variable in which the arms differ, with its values in order; "" when there is none, or it isn't one."""
    firsts = dict(zip(reversed(arms), reversed(runs), strict=True))
    ordered = [firsts[key] for key in dict.fromkeys(arms)]
    if len({run.label for run in ordered}) > 1 and len(ordered) > 1:
        return "", []
    names = sorted({name for run in ordered for name in run.variables})
    unlike = [name for name in names if len({str(run.variables.get(name)) for run in ordered}) > 1]
    if len(unlike) != 1 or any(unlike[0] not in run.variables for run in ordered):
        return "", []
    return unlike[0], [run.variables[unlike[0]] for run in ordered]


def _cell(run: Run, number: int, round_: int, arm: str, tool: str) -> CellTable:
    columns = {name: column for name, column in run.columns.items() if any(value is not None for value in column)}
    outcomes = [str(item) for item in columns.get("outcome", [])]
    ok = run.ok if run.ok is not None else outcomes.count("ok")
    failed = run.failed if run.failed is not None else outcomes.count("failed")
    requests = run.requests if run.requests is not None else ok + failed + run.cancelled
    return CellTable(
        id=number,
        round=round_,
        arm=arm,
        started=run.started,
        variables=dict(run.variables),
        requests=requests,
        ok=ok,
        failed=failed,
        cancelled=run.cancelled,
        success_rate=ok / (ok + failed) if ok + failed else None,
        window_s=run.window_s,
        throughput=run.throughput,
        request_rate=run.request_rate,
        goodput=run.goodput,
        token_source=run.token_source,
        errors=dict(run.errors),
        stats=_stats(run, columns, outcomes),
        evidence={"summary": run.summary, "summary_of": tool} if run.summary else {"summary_of": tool},
        per_request=columns,
    )


def _stats(run: Run, columns: dict[str, list[Any]], outcomes: list[str]) -> dict[str, Stats]:
    """The tool's own statistics where it states all of them, else those over the ok requests of the file."""
    found: dict[str, Stats] = {}
    for name, column in columns.items():
        values = [value for value, outcome in zip(column, outcomes, strict=False) if outcome == "ok"]
        if name not in ("outcome", "error", "finish", "prompt", "started_ms"):
            stats = stats_of(value for value in values if isinstance(value, (int, float)))
            if stats is not None:
                found[name] = stats
    for name, summary in run.summary.items():
        if all(key in summary for key in ("n", "min", "mean", "p50", "p95", "max")):
            found[name] = Stats(
                n=int(summary["n"]),
                min=summary["min"],
                mean=summary["mean"],
                p50=summary["p50"],
                p95=summary["p95"],
                max=summary["max"],
            )
    return found


def each(*columns: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows of columns of unlike length, what is missing as None."""
    for index in range(min(max((len(column) for column in columns), default=0), MOST_REQUESTS)):
        yield tuple(column[index] if index < len(column) else None for column in columns)
