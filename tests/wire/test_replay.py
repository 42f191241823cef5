"""The bytes of four real engines, replayed into the reader in pieces of every size: right text, counts, finish, outcome."""

from __future__ import annotations

import json

import pytest

from tests.wire.captures import Capture, read
from workbench.domain.events import RequestTrace
from workbench.domain.metrics import request_figures
from workbench.measure.reply import ReplyReader

LLAMA, VLLM, SERVE, PYTHON = "llama.cpp", "vllm", "transformers-serve", "llama-cpp-python"

# engine, capture, finish, output tokens, their source, prompt tokens, output chunks; counted by hand in the captures
OK = [
    (LLAMA, "chat_stream_usage", "length", 24, "usage", 36, 24),
    (LLAMA, "chat_stream_nousage", "length", 24, "usage", 36, 24),
    (LLAMA, "emoji", "length", 40, "usage", 59, 18),
    (LLAMA, "natural_stop", "stop", 25, "usage", 33, 24),
    (LLAMA, "tool_stream", "length", 24, "usage", 37, 24),
    (LLAMA, "max_tokens_0", "length", 1, "usage", 36, 1),
    (LLAMA, "prefix_cache_2", "length", 4, "usage", 1233, 4),
    (LLAMA, "ignore_eos", "length", 200, "usage", 33, 200),
    (VLLM, "chat_stream_usage", "length", 24, "usage", 36, 24),
    (VLLM, "chat_stream_nousage", "length", 24, "chunks", None, 24),
    (VLLM, "emoji", "length", 40, "usage", 59, 18),
    (VLLM, "natural_stop", "stop", 24, "usage", 33, 23),
    (VLLM, "ignore_eos", "length", 200, "usage", 33, 187),
    (VLLM, "chat_stream_continuous_usage", "length", 6, "usage", 36, 6),
    (SERVE, "chat_stream_usage", "length", 24, "usage", 36, 24),
    (SERVE, "emoji", "length", 40, "usage", 59, 18),
    (SERVE, "natural_stop", "stop", 25, "usage", 33, 24),
    (PYTHON, "chat_stream_usage", "length", 24, "chunks", None, 24),
    (PYTHON, "emoji", "length", 29, "chunks", None, 29),
    (PYTHON, "natural_stop", "stop", 24, "chunks", None, 24),
    (PYTHON, "concurrent_1", "none", 19, "chunks", None, 19),
]

FAILED = [
    (LLAMA, "too_long_stream", "http_400", "exceeds the available context size"),
    (LLAMA, "invalid_json", "http_400", "parse"),
    (LLAMA, "wrong_path", "http_404", "File Not Found"),
    (LLAMA, "killed_1", "truncated", "after 101 chunks"),
    (LLAMA, "sigterm_midstream", "truncated", "after 86 chunks"),
    (VLLM, "too_long_stream", "http_400", "maximum context length is 2048"),
    (VLLM, "unknown_model", "http_404", "no-such-model"),
    (VLLM, "max_tokens_0", "http_400", "max_tokens must be at least 1"),
    (VLLM, "killed_1", "truncated", "after 59 chunks"),
    (VLLM, "enginecore_killed_midstream", "in_stream_error", "EngineCore encountered an issue"),
    (SERVE, "max_tokens_0", "in_stream_error", "`max_new_tokens` must be greater than 0"),
    (SERVE, "ignore_eos", "http_422", "Unexpected fields"),
    (SERVE, "invalid_json", "http_422", "JSON decode error"),
    (SERVE, "missing_messages", "http_500", "Internal Server Error"),
    (SERVE, "killed_1", "truncated", "after 37 chunks"),
    (SERVE, "killed_2", "truncated", "before any output"),
    (PYTHON, "too_long_stream", "truncated", "before any output"),
    (PYTHON, "invalid_json", "http_500", "Internal Server Error"),
]

ONE_SHOT = [(LLAMA, 24), (VLLM, 24), (SERVE, 24), (PYTHON, 24)]


def replay(capture: Capture, piece: int) -> RequestTrace:
    """Feed the body in pieces of `piece` bytes, a millisecond apart."""
    reader = ReplyReader(RequestTrace(index=0, sent_ns=0))
    reader.headers(capture.status, capture.headers)
    at = 0
    for start in range(0, len(capture.body), piece):
        at += 1_000_000
        reader.feed(at, capture.body[start : start + piece])
    return reader.end(at + 1)


def text_by_hand(body: bytes) -> str:
    """The reply's text by the plainest reading: one data line an event, the standard library's JSON."""
    text = ""
    for line in body.decode().split("\n"):
        if line.startswith("data: ") and line.strip() != "data: [DONE]":
            for choice in json.loads(line[6:]).get("choices") or []:
                text += (choice.get("delta") or {}).get("content") or ""
    return text


@pytest.mark.parametrize("piece", [1, 7, 64, 1460, 1 << 20])
@pytest.mark.parametrize(("engine", "name", "finish", "tokens", "source", "prompt", "chunks"), OK)
def test_replies_that_are_ok(
    engine: str, name: str, finish: str, tokens: int, source: str, prompt: int | None, chunks: int, piece: int
) -> None:
    capture = read(engine, name)
    trace = replay(capture, piece)
    figures = request_figures(trace)
    assert (trace.outcome, trace.error) == ("ok", "")
    assert trace.content == text_by_hand(capture.body) != ""
    assert (trace.finish, figures.output_tokens, figures.token_source) == (finish, tokens, source)
    assert (figures.prompt_tokens, figures.chunks) == (prompt, chunks)


@pytest.mark.parametrize("piece", [1, 333, 1 << 20])
@pytest.mark.parametrize(("engine", "name", "error_class", "says"), FAILED)
def test_replies_that_failed(engine: str, name: str, error_class: str, says: str, piece: int) -> None:
    trace = replay(read(engine, name), piece)
    assert (trace.outcome, trace.error_class) == ("failed", error_class)
    assert says in trace.error


@pytest.mark.parametrize(("engine", "tokens"), ONE_SHOT)
def test_a_reply_in_one_piece_has_a_total_and_no_first_token(engine: str, tokens: int) -> None:
    trace = replay(read(engine, "chat_nonstream"), 100)
    figures = request_figures(trace)
    assert trace.outcome == "ok"
    assert trace.content
    assert figures.output_tokens == tokens
    assert figures.total_ms
    assert figures.ttft_ms is None
    assert (figures.decode_rate, figures.decode_absent) == (None, "not streamed")


def test_the_role_chunk_is_not_the_first_token() -> None:
    capture = read(VLLM, "chat_stream_usage")
    events = capture.body.split(b"\n\n")
    assert b'"role":"assistant","content":""' in events[0]
    reader = ReplyReader(RequestTrace(index=0, sent_ns=0))
    reader.headers(capture.status, capture.headers)
    for number, event in enumerate(events):
        reader.feed((number + 1) * 10_000_000, event + b"\n\n")
    figures = request_figures(reader.end(10**10))
    assert figures.ttft_ms == 20.0
    assert figures.first_byte_ms is None
