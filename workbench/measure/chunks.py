"""The JSON of OpenAI-style replies, decoded tolerantly: a surprise in one field never loses the others."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from workbench.domain.events import CONTENT, REASONING, TOOL_CALL


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    text: Any = None
    finish_reason: Any = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    timings: Any = None
    sim: Any = None


MOST = 2**63 - 1


class Piece(msgspec.Struct):
    """What one chunk carried: output by kind, how it ended, what it counted, and an error when it was one."""

    content: str = ""
    reasoning: str = ""
    tool_calls: str = ""
    kinds: int = 0
    finish: str = ""
    usage: dict[str, Any] | None = None
    timings: dict[str, Any] | None = None
    sim: dict[str, Any] | None = None
    error: Any = None
    choices: bool = False


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_decode_any = msgspec.json.Decoder().decode


class NotJsonError(ValueError):
    """The bytes are no JSON object; the message is one short line."""


def decode(data: bytes) -> Piece:
    """One chunk (or one whole non-streaming reply) as a Piece. Raises NotJsonError."""
    try:
        chunk = _decode_chunk(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        chunk = _tolerant(data)
    piece = Piece(error=chunk.error)
    if isinstance(chunk.usage, dict):
        piece.usage = chunk.usage
    if isinstance(chunk.timings, dict):
        piece.timings = chunk.timings
    if isinstance(chunk.sim, dict):
        piece.sim = chunk.sim
    if chunk.choices:
        piece.choices = True
        for choice in chunk.choices:
            _read_choice(choice, piece)
    return piece


def _tolerant(data: bytes) -> _Chunk:
    """Decode field by field what the strict shape refused."""
    try:
        value = _decode_any(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            value = _decode_any(_mended(data))
        except (ValueError, RecursionError):
            raise NotJsonError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise NotJsonError(f"JSON, but {type(value).__name__} where an object was expected")
    chunk = _Chunk(
        usage=value.get("usage"), error=value.get("error"), timings=value.get("timings"), sim=value.get("sim")
    )
    choices = value.get("choices")
    if isinstance(choices, list):
        chunk.choices = [_tolerant_choice(item) for item in choices if isinstance(item, dict)]
    return chunk


def _mended(data: bytes) -> bytes:
    """JSON made strict: half an emoji (`\\ud83d` alone, from servers that cut text in UTF-16 units) and bytes that are not
    UTF-8 become U+FFFD, numbers out of range become null. Raises ValueError, RecursionError."""
    value = json.loads(data.decode("utf-8", "replace"), parse_constant=_absent, parse_float=_finite)
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _absent(constant: str) -> None:
    """NaN and Infinity say nothing that could be kept."""


def _finite(digits: str) -> float | None:
    return number if math.isfinite(number := float(digits)) else None


def _tolerant_choice(value: dict[str, Any]) -> _Choice:
    choice = _Choice(text=value.get("text"), finish_reason=value.get("finish_reason"))
    for name in ("delta", "message"):
        part = value.get(name)
        if isinstance(part, dict):
            fields = {field: part.get(field) for field in _Delta.__struct_fields__}
            setattr(choice, name, _Delta(**fields))
    return choice


def _read_choice(choice: _Choice, piece: Piece) -> None:
    delta = choice.delta or choice.message
    if delta is not None:
        content = delta.content or delta.refusal
        if content:
            piece.content += _text_of(content)
        reasoning = delta.reasoning_content or delta.reasoning
        if reasoning:
            piece.reasoning += _text_of(reasoning)
        calls = delta.tool_calls or delta.function_call
        if calls:
            piece.tool_calls += _calls_text(calls)
    if choice.text:
        piece.content += _text_of(choice.text)
    if choice.finish_reason:
        piece.finish = str(choice.finish_reason)
    piece.kinds = (
        (CONTENT if piece.content else 0)
        | (REASONING if piece.reasoning else 0)
        | (TOOL_CALL if piece.tool_calls else 0)
    )


def _text_of(value: Any) -> str:
    """Text of a content value: a string, or the text parts of a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    return ""


def _calls_text(calls: Any) -> str:
    """Names and arguments of tool-call deltas as they were generated; other fields (ids, indexes) are not output."""
    parts = calls if isinstance(calls, list) else [calls]
    text = ""
    for part in parts:
        function = part.get("function", part) if isinstance(part, dict) else None
        if isinstance(function, dict):
            text += str(function.get("name") or "") + str(function.get("arguments") or "")
    return text


def integer(value: Any) -> int | None:
    """A count as an int; None for anything that is not a whole number from 0 to what JSON and TOML readers can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST:
        return None
    return int(value) if value == int(value) else None


def error_text(value: Any) -> str:
    """The message of an error in any of the spellings seen: an object, a string, a `detail` text or list, plain text."""
    if isinstance(value, dict):
        for key in ("message", "msg", "error", "detail"):
            if value.get(key):
                code = value.get("code")
                text = error_text(value[key])
                return f"{text} (code {code})" if isinstance(code, int) and str(code) not in text else text
        return msgspec.json.encode(value).decode()
    if isinstance(value, list):
        return "; ".join(error_text(item) for item in value)
    return str(value)


def body_error(body: bytes) -> str:
    """The message of an HTTP error's body; the body's start when it is no JSON; "" when there is none."""
    try:
        value = _decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return " ".join(body[:500].decode("utf-8", "replace").split())
    if isinstance(value, dict) and not any(value.get(key) for key in ("message", "msg", "error", "detail")):
        return msgspec.json.encode(value).decode()[:500]
    return error_text(value)[:2000]
