"""Events out of bytes: the same whatever the pieces and the spelling of the line ends."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.measure import stream
from workbench.measure.stream import ErrorEvent, EventSplitter, LineTooLongError


def split(pieces: list[bytes]) -> list[bytes]:
    splitter = EventSplitter()
    events = [event for piece in pieces for event in splitter.feed(piece)]
    return events + splitter.finish()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


PLAIN = b'data: {"a":1}\n\n: keep-alive\n\nevent: x\ndata: one\ndata: two\n\ndata:[DONE]\n\n'
EVENTS = [b'{"a":1}', b"one\ntwo", b"[DONE]"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@given(places=st.lists(st.integers(0, 200), max_size=8))
def test_06_every_spelling_in_every_piece_gives_the_same_events(end: bytes, places: list[int]) -> None:
    assert split(cut(PLAIN.replace(b"\n", end), places)) == EVENTS


@given(data=st.binary(max_size=300), places=st.lists(st.integers(0, 300), max_size=10))
def test_08_pieces_never_matter(data: bytes, places: list[int]) -> None:
    assert split(cut(data, places)) == split([data])


@given(
    data=st.text(alphabet="da:te \n\r\ufeffx\u2028", max_size=80).map(str.encode),
    places=st.lists(st.integers(0, 100), max_size=6),
)
def test_08_pieces_never_matter_near_the_format(data: bytes, places: list[int]) -> None:
    assert split(cut(data, places)) == split([data])


def test_a_lone_cr_ends_its_event_at_once() -> None:
    assert EventSplitter().feed(b"data: x\r\r") == [b"x"]


def test_the_last_event_needs_no_blank_line() -> None:
    assert split([b"data: a\n\ndata: b"]) == [b"a", b"b"]


def test_unicode_separators_end_no_line() -> None:
    text = 'data: {"content":"a\u2028b\u0085c"}\n\n'.encode()
    assert split([text]) == [text[6:-2]]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert split([b"\xef\xbb\xbfdata: a\n\n"]) == [b"a"]


def test_an_error_event_is_known_as_one() -> None:
    before, error = EventSplitter().feed(b"data: yes\n\nevent: error\ndata: no\n\n")
    assert (before, error) == (b"yes", b"no")
    assert isinstance(error, ErrorEvent)
    assert not isinstance(before, ErrorEvent)


def test_a_line_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LINE_LIMIT", 1000)
    splitter = EventSplitter()
    for _ in range(10):
        splitter.feed(b"x" * 100)
    with pytest.raises(LineTooLongError):
        splitter.feed(b"x")
