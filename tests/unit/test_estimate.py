"""How long a plan will take: the arithmetic, worked by hand."""

from __future__ import annotations

import pytest

from workbench.domain.plan import CellPlan, Plan, cells
from workbench.domain.variables import Setting
from workbench.session.estimate import WARM_OVERHEAD_S, Estimate, cell_seconds


def cell(concurrency: int = 1, requests: int = 20, warmup: int = 3) -> CellPlan:
    return CellPlan(
        index=0, round=1, arm="A", setting=Setting(concurrency=concurrency), requests=requests, warmup=warmup
    )


@pytest.mark.parametrize(
    ("plan", "one", "request_s", "seconds"),
    [
        ({}, cell(), None, None),
        # 20 requests and 3 of warm-up, one after the other.
        ({}, cell(), 2.0, 46.0),
        # 8 at a time: 3 waves; the first warm-up alone, the other two together.
        ({}, cell(concurrency=8), 2.0, 10.0),
        ({}, cell(concurrency=8, warmup=10), 2.0, 12.0),
        ({}, cell(warmup=0), 2.0, 40.0),
        ({}, cell(warmup=1), 2.0, 42.0),
        ({"rate": 4.0, "arrival": "poisson"}, cell(), 2.0, 5.0 + 2.0 + 6.0),
        ({"duration": 30.0}, cell(), None, 30.0),
        ({"duration": 30.0}, cell(), 2.0, 34.0),
        ({"duration": 30.0}, cell(warmup=0), 2.0, 32.0),
    ],
)
def test_a_cells_seconds(
    plan: dict[str, object], one: CellPlan, request_s: float | None, seconds: float | None
) -> None:
    got = cell_seconds(Plan(baseline=Setting(), **plan), one, request_s)  # type: ignore[arg-type]
    assert got == (None if seconds is None else pytest.approx(seconds + WARM_OVERHEAD_S))


def ladder() -> tuple[Estimate, list[CellPlan]]:
    plan = Plan(baseline=Setting(), varied="concurrency", values=(1, 2), order=tuple("ABAB"), requests=4, warmup=1)
    planned = cells(plan)
    return Estimate(plan, planned), planned


def test_what_remains_is_told_from_what_was_seen_of_each_arm() -> None:
    estimate, planned = ladder()
    assert estimate.remaining(0) is None
    estimate.saw("A", 2.0)
    # Nothing seen of B yet: it is taken to be like the last that was seen.
    a, b = 5 * 2.0 + 0.5, 3 * 2.0 + 0.5
    assert estimate.remaining(0) == pytest.approx(2 * a + 2 * b)
    estimate.saw("B", 4.0)
    b = 3 * 4.0 + 0.5
    assert estimate.of_cell(planned[0]) == pytest.approx(a)
    assert estimate.remaining(1) == pytest.approx(2 * b + a)
    assert estimate.remaining(3) == pytest.approx(b)
    assert estimate.remaining(4) == 0.0


def test_the_time_spent_in_a_cell_counts_for_that_cell_alone() -> None:
    estimate, _ = ladder()
    estimate.saw("A", 2.0)
    whole = estimate.remaining(2)
    assert whole is not None
    assert estimate.remaining(2, elapsed_in_cell=3.0) == pytest.approx(whole - 3.0)
    assert estimate.remaining(2, elapsed_in_cell=1e9) == estimate.remaining(3), "an overdue cell owes nothing"


def test_newer_requests_weigh_more_and_one_outlier_is_not_all() -> None:
    estimate, planned = ladder()
    for _ in range(30):
        estimate.saw("A", 2.0)
    estimate.saw("A", 12.0)
    assert estimate.of_cell(planned[0]) == pytest.approx(5 * 5.0 + 0.5)
    for _ in range(30):
        estimate.saw("A", 4.0)
    assert estimate.of_cell(planned[0]) == pytest.approx(5 * 4.0 + 0.5, rel=0.01)
