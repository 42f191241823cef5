"""The session record (schema 1): an environment, a plan and its results, complete enough to run again.

The structs mirror the TOML tables. `to_table` leaves absent values out; inside the per-request columns a missing number
is nan, the one place where nan may stand. `from_table` turns nan back into absent.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from workbench.domain.cell import CellFigures, Stats, started_ms
from workbench.domain.events import RequestTrace
from workbench.domain.variables import BadInput

SCHEMA = 1
KIND = "workbench-session"

NUMBER_COLUMNS = (
    "started_ms",
    "ttft_ms",
    "ttfa_ms",
    "total_ms",
    "end_ms",
    "connect_ms",
    "first_byte_ms",
    "output_tokens",
    "chunks",
    "coalesced",
    "prompt_tokens",
    "cached_tokens",
    "decode_rate",
    "tpot_ms",
    "characters",
)
OPEN_LOOP_COLUMNS = ("ttft_from_schedule_ms", "total_from_schedule_ms")
TEXT_COLUMNS = ("prompt", "finish", "outcome", "error")


class SessionTable(msgspec.Struct, kw_only=True):
    """Who measured, when, and how it ended. Times are RFC 3339 strings."""

    id: str
    name: str = ""
    started: str = ""
    finished: str = ""
    status: str = "complete"
    reason: str = ""
    workbench: str = ""
    command: str = ""
    notes: str = ""


class CellTable(msgspec.Struct, kw_only=True):
    """One cell's results, as stored."""

    id: int
    round: int
    arm: str
    server: str = ""
    started: str = ""
    window_s: float | None = None
    variables: dict[str, Any] = {}
    requests: int = 0
    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    empty: int = 0
    success_rate: float | None = None
    in_flight_peak: int = 0
    in_flight_mean: float | None = None
    token_source: str = ""
    throughput: float | None = None
    partial_share: float | None = None
    steady_throughput: float | None = None
    steady_share: float | None = None
    request_rate: float | None = None
    goodput: float | None = None
    slow_requests: int = 0
    jitter: float | None = None
    coalesced_share: float | None = None
    warmup: int = 0
    warmup_failed: int = 0
    stopped: str = ""
    stats: dict[str, Stats] = {}
    cold_start: dict[str, float] = {}
    errors: dict[str, int] = {}
    finish: dict[str, int] = {}
    decode_absent: dict[str, int] = {}
    client: dict[str, Any] = {}
    memory: dict[str, dict[str, Any]] = {}
    evidence: dict[str, Any] = {}
    checks: dict[str, str] = {}
    per_request: dict[str, list[Any]] = {}


class KindVerdict(msgspec.Struct, kw_only=True):
    """The verdict on one kind of speed. `ratio` is B / A of the raw figure; `better` says which way is good."""

    better: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    call: str = "not comparable"
    rounds_needed: int | None = None
    a: float | None = None
    b: float | None = None
    note: str = ""


class Verdict(msgspec.Struct, kw_only=True):
    """What changed, said once: the sentence, the checks behind it, and the calls per kind of speed."""

    sentence: str
    a: str = ""
    b: str = ""
    checks: dict[str, str] = {}
    kinds: dict[str, KindVerdict] = {}
    steps: list[dict[str, Any]] = []


class Record(msgspec.Struct, kw_only=True):
    """A whole session. `plan` and `environment` are plain tables, read through `plan.plan_from_table` and by name."""

    session: SessionTable
    plan: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    verdict: Verdict | None = None
    cells: list[CellTable] = []
    extra: dict[str, Any] = {}


_VERDICT_OWN = ("sentence", "a", "b", "checks", "steps")


def to_table(record: Record) -> dict[str, Any]:
    """The record as plain tables in the order a reader wants them: the verdict before the cells."""
    table: dict[str, Any] = {"schema": SCHEMA, "kind": KIND}
    table["session"] = _present(msgspec.to_builtins(record.session))
    if record.verdict is not None:
        verdict = msgspec.to_builtins(record.verdict)
        kinds = verdict.pop("kinds")
        table["verdict"] = _present({**verdict, **kinds})
    table["plan"] = _present(record.plan)
    table["environment"] = _present(record.environment)
    table["cells"] = [_cell_table(cell) for cell in record.cells]
    table.update(_present(record.extra))
    return table


def _cell_table(cell: CellTable) -> dict[str, Any]:
    table = msgspec.to_builtins(cell)
    columns = table.pop("per_request")
    result: dict[str, Any] = _present(table)
    result["per_request"] = {
        name: [math.nan if value is None else value for value in column] for name, column in columns.items()
    }
    return result


def _present(value: Any) -> Any:
    """The value without absent parts: None, non-finite numbers and empty tables stay out."""
    if isinstance(value, dict):
        kept = {str(key): _present(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item != {}}
    if isinstance(value, (list, tuple)):
        return [item for item in (_present(item) for item in value) if item is not None]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_table(table: dict[str, Any]) -> Record:
    """Read a record's tables.

    Raises BadInput with one line when it is no Workbench session, of an unknown schema, or a value has the wrong type.
    """
    if table.get("kind") != KIND:
        raise BadInput('not a Workbench session (no kind = "workbench-session" in it)')
    schema = table.get("schema")
    if schema != SCHEMA:
        raise BadInput(f"schema {schema!r} can't be read; this version reads schema {SCHEMA}: use a newer Workbench")
    body = {key: value for key, value in table.items() if key not in ("schema", "kind")}
    verdict = body.get("verdict")
    if isinstance(verdict, dict):
        kinds = {key: value for key, value in verdict.items() if key not in _VERDICT_OWN}
        body["verdict"] = {**{key: verdict[key] for key in _VERDICT_OWN if key in verdict}, "kinds": kinds}
    known = ("session", "plan", "environment", "verdict", "cells")
    body["extra"] = {key: body.pop(key) for key in [key for key in body if key not in known]}
    try:
        record = msgspec.convert(body, Record)
    except msgspec.ValidationError as error:
        raise BadInput(f"the record can't be read: {error}") from None
    for cell in record.cells:
        cell.per_request = {name: _absent(name, column) for name, column in cell.per_request.items()}
    return record


def _absent(name: str, column: list[Any]) -> list[Any]:
    if name in TEXT_COLUMNS:
        return column
    return [None if isinstance(value, float) and math.isnan(value) else value for value in column]


def cell_table(
    figures: CellFigures, traces: list[RequestTrace], *, index: int, round_: int, arm: str, variables: dict[str, Any]
) -> CellTable:
    """A cell's stored form, from its figures; the caller adds server, memory, client and checks."""
    columns: dict[str, list[Any]] = {"started_ms": list(started_ms(traces))}
    names: tuple[str, ...] = NUMBER_COLUMNS[1:]
    if any(
        item.ttft_from_schedule_ms is not None or item.total_from_schedule_ms is not None
        for item in figures.per_request
    ):
        names += OPEN_LOOP_COLUMNS
    for name in names:
        columns[name] = [getattr(item, name) for item in figures.per_request]
    for name in ("prompt", "finish", "outcome"):
        columns[name] = [getattr(item, name) for item in figures.per_request]
    columns["error"] = [f"{item.error_class}: {item.error}" if item.error_class else "" for item in figures.per_request]
    return CellTable(
        id=index,
        round=round_,
        arm=arm,
        variables=variables,
        window_s=figures.window_s,
        requests=figures.requests,
        ok=figures.ok,
        failed=figures.failed,
        cancelled=figures.cancelled,
        empty=figures.empty,
        success_rate=figures.success_rate,
        in_flight_peak=figures.in_flight_peak,
        in_flight_mean=figures.in_flight_mean,
        token_source=figures.token_source,
        throughput=figures.throughput,
        partial_share=figures.partial_share,
        steady_throughput=figures.steady_throughput,
        steady_share=figures.steady_share,
        request_rate=figures.request_rate,
        goodput=figures.goodput,
        slow_requests=figures.slow_requests,
        jitter=figures.jitter,
        coalesced_share=figures.coalesced_share,
        stats=figures.stats,
        errors=figures.errors,
        finish=figures.finish,
        decode_absent=figures.decode_absent,
        per_request=columns,
    )
