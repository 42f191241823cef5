"""Targets of our own: the built-in engine, restarted when its quant is flipped, and the simulator."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from workbench.domain.variables import Setting
from workbench.engines.builtin import BuiltinEngine, EngineUnavailable, start_builtin
from workbench.engines.recognise import recognise
from workbench.engines.weights import quants
from workbench.session.bench import Choice
from workbench.session.endpoint import Endpoint, NoServer
from workbench.session.events import CountersView
from workbench.session.options import BUILT_IN, SIMULATED
from workbench.session.server_target import ServerTarget
from workbench.simulator.options import SimOptions
from workbench.simulator.process import SimulatorProcess

DEFAULT_QUANT = "Q4_1"


class BuiltInTarget:
    """Starts the built-in engine on demand; one quant runs at a time, since two would share the cores."""

    name = BUILT_IN

    def __init__(self, slots: int, progress: Callable[[str], None]) -> None:
        self._slots = slots
        self._progress = progress
        self._engine: BuiltinEngine | None = None
        self._server: ServerTarget | None = None

    async def settle(self, setting: Setting) -> Setting:
        quant = self._quant(setting)
        server = await self._start(quant)
        settled = await server.settle(msgspec.structs.replace(setting, quant=""))
        return msgspec.structs.replace(settled, engine=setting.engine or BUILT_IN, quant=quant)

    def _quant(self, setting: Setting) -> str:
        wanted = setting.quant or DEFAULT_QUANT
        known = next((quant for quant in quants() if quant.casefold() == wanted.casefold()), None)
        if known is None:
            raise NoServer(f"the built-in engine has no {wanted}; it has: {', '.join(quants())}")
        return known

    def _alive(self, quant: str) -> bool:
        """Whether the engine runs, with this quant; one that died is started again."""
        return self._engine is not None and self._engine.quant == quant and self._engine.returncode is None

    async def _start(self, quant: str) -> ServerTarget:
        if self._server is not None and self._alive(quant):
            return self._server
        await self.close()
        try:
            self._engine = await start_builtin(quant, slots=self._slots, progress=self._progress)
        except EngineUnavailable as trouble:
            raise NoServer(str(trouble)) from None
        self._server = ServerTarget(BUILT_IN, await recognise(self._engine.base_url))
        return self._server

    async def endpoint(self, setting: Setting) -> Endpoint:
        server = await self._start(self._quant(setting))
        return self._described(await server.endpoint(msgspec.structs.replace(setting, quant="")))

    async def look_again(self, setting: Setting) -> Endpoint:
        server = await self._start(self._quant(setting))
        return self._described(await server.look_again(msgspec.structs.replace(setting, quant="")))

    def _described(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint with what we know of an engine that we started ourselves."""
        engine = self._engine
        assert engine is not None
        facts = engine.facts()
        endpoint.pid = engine.pid
        endpoint.table |= {key: value for key, value in facts.table().items() if key != "source"}
        endpoint.table["source"] = {**endpoint.table.get("source", {}), **facts.sources()}
        endpoint.unknown = {name: how for name, how in endpoint.unknown.items() if name not in facts}
        endpoint.view = msgspec.structs.replace(
            endpoint.view, id=f"{BUILT_IN}-{engine.quant}", quant=engine.quant, engine="llama.cpp (built in)"
        )
        return endpoint

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        if variable == "quant":
            return [
                Choice(value=quant, note="as shipped" if quant == DEFAULT_QUANT else f"re-encoded from {DEFAULT_QUANT}")
                for quant in quants()
            ]
        if variable == "model" and self._server is not None:
            return await self._server.choices(variable, setting)
        return []

    async def counters(self) -> CountersView | None:
        return None if self._server is None else await self._server.counters()

    async def count_tokens(self, text: str) -> int | None:
        return None if self._server is None else await self._server.count_tokens(text)

    async def close(self) -> None:
        engine, self._engine, self._server = self._engine, None, None
        if engine is not None:
            await engine.stop()


class SimulatedTarget:
    """The simulator in a process of its own, for a look around without any engine."""

    name = SIMULATED

    def __init__(self, options: SimOptions | None = None) -> None:
        self._process = SimulatorProcess(options or SimOptions())
        self._server: ServerTarget | None = None

    async def _start(self) -> ServerTarget:
        if self._server is None:
            await self._process.__aenter__()
            self._server = ServerTarget(SIMULATED, await recognise(self._process.base_url))
        return self._server

    async def settle(self, setting: Setting) -> Setting:
        return await (await self._start()).settle(setting)

    async def endpoint(self, setting: Setting) -> Endpoint:
        endpoint = await (await self._start()).endpoint(setting)
        endpoint.pid = self._process.pid
        return endpoint

    async def look_again(self, setting: Setting) -> Endpoint:
        """A simulator has nothing to load."""
        return await self.endpoint(setting)

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        return await (await self._start()).choices(variable, setting)

    async def counters(self) -> CountersView | None:
        return None if self._server is None else await self._server.counters()

    async def count_tokens(self, text: str) -> int | None:
        return None if self._server is None else await self._server.count_tokens(text)

    async def close(self) -> None:
        if self._server is not None:
            self._server = None
            await self._process.__aexit__(None, None, None)
