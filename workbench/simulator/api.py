"""Request bodies of the OpenAI-compatible routes, read tolerantly: unknown fields are accepted and ignored."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from workbench.simulator.options import MAX_MODEL_LEN, MOST_MS
from workbench.simulator.text import count_tokens

DEFAULT_MAX_TOKENS = 128
"""Length of a reply when the request states none."""

_Ms = Annotated[float, msgspec.Meta(ge=0, le=MOST_MS)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]


class Refused(Exception):
    """The request can't be served: an HTTP status and a message for its error body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Override(msgspec.Struct):
    """The body's own `sim` object: times in ms, `tokens` until the reply ends by itself, `fail` for an HTTP 500."""

    ttft_ms: _Ms | None = None
    itl_ms: _Ms | None = None
    tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    fail: bool = False


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Part(msgspec.Struct):
    text: str | None = None


class _Message(msgspec.Struct):
    content: str | list[_Part] | None = None


class _Body(msgspec.Struct):
    messages: list[_Message] | None = None
    prompt: str | list[str | int] | None = None
    max_tokens: _Positive | None = None
    max_completion_tokens: _Positive | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: float | None = None
    seed: int | None = None
    ignore_eos: bool | None = None
    sim: Override | None = None


class _TokenizeBody(msgspec.Struct):
    content: str | None = None
    prompt: str | None = None


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What a generation request asks for, once read. `first` is the text that the prefix cache knows it by."""

    chat: bool
    prompt: str
    first: str
    prompt_tokens: int
    max_tokens: int
    stream: bool
    include_usage: bool
    temperature: float
    seed: int | None
    ignore_eos: bool
    override: Override


_bodies: msgspec.json.Decoder[_Body] = msgspec.json.Decoder(_Body)
_tokenize_bodies: msgspec.json.Decoder[_TokenizeBody] = msgspec.json.Decoder(_TokenizeBody)


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise Refused(400, f"invalid request body: {error}") from None
    except RecursionError:
        raise Refused(400, "invalid request body: nested too deeply") from None


def read_ask(body: bytes, chat: bool) -> Ask:
    """Read the body of /v1/chat/completions (`chat`) or /v1/completions. Raises Refused."""
    asked: _Body = _decode(_bodies, body)
    if chat:
        if not asked.messages:
            raise Refused(400, "messages: at least one is needed")
        texts = [_message_text(message) for message in asked.messages]
        prompt, first = "\n".join(texts), texts[0]
        prompt_tokens = count_tokens(prompt)
    else:
        prompt, prompt_tokens = _read_prompt(asked.prompt)
        first = prompt
    room = MAX_MODEL_LEN - prompt_tokens
    if room < 1:
        raise Refused(
            400,
            f"This model's maximum context length is {MAX_MODEL_LEN} tokens. However, your prompt contains "
            f"{prompt_tokens} input tokens. Please reduce the length of the input prompt.",
        )
    most = asked.max_completion_tokens or asked.max_tokens or DEFAULT_MAX_TOKENS
    return Ask(
        chat=chat,
        prompt=prompt,
        first=first,
        prompt_tokens=prompt_tokens,
        max_tokens=min(most, room),
        stream=bool(asked.stream),
        include_usage=bool(asked.stream_options and asked.stream_options.include_usage),
        temperature=asked.temperature or 0.0,
        seed=asked.seed,
        ignore_eos=bool(asked.ignore_eos),
        override=asked.sim or Override(),
    )


def _message_text(message: _Message) -> str:
    if isinstance(message.content, list):
        return "".join(part.text or "" for part in message.content)
    return message.content or ""


def _read_prompt(prompt: str | list[str | int] | None) -> tuple[str, int]:
    if prompt is None:
        raise Refused(400, "prompt: is needed")
    if isinstance(prompt, str):
        return prompt, count_tokens(prompt)
    if len(prompt) == 1 and isinstance(prompt[0], str):
        return prompt[0], count_tokens(prompt[0])
    if any(isinstance(item, str) for item in prompt):
        raise Refused(400, "prompt: one prompt a request")
    return " ".join(map(str, prompt)), len(prompt)


def read_tokenize(body: bytes) -> tuple[str, bool]:
    """Read the body of /tokenize: the text, and whether it came as `prompt` (vLLM's form) instead of `content`
    (llama.cpp's form). Raises Refused."""
    asked: _TokenizeBody = _decode(_tokenize_bodies, body)
    if asked.content is not None:
        return asked.content, False
    if asked.prompt is not None:
        return asked.prompt, True
    raise Refused(400, "content or prompt: one of them is needed")
