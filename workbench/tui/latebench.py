"""A bench that is made when it is first asked for something: the screen is drawn before servers' code is even imported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from workbench.domain.plan import Plan
from workbench.domain.record import Record
from workbench.domain.variables import Setting
from workbench.session.bench import Choice, FoundTarget
from workbench.session.events import Listener, ServerView
from workbench.tui.experiment import ScreenBench


class LateBench:
    """Stands for the bench that `make` gives; it is made once, off the screen's own thread, as importing takes long."""

    def __init__(self, make: Callable[[], ScreenBench]) -> None:
        self._make = make
        self._making: asyncio.Task[ScreenBench] | None = None
        self._made: ScreenBench | None = None

    async def _bench(self) -> ScreenBench:
        if self._making is None:
            self._making = asyncio.create_task(asyncio.to_thread(self._make))
        self._made = await self._making
        return self._made

    @property
    def environment(self) -> dict[str, Any]:
        """Facts found so far."""
        return {} if self._made is None else self._made.environment

    async def targets(self) -> list[FoundTarget]:
        return await (await self._bench()).targets()

    async def connect(self, name: str) -> ServerView:
        return await (await self._bench()).connect(name)

    def start_setting(self) -> Setting:
        """Of the connected target: there is a bench by then."""
        assert self._made is not None
        return self._made.start_setting()

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        return await (await self._bench()).choices(variable, setting)

    async def measure(
        self,
        plan: Plan,
        listener: Listener,
        *,
        name: str = "",
        notes: str = "",
        requests_of: dict[str, int] | None = None,
    ) -> Record:
        bench = await self._bench()
        return await bench.measure(plan, listener, name=name, notes=notes, requests_of=requests_of)

    def stop(self, reason: str = "stopped by the user") -> None:
        if self._made is not None:
            self._made.stop(reason)

    async def close(self) -> None:
        """Close the bench, when one was made."""
        if self._making is not None:
            await (await self._bench()).close()
