"""Facts about what is measured, each kept with the way it is known.

A fact is *verified* (its source names what was read: "NVML", "GET /props", "/proc/cpuinfo"), *declared* by the
user (source "declared"), read off a name only (source "from the name"), or *unknown*: asked for, not found, and
listed with the way to learn it. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

Value = bool | int | float | str | list[str]

DECLARED = "declared"
FROM_THE_NAME = "from the name"


class Fact(msgspec.Struct, frozen=True):
    """One fact: its plain value and the source that vouches for it."""

    value: Value
    source: str


class Facts:
    """Facts of one subject (the host, one server, one GPU), in the order they were learnt.

    `unknown` maps a name to one sentence that tells how it could be learnt. A name is never in both.
    """

    def __init__(self) -> None:
        self._known: dict[str, Fact] = {}
        self.unknown: dict[str, str] = {}

    def set(self, name: str, value: Value | None, source: str, otherwise: str = "") -> None:
        """Keep a fact; with value None or "" the name goes to `unknown` with `otherwise` as the way to learn it."""
        if value is None or value == "":
            if name not in self._known:
                self.unknown[name] = otherwise
            return
        self._known[name] = Fact(value, source)
        self.unknown.pop(name, None)

    def declare(self, name: str, value: Value) -> None:
        """Take the user's word for a fact, unless it has been verified."""
        known = self._known.get(name)
        if known is None or known.source == FROM_THE_NAME:
            self.set(name, value, DECLARED)

    def get(self, name: str) -> Value | None:
        fact = self._known.get(name)
        return None if fact is None else fact.value

    def source(self, name: str) -> str:
        fact = self._known.get(name)
        return "" if fact is None else fact.source

    def __iter__(self) -> Iterator[tuple[str, Fact]]:
        return iter(self._known.items())

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __len__(self) -> int:
        return len(self._known)

    def values(self) -> dict[str, Value]:
        return {name: fact.value for name, fact in self._known.items()}

    def sources(self) -> dict[str, str]:
        return {name: fact.source for name, fact in self._known.items()}

    def table(self) -> dict[str, object]:
        """The record's form: plain values beside a `source` table with the same keys."""
        return {**self.values(), "source": self.sources()} if self._known else {}
