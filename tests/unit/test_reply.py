"""Trouble on the wire that others met (each test bears its entry's number in docs), replayed with known stamps."""

from __future__ import annotations

import json

import pytest

from workbench.domain.events import RequestTrace
from workbench.domain.metrics import RequestFigures, chunk_gaps_ms, request_figures
from workbench.measure.reply import ReplyReader

STREAM = {"content-type": "text/event-stream"}
MS = 1_000_000


def chunk(finish: str | None = None, usage: dict[str, int] | None = None, **delta: object) -> bytes:
    value: dict[str, object] = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    if usage is not None:
        value["usage"] = usage
    return b"data: " + json.dumps(value).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def read(*parts: tuple[float, bytes], headers: dict[str, str] | None = None, status: int = 200) -> RequestTrace:
    """A trace from (milliseconds after the send, bytes) pairs; the body ends with the last."""
    reader = ReplyReader(RequestTrace(index=0, sent_ns=0))
    reader.headers(status, STREAM if headers is None else headers)
    at = 0
    for ms, data in parts:
        at = int(ms * MS)
        reader.feed(at, data)
    return reader.end(at)


def figures(*parts: tuple[float, bytes]) -> RequestFigures:
    return request_figures(read(*parts))


def test_01_the_role_chunk_stops_no_clock() -> None:
    for role in ({"role": "assistant", "content": ""}, {"role": "assistant", "content": None}, {"role": "assistant"}):
        got = figures((5, chunk(**role)), (214, chunk(content="Hi")), (234, chunk(content=" you")), (235, DONE))
        assert got.ttft_ms == 214
        assert got.total_ms == 234


@pytest.mark.parametrize(
    "error",
    [
        b'data: {"error":{"message":"TimeoutError","code":504}}\n\n',
        b'event: error\ndata: {"error":{"message":"TimeoutError 504"}}\n\n',
        b'data: {"error":"TimeoutError 504"}\n\n',
    ],
)
@pytest.mark.parametrize("before", [0, 3])
def test_02_an_error_in_the_stream_fails_the_request(error: bytes, before: int) -> None:
    trace = read(*[(10.0 + n, chunk(content="a")) for n in range(before)], (20, error), (20, DONE))
    assert (trace.outcome, trace.error_class) == ("failed", "in_stream_error")
    assert "TimeoutError" in trace.error
    assert "504" in trace.error
    assert trace.content == "a" * before


@pytest.mark.parametrize("choices", [b"[]", b"null"])
def test_03_usage_is_read_wherever_it_stands(choices: bytes) -> None:
    own = b'data: {"choices":' + choices + b',"usage":{"prompt_tokens":10,"completion_tokens":50}}\n\n'
    last = figures((1, chunk(content="x")), (2, chunk(finish="stop")), (3, own), (3, DONE))
    middle = figures((1, chunk(content="x")), (2, own), (3, chunk(content="y", finish="stop")), (3, DONE))
    riding = figures((1, chunk(content="x", finish="stop", usage={"prompt_tokens": 10, "completion_tokens": 50})))
    for got in (last, middle, riding):
        assert (got.outcome, got.output_tokens, got.prompt_tokens, got.token_source) == ("ok", 50, 10, "usage")


def test_05_no_usage_means_an_estimate_and_says_so() -> None:
    got = figures((1, chunk(content="a")), (2, chunk(content="b", finish="stop")), (3, DONE))
    assert (got.output_tokens, got.token_source) == (2, "chunks")


def test_05_a_usage_of_zero_beside_text_is_no_count() -> None:
    got = figures(
        (1, chunk(content="a", usage={"completion_tokens": 0, "prompt_tokens": 0})),
        (2, chunk(finish="stop")),
        (3, DONE),
    )
    assert (got.output_tokens, got.token_source) == (1, "chunks")


def test_08_one_character_in_four_reads_and_twenty_events_in_one() -> None:
    data = chunk(content="🦙")
    raw = data.replace(b"\\ud83e\\udd99", "🦙".encode())
    places = raw.index("🦙".encode())
    parts = [(float(n), raw[a:b]) for n, (a, b) in enumerate([(0, places + 1), (places + 1, places + 3)])]
    trace = read(*parts, (3, raw[places + 3 :]), (4, chunk(finish="stop") + DONE))
    assert trace.content == "🦙"
    together = figures((5, chunk(content="a") * 20), (6, chunk(finish="length") + DONE))
    assert (together.chunks, together.coalesced) == (20, 19)


def test_09_comments_and_progress_stop_no_clock() -> None:
    progress = b'data: {"choices":[{"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":9}}\n\n'
    got = figures(
        (1000, b":\n\n"), (2000, b": keep-alive\n\n"), (3000, progress), (20000, chunk(content="a")), (20001, DONE)
    )
    assert got.ttft_ms == 20000
    assert got.chunks == 1


def test_10_a_cut_stream_is_no_finished_one() -> None:
    cut = read(*[(n, chunk(content="x")) for n in range(1, 4)])
    assert (cut.outcome, cut.error_class) == ("failed", "truncated")
    unsaid = read((1, chunk(content="x")), (2, DONE))
    assert (unsaid.outcome, unsaid.finish) == ("ok", "none")
    finished = read((1, chunk(content="x")), (2, chunk(finish="stop") + DONE), (120_000, b": still here\n\n"))
    assert finished.end_ns == 2 * MS


def test_11_one_json_reply_has_no_ttft_and_a_stream_is_read_as_one() -> None:
    body = b'{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}],"usage":{"completion_tokens":2}}'
    for kind in ("application/json", "text/plain"):
        got = request_figures(read((300, body), headers={"content-type": kind}))
        assert (got.outcome, got.output_tokens, got.total_ms) == ("ok", 2, 300)
        assert (got.ttft_ms, got.decode_rate, got.decode_absent) == (None, None, "not streamed")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_13_reasoning_is_output_and_the_answer_has_its_own_clock(field: str) -> None:
    got = figures((28_600, chunk(content="", **{field: "Hm"})), (34_700, chunk(content="42")), (34_701, DONE))
    assert (got.ttft_ms, got.ttfa_ms) == (28_600, 34_700)
    only = figures((28_600, chunk(content="", **{field: "Hm"})), (28_700, chunk(finish="length")), (28_701, DONE))
    assert (only.ttft_ms, only.ttfa_ms, only.empty) == (28_600, None, False)


def test_13_a_tool_call_is_output() -> None:
    call = [{"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": ""}}]
    got = figures((50, chunk(tool_calls=call)), (60, chunk(finish="tool_calls")), (61, DONE))
    assert (got.ttft_ms, got.ttfa_ms, got.finish) == (50, None, "tool_calls")


def test_14_hidden_tokens_give_no_rate() -> None:
    usage = (
        b'data: {"choices":[],"usage":{"completion_tokens":90,"completion_tokens_details":{"reasoning_tokens":80}}}\n\n'
    )
    got = figures(
        *[(100 + n, chunk(content="ab")) for n in range(10)], (120, chunk(finish="stop")), (121, usage), (121, DONE)
    )
    assert (got.output_tokens, got.decode_rate, got.decode_absent) == (90, None, "hidden tokens")


def test_15_a_chunk_is_not_a_token() -> None:
    usage = {"completion_tokens": 200, "prompt_tokens": 5}
    parts = [(100 + 50 * n, chunk(content="0123456789")) for n in range(20)]
    trace = read(*parts, (1060, chunk(finish="length", usage=usage)), (1061, DONE))
    got = request_figures(trace)
    assert got.tokens_per_chunk == 10
    assert got.decode_rate == pytest.approx(190 / 0.95)
    assert set(chunk_gaps_ms(trace)) == {50.0}


def test_16_the_end_is_the_last_text_not_the_usage() -> None:
    got = figures(
        (10, chunk(content="a")),
        (20, chunk(content="b", finish="stop")),
        (120, chunk(usage={"completion_tokens": 2})),
        (121, DONE),
    )
    assert (got.total_ms, got.end_ms) == (20, 121)


def test_17_all_in_one_read_is_buffered_and_has_no_rate() -> None:
    usage = {"completion_tokens": 100, "prompt_tokens": 5}
    got = figures((1000, chunk(content="x") * 100 + chunk(finish="length", usage=usage) + DONE))
    assert (got.output_tokens, got.decode_rate, got.decode_absent) == (100, None, "buffered")


def test_an_empty_reply_that_is_ok_is_counted_as_empty() -> None:
    got = figures((5, chunk(finish="stop", usage={"completion_tokens": 0})), (6, DONE))
    assert (got.outcome, got.empty, got.ttft_ms, got.output_tokens) == ("ok", True, None, 0)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"error":{"message":"no"}}', "no"),
        (b'{"error":"no"}', "no"),
        (b'{"detail":"no"}', "no"),
        (b'{"detail":[{"msg":"no"},{"msg":"never"}]}', "no; never"),
        (b"plain no", "plain no"),
        (b"", "no message"),
    ],
)
def test_every_spelling_of_an_error_body(body: bytes, says: str) -> None:
    trace = read((1, body), status=503, headers={"content-type": "application/json"})
    assert (trace.outcome, trace.error_class, trace.error) == ("failed", "http_503", says)


def test_a_redirect_is_named_and_not_followed() -> None:
    trace = read((1, b""), status=307, headers={"location": "http://elsewhere/"})
    assert (trace.error_class, trace.status) == ("redirect", 307)
    assert "http://elsewhere/" in trace.error


@pytest.mark.parametrize("data", [b"data: {nope}\n\n", b"data: [1]\n\n", b"hello\n\nworld\n\n", b"data: \xff\xfe\n\n"])
def test_garbage_is_malformed(data: bytes) -> None:
    assert read((1, data)).error_class == "malformed"


def test_surprising_types_lose_only_themselves() -> None:
    odd = b'data: {"choices":[{"delta":{"content":"ok"},"finish_reason":7}, 5],"usage":"many","timings":[1]}\n\n'
    trace = read((1, odd), (2, DONE))
    assert (trace.outcome, trace.content) == ("ok", "ok")
