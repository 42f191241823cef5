"""The facade that the command line and the screen stand on: targets, choices, measuring, records.

Nothing in `tui` or `cli` opens a socket, starts an engine or reads a driver; it asks a `Bench`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from workbench.domain.plan import Plan
from workbench.domain.record import Record
from workbench.domain.variables import Setting, VariableValue
from workbench.session.events import Listener, ServerView


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One value a variable can be flipped to; `note` says what a person should know of it ("145 MB", "not loaded")."""

    value: VariableValue
    note: str = ""


class FoundTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A server that can be measured, or that was looked for and can't be: then `trouble` is one line that says why."""

    name: str
    base_url: str
    engine: str = ""
    models: tuple[str, ...] = ()
    trouble: str = ""


class Bench(Protocol):
    """What a person can do with the workbench; one measurement at a time."""

    async def targets(self) -> list[FoundTarget]:
        """Servers found or configured, best first; the built-in engine ("built-in") comes last when it is installed."""

    async def connect(self, name: str) -> ServerView:
        """Make the named target the one in use, starting it when it is ours. Raises BadInput or NoServer, one line."""

    def start_setting(self) -> Setting:
        """The setting to begin with: the connected target's model and quant with the options given at start."""

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        """Values the variable can take on the connected target, in order; empty when it takes any typed value."""

    async def measure(self, plan: Plan, listener: Listener, *, name: str = "", notes: str = "") -> Record:
        """Run a plan, telling the listener as it goes, and save its record. Stopping returns the partial record."""

    def stop(self, reason: str = "stopped by the user") -> None:
        """End the running measurement: what is in flight is cancelled, finished cells are kept."""

    async def close(self) -> None:
        """Stop workers and every engine that we started."""
