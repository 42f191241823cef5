"""The simulator's parts without a socket: text, tokens, steps, options."""

from __future__ import annotations

import argparse
import json
import random
from itertools import islice, pairwise

import pytest

from workbench.domain.variables import BadInput
from workbench.simulator.options import SimOptions, add_arguments, from_arguments, to_arguments
from workbench.simulator.reply import (
    DONE,
    STAMP,
    Form,
    Length,
    Usage,
    at_once,
    moments,
    reply_length,
    streamed,
    texts,
)
from workbench.simulator.text import (
    LONGEST_PIECE,
    VOCABULARY,
    count_tokens,
    pieces,
    reply_seed,
    reply_words,
    token_ids,
)


def words(count: int, seed: int = 1) -> list[str]:
    return [word.decode() for word in islice(reply_words(seed), count)]


def test_every_word_of_the_replies_is_one_token_and_safe_in_json() -> None:
    for word in set(words(5_000)):
        assert word.startswith(" ")
        assert 1 <= len(word.strip()) <= LONGEST_PIECE
        assert json.loads(f'"{word}"') == word
        assert count_tokens(word) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t", []),
        ("one  two\nthree", ["one", "two", "three"]),
        ("a" * 25, ["a" * 12, "a" * 12, "a"]),
        ("今天很好 ok", ["今", "天", "很", "好", "ok"]),
        ("café " + "b" * 13, ["c", "a", "f", "é", "b" * 12, "b"]),
    ],
)
def test_text_is_cut_into_words_and_pieces(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected
    assert count_tokens(text) == len(expected)


def test_token_ids_are_the_same_for_the_same_piece() -> None:
    first, second, third = token_ids("river stone river")
    assert first == third != second
    assert all(0 <= number < VOCABULARY for number in (first, second))


def test_the_same_prompt_gets_the_same_reply_and_another_prompt_another() -> None:
    assert words(40, reply_seed("hello")) == words(40, reply_seed("hello"))
    assert words(40, reply_seed("hello")) != words(40, reply_seed("hello "))
    assert words(40, reply_seed("hello")) != words(40, reply_seed("hello", salt=1))


@pytest.mark.parametrize(("tokens", "per_chunk"), [(1, 1), (7, 1), (7, 3), (6, 3), (2, 5)])
def test_chunks_hold_exactly_the_tokens_asked_for(tokens: int, per_chunk: int) -> None:
    chunks = [chunk.decode() for chunk in texts(reply_words(3), tokens, per_chunk)]
    assert [count_tokens(chunk) for chunk in chunks[:-1]] == [per_chunk] * (len(chunks) - 1)
    assert "".join(chunks) == "".join(words(tokens, 3)).strip()
    assert count_tokens("".join(chunks)) == tokens


def test_no_tokens_are_no_chunks() -> None:
    assert list(texts(reply_words(3), 0, 1)) == []


def test_moments_are_absolute_and_jitter_stays_within_its_share() -> None:
    assert list(islice(moments(100, 20, 0.0, random.Random(1)), 4)) == [100, 120, 140, 160]
    jittered = list(islice(moments(1_000, 1_000_000, 0.25, random.Random(1)), 500))
    gaps = [late - early for early, late in pairwise(jittered)]
    assert jittered[0] == 1_000
    assert 750_000 <= min(gaps) < 800_000
    assert 1_200_000 < max(gaps) <= 1_250_000
    assert jittered == list(islice(moments(1_000, 1_000_000, 0.25, random.Random(1)), 500))


def test_a_reply_ends_by_itself_only_before_its_limit() -> None:
    assert reply_length(10, None) == Length(10, "length")
    assert reply_length(10, 4) == Length(4, "stop")
    assert reply_length(10, 10) == Length(10, "length")


def events(body: bytes) -> list[dict[str, object] | None]:
    """The events of a step's body, stamped; [DONE] is None."""
    parts = body.replace(STAMP, b'"sim":{}').decode().split("\n\n")
    assert parts.pop() == ""
    return [None if part == "data: [DONE]" else json.loads(part.removeprefix("data: ")) for part in parts]


def test_a_stream_has_its_role_with_the_first_token_and_its_end_with_the_last() -> None:
    usage = Usage(3, 2, 5)
    steps = list(
        streamed(Form(True, 1, 0), iter([10, 20]), texts(reply_words(1), 2, 1), "length", usage),
    )
    assert [step.at_ns for step in steps] == [10, 20]
    role, first = events(steps[0].body)
    last, finish, counted, done = events(steps[1].body)
    assert role is not None
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}  # type: ignore[index]
    assert first is not None
    assert last is not None
    said = [event["choices"][0]["delta"]["content"] for event in (first, last)]  # type: ignore[index]
    assert "".join(said) == "".join(words(2)).strip()
    assert finish is not None
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "length"}]
    assert counted is not None
    assert counted["choices"] == []
    assert counted["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert done is None


def test_a_reply_without_tokens_is_one_step() -> None:
    (step,) = streamed(Form(False, 1, 0), iter([10, 20]), iter(()), "stop", None)
    assert step.at_ns == 10
    assert step.body.endswith(DONE)
    (whole,) = at_once(Form(True, 1, 0), iter([10, 20]), iter(()), "stop", Usage(1, 0, 1))
    assert whole.at_ns == 10


def test_what_is_not_streamed_leaves_when_the_last_chunk_would_have() -> None:
    (step,) = at_once(Form(True, 1, 0), iter([10, 20, 30, 40]), texts(reply_words(1), 3, 1), "length", Usage(1, 3, 4))
    assert step.at_ns == 30


def parse(line: list[str]) -> SimOptions:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return from_arguments(parser.parse_args(line))


def test_options_survive_the_command_line() -> None:
    assert parse([]) == SimOptions()
    assert to_arguments(SimOptions()) == []
    options = SimOptions(
        port=8000, ttft_ms=1.5, slots=3, jitter=0.25, natural_tokens=0, seed=-4, until_stdin_closes=True
    )
    assert parse(to_arguments(options)) == options


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("host", ""),
        ("port", 65_536),
        ("ttft_ms", -1.0),
        ("itl_ms", float("nan")),
        ("ttft_ms", float("inf")),
        ("tokens_per_chunk", 0),
        ("jitter", 1.1),
        ("fail_rate", -0.1),
        ("cache_speedup", 0.5),
        ("natural_tokens", -1),
    ],
)
def test_values_out_of_range_are_refused_by_name(field: str, value: float | str) -> None:
    with pytest.raises(BadInput, match="--" + field.replace("_", "-")):
        SimOptions(**{field: value})  # type: ignore[arg-type]
