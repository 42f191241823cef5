"""The controlled variables: what a run holds still, and the one thing it flips.

A `Setting` is one full assignment. Addresses (base_url) and the engine's own facts are not variables: they may differ
when they follow from the one that was flipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

Cache = Literal["unique", "warm"]


class BadInput(ValueError):
    """Something the user gave can't be used; the message is one line: what, where, how to mend it."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One full assignment of the controlled variables, with the address it is sent to.

    `prompt` holds the names of the prompts that take turns within a cell. `body` holds extra request fields.
    """

    base_url: str = ""
    engine: str = ""
    model: str = ""
    quant: str = ""
    prompt: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("short",)
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] = 512
    concurrency: Annotated[int, msgspec.Meta(ge=1)] = 1
    temperature: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    cache: Cache = "unique"
    stream: bool = True
    stop: tuple[str, ...] = ()
    seed: int | None = None
    system: str = ""
    ignore_eos: bool = False
    body: dict[str, Any] = {}


VariableValue = str | int | float | bool | None


def _text(text: str) -> str:
    return text.strip()


def _whole(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError("a number without a fraction") from None
    if abs(number) >= 2**63:
        # Neither TOML nor a server's JSON reader holds more.
        raise ValueError("a number below 2^63")
    return number


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = _whole(text)
        if number < least:
            raise ValueError(f"at least {least}")
        return number

    return parse


def _temperature(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 2:
        raise ValueError("0 to 2")
    return number


def _cache(text: str) -> str:
    if text not in ("unique", "warm"):
        raise ValueError("unique or warm")
    return text


def _boolean(text: str) -> bool:
    words = {
        "on": True,
        "true": True,
        "yes": True,
        "1": True,
        "off": False,
        "false": False,
        "no": False,
        "0": False,
    }
    if text.lower() not in words:
        raise ValueError("on or off")
    return words[text.lower()]


def _seed(text: str) -> int | None:
    return None if text in ("", "none") else _whole(text)


_PARSERS: dict[str, Callable[[str], VariableValue]] = {
    "engine": _text,
    "model": _text,
    "quant": _text,
    "prompt": _text,
    "max_tokens": _at_least(1),
    "concurrency": _at_least(1),
    "temperature": _temperature,
    "cache": _cache,
    "stream": _boolean,
    "stop": _text,
    "seed": _seed,
}

CONTROLLED: tuple[str, ...] = tuple(_PARSERS)
"""The variables of which exactly one may differ between two sides, in the order they are shown."""

_TUPLES = ("prompt", "stop")
PROMPT_JOINER = "+"


def parse_value(name: str, text: str) -> VariableValue:
    """The typed value of a variable from what a user typed.

    Raises BadInput for an unknown variable or a value it can't take.
    """
    parser = _PARSERS.get(name)
    if parser is None:
        raise BadInput(f"no such variable: {name!r}; it is one of {', '.join(CONTROLLED)}")
    try:
        value = parser(text.strip())
    except ValueError as error:
        reason = str(error)
        if reason.startswith("could not convert"):
            reason = "a number"
        raise BadInput(f"{name} can't be {text!r}: it must be {reason}") from None
    if name == "prompt" and not str(value).strip(PROMPT_JOINER):
        raise BadInput("prompt can't be empty: name a shipped prompt or a file")
    return value


def value_of(setting: Setting, name: str) -> VariableValue:
    """The variable's value as one plain value; several prompts or stop words are joined by '+' and '|'."""
    value = getattr(setting, name)
    if name in _TUPLES:
        return (PROMPT_JOINER if name == "prompt" else "|").join(value)
    return value  # type: ignore[no-any-return]


def with_value(setting: Setting, name: str, value: VariableValue) -> Setting:
    """The setting with one variable changed."""
    if name in _TUPLES:
        joiner = PROMPT_JOINER if name == "prompt" else "|"
        parts = tuple(part for part in str(value or "").split(joiner) if part)
        return msgspec.structs.replace(setting, **{name: parts})
    return msgspec.structs.replace(setting, **{name: value})


def show_value(value: VariableValue) -> str:
    """A variable's value as a person reads it."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def differences(a: Setting, b: Setting) -> tuple[str, ...]:
    """The controlled variables in which two settings differ (extra body fields and the system prompt by those names)."""
    names = [name for name in CONTROLLED if getattr(a, name) != getattr(b, name)]
    names += [name for name in ("system", "ignore_eos") if getattr(a, name) != getattr(b, name)]
    if json.dumps(a.body, sort_keys=True) != json.dumps(b.body, sort_keys=True):
        names.append("body")
    return tuple(names)


def assignment(setting: Setting) -> dict[str, Any]:
    """The record's form of a setting: every controlled variable, absent ones left out.

    Prompts and stop words are joined, or listed when joining would lose where one ends.
    """
    table: dict[str, Any] = {}
    for name in CONTROLLED:
        value = value_of(setting, name)
        if name in _TUPLES and getattr(setting, name) != getattr(with_value(setting, name, value), name):
            table[name] = list(getattr(setting, name))
        elif value is not None and value != "":
            table[name] = value
    if setting.system:
        table["system"] = setting.system
    if setting.ignore_eos:
        table["ignore_eos"] = True
    if setting.body:
        table["body"] = dict(setting.body)
    return table


def from_assignment(table: dict[str, Any], base_url: str = "") -> Setting:
    """A setting from the record's form.

    Raises BadInput when a value has the wrong type.
    """
    values = dict(table)
    base_url = str(values.pop("base_url", base_url))
    for name in _TUPLES:
        given = values.get(name)
        if isinstance(given, str):
            values[name] = [part for part in given.split(PROMPT_JOINER if name == "prompt" else "|") if part]
    try:
        return msgspec.convert({**values, "base_url": base_url}, Setting)
    except msgspec.ValidationError as error:
        raise BadInput(f"a setting in the record can't be read: {error}") from None
