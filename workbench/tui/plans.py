"""Plans of the screen's modes: a single run, a ladder, an A/B of what was flipped, a soak."""

from __future__ import annotations

import random

import msgspec

from workbench.domain.plan import Arrival, Plan, Timeouts, arm_settings, default_requests, interleaved
from workbench.domain.variables import BadInput, Setting, VariableValue, differences, value_of, with_value

LADDER: tuple[int, ...] = (1, 4, 8, 16, 32)
AB_ROUNDS = 6
SOAK_CELL_S = 60.0
SOAK_CELLS = 10_000
"""A soak is a row of one-minute cells until it is stopped: each minute is on disk when it is over, and memory stays flat."""

STEPS: dict[str, tuple[VariableValue, ...]] = {
    "concurrency": (1, 2, 4, 8, 16, 32, 64, 128),
    "max_tokens": (16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    "temperature": (0.0, 0.2, 0.5, 0.7, 1.0),
    "cache": ("unique", "warm"),
    "stream": (True, False),
    "seed": (None, 0, 1, 2, 3),
}
"""Where left and right lead when the target has no list of its own."""


class PlanDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What every plan of this session starts from, as given on the command line. None and () are "not said".

    `varied` and `values`: a sweep asked for at the start. `rounds`: of that sweep, or of an A/B.
    """

    requests: int | None = None
    warmup: int = 3
    rounds: int | None = None
    limits: dict[str, float] = {}
    timeouts: Timeouts = Timeouts()
    workers: int = 0
    duration: float | None = None
    arrival: Arrival = "closed"
    rate: float | None = None
    budget: float | None = None
    until: float | None = None
    seed: int | None = None
    varied: str = ""
    values: tuple[VariableValue, ...] = ()
    ladder: tuple[int, ...] = LADDER


def plan_for(mode: str, setting: Setting, baseline: Setting | None, defaults: PlanDefaults) -> Plan:
    """The plan of a mode: "run", "sweep", "ladder", "ab" or "soak". Raises BadInput when nothing is there to compare."""
    seed = random.SystemRandom().randrange(2**31) if defaults.seed is None else defaults.seed
    common = {
        "warmup": defaults.warmup,
        "limits": defaults.limits,
        "timeouts": defaults.timeouts,
        "workers": defaults.workers,
        "arrival": defaults.arrival,
        "rate": defaults.rate,
        "budget": defaults.budget,
        "duration": defaults.duration,
        "seed": seed,
    }
    if mode == "run":
        requests = defaults.requests or default_requests(setting.concurrency)
        return Plan(baseline=setting, requests=requests, **common)  # type: ignore[arg-type]
    if mode == "soak":
        soak = {**common, "duration": SOAK_CELL_S, "budget": None}
        return Plan(baseline=setting, requests=1, rounds=SOAK_CELLS, **soak)  # type: ignore[arg-type]
    if mode in ("ladder", "sweep"):
        varied = defaults.varied if mode == "sweep" else "concurrency"
        values: tuple[VariableValue, ...] = defaults.values if mode == "sweep" else defaults.ladder
        rounds = defaults.rounds or 1
        widest = max([value for value in values if isinstance(value, int)] if varied == "concurrency" else [1])
        return Plan(
            baseline=with_value(setting, varied, values[0]),
            varied=varied,
            values=values,
            rounds=rounds,
            order=interleaved(len(values), rounds, seed, counterbalance=False),
            requests=defaults.requests or default_requests(max(setting.concurrency, widest)),
            **common,  # type: ignore[arg-type]
        )
    if baseline is None:
        raise BadInput("an A/B needs a baseline: run once, flip one variable, then press a")
    differing = differences(baseline, setting)
    if len(differing) != 1:
        what = f"{len(differing)} differ ({', '.join(differing)})" if differing else "nothing differs"
        raise BadInput(f"an A/B compares one flipped variable; {what}")
    name = differing[0]
    rounds = defaults.rounds or AB_ROUNDS
    return Plan(
        baseline=baseline,
        varied=name,
        values=(value_of(baseline, name), value_of(setting, name)),
        rounds=rounds,
        order=interleaved(2, rounds, seed, counterbalance=True),
        requests=defaults.requests or default_requests(max(baseline.concurrency, setting.concurrency), ab=True),
        until=defaults.until,
        **common,  # type: ignore[arg-type]
    )


def requests_of_arms(plan: Plan, defaults: PlanDefaults) -> dict[str, int]:
    """Requests of each arm where they were not asked for and concurrency is what varies: enough for each, no more."""
    if plan.varied != "concurrency" or defaults.requests is not None or plan.duration is not None:
        return {}
    ab = mode_of(plan) == "ab"
    return {arm: default_requests(setting.concurrency, ab) for arm, setting in arm_settings(plan).items()}


def mode_of(plan: Plan) -> str:
    """The mode a plan belongs to: what its cells are best shown as."""
    if not plan.varied:
        return "run"
    if len(plan.values) == 2 and plan.rounds > 1:
        return "ab"
    return "ladder" if plan.varied == "concurrency" else "sweep"


def steps_from(values: list[VariableValue], current: VariableValue, step: int) -> VariableValue:
    """The next value in a list, one step on: numbers stop at the ends, others go round.

    A current value that is not in the list goes to its neighbour (numbers) or to the first.
    """
    if not values:
        return current
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    if current in values:
        index = values.index(current) + step
        return values[max(0, min(len(values) - 1, index))] if numbers else values[index % len(values)]
    if numbers and isinstance(current, (int, float)):
        ordered = sorted(values, key=lambda value: float(value or 0))
        beyond = [value for value in ordered if (float(value or 0) - current) * step > 0]
        return (beyond[0] if step > 0 else beyond[-1]) if beyond else current
    return values[0]
