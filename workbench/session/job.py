"""What a session is told to do, beyond its plan: where to save, what to call it, what the user declares."""

from __future__ import annotations

from pathlib import Path

import msgspec

from workbench.domain.plan import Plan


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
    """One session to run."""

    plan: Plan
    sessions: Path | None
    requests_of: dict[str, int] = {}
    prompts: dict[str, PromptUse] = {}
    name: str = ""
    notes: str = ""
    command: str = ""
    declared: dict[str, str] = {}
    tokenizer: Path | None = None
    events: bool = False
    secrets: tuple[str, ...] = ()
