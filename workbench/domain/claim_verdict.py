"""A claimed factor against what two sessions measured: supported, contradicted, undecided or not comparable. Pure."""

from __future__ import annotations

import msgspec

from workbench.domain.compare import Comparison
from workbench.domain.record import KindVerdict
from workbench.domain.statistics import FASTER, FEWEST_ROUNDS, NOT_COMPARABLE, SLOWER
from workbench.domain.wording import NAMES, ended, interval, listed, times

SUPPORTED = "supported"
CONTRADICTED = "contradicted"
UNDECIDED = "undecided"
NEAR = 0.10
NEAR_ONE_RUN = 0.20
NARROW = 1.5
"""An interval whose ends are no further apart than this factor, and that holds the claimed one, supports it."""


class KindOfClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of speed against the claim. `measured`, `low`, `high`: how many times better the candidate is.

    `direction` is "holds", "reversed" or "not shown": whether it got faster at all, which another machine can tell.
    """

    call: str
    claimed: bool
    factor: float
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    direction: str = "not shown"
    why: str = ""


def judge_claim(factor: float, stated: tuple[str, ...], comparison: Comparison) -> dict[str, KindOfClaim]:
    """Every kind of speed against the factor. `stated`: the kinds the claim can mean by the metric it names."""
    return {
        kind: _judge(factor, kind in stated, verdict, comparison.rounds) for kind, verdict in comparison.kinds.items()
    }


def _judge(factor: float, claimed: bool, verdict: KindVerdict, rounds: int) -> KindOfClaim:
    if verdict.call == NOT_COMPARABLE or verdict.ratio is None:
        return KindOfClaim(call=NOT_COMPARABLE, claimed=claimed, factor=factor, why=verdict.note)
    higher = verdict.better == "higher"
    measured = verdict.ratio if higher else 1 / verdict.ratio
    ends = (verdict.low, verdict.high) if higher else (_inverse(verdict.high), _inverse(verdict.low))
    low, high = ends
    direction = {FASTER: "holds", SLOWER: "reversed"}.get(verdict.call, "not shown")
    near = NEAR if rounds >= FEWEST_ROUNDS else NEAR_ONE_RUN
    if low is None or high is None:
        # A rung of a ladder has no interval; nothing else does without one.
        exact = verdict.note.endswith("no interval")
        call = UNDECIDED if not exact else SUPPORTED if measured >= factor * (1 - near) else CONTRADICTED
    elif high < factor * (1 - near):
        call = CONTRADICTED
    elif low >= factor * (1 - near) or (low > 1 and low <= factor <= high and high / low <= NARROW):
        call = SUPPORTED
    else:
        call = UNDECIDED
    span = f" (95% interval {interval(low, high)})" if low is not None and high is not None else ""
    why = f"{times(measured)} measured{span}, {factor:g}x claimed"
    if rounds < FEWEST_ROUNDS and not verdict.note.endswith("no interval"):
        why += f"; {'one run' if rounds == 1 else f'{rounds} runs'} a side"
    return KindOfClaim(
        call=call,
        claimed=claimed,
        factor=factor,
        measured=measured,
        low=low,
        high=high,
        direction=direction,
        why=why,
    )


def _inverse(value: float | None) -> float | None:
    return None if not value else 1 / value


def summary(
    factor: float,
    stated: tuple[str, ...],
    missing: int,
    asked: int,
    possible: list[str],
    verdict: dict[str, KindOfClaim],
) -> str:
    """What it comes to, in one or two sentences."""
    if not verdict:
        if missing == 0:
            return f"{factor:g}x with every fact stated: it can be checked. Reproduce it before believing it."
        many = "a headline, not a result" if missing > asked // 2 else "not yet checkable"
        kinds = listed([NAMES.get(kind, kind) for kind in possible], "or")
        return f"{factor:g}x is {many}: {missing} of {asked} facts a reader needs are missing. It could be {kinds}."
    parts: list[str] = []
    for call in (SUPPORTED, CONTRADICTED, UNDECIDED, NOT_COMPARABLE):
        names = [NAMES[kind] for kind in stated if kind in verdict and verdict[kind].call == call]
        if names and (call != NOT_COMPARABLE or not parts):
            parts.append(f"{call} as {listed(names)}")
    text = ended(f"{factor:g}x is {'; '.join(parts)}") if parts else ""
    return f"{text} {_other_kind(factor, stated, verdict)}".strip()


def _other_kind(factor: float, stated: tuple[str, ...], verdict: dict[str, KindOfClaim]) -> str:
    """Whether the factor was measured, but on another kind of speed than the one claimed."""
    others = [kind for kind, found in verdict.items() if not found.claimed and found.call == SUPPORTED]
    held = any(verdict[kind].call == SUPPORTED for kind in stated if kind in verdict)
    if others and not held:
        return f"What rose that much is {NAMES[others[0]]}, which is another thing."
    return ""
