"""Several targets as one, so that flipping `engine` is flipping a variable like any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from workbench.domain.variables import Setting
from workbench.session.bench import Choice
from workbench.session.endpoint import Endpoint, NoServer, Target
from workbench.session.events import CountersView

Opener = Callable[[], Awaitable[Target]]


class TargetSet:
    """Targets by name, each opened when it is first used. `setting.engine` names the one a setting goes to."""

    def __init__(self, openers: dict[str, Opener], name: str, first: Target) -> None:
        self._openers = openers
        self._open: dict[str, Target] = {name: first}
        self.name = name

    async def use(self, name: str) -> Target:
        """The named target becomes the one in use. Raises NoServer."""
        if name not in self._openers:
            raise NoServer(f"no such target: {name}; there are: {', '.join(self._openers)}")
        if name not in self._open:
            self._open[name] = await self._openers[name]()
        self.name = name
        return self._open[name]

    def _of(self, setting: Setting) -> str:
        return setting.engine if setting.engine in self._openers else self.name

    async def settle(self, setting: Setting) -> Setting:
        name = self._of(setting)
        settled = await (await self.use(name)).settle(setting)
        return msgspec.structs.replace(settled, engine=name)

    async def endpoint(self, setting: Setting) -> Endpoint:
        """The server for the setting. A model or quant chosen on another engine is kept only where it exists here."""
        return await (await self.use(self._of(setting))).endpoint(setting)

    async def look_again(self, setting: Setting) -> Endpoint:
        return await (await self.use(self._of(setting))).look_again(setting)

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        if variable == "engine":
            return [Choice(value=name) for name in self._openers]
        return await (await self.use(self._of(setting))).choices(variable, setting)

    async def counters(self) -> CountersView | None:
        target = self._open.get(self.name)
        return None if target is None else await target.counters()

    async def count_tokens(self, text: str) -> int | None:
        target = self._open.get(self.name)
        return None if target is None else await target.count_tokens(text)

    async def close(self) -> None:
        for target in self._open.values():
            await target.close()
        self._open.clear()
