"""The verdict on each kind of speed: round figures, their ratio with its interval, and the call. Pure."""

from __future__ import annotations

import math
from random import Random
from statistics import fmean, median

import msgspec

from workbench.domain.checks.identity import characters_a_token, tokenizers_differ
from workbench.domain.checks.load import LENGTHS_APART
from workbench.domain.checks.result import KINDS, CheckResult
from workbench.domain.checks.side import Pair, cell_p50, ok_column
from workbench.domain.checks.trust import in_blocks
from workbench.domain.record import CellTable, KindVerdict
from workbench.domain.statistics import (
    FASTER,
    FEWEST_REQUESTS,
    FEWEST_ROUNDS,
    NO_DIFFERENCE,
    NOT_COMPARABLE,
    ONE_RUN,
    PRACTICAL,
    SLOWER,
    UNDECIDED,
    Interval,
    call_of,
    draws_interval,
    median_draws,
    paired_interval,
    rate_draws,
    rounds_needed,
    welch_interval,
)

BETTER = {
    "ttft": "lower",
    "request_time": "lower",
    "decode_rate": "higher",
    "throughput": "higher",
    "capacity": "higher",
}
STEADY_SHARE = 0.5


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """On what common ground two sides are compared.

    `unit`: "tokens", or "characters" where the tokenizers split text differently. `at`: the output length in that unit
    to which `request_time` is brought, None where lengths are alike. `steady`: throughput of the steady window.
    `length_a`, `length_b`: median output lengths in the unit. `unlike`: the tokenizers differ and characters are not
    known, so that rates can't be compared at all.
    """

    unit: str = "tokens"
    at: int | None = None
    steady: bool = False
    length_a: float | None = None
    length_b: float | None = None
    unlike: bool = False


def basis_of(pair: Pair) -> Basis:
    """The common ground of two sides, from what was measured on them."""
    b = pair.b or pair.a
    differ = bool(tokenizers_differ(pair))
    known = None not in (characters_a_token(pair.a), characters_a_token(b))
    unit = "characters" if differ and known else "tokens"
    column = "output_tokens" if unit == "tokens" else "characters"
    lengths = [side.median(column) for side in (pair.a, b)]
    at = None
    if lengths[0] and lengths[1] and max(lengths) / min(lengths) - 1 > LENGTHS_APART:  # type: ignore[type-var,operator]
        at = int(min(lengths))  # type: ignore[type-var,arg-type]
    steady = all(
        cell.steady_throughput is not None and (cell.steady_share or 0.0) >= STEADY_SHARE
        for side in pair.sides
        for cell in side.cells
    )
    return Basis(unit=unit, at=at, steady=steady, length_a=lengths[0], length_b=lengths[1], unlike=differ and not known)


def requests_of(cell: CellTable, kind: str, basis: Basis) -> list[float]:
    """One kind's figure of each ok request of a cell; empty where the record holds no requests.

    What is no time or rate (0, below 0, infinite) is left out: a ratio needs figures above 0.
    """
    names = ("ttft_ms", "total_ms", "tpot_ms", "decode_rate", "output_tokens", "characters")
    columns = {name: list(ok_column(cell, name)) for name in names}
    rows = zip(*(columns[name] or [None] * max(map(len, columns.values())) for name in names), strict=False)
    found = []
    for ttft, total, tpot, rate, tokens, characters in rows:
        value = None
        if kind == "ttft":
            value = ttft
        elif kind == "decode_rate":
            if basis.unit == "tokens":
                value = rate
            elif rate is not None and tokens and characters:
                value = rate * characters / tokens
        elif basis.at is None:
            value = total
        elif basis.unit == "tokens":
            value = None if ttft is None or tpot is None else ttft + (basis.at - 1) * tpot
        elif ttft is not None and total is not None and tpot is not None and characters:
            value = ttft + basis.at * (total - ttft) / characters
        if value is not None and 0 < value < math.inf:
            found.append(float(value))
    return found


def round_figure(cell: CellTable, kind: str, basis: Basis) -> float | None:
    """A round's figure of one kind: the median over its ok requests, or the cell's throughput; None when absent."""
    if kind == "throughput":
        value = cell.steady_throughput if basis.steady else cell.throughput
        if value is not None and basis.unit == "characters":
            ratio = _cell_characters(cell)
            return None if ratio is None else value * ratio
        return value
    values = requests_of(cell, kind, basis)
    if values:
        return median(values)
    return _summary_figure(cell, kind, basis)


def _summary_figure(cell: CellTable, kind: str, basis: Basis) -> float | None:
    """The same from a cell's statistics alone, for results without requests."""
    if kind == "ttft":
        return cell_p50(cell, "ttft_ms")
    if basis.unit != "tokens":
        return None
    if kind == "decode_rate":
        return cell_p50(cell, "decode_rate")
    if basis.at is None:
        return cell_p50(cell, "total_ms")
    ttft, tpot = cell_p50(cell, "ttft_ms"), cell_p50(cell, "tpot_ms")
    return None if ttft is None or tpot is None else ttft + (basis.at - 1) * tpot


def _cell_characters(cell: CellTable) -> float | None:
    pairs = zip(ok_column(cell, "characters"), ok_column(cell, "output_tokens"), strict=False)
    known = [(characters, tokens) for characters, tokens in pairs if characters and tokens]
    return sum(each[0] for each in known) / sum(each[1] for each in known) if known else None


class Rounds(msgspec.Struct, kw_only=True):
    """The rounds of two sides that have a kind's figure. With `paired` the n-th of either belong together."""

    a: list[float]
    b: list[float]
    cells_a: list[CellTable]
    cells_b: list[CellTable]
    paired: bool


def rounds_of(pair: Pair, kind: str, basis: Basis) -> Rounds:
    """The round figures of two sides, paired by round where the record ran them in turns."""
    assert pair.b is not None
    sides = []
    for side in (pair.a, pair.b):
        found = [(cell, round_figure(cell, kind, basis)) for cell in side.cells]
        sides.append([(cell, value) for cell, value in found if value is not None and 0 < value < math.inf])
    paired = pair.one_record and not in_blocks(pair)
    if paired:
        common = {cell.round for cell, _ in sides[0]} & {cell.round for cell, _ in sides[1]}
        sides = [[(cell, value) for cell, value in side if cell.round in common] for side in sides]
        paired = len(sides[0]) == len(sides[1])
    return Rounds(
        a=[value for _, value in sides[0]],
        b=[value for _, value in sides[1]],
        cells_a=[cell for cell, _ in sides[0]],
        cells_b=[cell for cell, _ in sides[1]],
        paired=paired,
    )


def judge_kind(
    pair: Pair, kind: str, basis: Basis, taken_by: CheckResult | None = None, threshold: float = PRACTICAL
) -> KindVerdict:
    """The verdict on one kind of speed. `taken_by`: the failed check that takes it away."""
    verdict = KindVerdict(better=BETTER[kind], call=NOT_COMPARABLE)
    rounds = rounds_of(pair, kind, basis)
    notes = _notes(kind, basis)
    if rounds.a and rounds.b:
        verdict.a, verdict.b = _geometric(rounds.a), _geometric(rounds.b)
    if taken_by is not None:
        verdict.note = f"{taken_by.name}: {taken_by.evidence}"
        return verdict
    if basis.unlike and kind != "ttft":
        verdict.note = "the tokenizers differ, and the characters of the output are not known"
        return verdict
    if verdict.a is None or verdict.b is None:
        verdict.note = _why_absent(pair, kind, basis)
        return verdict
    n = min(len(rounds.a), len(rounds.b))
    interval: Interval | None
    if n >= FEWEST_ROUNDS:
        interval = (paired_interval if rounds.paired else welch_interval)(rounds.a, rounds.b)
    else:
        interval = _over_requests(rounds, kind, basis)
        threshold = max(threshold, ONE_RUN)
        notes.append(
            f"{'one run' if n == 1 else f'{n} runs'} a side: only a change of {threshold:.0%} or more is called"
        )
    verdict.ratio = verdict.b / verdict.a
    if interval is None:
        verdict.call = UNDECIDED
        notes.append("too few requests to say how sure it is")
    else:
        verdict.ratio, verdict.low, verdict.high = interval.ratio, interval.low, interval.high
        verdict.call = call_of(interval, verdict.better, threshold)
        if verdict.call == UNDECIDED and n >= FEWEST_ROUNDS:
            verdict.rounds_needed = rounds_needed(rounds.a, rounds.b, verdict.better, rounds.paired, threshold)
    verdict.note = "; ".join(notes)
    return verdict


def _geometric(values: list[float]) -> float:
    return math.exp(fmean(math.log(value) for value in values))


def _notes(kind: str, basis: Basis) -> list[str]:
    notes = []
    if kind == "request_time" and basis.at is not None:
        notes.append(f"at {basis.at} {basis.unit}")
    if kind in ("decode_rate", "throughput") and basis.unit != "tokens":
        notes.append(f"in {basis.unit}")
    if kind == "throughput" and basis.steady:
        notes.append("over the steady window")
    return notes


def _why_absent(pair: Pair, kind: str, basis: Basis) -> str:
    """Why one side has no figure of a kind, as far as the record tells."""
    if kind == "request_time" and basis.at is not None:
        return "lengths differ, and without a decode rate they can't be brought to one length"
    reasons = sorted({reason for side in pair.sides for cell in side.cells for reason in cell.decode_absent})
    if kind in ("ttft", "decode_rate") and reasons:
        return f"absent on a side ({', '.join(reasons)})"
    return "absent on a side"


def _over_requests(rounds: Rounds, kind: str, basis: Basis) -> Interval | None:
    """An interval from the requests of the few rounds there are; None with too few requests."""
    rng = Random(kind)
    draws: list[list[list[float]]] = []
    for cells in (rounds.cells_a, rounds.cells_b):
        side = []
        for cell in cells:
            if kind == "throughput":
                drawn = _throughput_draws(cell, basis, rng)
            else:
                values = requests_of(cell, kind, basis)
                drawn = median_draws(values, rng) if len(values) >= FEWEST_REQUESTS else None
            if drawn is None:
                return None
            side.append(drawn)
        draws.append(side)
    ratio = _geometric(rounds.b) / _geometric(rounds.a)
    return draws_interval(ratio, draws[0], draws[1], min(len(rounds.a), len(rounds.b)))


def _throughput_draws(cell: CellTable, basis: Basis, rng: Random) -> list[float] | None:
    """How a closed loop's throughput would vary with other requests of the same kind.

    Requests are drawn anew and give tokens over their busy time; times the requests in flight that is a throughput
    (Little's law). The factor is taken from the cell itself, so that the draws lie around what was measured.
    """
    pairs = zip(ok_column(cell, "output_tokens"), ok_column(cell, "total_ms"), strict=False)
    known = [(float(tokens), float(total)) for tokens, total in pairs if tokens and total]
    if len(known) < FEWEST_REQUESTS:
        return None
    tokens, totals = [each[0] for each in known], [each[1] for each in known]
    measured = round_figure(cell, "throughput", basis)
    if measured is None:
        return None
    factor = measured * sum(totals) / sum(tokens)
    return [factor * draw for draw in rate_draws(tokens, totals, rng)]


WEIGHTIEST = (
    "failures",
    "client",
    "precision",
    "one-variable",
    "sampling",
    "model-identity",
    "hardware",
    "prompt",
    "cache",
    "streaming",
)
"""Failed checks in the order in which they are given as the reason."""


def taken_away(checks: list[CheckResult]) -> dict[str, CheckResult]:
    """Kind of speed -> the weightiest failed check that takes it away."""
    result: dict[str, CheckResult] = {}
    for check in sorted((check for check in checks if check.takes), key=_weight):
        for kind in check.takes:
            result.setdefault(kind, check)
    return result


def _weight(check: CheckResult) -> int:
    return WEIGHTIEST.index(check.name) if check.name in WEIGHTIEST else len(WEIGHTIEST)


def judge(pair: Pair, checks: list[CheckResult], basis: Basis, threshold: float = PRACTICAL) -> dict[str, KindVerdict]:
    """The verdict on every kind but capacity, which needs a ladder on both sides."""
    taken = taken_away(checks)
    return {kind: judge_kind(pair, kind, basis, taken.get(kind), threshold) for kind in KINDS if kind != "capacity"}


def judge_capacity(a: int | None, b: int | None, why: str = "", taken_by: CheckResult | None = None) -> KindVerdict:
    """The verdict on capacity: the highest rung of the same ladder that meets the limits, without an interval."""
    verdict = KindVerdict(better="higher", call=NOT_COMPARABLE, note=why)
    if taken_by is not None:
        verdict.note = f"{taken_by.name}: {taken_by.evidence}"
    elif not why and a is not None and b is not None:
        verdict.a, verdict.b, verdict.ratio = float(a), float(b), b / a
        verdict.call = FASTER if b > a else SLOWER if b < a else NO_DIFFERENCE
        verdict.note = "highest rung within the limits; no interval"
    return verdict
