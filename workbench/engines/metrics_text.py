"""Reads Prometheus' text format (and OpenMetrics', which looks the same but for its end mark and exemplars).

What can't be read is left out, line by line: a metrics page is evidence beside a measurement, never a reason to stop it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

import msgspec

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|(?=\}))')
_ESCAPE = re.compile(r"\\(.)")


class Sample(msgspec.Struct, frozen=True):
    """One line: its labels and its value, never nan."""

    labels: dict[str, str]
    value: float


class Metrics:
    """A metrics page: the samples of each name, in order."""

    def __init__(self, samples: dict[str, list[Sample]]) -> None:
        self._samples = samples

    def __contains__(self, name: str) -> bool:
        return name in self._samples

    def samples(self, name: str) -> list[Sample]:
        """All samples of a name; empty when the page has none."""
        return self._samples.get(name, [])

    def total(self, name: str) -> float | None:
        """The sum over all label sets (a server with several engines prints one line each); None when there is none."""
        return self._over(name, math.fsum)

    def highest(self, name: str) -> float | None:
        """The largest value over all label sets: for shares, which must not be added. None when there is none."""
        return self._over(name, max)

    def count(self, *names: str) -> int | None:
        """`total` as a whole number, of the first of the names that the page has (names change between versions)."""
        for name in names:
            total = self.total(name)
            if total is not None and math.isfinite(total):
                return round(total)
        return None

    def labels(self, name: str) -> dict[str, str]:
        """The labels of the first sample of a name: for `..._info` metrics, whose facts are their labels."""
        found = self.samples(name)
        return dict(found[0].labels) if found else {}

    def _over(self, name: str, fold: Callable[[Iterable[float]], float]) -> float | None:
        found = self._samples.get(name)
        return fold([sample.value for sample in found]) if found else None


def parse_metrics(text: str) -> Metrics:
    """The samples of a metrics page; comments, samples that are nan and lines that can't be read are left out."""
    samples: dict[str, list[Sample]] = {}
    for line in text.split("\n"):
        name, sample = _read(line.strip())
        if sample is not None:
            samples.setdefault(name, []).append(sample)
    return Metrics(samples)


def _read(line: str) -> tuple[str, Sample | None]:
    match = _NAME.match(line)
    if match is None:
        return "", None
    name, end = match.group(), match.end()
    labels: dict[str, str] = {}
    if line[end : end + 1] == "{":
        end += 1
        while (label := _LABEL.match(line, end)) is not None:
            labels[label.group(1)] = _ESCAPE.sub(_unescaped, label.group(2))
            end = label.end()
        end = len(line) - len(line[end:].lstrip())
        if line[end : end + 1] != "}":
            return "", None
        end += 1
    # What follows the value (a time stamp, an exemplar) is not needed.
    fields = line[end:].split(None, 1)
    try:
        value = float(fields[0])
    except (IndexError, ValueError):
        return "", None
    return (name, Sample(labels, value)) if not math.isnan(value) else ("", None)


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match.group(1) == "n" else match.group(1)
