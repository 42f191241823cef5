"""Several targets as one, so that flipping `engine` is flipping a variable like any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from workbench.domain.variables import Setting
from workbench.session.bench import Choice
from workbench.session.endpoint import Endpoint, NoServer, Target
from workbench.session.events import CountersView
from workbench.session.launched import LaunchedTarget
from workbench.session.server_target import ServerTarget

Opener = Callable[[], Awaitable[Target]]


class TargetSet:
    """Targets by name, each opened when it is first used. `setting.engine` names the one a setting goes to."""

    def __init__(self, openers: dict[str, Opener], name: str, first: Target) -> None:
        self._openers = openers
        self._open: dict[str, Target] = {name: first}
        self._asked = self._settled = Setting(engine=name)
        self.name = name

    async def use(self, name: str) -> Target:
        """The named target becomes the one in use; what we started for the one before is stopped. Raises NoServer."""
        target = await self._opened(name)
        if name != self.name:
            # Two servers of ours would share the machine. One that was running before stays: closing doesn't stop it.
            await self._open[self.name].close()
        self.name = name
        return target

    async def _opened(self, name: str) -> Target:
        if name not in self._openers:
            raise NoServer(f"no such target: {name}; there are: {', '.join(self._openers)}")
        if name not in self._open:
            self._open[name] = await self._openers[name]()
        return self._open[name]

    def _of(self, setting: Setting) -> str:
        return setting.engine if setting.engine in self._openers else self.name

    async def settle(self, setting: Setting) -> Setting:
        name = self._of(setting)
        settled = await (await self.use(name)).settle(setting)
        self._asked, self._settled = setting, msgspec.structs.replace(settled, engine=name)
        return self._settled

    async def _there(self, target: Target, setting: Setting) -> Setting:
        """The setting for a target. A model or quant that nobody asked for, but that another target settled on, is an
        address there: here this target's own model stands, and the quant where there is such a one."""
        asked, settled = self._asked, self._settled
        if self._of(setting) == settled.engine:
            return setting
        model, quant = setting.model, setting.quant
        if not asked.model and model == settled.model:
            model = ""
        if not asked.quant and quant == settled.quant:
            known = await target.choices("quant", setting)
            quant = quant if any(str(choice.value).casefold() == quant.casefold() for choice in known) else ""
        return msgspec.structs.replace(setting, model=model, quant=quant)

    async def endpoint(self, setting: Setting) -> Endpoint:
        """The server for the setting. A model or quant chosen on another engine is kept only where it exists here."""
        target = await self.use(self._of(setting))
        return await target.endpoint(await self._there(target, setting))

    async def look_again(self, setting: Setting) -> Endpoint:
        target = await self.use(self._of(setting))
        return await target.look_again(await self._there(target, setting))

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        if variable == "engine":
            return [Choice(value=name) for name in self._openers]
        return await (await self._opened(self._of(setting))).choices(variable, setting)

    async def tables(self, names: Iterable[str], address: str) -> list[dict[str, Any]]:
        """The record's `[[plan.targets]]`: the one in use at its address, then the others that will be used. Raises NoServer
        when one of those isn't there."""
        tables: list[dict[str, Any]] = [{"name": self.name, "address": address}]
        for name in dict.fromkeys([self.name, *names]):
            target = await self._opened(name)
            if name != self.name:
                tables.append({"name": name})
                if isinstance(target, ServerTarget | LaunchedTarget):
                    tables[-1]["address"] = target.base_url
            if isinstance(target, LaunchedTarget):
                tables[-1]["launch"] = target.launch_table()
        return tables

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
