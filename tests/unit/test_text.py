"""Hostile text: nothing of it may steer a terminal, whatever it says."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.domain.text import one_line, visible

C0 = [chr(code) for code in range(0x20)]
C1 = [chr(code) for code in range(0x7F, 0xA0)]
SEPARATORS = ["\u2028", "\u2029"]
BIDI = [chr(code) for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
SURROGATES = ["\ud800", "\udbff", "\udc00", "\udfff"]
HOSTILE = [char for char in C0 if char not in "\n\t"] + C1 + SEPARATORS + BIDI + SURROGATES

# Half of what is drawn is hostile; the rest is any text at all, lone surrogates included.
TEXT = st.lists(st.one_of(st.sampled_from(HOSTILE), st.characters()), max_size=40).map("".join)


def steers(char: str) -> bool:
    """Whether a character can move, colour, reorder or break what a terminal shows: Unicode's own classes say so."""
    return unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(char) in (
        *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
    )


def test_every_code_point_that_steers_is_replaced_and_no_other_changes() -> None:
    for code in range(0x110000):
        char = chr(code)
        shown = visible(char)
        if char in "\n\t":
            assert shown == char
        elif steers(char) or char in BIDI:
            assert len(shown) == 1
            assert shown != char
            assert not steers(shown)
        else:
            assert shown == char, f"U+{code:04X}"


@given(text=TEXT)
def test_nothing_hostile_passes(text: str) -> None:
    shown = visible(text)
    assert not set(shown) & set(HOSTILE)
    assert not any(steers(char) for char in shown if char not in "\n\t")
    assert len(shown) == len(text)
    assert visible(shown) == shown
    shown.encode()


@given(text=TEXT, limit=st.integers(0, 12))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert not any(steers(char) for char in line)
    assert line.splitlines() in ([line], [])
    assert line == line.strip()
    assert "  " not in line
    assert not limit or len(line) <= limit
    line.encode()


@given(text=st.text(), limit=st.integers(1, 12))
def test_what_is_cut_says_so(text: str, limit: int) -> None:
    whole, cut = one_line(text), one_line(text, limit)
    assert cut == whole if len(whole) <= limit else cut == one_line(whole[: limit - 1] + "…")
    assert len(whole) <= limit or cut.endswith("…")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]52;c;aGk=\x07", "␛[2J␛]52;c;aGk=␇"),
        ("a\rb\x00\x7f", "a␍b␀␡"),
        ("\x9b31m", "\ufffd31m"),
        ("one\n\ttwo", "one\n\ttwo"),
        ("\u202egnp.exe", "\ufffdgnp.exe"),
        ("\ud83d", "\ufffd"),
        ("日本語 🦙 é", "日本語 🦙 é"),
    ],
)
def test_a_picture_stands_for_what_is_replaced(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_white_space_is_folded() -> None:
    assert one_line("  a \n\n\t b\u00a0c  ") == "a b c"
    assert one_line("") == one_line(" \n") == ""
    assert one_line("abcdef", 3) == "ab…"
    assert one_line("abc", 3) == "abc"
