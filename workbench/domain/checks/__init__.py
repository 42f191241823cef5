"""Validity checks: what was held still, and what was not. Each is a small pure function over two sides (or one)."""

from __future__ import annotations

from collections.abc import Callable

from workbench.domain.checks import identity, load, machine, trust
from workbench.domain.checks.result import KINDS, SPEEDS, CheckResult
from workbench.domain.checks.side import Pair, Side, pair_in, pair_of, sides_of
from workbench.domain.record import CellTable, Record

CHECKS: tuple[Callable[[Pair], CheckResult], ...] = (
    identity.one_variable,
    identity.model_identity,
    identity.precision,
    identity.tokenizer,
    load.prompt,
    load.output_length,
    identity.sampling,
    load.warm_up,
    load.failures,
    load.cache,
    load.concurrency,
    machine.hardware,
    machine.software,
    trust.sample_size,
    trust.drift,
    trust.jitter,
    machine.client,
    load.streaming,
    trust.answers,
    machine.memory,
)
"""Every check, in the order they are shown."""

CELL_CHECKS = (
    load.prompt,
    load.warm_up,
    load.failures,
    load.cache,
    load.concurrency,
    machine.hardware,
    trust.sample_size,
    trust.drift,
    trust.jitter,
    machine.client,
    machine.memory,
)
"""The checks that say something of one cell alone."""


def check_pair(pair: Pair) -> list[CheckResult]:
    """Every check on two sides, in order."""
    return [check(pair) for check in CHECKS]


def check_side(side: Side) -> list[CheckResult]:
    """The checks that say something of one side alone, in order."""
    return [check(Pair(a=side)) for check in CELL_CHECKS]


def check_cell(cell: CellTable, record: Record) -> dict[str, str]:
    """A finished cell's `[cells.checks]`: check -> "pass", "doubt: ..." or "fail: ..."."""
    sides = sides_of(record)
    arm = cell.arm or "A"
    if arm not in sides:
        return {}
    side = sides[arm]
    side.cells = [cell]
    return {result.name: result.stored() for result in check_side(side)}


__all__ = [
    "CHECKS",
    "KINDS",
    "SPEEDS",
    "CheckResult",
    "Pair",
    "Side",
    "check_cell",
    "check_pair",
    "check_side",
    "pair_in",
    "pair_of",
    "sides_of",
]
