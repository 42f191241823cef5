"""How long a plan will take, from what has been seen so far. Pure arithmetic; None until something has been seen."""

from __future__ import annotations

import math

from workbench.domain.plan import CellPlan, Plan

WARM_OVERHEAD_S = 0.5
"""Building requests, opening connections, draining and saving, a cell."""


def cell_seconds(plan: Plan, cell: CellPlan, request_s: float | None) -> float | None:
    """Seconds one cell will take when a request of its setting takes `request_s`; None when that isn't known."""
    if plan.duration is not None:
        return plan.duration + (request_s or 0.0) * (1 + (cell.warmup > 0)) + WARM_OVERHEAD_S
    if request_s is None:
        return None
    if plan.rate is not None:
        measured = cell.requests / plan.rate + request_s
    else:
        measured = math.ceil(cell.requests / cell.setting.concurrency) * request_s
    # The first warm-up request runs alone, the others as the cell will.
    warm = (min(cell.warmup, 1) + math.ceil(max(cell.warmup - 1, 0) / cell.setting.concurrency)) * request_s
    return measured + warm + WARM_OVERHEAD_S


class Estimate:
    """Remaining time, told by the request times seen in each arm, else by the last ones seen anywhere."""

    def __init__(self, plan: Plan, cells: list[CellPlan]) -> None:
        self._plan = plan
        self._cells = cells
        self._seen: dict[str, float] = {}
        self._last: float | None = None

    def saw(self, arm: str, request_s: float) -> None:
        """A request of this arm took so long."""
        before = self._seen.get(arm)
        self._seen[arm] = request_s if before is None else 0.7 * before + 0.3 * request_s
        self._last = self._seen[arm]

    def of_cell(self, cell: CellPlan) -> float | None:
        return cell_seconds(self._plan, cell, self._seen.get(cell.arm, self._last))

    def remaining(self, index: int, elapsed_in_cell: float = 0.0) -> float | None:
        """Seconds from now to the end, in cell number `index`; None when nothing has been seen."""
        total = 0.0
        for cell in self._cells[index:]:
            seconds = self.of_cell(cell)
            if seconds is None:
                return None
            total += max(0.0, seconds - elapsed_in_cell) if cell.index == index else seconds
        return total
