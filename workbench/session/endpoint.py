"""Where a setting leads: a server that is ready, the name the model has there, and what is known of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import msgspec

from workbench.domain.variables import Setting
from workbench.session.bench import Choice
from workbench.session.events import CountersView, ServerView


class NoServer(Exception):
    """Nothing can be measured: no server, no such model, a key refused. One line: what, where, how to mend it."""


class Endpoint(msgspec.Struct, kw_only=True):
    """A server ready for requests. `key` is for the Authorization header only. `body`: fields this server wants.

    `table` is the record's `[[environment.server]]`; `unknown` maps a fact's name to the way to learn it. `log`: where a
    server that we started writes.
    """

    base_url: str
    model: str
    view: ServerView
    key: str = ""
    ca_file: str = ""
    body: dict[str, Any] = {}
    table: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    pid: int | None = None
    log: Path | None = None
    fresh: bool = False

    def add(self, name: str, value: Any, source: str) -> None:
        """Add a fact to `table` with its source, unless it is known already."""
        if name not in self.table:
            self.table[name] = value
            self.table["source"] = {**self.table.get("source", {}), name: source}
            self.unknown.pop(name, None)

    def __repr__(self) -> str:
        return f"Endpoint({self.view.id}, {self.base_url}, {self.model})"


class Target(Protocol):
    """Something that can be measured: a server that is there, or one we start ourselves."""

    name: str

    async def endpoint(self, setting: Setting) -> Endpoint:
        """The server for this setting, started or switched if need be. Raises NoServer."""

    async def look_again(self, setting: Setting) -> Endpoint:
        """The same server after its first requests: some facts are told only once the model is loaded."""

    async def settle(self, setting: Setting) -> Setting:
        """The setting with what the target decides filled in: engine, model, quant. Raises NoServer."""

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        """Values a variable can take here; empty when any typed value will do."""

    async def counters(self) -> CountersView | None:
        """The server's own counters now; None when it tells none."""

    async def count_tokens(self, text: str) -> int | None:
        """Tokens of a text by the server's own tokenizer, without template or special tokens; None when it can't."""

    async def close(self) -> None:
        """Stop what we started. A server that was running before is never stopped."""
