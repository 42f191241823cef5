"""Replies as steps: what leaves the server at which moment. A stream is a plain iterator of steps, so that one can be
wrapped by another that delays, alters, splits, drops or adds some."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec

MODEL = "simulated"

STAMP = b"\x00"
"""Stands in a step's body where the send stamp goes. JSON and SSE text never hold this byte."""

DONE = b"data: [DONE]\n\n"


class Step(NamedTuple):
    """`body` leaves at `at_ns` after the start of the reply; every STAMP in it becomes the send stamp."""

    at_ns: int
    body: bytes


class Length(NamedTuple):
    """How long a reply is and why it ends there."""

    tokens: int
    finish: str


class Usage(msgspec.Struct, omit_defaults=True):
    """The `usage` object. `prompt_tokens_details` is left out when there is no prefix cache to report on."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[str, int] | None = None


def reply_length(max_tokens: int, natural_tokens: int | None) -> Length:
    """`max_tokens` cut a reply ("length") unless it ends by itself before ("stop")."""
    if natural_tokens is not None and natural_tokens < max_tokens:
        return Length(natural_tokens, "stop")
    return Length(max_tokens, "length")


def moments(ttft_ns: int, gap_ns: int, jitter: float, draw: random.Random) -> Iterator[int]:
    """Endless deadlines in ns after the start: `ttft_ns`, then one each `gap_ns` x U(1-jitter, 1+jitter).

    They follow from the start and from the draws alone, so a chunk that leaves late doesn't delay the next.
    """
    at_ns = ttft_ns
    while True:
        yield at_ns
        at_ns += round(gap_ns * draw.uniform(1 - jitter, 1 + jitter)) if jitter else gap_ns


def texts(words: Iterator[bytes], tokens: int, per_chunk: int) -> Iterator[bytes]:
    """`tokens` words in chunks of `per_chunk`; the leading space of the very first is left out."""
    chosen = islice(words, tokens)
    chunks = chosen if per_chunk == 1 else iter(lambda: b"".join(islice(chosen, per_chunk)), b"")
    first = next(chunks, b"")
    if first:
        yield first.lstrip()
        yield from chunks


class Form:
    """The JSON spelling of one reply: /v1/chat/completions or /v1/completions."""

    def __init__(self, chat: bool, ordinal: int, created: int) -> None:
        self.chat = chat
        self._id = f"{'chatcmpl' if chat else 'cmpl'}-sim-{ordinal}"
        self._created = created
        kind = "chat.completion.chunk" if chat else "text_completion"
        self._head = b'data: {"id":"%b","object":"%b","created":%d,"model":"%b",' % (
            self._id.encode(),
            kind.encode(),
            created,
            MODEL.encode(),
        )
        self._tail = b"," + STAMP + b"}\n\n"
        field = b'"delta":{"content":"' if chat else b'"text":"'
        self._before_text = self._head + b'"choices":[{"index":0,' + field
        self._after_text = b'"' + (b"}" if chat else b"") + b',"finish_reason":null}]' + self._tail

    def opening(self) -> bytes:
        """The role-only event of a chat stream; nothing for a completion."""
        if not self.chat:
            return b""
        choice = b'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]'
        return self._head + choice + self._tail

    def text(self, text: bytes) -> bytes:
        """One event of output; `text` is safe inside a JSON string."""
        return self._before_text + text + self._after_text

    def finish(self, reason: str) -> bytes:
        """The event that carries `finish_reason` and no output."""
        field = b'"delta":{}' if self.chat else b'"text":""'
        return self._head + b'"choices":[{"index":0,%b,"finish_reason":"%b"}]' % (field, reason.encode()) + self._tail

    def usage(self, usage: Usage) -> bytes:
        """The usage event, with its empty list of choices."""
        return self._head + b'"choices":[],"usage":' + msgspec.json.encode(usage) + self._tail

    def whole(self, text: str, finish: str, usage: Usage) -> bytes:
        """The one JSON object of a reply that isn't streamed."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        if self.chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        body = msgspec.json.encode(
            {
                "id": self._id,
                "object": "chat.completion" if self.chat else "text_completion",
                "created": self._created,
                "model": MODEL,
                "choices": [choice],
                "usage": usage,
            }
        )
        return body[:-1] + b"," + STAMP + b"}"


def streamed(
    form: Form, at: Iterator[int], pieces: Iterator[bytes], finish: str, usage: Usage | None
) -> Iterator[Step]:
    """A well-behaved stream: the role leaves with the first output, finish, usage and [DONE] with the last.

    A reply without output is one step at the first moment.
    """
    body = form.opening()
    last = next(pieces, None)
    if last is not None:
        for piece in pieces:
            yield Step(next(at), body + form.text(last))
            body = b""
            last = piece
        body += form.text(last)
    body += form.finish(finish)
    if usage is not None:
        body += form.usage(usage)
    yield Step(next(at), body + DONE)


def at_once(form: Form, at: Iterator[int], pieces: Iterator[bytes], finish: str, usage: Usage) -> Iterator[Step]:
    """A reply that isn't streamed: all of it at the moment the last chunk of a stream would have left."""
    everything = list(pieces)
    moment = next(islice(at, max(len(everything) - 1, 0), None))
    yield Step(moment, form.whole(b"".join(everything).decode("ascii"), finish, usage))
