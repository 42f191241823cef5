"""Statistics of a comparison: intervals on a ratio, the call they allow, and the small tests behind the checks.

The unit of evidence is the round (a repeat of a cell), not the request: requests inside a round are correlated. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from random import Random
from statistics import fmean, median, variance
from typing import Literal

import msgspec

Better = Literal["lower", "higher"]

PRACTICAL = 0.05
"""The practical threshold: a smaller change is not called, however sure."""
ONE_RUN = 0.20
"""The threshold where a side has fewer than three rounds, so that nothing is known of the spread between rounds."""
FEWEST_ROUNDS = 3
MOST_ROUNDS = 100
FEWEST_REQUESTS = 5
DRAWS = 1000

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no difference shown"
UNDECIDED = "undecided"
NOT_COMPARABLE = "not comparable"


class Interval(msgspec.Struct, frozen=True):
    """A ratio B / A with its 95 % interval; `method` is "paired t", "Welch t" or "bootstrap", `n` rounds a side."""

    ratio: float
    low: float
    high: float
    n: int
    method: str


def preload() -> None:
    """Import what the intervals need (about a second): to be called in a thread before the first verdict is due."""
    t_quantile(5.0)


@cache
def t_quantile(df: float, p: float = 0.975) -> float:
    """The p-quantile of Student's t with df degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def _logs(values: Sequence[float]) -> list[float]:
    if any(not value > 0 or math.isinf(value) for value in values):
        raise ValueError("a ratio needs figures above 0")
    return [math.log(value) for value in values]


def _interval(mean: float, half: float, n: int, method: str) -> Interval:
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n, method)


def paired_interval(a: Sequence[float], b: Sequence[float]) -> Interval:
    """Ratio B / A from rounds paired by position: mean of the log ratios, give or take t x s / sqrt(n).

    Raises ValueError for fewer than two pairs, unequal lengths, or figures that are not above 0.
    """
    logs = [y - x for x, y in zip(_logs(a), _logs(b), strict=True)]
    n = len(logs)
    half = t_quantile(n - 1) * math.sqrt(variance(logs) / n)
    return _interval(fmean(logs), half, n, "paired t")


def welch_interval(a: Sequence[float], b: Sequence[float]) -> Interval:
    """Ratio B / A of unpaired rounds by Welch's t on the logs (Welch 1947, degrees of freedom after Satterthwaite).

    Raises ValueError for fewer than two rounds on a side, or figures that are not above 0.
    """
    x, y = _logs(a), _logs(b)
    u, v = variance(x) / len(x), variance(y) / len(y)
    half = 0.0
    if u + v > 0:
        df = (u + v) ** 2 / (u * u / (len(x) - 1) + v * v / (len(y) - 1))
        half = t_quantile(df) * math.sqrt(u + v)
    return _interval(fmean(y) - fmean(x), half, min(len(x), len(y)), "Welch t")


def median_draws(values: Sequence[float], rng: Random, draws: int = DRAWS) -> list[float]:
    """Bootstrap medians of a sample, each in constant time.

    The median of a resample is the order statistic whose place has a Beta distribution, so that place is drawn.
    """
    ordered = sorted(values)
    n = len(ordered)
    middle = (n + 1) / 2
    return [ordered[min(int(rng.betavariate(middle, middle) * n), n - 1)] for _ in range(draws)]


def rate_draws(
    amounts: Sequence[float], times: Sequence[float], rng: Random, draws: int = DRAWS, blocks: int = 25
) -> list[float]:
    """Bootstrap draws of sum(amounts) / sum(times); beyond `blocks` requests, neighbours are drawn together."""
    size = -(-len(amounts) // blocks)
    parts = [(sum(amounts[at : at + size]), sum(times[at : at + size])) for at in range(0, len(amounts), max(size, 1))]
    result = []
    for _ in range(draws):
        drawn = rng.choices(parts, k=len(parts))
        result.append(sum(part[0] for part in drawn) / sum(part[1] for part in drawn))
    return result


def draws_interval(ratio: float, a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], n: int) -> Interval:
    """A bootstrap interval (percentile) round a ratio, from the draws of each round of either side."""
    means = [[sum(map(math.log, rounds)) / len(side) for rounds in zip(*side, strict=True)] for side in (a, b)]
    logs = sorted(y - x for x, y in zip(*means, strict=True))
    low, high = logs[int(0.025 * len(logs))], logs[int(0.975 * len(logs)) - 1]
    return Interval(ratio, min(math.exp(low), ratio), max(math.exp(high), ratio), n, "bootstrap")


def orient(interval: Interval, better: str) -> Interval:
    """The interval turned so that above 1 is better."""
    if better == "higher":
        return interval
    return Interval(1 / interval.ratio, 1 / interval.high, 1 / interval.low, interval.n, interval.method)


def call_of(interval: Interval, better: str, threshold: float = PRACTICAL) -> str:
    """The call that an interval allows.

    With the ratio oriented so that above 1 is better and t the threshold: faster when low > 1 and ratio >= 1 + t,
    slower in the mirror; no difference shown when the interval lies inside 1/(1+t)..1+t, or holds 1 and lies inside
    1/(1+2t)..1+2t; else undecided.
    """
    turned = orient(interval, better)
    if turned.low > 1 and turned.ratio >= 1 + threshold:
        return FASTER
    if turned.high < 1 and turned.ratio <= 1 / (1 + threshold):
        return SLOWER
    if _inside(turned, threshold) or (turned.low <= 1 <= turned.high and _inside(turned, 2 * threshold)):
        return NO_DIFFERENCE
    return UNDECIDED


def _inside(interval: Interval, threshold: float) -> bool:
    return interval.low >= 1 / (1 + threshold) and interval.high <= 1 + threshold


def rounds_needed(
    a: Sequence[float], b: Sequence[float], better: str, paired: bool, threshold: float = PRACTICAL
) -> int | None:
    """The smallest number of rounds a side, up to 100, that would give a call if mean and spread stay; None beyond."""
    x, y = _logs(a), _logs(b)
    mean = fmean(y) - fmean(x)
    if paired:
        spread = variance([second - first for first, second in zip(x, y, strict=True)])
        freedom = 1.0
    else:
        u, v = variance(x), variance(y)
        spread = u + v
        freedom = spread * spread / (u * u + v * v) if spread else 1.0
    for n in range(min(len(x), len(y)) + 1, MOST_ROUNDS + 1):
        half = t_quantile(freedom * (n - 1)) * math.sqrt(spread / n)
        if call_of(_interval(mean, half, n, ""), better, threshold) != UNDECIDED:
            return n
    return None


def kendall_p(values: Sequence[float]) -> float:
    """Two-sided p of Kendall's tau between a series and its order: the chance of such a trend without one.

    Exact up to 30 values without ties (from the number of inversions of a permutation), else the normal approximation
    with the tie correction (Kendall 1970). 1.0 for fewer than three values or a constant series.
    """
    n = len(values)
    if n < 3:
        return 1.0
    score = sum((values[j] > values[i]) - (values[j] < values[i]) for i in range(n) for j in range(i + 1, n))
    counts: dict[float, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    if n <= 30 and len(counts) == n:
        ways = _inversions(n)
        few = (n * (n - 1) // 2 - abs(score)) // 2
        return min(1.0, 2 * sum(ways[: few + 1]) / math.factorial(n))
    spread = (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in counts.values())) / 18
    return math.erfc(abs(score) / math.sqrt(2 * spread)) if spread > 0 else 1.0


@cache
def _inversions(n: int) -> tuple[int, ...]:
    """How many permutations of n things have 0, 1, 2, ... inversions."""
    ways = [1]
    for size in range(2, n + 1):
        wider = [0] * (len(ways) + size - 1)
        for inversions, count in enumerate(ways):
            for more in range(size):
                wider[inversions + more] += count
        ways = wider
    return tuple(ways)


class Drift(msgspec.Struct, frozen=True):
    """A trend in a series: its p by Kendall's tau, and the last third's mean against the first third's, less 1."""

    p: float
    change: float


def drift_of(values: Sequence[float], most: int = 200) -> Drift:
    """The drift of a series of figures above 0; beyond `most` of them, means of neighbours are looked at."""
    size = -(-len(values) // most) or 1
    means = [fmean(values[at : at + size]) for at in range(0, len(values), size)]
    third = max(1, len(means) // 3)
    first, last = fmean(means[:third]), fmean(means[-third:])
    return Drift(kendall_p(means), last / first - 1 if first > 0 else 0.0)


def fisher_exact_p(ok_a: int, failed_a: int, ok_b: int, failed_b: int) -> float:
    """Two-sided p of Fisher's exact test on a 2 x 2 table: the tables no likelier than this one, margins fixed."""
    row_a, row_b, good = ok_a + failed_a, ok_b + failed_b, ok_a + ok_b
    low, high = max(0, good - row_b), min(good, row_a)

    def log_choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    whole = log_choose(row_a + row_b, good)
    chances = [math.exp(log_choose(row_a, k) + log_choose(row_b, good - k) - whole) for k in range(low, high + 1)]
    seen = chances[ok_a - low]
    return min(1.0, sum(chance for chance in chances if chance <= seen * (1 + 1e-7)))


def modified_z(values: Sequence[float]) -> list[float]:
    """Modified z-scores 0.6745 (x - median) / MAD (Iglewicz and Hoaglin 1993); above 3.5 is taken for an outlier.

    With a MAD of 0 the mean absolute deviation stands in; with that 0 too, so are all scores.
    """
    if not values:
        return []
    middle = median(values)
    away = [abs(value - middle) for value in values]
    scale = median(away) / 0.6745 or 1.253314 * fmean(away)
    return [(value - middle) / scale if scale else 0.0 for value in values]
