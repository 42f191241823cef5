"""Checks on what the figures can bear: sample size, drift, jitter, and whether the answers still hold."""

from __future__ import annotations

from typing import Any

from workbench.domain.answers import compare_answers
from workbench.domain.cell import JITTER_NAMED, SMALL_FOR_P95
from workbench.domain.checks.identity import shown
from workbench.domain.checks.result import CheckResult, Findings
from workbench.domain.checks.side import Pair, Side, cell_p50
from workbench.domain.record import CellTable
from workbench.domain.statistics import FEWEST_ROUNDS, drift_of, modified_z

ROUNDS_FOR_DRIFT = 6
REQUESTS_FOR_DRIFT = 20
DRIFT_P = 0.01
DRIFT_CHANGE = 0.05
OUTLIER = 3.5


def sample_size(pair: Pair) -> CheckResult:
    """Rounds for an interval, requests for a tail."""
    found = Findings("sample-size")
    rounds = min(len(side.cells) for side in pair.sides)
    if pair.b is not None and rounds < FEWEST_ROUNDS:
        count = "one run" if rounds == 1 else f"{rounds} runs"
        found.doubt(f"{count} a side tells nothing of the spread between runs", "run an A/B: workbench ab --rounds 6")
    fewest = min(side.ok for side in pair.sides)
    if 0 < fewest < SMALL_FOR_P95:
        found.doubt(f"P95 of {fewest} requests is in effect their maximum", f"run at least {SMALL_FOR_P95}")
    return found.result(f"{rounds} rounds, {fewest} requests a side")


def drift(pair: Pair) -> CheckResult:
    """No trend over an arm's rounds or requests; sides that ran in blocks would show a trend as a difference."""
    found = Findings("drift")
    for side in pair.sides:
        trend = _trend(side)
        if trend:
            word = f" {pair.word(side)}" if pair.word(side) else ""
            found.doubt(f"{trend} over the run{word}", "let it settle (heat, other load), then run again")
    if pair.b is not None and pair.one_record and in_blocks(pair):
        found.doubt(
            "one side ran wholly before the other: a drift would look like a difference", "interleave: workbench ab"
        )
    return found.result("steady")


def in_blocks(pair: Pair) -> bool:
    """Whether two sides of one record, with several rounds each, ran one after the other instead of in turns."""
    if pair.b is None or min(len(pair.a.cells), len(pair.b.cells)) < 2:
        return False
    first, second = ([cell.id for cell in side.cells] for side in (pair.a, pair.b))
    return max(first) < min(second) or max(second) < min(first)


def _trend(side: Side) -> str:
    for name, words in (("ttft_ms", "TTFT"), ("decode_rate", "the decode rate")):
        values: list[float]
        if len(side.cells) >= ROUNDS_FOR_DRIFT:
            values = [value for cell in side.cells if (value := cell_p50(cell, name)) is not None]
        else:
            # The first requests of a cell start together and are no sample of how it goes on.
            skip = side.setting.concurrency
            values = [value for cell in side.cells for value in _settled(cell, name, skip)]
            if len(values) < REQUESTS_FOR_DRIFT:
                continue
        if len(values) < ROUNDS_FOR_DRIFT or min(values) <= 0:
            continue
        seen = drift_of(values)
        if seen.p < DRIFT_P and abs(seen.change) > DRIFT_CHANGE:
            return f"{words} {'rose' if seen.change > 0 else 'fell'} by {abs(seen.change):.0%}"
    return ""


def _settled(cell: CellTable, name: str, skip: int) -> list[float]:
    values = zip(cell.per_request.get(name, []), cell.per_request.get("outcome", []), strict=False)
    return [value for value, outcome in list(values)[skip:] if outcome == "ok" and value is not None]


def jitter(pair: Pair) -> CheckResult:
    """The slowest against the fastest request of like length, with the evidence gathered and where to look."""
    found = Findings("jitter")
    for side in pair.sides:
        word = f" {pair.word(side)}" if pair.word(side) else ""
        spread = max((cell.jitter for cell in side.cells if cell.jitter is not None), default=0.0)
        if spread > JITTER_NAMED:
            totals = side.column("total_ms")
            outliers = sum(abs(score) > OUTLIER for score in modified_z(totals))
            many = f", {outliers} of {len(totals)} requests far out" if outliers else ""
            seen = _seen(side)
            found.doubt(
                f"the slowest request took {spread:.1f}x the fastest{word}{many}" + (f"; {seen}" if seen else ""),
                "look at the server's log, GPU use, swap, network retransmits and rate limits"
                if not seen
                else "mend that, then run again",
            )
    return found.result("no request far from the others")


def _seen(side: Side) -> str:
    """What the run's evidence holds that could explain jitter."""
    said = []
    for name, words in (
        ("swap_growth_mib", "swap grew by {:.0f} MiB"),
        ("tcp_retransmits", "{:.0f} TCP segments were sent again"),
        ("cpu_limit_held_back_s", "the container's CPU limit held it back for {:.1f} s"),
        ("cpu_stolen_percent", "{:.0f} % of the CPU time went to other machines"),
    ):
        values = [value for value in side.evidence(name) if isinstance(value, (int, float)) and value >= 1]
        if values:
            said.append(words.format(max(values)))
    said += [shown(item) for item in side.evidence("throttle")[:1] + side.evidence("competing")[:1]]
    limited = sum(cell.errors.get("http_429", 0) for cell in side.cells)
    if limited:
        said.append(f"{limited} answers were 429 (rate limit)")
    return ", ".join(said)


def answers(pair: Pair) -> CheckResult:
    """The candidate's answers keep the key facts and are no repetition of one run."""
    found = Findings("answers")
    if pair.b is None or not pair.a.answers or not pair.b.answers:
        return found.result("no answers were taken")
    before = {str(item.get("prompt", "")): item for item in pair.a.answers}
    compared = 0
    for item in pair.b.answers:
        name = str(item.get("prompt", ""))
        if name not in before:
            continue
        compared += 1
        expected = item.get("expected", before[name].get("expected", []))
        said = compare_answers(_text(before[name]), _text(item), [str(each) for each in expected or []])
        if said.lost:
            found.doubt(
                f"{shown(name)}: lost {', '.join(shown(fact) for fact in said.lost[:3])}",
                "read both answers side by side",
            )
        if said.repetitive:
            found.doubt(f"{shown(name)}: the answer is one repeated run", "read it before trusting its speed")
    return found.result(f"{compared} answers keep the key facts")


def _text(item: dict[str, Any]) -> str:
    return str(item.get("text", ""))
