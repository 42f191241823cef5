"""`--fail-on`: an expression over a session's cells or its verdict that makes the exit status 1 when it holds."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

import msgspec

from workbench.domain.cell import STATISTICS, Stats
from workbench.domain.record import CellTable, KindVerdict, Record
from workbench.domain.variables import BadInput

KINDS = ("ttft", "request_time", "decode_rate", "throughput", "capacity")
CALLS = ("faster", "slower", "no difference shown", "undecided", "not comparable")
STATS = Stats.__struct_fields__
CELL_FIGURES = (
    "requests",
    "ok",
    "failed",
    "cancelled",
    "empty",
    "success_rate",
    "in_flight_peak",
    "in_flight_mean",
    "throughput",
    "steady_throughput",
    "request_rate",
    "goodput",
    "slow_requests",
    "jitter",
)
RATIOS = ("ratio", "low", "high")

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_EXPRESSION = re.compile(r"\s*([\w.]+)\s*(<=|>=|!=|==|=|<|>)\s*(.+?)\s*")
_HOW = "write FIGURE OP VALUE, like 'ttft_ms.p95>500', 'failed>0' or 'verdict.ttft=slower'"


class Gate(msgspec.Struct, frozen=True):
    """One parsed expression: the path of a figure, the comparison, and a number or a call."""

    text: str
    path: tuple[str, ...]
    comparison: str
    value: float | str

    @property
    def of_verdict(self) -> bool:
        """Whether it looks at the verdict, which only a run that varies something has."""
        return self.path[0] == "verdict"


def parse_gate(text: str) -> Gate:
    """Read an expression. Raises BadInput with what can be written."""
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise BadInput(f"--fail-on {text!r}: {_HOW}")
    path, comparison, written = tuple(match.group(1).split(".")), match.group(2), match.group(3).strip("'\"")
    if path[0] == "verdict" and len(path) == 2:
        return _call_gate(text, path, comparison, written)
    _known(text, path)
    try:
        value = float(written)
    except ValueError:
        raise BadInput(f"--fail-on {text!r}: {written!r} is not a number") from None
    if value != value:
        raise BadInput(f"--fail-on {text!r}: {written!r} is not a number")
    return Gate(text, path, comparison, value)


def _call_gate(text: str, path: tuple[str, ...], comparison: str, written: str) -> Gate:
    call = re.sub(r"[-_ ]+", " ", written)
    if path[1] not in KINDS:
        raise BadInput(f"--fail-on {text!r}: no such kind of speed: {path[1]}; it is one of {', '.join(KINDS)}")
    if comparison not in ("=", "==", "!=") or call not in CALLS:
        raise BadInput(f"--fail-on {text!r}: compare a verdict by = or != with one of: {', '.join(CALLS)}")
    return Gate(text, path, comparison, call)


def _known(text: str, path: tuple[str, ...]) -> None:
    first = path[0]
    if first in STATISTICS:
        if len(path) != 2 or path[1] not in STATS:
            raise BadInput(f"--fail-on {text!r}: say which of {first}'s figures: {first}.{f', {first}.'.join(STATS)}")
    elif first == "errors":
        if len(path) != 2:
            raise BadInput(f"--fail-on {text!r}: say which errors, like errors.http_503>0; failed>0 counts them all")
    elif first == "verdict":
        if len(path) != 3 or path[1] not in KINDS or path[2] not in RATIOS:
            raise BadInput(f"--fail-on {text!r}: write verdict.KIND=CALL or verdict.KIND.ratio<NUMBER")
    elif len(path) != 1 or first not in CELL_FIGURES:
        raise BadInput(f"--fail-on {text!r}: no such figure: {'.'.join(path)}; {_HOW}")


def missed(gate: Gate, record: Record) -> str:
    """Why the gate is missed, in a few words; "" when it is not.

    Over cells it is missed when any cell meets the expression. A figure that is absent can't be cleared of it, so it is
    missed too, and says so.
    """
    if gate.of_verdict:
        return _missed_by_verdict(gate, record)
    for cell in record.cells:
        value = _figure(gate.path, cell)
        if value is None:
            return f"{'.'.join(gate.path)} is absent in cell {cell.id}"
        if _OPERATORS[gate.comparison](value, float(gate.value)):
            return f"{'.'.join(gate.path)} is {value:.6g} in cell {cell.id}"
    return "" if record.cells else "nothing was measured"


def _figure(path: tuple[str, ...], cell: CellTable) -> float | None:
    first = path[0]
    if first in STATISTICS:
        stats = cell.stats.get(first)
        return None if stats is None else float(getattr(stats, path[1]))
    if first == "errors":
        return float(cell.errors.get(path[1], 0))
    value = getattr(cell, first)
    return None if value is None else float(value)


def _missed_by_verdict(gate: Gate, record: Record) -> str:
    kind: KindVerdict | None = None if record.verdict is None else record.verdict.kinds.get(gate.path[1])
    if kind is None:
        return f"there is no verdict on {gate.path[1]}"
    if len(gate.path) == 2:
        hit = (kind.call == gate.value) == (gate.comparison != "!=")
        return f"the verdict on {gate.path[1]} is: {kind.call}" if hit else ""
    value = getattr(kind, gate.path[2])
    if value is None:
        return f"the verdict on {gate.path[1]} has no {gate.path[2]}"
    if _OPERATORS[gate.comparison](value, float(gate.value)):
        return f"{'.'.join(gate.path)} is {value:.4g}"
    return ""
