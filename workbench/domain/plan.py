"""Plans: what will be measured, in which order, and with what held still."""

from __future__ import annotations

import random
from typing import Annotated, Any, Literal

import msgspec

from workbench.domain.variables import (
    CONTROLLED,
    BadInput,
    Setting,
    VariableValue,
    assignment,
    from_assignment,
    with_value,
)

Arrival = Literal["closed", "constant", "poisson"]

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]

LIMITS = ("ttft_ms", "ttfa_ms", "total_ms", "tpot_ms", "decode_rate")
"""Figures a request may be held to; decode_rate is a floor, the others are ceilings."""


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds. The first byte is waited for generously: a long prefill, or a queue, sends nothing at all."""

    connect: Positive = 10.0
    first_byte: Positive = 600.0
    idle: Positive = 120.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A session's plan. `requests` counts per cell; `duration` (seconds) replaces it when given.

    With an open arrival `rate` is requests a second, sent on schedule whatever the server does.
    """

    baseline: Setting
    varied: str = ""
    values: tuple[VariableValue, ...] = ()
    rounds: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    order: tuple[str, ...] = ()
    warmup: NotNegative = 3
    requests: AtLeastOne = 20
    duration: Positive | None = None
    arrival: Arrival = "closed"
    rate: Positive | None = None
    limits: dict[str, Positive] = {}
    seed: int = 0
    timeouts: Timeouts = Timeouts()
    workers: NotNegative = 0
    budget: Positive | None = None
    until: Positive | None = None


class CellPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: one setting in one round, with its number of measured and of warm-up requests."""

    index: int
    round: int
    arm: str
    setting: Setting
    requests: int
    warmup: int


def arm_name(index: int) -> str:
    """A, B, ... Z, AA, AB, ...: the name of the index-th value of the varied variable."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def default_requests(concurrency: int, ab: bool = False) -> int:
    """Requests of a cell when none are asked for: enough for a tail in a run, less in an A/B whose unit is the round."""
    return max(5, 2 * concurrency) if ab else max(20, 3 * concurrency)


def interleaved(arms: int, rounds: int, seed: int, counterbalance: bool) -> tuple[str, ...]:
    """The order in which arms run, round by round.

    Counterbalanced (an A/B): every second round runs the other way round (ABBA), so that a drift shared by both sides
    cancels; which side opens is drawn from the seed. Otherwise (a ladder) each round climbs in the order given.
    """
    names = [arm_name(index) for index in range(arms)]
    order: list[str] = []
    backward = counterbalance and random.Random(seed).random() < 0.5
    for _ in range(rounds):
        order += reversed(names) if backward else names
        if counterbalance:
            backward = not backward
    return tuple(order)


def arm_settings(plan: Plan) -> dict[str, Setting]:
    """The setting of each arm, by its name; one arm "A" when nothing is varied."""
    if not plan.varied:
        return {"A": plan.baseline}
    return {arm_name(index): with_value(plan.baseline, plan.varied, value) for index, value in enumerate(plan.values)}


def cells(plan: Plan, requests_of: dict[str, int] | None = None, full_warmup_each: bool = False) -> list[CellPlan]:
    """The plan's cells in the order they run.

    An arm's first cell gets the full warm-up, later ones a single request, unless `full_warmup_each` says that
    changing arms restarts something. `requests_of` gives an arm its own number of requests.
    """
    settings = arm_settings(plan)
    order = plan.order or tuple(settings) * plan.rounds
    seen: set[str] = set()
    rounds: dict[str, int] = {}
    result = []
    previous = ""
    for index, arm in enumerate(order):
        if arm not in settings:
            raise BadInput(f"the plan's order names arm {arm!r}, which has no value")
        rounds[arm] = rounds.get(arm, 0) + 1
        fresh = arm not in seen or (full_warmup_each and arm != previous)
        result.append(
            CellPlan(
                index=index,
                round=rounds[arm],
                arm=arm,
                setting=settings[arm],
                requests=(requests_of or {}).get(arm, plan.requests),
                warmup=plan.warmup if fresh else min(1, plan.warmup),
            )
        )
        seen.add(arm)
        previous = arm
    return result


def parse_limit(text: str) -> tuple[str, float]:
    """`ttft_ms=500` as (name, bound). Raises BadInput."""
    name, equals, bound = text.partition("=")
    if not equals or name not in LIMITS:
        raise BadInput(f"--limit {text!r}: write NAME=NUMBER with NAME one of {', '.join(LIMITS)}")
    try:
        number = float(bound)
    except ValueError:
        raise BadInput(f"--limit {text!r}: {bound!r} is not a number") from None
    if not 0 < number < float("inf"):
        raise BadInput(f"--limit {text!r}: the bound must be above 0")
    return name, number


def plan_table(plan: Plan) -> dict[str, Any]:
    """The record's `[plan]` but its targets and prompts, absent values left out."""
    table: dict[str, Any] = {
        "varied": plan.varied,
        "values": ["" if value is None else value for value in plan.values],
        "order": list(plan.order),
        "warmup": plan.warmup,
        "requests": plan.requests,
        "rounds": plan.rounds,
        "seed": plan.seed,
        "cache": plan.baseline.cache,
        "arrival": plan.arrival,
        "limits": dict(plan.limits),
        "timeouts": msgspec.to_builtins(plan.timeouts),
        "workers": plan.workers,
    }
    for name in ("rate", "duration", "budget", "until"):
        value = getattr(plan, name)
        if value is not None:
            table[name] = value
    table["baseline"] = {**assignment(plan.baseline), "base_url": plan.baseline.base_url}
    return table


def plan_from_table(table: dict[str, Any]) -> Plan:
    """The plan of a record. Raises BadInput when a value has the wrong type or can't be measured with."""
    known = {field for field in Plan.__struct_fields__ if field not in ("baseline",)}
    rest = {key: value for key, value in table.items() if key in known}
    given = table.get("baseline", {})
    if not isinstance(given, dict):
        raise BadInput("the record's plan can't be read: its baseline is no table")
    baseline = from_assignment(given)
    try:
        plan = msgspec.structs.replace(msgspec.convert({**rest, "baseline": {}}, Plan), baseline=baseline)
    except msgspec.ValidationError as error:
        raise BadInput(f"the record's plan can't be read: {error}") from None
    plan = msgspec.structs.replace(plan, values=tuple(_typed(plan.varied, value) for value in plan.values))
    _check(plan)
    return plan


def _typed(varied: str, value: VariableValue) -> VariableValue:
    return None if varied == "seed" and value == "" else value


def _check(plan: Plan) -> None:
    """Raises BadInput for what the types can't tell."""
    if plan.varied and plan.varied not in CONTROLLED:
        raise BadInput(f"the record varied {plan.varied!r}, which is no variable: it is one of {', '.join(CONTROLLED)}")
    for value in plan.values if plan.varied else ():
        from_assignment({} if value is None else {plan.varied: value})
    unknown = [name for name in plan.limits if name not in LIMITS]
    if unknown:
        raise BadInput(
            f"the record holds requests to {unknown[0]!r}, which is no limit: it is one of {', '.join(LIMITS)}"
        )
    if plan.arrival != "closed" and plan.rate is None:
        raise BadInput(f"the record's arrival is {plan.arrival}, but it has no rate")
