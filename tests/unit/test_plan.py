"""Plans: who runs when, with how many requests, and back from a record."""

from __future__ import annotations

import tomllib
from collections import Counter
from typing import Any

import msgspec
import pytest
import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st

from workbench.domain.plan import (
    LIMITS,
    Plan,
    Timeouts,
    arm_name,
    arm_settings,
    cells,
    default_requests,
    interleaved,
    parse_limit,
    plan_from_table,
    plan_table,
)
from workbench.domain.variables import BadInput, Setting

# Order


def test_arms_are_named_like_a_spreadsheets_columns() -> None:
    assert [arm_name(n) for n in (0, 1, 25, 26, 27, 51, 52, 701, 702)] == [
        *("A", "B", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA")
    ]
    assert len({arm_name(n) for n in range(2000)}) == 2000


def test_an_ab_runs_abba() -> None:
    orders = {interleaved(2, 4, seed, counterbalance=True) for seed in range(20)}
    assert orders == {tuple("ABBAABBA"), tuple("BAABBAAB")}


@given(arms=st.integers(1, 6), rounds=st.integers(1, 9), seed=st.integers(0, 2**31))
def test_every_round_runs_every_arm_once_and_the_next_the_other_way_round(arms: int, rounds: int, seed: int) -> None:
    order = interleaved(arms, rounds, seed, counterbalance=True)
    assert order == interleaved(arms, rounds, seed, counterbalance=True), "the seed tells the order"
    each = [order[n * arms : (n + 1) * arms] for n in range(rounds)]
    names = tuple(arm_name(n) for n in range(arms))
    assert all(one in (names, names[::-1]) for one in each)
    assert all(each[n] == each[n + 1][::-1] for n in range(rounds - 1))


@given(rounds=st.integers(1, 10).map(lambda n: 2 * n), seed=st.integers(0, 2**31))
def test_a_steady_drift_falls_on_both_sides_alike(rounds: int, seed: int) -> None:
    order = interleaved(2, rounds, seed, counterbalance=True)
    places = {arm: sum(n for n, name in enumerate(order) if name == arm) for arm in "AB"}
    assert places["A"] == places["B"]


def test_a_ladder_climbs_as_given_in_every_round() -> None:
    assert interleaved(3, 2, seed=5, counterbalance=False) == tuple("ABCABC")
    assert interleaved(1, 3, seed=5, counterbalance=True) == tuple("AAA")


# Arms and cells

AB = Plan(baseline=Setting(model="m"), varied="concurrency", values=(1, 8), order=tuple("ABBA"), rounds=2)


def test_arms_differ_in_the_varied_variable_alone() -> None:
    arms = arm_settings(AB)
    assert {arm: setting.concurrency for arm, setting in arms.items()} == {"A": 1, "B": 8}
    assert {setting.model for setting in arms.values()} == {"m"}
    assert arm_settings(Plan(baseline=Setting(model="m"))) == {"A": Setting(model="m")}


def test_cells_run_in_the_plans_order_with_their_rounds() -> None:
    got = cells(AB)
    assert [(cell.index, cell.arm, cell.round) for cell in got] == [(0, "A", 1), (1, "B", 1), (2, "B", 2), (3, "A", 2)]
    assert [cell.setting.concurrency for cell in got] == [1, 8, 8, 1]
    assert {cell.requests for cell in got} == {20}


def test_a_plan_without_an_order_climbs_round_by_round() -> None:
    got = cells(msgspec.structs.replace(AB, order=()))
    assert [(cell.arm, cell.round) for cell in got] == [("A", 1), ("B", 1), ("A", 2), ("B", 2)]
    assert [(cell.arm, cell.round) for cell in cells(Plan(baseline=Setting(), rounds=2))] == [("A", 1), ("A", 2)]


@pytest.mark.parametrize(
    ("warmup", "each", "told"),
    [
        (3, False, [3, 3, 1, 1, 1]),
        (3, True, [3, 3, 1, 3, 3]),
        (1, False, [1, 1, 1, 1, 1]),
        (0, True, [0, 0, 0, 0, 0]),
    ],
)
def test_the_full_warm_up_is_for_a_side_that_starts_or_restarts(warmup: int, each: bool, told: list[int]) -> None:
    plan = msgspec.structs.replace(AB, warmup=warmup, order=tuple("ABBAB"))
    assert [cell.warmup for cell in cells(plan, full_warmup_each=each)] == told


def test_an_arm_can_have_its_own_number_of_requests() -> None:
    assert [cell.requests for cell in cells(AB, {"B": 24})] == [20, 24, 24, 20]


def test_an_order_with_an_arm_that_has_no_value_is_one_line() -> None:
    with pytest.raises(BadInput, match=r"^the plan's order names arm 'C', which has no value$"):
        cells(msgspec.structs.replace(AB, order=tuple("ABC")))


@given(order=st.lists(st.sampled_from("AB"), max_size=12).map(tuple), each=st.booleans())
def test_whatever_the_order_rounds_count_up_in_each_arm(order: tuple[str, ...], each: bool) -> None:
    got = cells(msgspec.structs.replace(AB, order=order, rounds=1), full_warmup_each=each)
    assert [cell.index for cell in got] == list(range(len(got)))
    seen: Counter[str] = Counter()
    for cell in got:
        seen[cell.arm] += 1
        assert cell.round == seen[cell.arm]
        assert cell.warmup == 3 or cell.round > 1


def test_requests_unasked_for_are_enough_for_a_tail_or_for_a_round() -> None:
    assert [default_requests(streams) for streams in (1, 6, 7, 64)] == [20, 20, 21, 192]
    assert [default_requests(streams, ab=True) for streams in (1, 2, 3, 64)] == [5, 5, 6, 128]


# Limits


def test_a_limit_is_a_name_and_a_number() -> None:
    assert parse_limit("ttft_ms=500") == ("ttft_ms", 500.0)
    assert parse_limit("decode_rate=12.5") == ("decode_rate", 12.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ttft_ms", "write NAME=NUMBER with NAME one of ttft_ms, ttfa_ms"),
        ("speed=3", "write NAME=NUMBER"),
        ("=3", "write NAME=NUMBER"),
        ("ttft_ms=fast", "'fast' is not a number"),
        ("ttft_ms=", "'' is not a number"),
        ("ttft_ms=0", "the bound must be above 0"),
        ("ttft_ms=-1", "the bound must be above 0"),
        ("ttft_ms=nan", "the bound must be above 0"),
        ("ttft_ms=inf", "the bound must be above 0"),
        ("ttft_ms=1\n2\x1b[2J", "is not a number"),
    ],
)
def test_what_is_no_limit_is_one_line(text: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_limit(text)
    assert says in str(caught.value)
    assert str(caught.value).startswith("--limit ")
    assert str(caught.value).isprintable()


# The record's form

VALUES_OF: dict[str, st.SearchStrategy[Any]] = {
    "concurrency": st.integers(1, 64),
    "max_tokens": st.integers(1, 4096),
    "temperature": st.floats(0, 2),
    "stream": st.booleans(),
    "cache": st.sampled_from(["unique", "warm"]),
    "model": st.sampled_from(["a", "b:7b", "c/d"]),
    "quant": st.sampled_from(["", "Q4_K_M"]),
    "prompt": st.sampled_from(["short", "code+short"]),
    "stop": st.sampled_from(["", "a|b"]),
    "seed": st.one_of(st.none(), st.integers(0, 2**31)),
}
POSITIVE = st.one_of(st.none(), st.floats(0.001, 1e6))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    varied = draw(st.sampled_from(["", *VALUES_OF]))
    values = tuple(draw(st.lists(VALUES_OF[varied], min_size=1, max_size=4))) if varied else ()
    arrival = draw(st.sampled_from(["closed", "constant", "poisson"]))
    return Plan(
        baseline=Setting(
            base_url="http://127.0.0.1:1/v1", model="m", prompt=("short", "code"), seed=draw(VALUES_OF["seed"])
        ),
        varied=varied,
        values=values,
        rounds=draw(st.integers(1, 20)),
        order=interleaved(max(len(values), 1), 2, 0, counterbalance=True),
        warmup=draw(st.integers(0, 5)),
        requests=draw(st.integers(1, 1000)),
        duration=draw(POSITIVE),
        arrival=arrival,
        rate=draw(POSITIVE) if arrival == "closed" else draw(st.floats(0.1, 100)),
        limits=draw(st.dictionaries(st.sampled_from(LIMITS), st.floats(0.001, 1e6), max_size=3)),
        seed=draw(st.integers(0, 2**31)),
        timeouts=Timeouts(connect=draw(st.floats(0.1, 10)), idle=7.0),
        workers=draw(st.integers(0, 8)),
        budget=draw(POSITIVE),
        until=draw(POSITIVE),
    )


@given(plan=plans())
@example(plan=Plan(baseline=Setting(), varied="seed", values=(None, 0), rounds=2))
@example(plan=Plan(baseline=Setting(), varied="quant", values=("", "Q4_K_M"), rounds=2))
@example(plan=Plan(baseline=Setting(), varied="temperature", values=(0.0, 1.0), rounds=2))
def test_a_plan_comes_back_from_its_record(plan: Plan) -> None:
    table = tomllib.loads(tomli_w.dumps(plan_table(plan)))
    back = plan_from_table(table)
    assert back == plan
    assert [type(value) for value in back.values] == [type(value) for value in plan.values]
    # What the session adds beside the plan's own keys is left to the session.
    assert plan_from_table({**table, "targets": [{}], "prompts": [{}], "later": 1}) == plan


def test_a_plans_table_holds_what_is_there() -> None:
    table = plan_table(AB)
    assert {name for name in ("rate", "duration", "budget", "until") if name in table} == set()
    assert (table["varied"], table["values"], table["order"], table["cache"]) == (
        *("concurrency", [1, 8]),
        *(["A", "B", "B", "A"], "unique"),
    )
    assert table["timeouts"] == {"connect": 10.0, "first_byte": 600.0, "idle": 120.0}
    assert "base_url" in table["baseline"]


def test_an_empty_plan_is_the_usual_one() -> None:
    assert plan_from_table({}) == Plan(baseline=Setting())


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"baseline": 5}, "its baseline is no table"),
        ({"baseline": {"concurrency": 0}}, "$.concurrency"),
        ({"values": 5}, "$.values"),
        ({"rounds": 0}, "$.rounds"),
        ({"rounds": 10**12}, "$.rounds"),
        ({"requests": 0}, "$.requests"),
        ({"warmup": -1}, "$.warmup"),
        ({"rate": float("nan")}, "$.rate"),
        ({"duration": 0.0}, "$.duration"),
        ({"arrival": "sometimes"}, "$.arrival"),
        ({"arrival": "poisson"}, "has no rate"),
        ({"timeouts": {"idle": -1.0}}, "$.timeouts.idle"),
        ({"limits": {"ttft_ms": 0.0}}, "$.limits"),
        ({"limits": {"speed\n": 1.0}}, "'speed\\n', which is no limit"),
        ({"varied": "base_url", "values": ["a", "b"]}, "'base_url', which is no variable"),
        ({"varied": "nonsense\n", "values": ["a", "b"]}, "'nonsense\\n', which is no variable"),
        ({"varied": "concurrency", "values": ["x", "y"]}, "$.concurrency"),
        ({"varied": "concurrency", "values": [1, 0]}, "$.concurrency"),
        ({"varied": "prompt", "values": ["short", "+"]}, "$.prompt"),
    ],
)
def test_a_recorded_plan_that_can_not_be_measured_is_one_line(table: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        plan_from_table(table)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


JUNK = st.one_of(
    st.none(), st.integers(-2, 2), st.floats(), st.text(max_size=3), st.just([]), st.just({}), st.just([1, "x"])
)


@given(plan=plans(), name=st.sampled_from([*Plan.__struct_fields__, "baseline.prompt", "baseline.model"]), junk=JUNK)
def test_a_damaged_plan_is_read_or_refused_in_one_line(plan: Plan, name: str, junk: Any) -> None:
    table = plan_table(plan)
    place, _, key = name.rpartition(".")
    (table[place] if place else table)[key] = junk
    try:
        cells(plan_from_table(table))
    except BadInput as error:
        said = str(error)
    else:
        said = ""
    assert len(said.splitlines()) <= 1
