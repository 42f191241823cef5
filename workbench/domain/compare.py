"""Two sides compared: checks first, then figures, then the verdict and its sentence. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from workbench.domain.cell import meets_limits, stats_of
from workbench.domain.checks import CheckResult, Pair, Side, check_pair, pair_in, pair_of, sides_of
from workbench.domain.plan import plan_from_table
from workbench.domain.record import KindVerdict, Record, Verdict
from workbench.domain.sentence import ASK_COMMAND, Story, sentence, side_label
from workbench.domain.statistics import NOT_COMPARABLE, PRACTICAL
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput, VariableValue, show_value, value_of
from workbench.domain.verdict import Basis, basis_of, judge, judge_capacity, taken_away
from workbench.domain.wording import times

UNITS = {
    "ttft_ms": "ms",
    "ttfa_ms": "ms",
    "total_ms": "ms",
    "tpot_ms": "ms",
    "decode_rate": "tokens/s",
    "throughput": "tokens/s",
    "output_tokens": "tokens",
    "prompt_tokens": "tokens",
    "cached_tokens": "tokens",
    "success_rate": "",
}
"""The figures set beside each other, with their units."""


class Comparison(msgspec.Struct, kw_only=True):
    """What the comparison of two sides says. `rounds` is a side's number of rounds, the smaller one."""

    a: str
    b: str
    flipped: str
    differing: tuple[str, ...]
    rounds: int
    checks: list[CheckResult]
    figures: dict[str, dict[str, Any]]
    kinds: dict[str, KindVerdict]
    sentence: str
    steps: list[dict[str, Any]] = []

    def to_json(self) -> dict[str, Any]:
        """The form of `compare --json`; None for what is absent."""
        return {
            "a": self.a,
            "b": self.b,
            "flipped": self.flipped,
            "differing": list(self.differing),
            "rounds": self.rounds,
            "checks": [check.table() for check in self.checks],
            "figures": self.figures,
            "verdict": {kind: msgspec.to_builtins(verdict) for kind, verdict in self.kinds.items()},
            "sentence": self.sentence,
            "steps": self.steps,
        }

    def verdict(self) -> Verdict:
        """The form a record keeps."""
        return Verdict(
            sentence=self.sentence,
            a=self.a,
            b=self.b,
            checks={check.name: check.stored() for check in self.checks},
            kinds=self.kinds,
            steps=self.steps,
        )


def figures_of(pair: Pair) -> dict[str, dict[str, Any]]:
    """The figures of both sides over all their ok requests: p50, p95 and n; throughput as the rounds' mean."""
    result: dict[str, dict[str, Any]] = {}
    for name, unit in UNITS.items():
        sides = [_figure_of(side, name) for side in pair.sides]
        if any(sides):
            row: dict[str, Any] = {"unit": unit}
            for key, found in zip("ab", sides, strict=False):
                row |= {key: found.get("p50"), f"{key}_p95": found.get("p95"), f"{key}_n": found.get("n")}
            result[name] = row
    return result


def _figure_of(side: Side, name: str) -> dict[str, Any]:
    if name == "success_rate":
        tried = side.ok + side.failed
        return {"p50": side.ok / tried, "n": tried} if tried else {}
    if name == "throughput":
        values = [cell.throughput for cell in side.cells if cell.throughput is not None]
        return {"p50": sum(values) / len(values), "n": len(values)} if values else {}
    stats = stats_of(side.column(name))
    if stats is not None:
        return {"p50": stats.p50, "p95": stats.p95, "n": stats.n}
    middle = side.median(name)
    return {} if middle is None else {"p50": middle}


class _Judged(msgspec.Struct, kw_only=True):
    """One pair with all that is said of it but the sentence."""

    pair: Pair
    checks: list[CheckResult]
    basis: Basis
    kinds: dict[str, KindVerdict]
    rounds: int


def _judged(pair: Pair, threshold: float) -> _Judged:
    checks = check_pair(pair)
    basis = basis_of(pair)
    kinds = judge(pair, checks, basis, threshold)
    rounds = min(len(side.cells) for side in pair.sides)
    if pair.one_record and pair.b is not None:
        rounds = len({cell.round for cell in pair.a.cells} & {cell.round for cell in pair.b.cells})
    return _Judged(pair=pair, checks=checks, basis=basis, kinds=kinds, rounds=rounds)


def compare_pair(
    pair: Pair, names: tuple[str, str] = ("A", "B"), ask: str = ASK_COMMAND, threshold: float = PRACTICAL
) -> Comparison:
    """Compare two sides. `ask`: what to do for more than one run a side, as the reader can do it."""
    judged = _judged(pair, threshold)
    judged.kinds["capacity"] = judge_capacity(None, None, "needs a ladder with stated limits on both sides")
    return _comparison(judged, names, _say(judged, ask))


def _say(judged: _Judged, ask: str, at: int | None = None, so_far: str = "") -> str:
    return sentence(
        Story(
            pair=judged.pair,
            kinds=judged.kinds,
            checks=judged.checks,
            basis=judged.basis,
            rounds=judged.rounds,
            ask=ask,
            at=at,
            so_far=so_far,
        )
    )


def _comparison(judged: _Judged, names: tuple[str, str], said: str) -> Comparison:
    pair = judged.pair
    return Comparison(
        a=names[0],
        b=names[1],
        flipped=pair.flipped,
        differing=pair.differing,
        rounds=judged.rounds,
        checks=judged.checks,
        figures=figures_of(pair),
        kinds=judged.kinds,
        sentence=said,
    )


def judge_record(record: Record, ask: str = ASK_COMMAND, threshold: float = PRACTICAL) -> Verdict | None:
    """The verdict on an A/B or a sweep, the last value against the first, the others as steps.

    Usable in mid-run: it looks at the rounds both arms have finished. None while there are no two arms to compare.
    """
    if not record.plan.get("varied"):
        return None
    sides = sides_of(record)
    arms = list(sides)
    if len(arms) < 2:
        return None
    first = arms[0]
    ready = [arm for arm in arms[1:] if _common_rounds(sides[first], sides[arm])]
    if not ready:
        return None
    all_judged = {arm: _judged(pair_in(record, first, arm, sides), threshold) for arm in ready}
    last = ready[-1]
    judged = all_judged[last]
    judged.kinds["capacity"] = judge_capacity(None, None, "needs a ladder with stated limits on both sides")
    said = _say(judged, ask, so_far=_so_far(all_judged, last))
    pair = judged.pair
    assert pair.b is not None
    names = side_label(pair, pair.a) or first, side_label(pair, pair.b) or last
    comparison = _comparison(judged, names, said)
    comparison.steps = [_step(all_judged[arm], record, arm, ask) for arm in ready[:-1]]
    return comparison.verdict()


def _common_rounds(a: Side, b: Side) -> set[int]:
    return {cell.round for cell in a.cells} & {cell.round for cell in b.cells}


def _so_far(judged: dict[str, _Judged], last: str) -> str:
    """What still held on a lower rung, for when the last one gives no verdict."""
    for arm in reversed([name for name in judged if name != last]):
        item = judged[arm]
        throughput = item.kinds["throughput"]
        if item.pair.flipped == "concurrency" and throughput.call != NOT_COMPARABLE and throughput.ratio is not None:
            assert item.pair.b is not None
            return f"{item.pair.b.setting.concurrency} at once still held: {times(throughput.ratio)} the tokens per second."
    return ""


def _step(judged: _Judged, record: Record, arm: str, ask: str) -> dict[str, Any]:
    """A sweep's other value against the first, as the record keeps it."""
    assert judged.pair.b is not None
    varied = str(record.plan.get("varied"))
    step: dict[str, Any] = {"arm": arm, "value": _value(judged.pair.b, varied), "sentence": _say(judged, ask)}
    for kind, verdict in judged.kinds.items():
        step[kind] = {key: value for key, value in msgspec.to_builtins(verdict).items() if value is not None}
    return step


def _value(side: Side, varied: str) -> VariableValue:
    try:
        value = value_of(side.setting, varied)
    except AttributeError:
        return side.name
    return "" if value is None else value


def compare_records(a: Record, b: Record, ask: str = ASK_COMMAND, threshold: float = PRACTICAL) -> Comparison:
    """Compare two sessions (or imported results), arm by arm where both vary the same variable.

    With a ladder on both sides, what a single request feels is judged on the lowest common rung, throughput on the highest
    one that allows it, and capacity over all. Raises BadInput when a record has no finished cell.
    """
    names = _session_name(a), _session_name(b)
    pairs = _matched(a, b, names)
    if len(pairs) == 1:
        return compare_pair(pairs[0], names, ask, threshold)
    all_judged = [_judged(pair, threshold) for pair in pairs]
    low = all_judged[0]
    ladder = str(a.plan.get("varied")) == "concurrency"
    high = next(
        (item for item in reversed(all_judged) if item.kinds["throughput"].call != NOT_COMPARABLE), all_judged[-1]
    )
    if not ladder:
        high = low
    merged = _Judged(
        pair=low.pair,
        checks=_worse(low.checks, high.checks),
        basis=low.basis,
        kinds={**low.kinds, "throughput": high.kinds["throughput"]},
        rounds=min(item.rounds for item in all_judged),
    )
    at = None
    if high is not low:
        at = high.pair.a.setting.concurrency
        note = merged.kinds["throughput"].note
        merged.kinds["throughput"].note = "; ".join(part for part in (f"at {at} at once", note) if part)
    merged.kinds["capacity"] = _capacity(a, b, all_judged, ladder)
    comparison = _comparison(merged, names, _say(merged, ask, at=at))
    comparison.steps = [_matched_step(item, str(a.plan.get("varied")), ask) for item in all_judged]
    return comparison


def _session_name(record: Record) -> str:
    return one_line(record.session.name or record.session.id or "unnamed", 60)


def _matched(a: Record, b: Record, names: tuple[str, str]) -> list[Pair]:
    """The pairs of arms that belong together."""
    sides = sides_of(a), sides_of(b)
    for found, name in zip(sides, names, strict=True):
        if not found:
            raise BadInput(f"{name} has no finished cell: nothing to compare")
    first, second = list(sides[0].values()), list(sides[1].values())
    rerun = _same_plan(a, b)
    varied = str(a.plan.get("varied") or "")
    if varied and varied == b.plan.get("varied") and len(first) > 1 and len(second) > 1:
        by_value = {show_value(_value(side, varied)): side for side in second}
        both = [(side, by_value.get(show_value(_value(side, varied)))) for side in first]
        matched = [pair_of(x, y, rerun) for x, y in both if y is not None]
        if matched:
            return matched
    candidates = [pair_of(x, y, rerun) for x in first for y in second]
    return [min(candidates, key=lambda pair: len(pair.differing))]


def _same_plan(a: Record, b: Record) -> bool:
    """Whether two records follow one plan, addresses aside."""
    try:
        plans = [plan_from_table(record.plan) for record in (a, b)]
    except (BadInput, TypeError, ValueError, AttributeError):
        return False
    first, second = (
        msgspec.structs.replace(plan, baseline=msgspec.structs.replace(plan.baseline, base_url=""), seed=0, order=())
        for plan in plans
    )
    return first == second


def _worse(low: list[CheckResult], high: list[CheckResult]) -> list[CheckResult]:
    """Check by check, the worse of two pairs' results."""
    rank = {"pass": 0, "doubt": 1, "fail": 2}
    return [y if rank[y.result] > rank[x.result] else x for x, y in zip(low, high, strict=True)]


def _capacity(a: Record, b: Record, judged: list[_Judged], ladder: bool) -> KindVerdict:
    if not ladder:
        return judge_capacity(None, None, "needs a ladder over concurrency on both sides")
    limits = judged[0].pair.a.limits
    if not limits or limits != (judged[0].pair.b or judged[0].pair.a).limits:
        return judge_capacity(None, None, "needs the same stated limits on both sides (--limit)")
    taken = next((check for item in judged if (check := taken_away(item.checks).get("capacity"))), None)
    rungs = {item.pair.a.setting.concurrency for item in judged}
    found = [capacity_of(record, rungs) for record in (a, b)]
    if None in found:
        return judge_capacity(None, None, "no rung within the limits on a side", taken)
    return judge_capacity(found[0], found[1], "", taken)


def capacity_of(record: Record, rungs: set[int] | None = None) -> int | None:
    """The highest rung of a ladder on which every cell met the record's limits and nothing failed; None when none did."""
    best = None
    for side in sides_of(record).values():
        rung = side.setting.concurrency
        if (rungs is None or rung in rungs) and all(meets_limits(cell, side.limits) for cell in side.cells):
            best = max(best or 0, rung)
    return best


def _matched_step(judged: _Judged, varied: str, ask: str) -> dict[str, Any]:
    step: dict[str, Any] = {"value": _value(judged.pair.a, varied), "sentence": _say(judged, ask)}
    for kind, verdict in judged.kinds.items():
        step[kind] = {key: value for key, value in msgspec.to_builtins(verdict).items() if value is not None}
    return step
