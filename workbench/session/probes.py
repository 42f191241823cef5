"""Black-box fingerprints of a server: how it splits text into tokens, and what it replies to a fixed prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

from workbench.domain.events import RequestTrace
from workbench.session.endpoint import Endpoint

TEXTS = (
    "The quick brown fox jumps over the lazy dog, and nobody asked why.",
    "\u6570\u5b66\u662f\u4e00\u5207\u79d1\u5b66\u7684\u57fa\u7840\uff0c\u800c\u8bed\u8a00\u662f\u601d\u60f3\u7684\u5de5\u5177\u3002",
    "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }",
    "3.14159265358979 2026-01-31 1,234,567",
    "\U0001f469\u200d\U0001f680\U0001f3f3\ufe0f\u200d\U0001f308 caf\u00e9 na\u00efve \u03a9\u2248\u00e7\u221a",
    "a    b\t\tc\n\n\nd",
)
"""English, Chinese, code, digits, emoji with accents, white space. None begins or ends with white space, which some chat
templates cut off. Changing one makes fingerprints of old records incomparable."""

REPEATS = 4
QUESTION = (
    "Write down the first twelve prime numbers, then name three rivers of Europe and say where each of them ends."
)
REPLY_TOKENS = 48
PROBED = ("engine", "model", "quant")
"""Flipping one of these may change the tokenizer: then every server's is probed."""

Count = Callable[[str], Awaitable[int | None]]
Ask = Callable[[Sequence[str], int], Awaitable[list[RequestTrace]]]
"""Sends each text as a prompt of its own, one after the other, at temperature 0, for so many tokens of reply."""


async def tokenizer_probe(count: Count, ask: Ask) -> tuple[list[int], str] | None:
    """For each of TEXTS the tokens that three more copies of it add, and how they were counted; None when that can't be
    told.

    The difference leaves the chat template and special tokens out, so that it is one figure whoever counts: the server's
    own tokenizer route, else `prompt_tokens` of replies of one token.
    """
    texts = [each for text in TEXTS for each in (text * REPEATS, text)]
    if await count(TEXTS[0]) is not None:
        counted = [await count(text) for text in texts]
        source = "the server's tokenizer route"
    else:
        counted = [trace.usage.prompt if trace.outcome == "ok" else None for trace in await ask(texts, 1)]
        source = "prompt_tokens of short requests"
    known = [number for number in counted if number is not None]
    if len(known) < len(texts):
        return None
    added = [many - one for many, one in zip(known[::2], known[1::2], strict=True)]
    # A server that cuts prompts, or leaves cached tokens out, counts nonsense.
    return (added, source) if all(number > 0 for number in added) else None


async def behaviour(ask: Ask) -> str | None:
    """The fingerprint of the reply to a fixed prompt at temperature 0; None when there was none."""
    traces = await ask([QUESTION], REPLY_TOKENS)
    if not traces or traces[0].outcome != "ok":
        return None
    text = traces[0].reasoning + traces[0].content
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16] if text.strip() else None


class Probes:
    """The fingerprints of the servers of a session, each taken once. `replies`: ask for the behaviour fingerprint too."""

    def __init__(self, *, tokenizers: bool, replies: bool) -> None:
        self._tokenizers = tokenizers
        self._replies = replies
        self._taken: dict[str, dict[str, tuple[list[int] | str, str]]] = {}

    def wanted(self, endpoint: Endpoint) -> bool:
        return (self._tokenizers or self._replies) and endpoint.view.id not in self._taken

    async def take(self, endpoint: Endpoint, count: Count, ask: Ask) -> None:
        """Probe a server, after its first request and outside of what is measured."""
        found = self._taken.setdefault(endpoint.view.id, {})
        probe = await tokenizer_probe(count, ask)
        if probe is not None:
            found["tokenizer_probe"] = probe
        reply = await behaviour(ask) if self._replies else None
        if reply is not None:
            found["fingerprint"] = reply, "its reply to a fixed prompt at temperature 0"

    def describe(self, endpoint: Endpoint) -> None:
        """Put what was found into the endpoint's table."""
        for name, (value, source) in self._taken.get(endpoint.view.id, {}).items():
            endpoint.add(name, value, source)
