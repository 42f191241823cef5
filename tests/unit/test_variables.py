"""The controlled variables: what a user types, what a record holds, and the way between."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.domain.variables import (
    CONTROLLED,
    BadInput,
    Setting,
    VariableValue,
    assignment,
    differences,
    from_assignment,
    parse_value,
    show_value,
    value_of,
    with_value,
)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("engine", " ollama ", "ollama"),
        ("model", "qwen2.5:7b", "qwen2.5:7b"),
        ("prompt", "short+code", "short+code"),
        ("max_tokens", " 64", 64),
        ("concurrency", "1", 1),
        ("temperature", "0.7", 0.7),
        ("temperature", "2", 2.0),
        ("cache", "warm", "warm"),
        ("stream", "off", False),
        ("stream", "Yes", True),
        ("stop", "\\n|END", "\\n|END"),
        ("seed", "7", 7),
        ("seed", "-1", -1),
        ("seed", "none", None),
        ("seed", "", None),
    ],
)
def test_what_is_typed_becomes_a_value(name: str, text: str, value: VariableValue) -> None:
    got = parse_value(name, text)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("colour", "red", "no such variable: 'colour'; it is one of engine, model, quant, prompt"),
        ("base_url", "x", "no such variable"),
        ("max_tokens", "many", "max_tokens can't be 'many': it must be a number"),
        ("max_tokens", "1.5", "a number without a fraction"),
        ("max_tokens", "0", "at least 1"),
        ("max_tokens", "9" * 30, "a number below 2^63"),
        ("max_tokens", "9" * 5000, "a number"),
        ("concurrency", "-3", "at least 1"),
        ("temperature", "hot", "temperature can't be 'hot': it must be a number"),
        ("temperature", "2.1", "0 to 2"),
        ("temperature", "nan", "0 to 2"),
        ("cache", "Warm", "unique or warm"),
        ("stream", "maybe", "on or off"),
        ("seed", "x", "a number"),
        ("seed", "9" * 30, "a number below 2^63"),
        ("prompt", " ", "prompt can't be empty"),
        ("prompt", "+", "prompt can't be empty"),
        ("model\n\x1b[2J", "x", "no such variable"),
        ("seed", "1\n\x1b[2J", "a number"),
    ],
)
def test_what_can_not_be_is_one_line(name: str, text: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_value(name, text)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


@given(name=st.sampled_from(CONTROLLED), text=st.text(max_size=12))
def test_anything_typed_is_a_value_or_one_printable_line(name: str, text: str) -> None:
    try:
        value = parse_value(name, text)
    except BadInput as error:
        said = str(error)
    else:
        said = ""
        setting = with_value(Setting(), name, value)
        # A value that was let in is one that the record takes as well.
        assert from_assignment(assignment(setting)) == setting
    assert said.isprintable()


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SETTINGS = st.builds(
    Setting,
    base_url=st.text(max_size=8),
    engine=st.text(max_size=8),
    model=st.text(max_size=8),
    quant=st.text(max_size=8),
    prompt=st.lists(NAMES, min_size=1, max_size=3).map(tuple),
    max_tokens=st.integers(1, 10**6),
    concurrency=st.integers(1, 4096),
    temperature=st.floats(0, 2),
    cache=st.sampled_from(["unique", "warm"]),
    stream=st.booleans(),
    stop=st.lists(st.text(max_size=4), max_size=3).map(tuple),
    seed=st.one_of(st.none(), st.integers(-(2**31), 2**31)),
    system=st.text(max_size=8),
    ignore_eos=st.booleans(),
    body=st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.booleans(), st.lists(st.integers()))),
)


@given(setting=SETTINGS)
def test_a_setting_comes_back_from_its_assignment(setting: Setting) -> None:
    table = assignment(setting)
    assert from_assignment(table, setting.base_url) == setting
    assert from_assignment({**table, "base_url": setting.base_url}) == setting
    assert None not in table.values()


def test_an_assignment_holds_what_is_there() -> None:
    assert assignment(Setting()) == {
        "prompt": "short",
        "max_tokens": 512,
        "concurrency": 1,
        "temperature": 0.0,
        "cache": "unique",
        "stream": True,
    }
    full = assignment(Setting(prompt=("a", "b"), stop=("x", "y"), seed=0, system="be brief", ignore_eos=True))
    assert (full["prompt"], full["stop"], full["seed"]) == ("a+b", "x|y", 0)
    assert (full["system"], full["ignore_eos"]) == ("be brief", True)


def test_a_name_that_holds_the_joiner_is_kept_whole() -> None:
    setting = Setting(prompt=("c++.txt", "short"), stop=("a|b",))
    table = assignment(setting)
    assert (table["prompt"], table["stop"]) == (["c++.txt", "short"], ["a|b"])
    assert from_assignment(table) == setting


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"max_tokens": "many"}, "$.max_tokens"),
        ({"max_tokens": 0}, "$.max_tokens"),
        ({"concurrency": 0}, "$.concurrency"),
        ({"temperature": -1.0}, "$.temperature"),
        ({"temperature": float("nan")}, "$.temperature"),
        ({"cache": "cold"}, "$.cache"),
        ({"stream": 1}, "$.stream"),
        ({"prompt": 7}, "$.prompt"),
        ({"prompt": []}, "$.prompt"),
        ({"prompt": "+"}, "$.prompt"),
        ({"stop": [1]}, "$.stop"),
        ({"body": 5}, "$.body"),
    ],
)
def test_a_recorded_setting_that_can_not_be_read_is_one_line(table: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_assignment(table)
    assert str(caught.value).startswith("a setting in the record can't be read: ")
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


FLIPS: dict[str, VariableValue] = {
    "engine": "vllm",
    "model": "m2",
    "quant": "Q8_0",
    "prompt": "code",
    "max_tokens": 7,
    "concurrency": 9,
    "temperature": 0.5,
    "cache": "warm",
    "stream": False,
    "stop": "END",
    "seed": 3,
}


def test_a_flip_changes_one_variable_and_says_which() -> None:
    assert set(FLIPS) == set(CONTROLLED)
    plain = Setting(model="m1")
    for name, value in FLIPS.items():
        flipped = with_value(plain, name, value)
        assert differences(plain, flipped) == (name,)
        assert value_of(flipped, name) == value
        assert with_value(flipped, name, value_of(plain, name)) == plain


def test_differences_name_everything_but_the_address() -> None:
    plain = Setting()
    assert differences(plain, plain) == ()
    assert differences(plain, msgspec.structs.replace(plain, base_url="http://elsewhere")) == ()
    other = Setting(model="m2", seed=1, system="s", ignore_eos=True, body={"a": 1, "b": 2})
    assert differences(plain, other) == ("model", "seed", "system", "ignore_eos", "body")
    assert differences(other, msgspec.structs.replace(other, body={"b": 2, "a": 1})) == ()


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), ("", "-"), (True, "on"), (False, "off"), (0, "0"), (0.0, "0"), (0.70, "0.7"), ("x", "x")],
)
def test_a_value_as_a_person_reads_it(value: VariableValue, shown: str) -> None:
    assert show_value(value) == shown
