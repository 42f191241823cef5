"""Intervals, calls and small tests, held against scipy.stats and against simulated truth."""

from __future__ import annotations

import math
import subprocess
import sys
from random import Random

import pytest
from scipy import stats

from workbench.domain import statistics as ours


def noisy(rng: Random, n: int, level: float = 100.0, noise: float = 0.05) -> list[float]:
    return [level * math.exp(rng.gauss(0, noise)) for _ in range(n)]


def test_paired_interval_is_the_t_interval_of_the_log_ratios():
    rng = Random(1)
    a, b = noisy(rng, 7), noisy(rng, 7, 110)
    found = ours.paired_interval(a, b)
    logs = [math.log(y / x) for x, y in zip(a, b, strict=True)]
    truth = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert math.log(found.low) == pytest.approx(truth.low, rel=1e-9)
    assert math.log(found.high) == pytest.approx(truth.high, rel=1e-9)
    assert found.ratio == pytest.approx(math.exp(sum(logs) / 7))


def test_welch_interval_agrees_with_scipy():
    rng = Random(2)
    a, b = noisy(rng, 5), noisy(rng, 8, 80, 0.15)
    found = ours.welch_interval(a, b)
    truth = stats.ttest_ind([math.log(v) for v in b], [math.log(v) for v in a], equal_var=False).confidence_interval()
    assert math.log(found.low) == pytest.approx(truth.low, rel=1e-9)
    assert math.log(found.high) == pytest.approx(truth.high, rel=1e-9)


def test_welch_of_two_constant_sides_is_a_point():
    found = ours.welch_interval([2.0, 2.0, 2.0], [3.0, 3.0, 3.0])
    assert found.low == pytest.approx(1.5)
    assert found.high == pytest.approx(1.5)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_ratio_needs_figures_above_zero(bad: float):
    with pytest.raises(ValueError, match="above 0"):
        ours.paired_interval([1.0, bad, 2.0], [1.0, 2.0, 3.0])


def made(low: float, ratio: float, high: float) -> ours.Interval:
    return ours.Interval(ratio, low, high, 6, "paired t")


@pytest.mark.parametrize(
    ("interval", "call"),
    [
        (made(1.01, 1.06, 1.11), "faster"),
        (made(1.01, 1.04, 1.07), "undecided"),  # sure, but under the threshold, and not surely under it
        (made(1.01, 1.03, 1.05), "no difference shown"),
        (made(0.96, 1.0, 1.04), "no difference shown"),
        (made(0.92, 1.0, 1.09), "no difference shown"),  # holds 1, within twice the threshold
        (made(0.90, 1.0, 1.09), "undecided"),
        (made(0.99, 1.06, 1.13), "undecided"),
        (made(0.85, 0.90, 0.95), "slower"),
        (made(0.94, 0.96, 0.98), "undecided"),
        (made(0.953, 0.96, 0.98), "no difference shown"),
    ],
)
def test_calls_where_higher_is_better_and_mirrored(interval: ours.Interval, call: str):
    assert ours.call_of(interval, "higher") == call
    mirrored = ours.Interval(1 / interval.ratio, 1 / interval.high, 1 / interval.low, 6, "")
    assert ours.call_of(mirrored, "lower") == call


def test_rounds_needed_is_the_first_number_that_decides():
    rng = Random(5)
    a, b = noisy(rng, 4, noise=0.06), noisy(rng, 4, 108, 0.06)
    assert ours.call_of(ours.paired_interval(a, b), "higher") == "undecided"
    needed = ours.rounds_needed(a, b, "higher", paired=True)
    assert needed is not None
    logs = [math.log(y / x) for x, y in zip(a, b, strict=True)]
    mean, sd = sum(logs) / 4, math.sqrt(ours.variance(logs))

    def at(n: int) -> str:
        half = float(stats.t.ppf(0.975, n - 1)) * sd / math.sqrt(n)
        return ours.call_of(
            ours.Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n, ""), "higher"
        )

    assert at(needed) != "undecided"
    assert needed == 5 or at(needed - 1) == "undecided"


def test_rounds_needed_is_absent_beyond_a_hundred():
    # Exactly at the threshold: no number of rounds gets the interval clear of it.
    a = [100.0, 100.0, 100.0, 100.0]
    b = [104.9 * factor for factor in (0.5, 2.0, 0.5, 2.0)]
    assert ours.rounds_needed(a, b, "higher", paired=True) is None


def test_median_draws_spread_like_the_bootstrap_of_scipy():
    rng = Random(3)
    values = noisy(rng, 40, noise=0.2)
    drawn = sorted(ours.median_draws(values, Random(0), 4000))
    truth = stats.bootstrap((values,), lambda x, axis: _median(x, axis), method="percentile", random_state=0)
    assert drawn[100] == pytest.approx(truth.confidence_interval.low, rel=0.03)
    assert drawn[3899] == pytest.approx(truth.confidence_interval.high, rel=0.03)


def _median(x, axis):
    import numpy

    return numpy.median(x, axis=axis)


def test_draws_are_the_same_for_the_same_seed():
    values = noisy(Random(4), 30)
    assert ours.median_draws(values, Random(7)) == ours.median_draws(values, Random(7))
    ones = [1.0] * 30
    assert ours.rate_draws(ones, values, Random(7)) == ours.rate_draws(ones, values, Random(7))


def test_rate_draws_centre_on_the_rate():
    rng = Random(6)
    amounts, times = noisy(rng, 350, 512, 0.1), noisy(rng, 350, 8000, 0.3)
    drawn = ours.rate_draws(amounts, times, Random(0))
    assert sum(drawn) / len(drawn) == pytest.approx(sum(amounts) / sum(times), rel=0.01)


@pytest.mark.parametrize("n", [3, 6, 9, 20, 30])
def test_kendall_exact_agrees_with_scipy(n: int):
    values = noisy(Random(n), n)
    truth = stats.kendalltau(range(n), values, method="exact").pvalue
    assert ours.kendall_p(values) == pytest.approx(truth, rel=1e-9)


def test_kendall_with_ties_agrees_with_scipy():
    values = [float(int(value)) for value in noisy(Random(8), 60, 20, 0.1)]
    truth = stats.kendalltau(range(60), values, method="asymptotic").pvalue
    assert ours.kendall_p(values) == pytest.approx(truth, rel=1e-9)


def test_kendall_of_little_or_constant_is_no_trend():
    assert ours.kendall_p([1.0, 2.0]) == 1.0
    assert ours.kendall_p([5.0] * 12) == 1.0


def test_drift_sees_a_rise_and_its_size():
    rising = [100 + 2 * step for step in range(30)]
    found = ours.drift_of(rising)
    assert found.p < 1e-6
    assert found.change == pytest.approx(149 / 109 - 1, rel=1e-9)
    long = ours.drift_of([100 + step / 100 for step in range(5000)])
    assert long.p < 1e-6


@pytest.mark.parametrize("table", [(10, 0, 7, 3), (19, 1, 20, 0), (5, 5, 50, 2), (0, 3, 3, 0), (400, 20, 380, 40)])
def test_fisher_agrees_with_scipy(table: tuple[int, int, int, int]):
    truth = stats.fisher_exact([[table[0], table[1]], [table[2], table[3]]]).pvalue
    assert ours.fisher_exact_p(*table) == pytest.approx(truth, rel=1e-6)


def test_modified_z_finds_the_outlier_and_survives_no_spread():
    scores = ours.modified_z([10.0, 10.2, 9.9, 10.1, 25.0])
    assert [abs(score) > 3.5 for score in scores] == [False, False, False, False, True]
    assert ours.modified_z([5.0] * 9) == [0.0] * 9
    assert ours.modified_z([5.0] * 9 + [50.0])[-1] > 3.5
    assert ours.modified_z([]) == []


def test_importing_the_domain_loads_no_scipy():
    code = "import sys, workbench.domain.statistics; print([m for m in sys.modules if m.split('.')[0] == 'scipy'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def simulated(rng: Random, rounds: int, order: str, change: float, noise: float, drift: float):
    """Round figures of two sides in the order's places, with a slow drift shared by both."""
    sides: dict[str, list[float]] = {"A": [], "B": []}
    places = order * (2 * rounds // len(order)) if order != "block" else "A" * rounds + "B" * rounds
    for place, side in enumerate(places):
        shared = drift * place / len(places)
        level = 50.0 * ((1 + change) if side == "B" else 1)
        sides[side].append(level * math.exp(shared + rng.gauss(0, noise)))
    return sides["A"], sides["B"]


def shares(rounds: int, order: str, change: float, noise: float, drift: float, runs: int = 1000) -> dict[str, float]:
    rng = Random(2024)
    counts: dict[str, int] = {}
    for _ in range(runs):
        a, b = simulated(rng, rounds, order, change, noise, drift)
        interval = ours.welch_interval(a, b) if order == "block" else ours.paired_interval(a, b)
        call = ours.call_of(interval, "higher")
        counts[call] = counts.get(call, 0) + 1
    return {call: count / runs for call, count in counts.items()}


def test_the_same_server_twice_shows_no_difference():
    found = shares(6, "ABBA", 0.0, 0.03, drift=0.06)
    assert found["no difference shown"] >= 0.90
    assert found.get("faster", 0) + found.get("slower", 0) <= 0.05


def test_a_true_ten_percent_is_called():
    assert shares(6, "ABBA", 0.10, 0.03, drift=0.06)["faster"] >= 0.95


def test_block_order_does_worse_than_interleaved():
    interleaved, block = (shares(6, order, 0.0, 0.03, drift=0.12) for order in ("ABBA", "block"))
    assert interleaved.get("faster", 0) + interleaved.get("slower", 0) <= 0.05
    assert block.get("faster", 0) + block.get("slower", 0) > 0.25
