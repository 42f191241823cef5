"""Two answers to one prompt compared: equal, near, key facts kept or lost, length, one repeated run. Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from difflib import SequenceMatcher

import msgspec

NEAR = 0.9
"""Edit similarity from which two answers are called near."""
REPETITIVE = 6.0
"""Bytes a compressed byte: plain prose has 2 to 3, one repeated run far more than this."""
LONGEST = 2_000
"""Characters looked at for similarity, whose cost grows with the square of the length."""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NAME = re.compile(r"(?<![.!?:\n] )(?<!^)\b[A-Z][\w'-]+", re.MULTILINE)


class AnswerComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an answer. `similarity` is 0 to 1; `kept` and `lost` are the baseline's key facts (numbers, names,
    expected strings); `missing`: expected strings that neither answer has; lengths are characters."""

    equal: bool
    similarity: float
    kept: list[str]
    lost: list[str]
    missing: list[str]
    length_a: int
    length_b: int
    repetitive: bool

    @property
    def near(self) -> bool:
        return self.similarity >= NEAR


def compare_answers(baseline: str, candidate: str, expected: Sequence[str] = ()) -> AnswerComparison:
    """Compare the candidate's answer with the baseline's. `expected`: strings a right answer holds, case aside."""
    a, b = " ".join(baseline.split()), " ".join(candidate.split())
    facts = [*key_facts(baseline), *(text for text in expected if _holds(a, text))]
    facts = list(dict.fromkeys(facts))
    return AnswerComparison(
        equal=a == b,
        similarity=1.0 if a == b else SequenceMatcher(None, a[:LONGEST], b[:LONGEST], autojunk=False).ratio(),
        kept=[fact for fact in facts if _holds(b, fact)],
        lost=[fact for fact in facts if not _holds(b, fact)],
        missing=[text for text in expected if not _holds(a, text) and not _holds(b, text)],
        length_a=len(baseline),
        length_b=len(candidate),
        repetitive=is_repetitive(candidate),
    )


def key_facts(text: str) -> list[str]:
    """The numbers of a text, and its words with a capital that don't open a sentence, each once."""
    return list(dict.fromkeys(_NUMBER.findall(text) + _NAME.findall(text)))


def is_repetitive(text: str) -> bool:
    """Whether a text is in essence one run repeated."""
    raw = text.encode("utf-8", "replace")
    return len(raw) >= 200 and len(raw) / len(zlib.compress(raw)) > REPETITIVE


def _holds(text: str, fact: str) -> bool:
    return fact.casefold() in text.casefold()
