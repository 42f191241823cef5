"""What a session is told to do, beyond its plan: the prompts' texts, how to count, what more to keep."""

from __future__ import annotations

from pathlib import Path

import msgspec

from workbench.domain.plan import Plan
from workbench.session.tokenizer_file import Tokenizers


class PromptUse(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt as this session sends it: its text is final (a near-limit prompt has been built), its tokens counted.

    `file`: where a user's prompt came from; "" for a shipped one or one restored from a record. `token_source`:
    "tokenize", "tokenizer" or "" when it has not been counted.
    """

    name: str
    text: str
    sha256: str
    file: str = ""
    share: float | None = None
    tokens: int | None = None
    token_source: str = ""


class Job(msgspec.Struct, kw_only=True):
    """One session to run. `secrets`: keys in use, taken out of whatever a server echoes. `server_log`: the log of a server
    that somebody else started. `fingerprint`: ask servers for a reply to know them by, and hash their weights file."""

    plan: Plan
    requests_of: dict[str, int] = {}
    prompts: dict[str, PromptUse] = {}
    tokenizers: Tokenizers = msgspec.field(default_factory=Tokenizers)
    fingerprint: bool = False
    server_log: Path | None = None
    events: bool = False
    secrets: tuple[str, ...] = ()
