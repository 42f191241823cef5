"""A target with a launch profile: its server is started when it is first used, restarted when its quant is flipped."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from workbench.domain.checks.side import same_quant
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput, Setting
from workbench.engines.http import Address, Http, HttpTrouble, parse_url
from workbench.engines.launch import LaunchTrouble, ServerProcess, how_it_ended, new_server_log
from workbench.engines.names import quant_in
from workbench.engines.process import read_options, show_options
from workbench.engines.recognise import recognise
from workbench.environment.network import is_this_machine
from workbench.records.redact import redact_command
from workbench.session.bench import Choice
from workbench.session.endpoint import Endpoint, NoServer
from workbench.session.events import CountersView
from workbench.session.launch_profile import LaunchSettings, listed, shown_variables
from workbench.session.server_log import log_reason, scrub
from workbench.session.server_target import ServerTarget
from workbench.session.settings import TargetSettings

POLL_S = 0.2
ASK_S = 2.0
PROFILE = "the launch profile"


class Surroundings(msgspec.Struct, kw_only=True):
    """What a launched server is given from outside. `secrets`: what must never be quoted; `logs`: a folder."""

    logs: Path
    secrets: set[str]
    progress: Callable[[str], None]
    key: str = ""
    ca_file: str = ""
    declared: dict[str, str | int | float | bool] = {}


class LaunchedTarget:
    """Starts the command of a launch profile, unless something answers at its address already: that is never stopped."""

    def __init__(self, name: str, item: TargetSettings, given: Surroundings) -> None:
        assert item.launch is not None
        self.name = name
        self._item = item
        self._launch: LaunchSettings = item.launch
        self._given = given
        self._process: ServerProcess | None = None
        self._server: ServerTarget | None = None
        self._quant = ""
        self._words: list[str] = []
        self._added: dict[str, str] = {}
        self._settled: set[str] = set()
        self._taken_as: dict[str, str] = {}
        try:
            self._address: Address = parse_url(item.url)
        except HttpTrouble as trouble:
            raise BadInput(f"target {name}: {trouble}") from None

    async def settle(self, setting: Setting) -> Setting:
        server = await self._serving(setting)
        settled = await server.settle(msgspec.structs.replace(setting, quant="" if self._process else setting.quant))
        self._settled.add(settled.model)
        return msgspec.structs.replace(settled, quant=self._quant or settled.quant)

    async def endpoint(self, setting: Setting) -> Endpoint:
        server = await self._serving(setting)
        return self._described(await server.endpoint(await self._there(server, setting)), setting)

    async def look_again(self, setting: Setting) -> Endpoint:
        server = await self._serving(setting)
        return self._described(await server.look_again(await self._there(server, setting)), setting)

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        if variable == "quant" and self._launch.quants:
            return [Choice(value=quant, note="in use" if quant == self._quant else "") for quant in self._launch.quants]
        if self._server is None:
            return []
        return await self._server.choices(variable, await self._there(self._server, setting))

    async def counters(self) -> CountersView | None:
        return None if self._server is None else await self._server.counters()

    async def count_tokens(self, text: str) -> int | None:
        return None if self._server is None else await self._server.count_tokens(text)

    async def close(self) -> None:
        process, self._process, self._server = self._process, None, None
        if process is not None:
            await process.stop()
            await asyncio.to_thread(scrub, process.log, self._given.secrets)

    @property
    def base_url(self) -> str:
        """The address, as it may stand in a record."""
        return self._address.api

    def launch_table(self) -> dict[str, Any]:
        """The record's form of the profile, for `[[plan.targets]]`."""
        return self._launch.table()

    async def _serving(self, setting: Setting) -> ServerTarget:
        """The server for the setting, ready. Raises NoServer when it can't be had, or has ended since."""
        quant = self._named(setting.quant or self._item.quant)
        process = self._process
        if process is not None and process.status is not None:
            said = self._ended(process, "ended by itself")
            await self.close()
            raise NoServer(said)
        if self._server is None or (process is not None and quant != self._quant):
            await self.close()
            self._server = await self._start(quant)
        return self._server

    def _named(self, wanted: str) -> str:
        quant = self._launch.quant_named(wanted)
        if quant is None:
            raise NoServer(
                f"target {self.name} can't be launched as {one_line(wanted, 60)}; it has: {listed(self._launch.quants)}"
            )
        return quant

    async def _start(self, quant: str) -> ServerTarget:
        """The server at the address: the one that was there before, else one that is started now."""
        where, self._quant = self._address.place, ""
        if not await asyncio.to_thread(is_this_machine, self._address.host):
            raise NoServer(f"target {self.name} can't be launched: {self._address.host} is not this machine")
        try:
            return await self._recognised()
        except HttpTrouble as trouble:
            if trouble.kind != "refused":
                raise NoServer(f"target {self.name} can't be launched: {where} is taken: {trouble.sentence}") from None
        model = self._item.model
        fillings = self._launch.fillings(model, self._address.port, quant)
        self._words, self._added = self._launch.words(fillings), self._launch.added(fillings)
        taken = self._launch.taken()
        try:
            log = new_server_log(self._given.logs, self.name)
            self._given.progress(f"starting {self.name}{f' as {quant}' if quant else ''}; its log: {log}")
            self._process = await ServerProcess.start(
                self._words,
                log,
                environment={**os.environ, **self._added, **taken},
                folder=self._launch.folder,
                stop_signal=self._launch.stop_signal,
            )
        except LaunchTrouble as trouble:
            raise NoServer(f"target {self.name} can't be launched: {trouble}") from None
        self._quant = quant
        try:
            await self._ready(self._process)
            return await self._recognised(str(fillings["model"]))
        except HttpTrouble as trouble:
            await self.close()
            raise NoServer(f"target {self.name} was launched, but {trouble} (log: {log})") from None
        except BaseException:
            await self.close()
            raise

    async def _recognised(self, model: str = "") -> ServerTarget:
        given = self._given
        server = await recognise(self._item.url, key=given.key, ca=given.ca_file)
        target = ServerTarget(self.name, server, key=given.key, ca_file=given.ca_file, declared=given.declared)
        # The profile's model may be a file or a repository, which the server then serves under another name.
        known = [entry.id for entry in await target.models()]
        name = next(
            (each for each in (model, self._item.model) if each and each in known), "" if known else self._item.model
        )
        return ServerTarget(
            self.name, server, key=given.key, ca_file=given.ca_file, model=name, declared=given.declared
        )

    async def _ready(self, process: ServerProcess) -> None:
        """Wait until it takes requests. Raises NoServer when it ends before, or isn't ready in time."""
        limit = self._launch.ready_timeout
        http = Http(self._address, key=self._given.key, ca=self._given.ca_file, timeout=ASK_S)
        try:
            async with asyncio.timeout(limit):
                while not await self._answers(http):
                    if await process.ended(within_s=POLL_S):
                        break
        except TimeoutError:
            said = await asyncio.to_thread(log_reason, process.log, self._given.secrets)
            raise NoServer(
                f"target {self.name} was launched, but isn't ready after {limit:g} s{_says(said)} (log: {process.log})"
            ) from None
        if process.status is not None:
            raise NoServer(self._ended(process, "ended before it was ready"))

    async def _answers(self, http: Http) -> bool:
        try:
            if self._launch.ready:
                return (await http.get(self._launch.ready)).status == 200
            health = (await http.get("/health")).status
            return health == 200 or (health in (404, 405) and (await http.get("/v1/models")).status == 200)
        except HttpTrouble:
            return False

    def _ended(self, process: ServerProcess, words: str) -> str:
        assert process.status is not None
        said = log_reason(process.log, self._given.secrets)
        return (
            f"target {self.name}: its server {words} ({how_it_ended(process.status)}){_says(said)} (log: {process.log})"
        )

    async def _there(self, server: ServerTarget, setting: Setting) -> Setting:
        """The setting as its server is asked for it: a model's name may be another one under another quant."""
        model = setting.model
        known = await server.models()
        if model in self._settled and known and not any(server.engine.same_model(model, entry.id) for entry in known):
            model = ""
        # What we started is what was asked for; what was there before must say so itself.
        return msgspec.structs.replace(setting, model=model, quant="" if self._process else setting.quant)

    def _described(self, endpoint: Endpoint, setting: Setting) -> Endpoint:
        """The endpoint with what we know of a server that we started ourselves."""
        process = self._process
        if process is None:
            return self._found_running(endpoint, setting)
        table = endpoint.table
        self._check_quant(table)
        known: dict[str, Any] = {
            "command": redact_command(self._words),
            "log": f"{process.log.parent.name}/{process.log.name}",
        }
        if "flags" not in table:
            known["flags"] = show_options(read_options(self._words[1:])[0])
        if self._added or self._launch.env_from:
            known["added_environment"] = shown_variables(self._added, self._launch.env_from)
        if self._quant and "quant" not in table:
            known["quant"] = self._quant
        table["source"] = {**table.get("source", {}), **dict.fromkeys(known, PROFILE)}
        table |= known
        endpoint.unknown = {name: how for name, how in endpoint.unknown.items() if name not in known}
        endpoint.pid, endpoint.log = process.pid, process.log
        endpoint.view = msgspec.structs.replace(
            endpoint.view,
            id=f"{self.name}-{self._quant}" if self._quant else self.name,
            quant=str(table.get("quant", "")),
            local=True,
        )
        return endpoint

    def _check_quant(self, table: dict[str, Any]) -> None:
        """Raises NoServer when the server that we started says that it serves another quant than it was started for."""
        told = table.get("quant")
        if (
            told is None
            or quant_in(self._quant) is None
            or quant_in(str(told)) is None
            or same_quant(told, self._quant)
        ):
            return
        raise NoServer(
            f"target {self.name} was launched as {self._quant}, but its server says {one_line(str(told), 60)}: "
            "mend the launch profile"
        )

    def _found_running(self, endpoint: Endpoint, setting: Setting) -> Endpoint:
        """A server that was there before is not restarted: it can't be flipped, unless it serves several quants itself."""
        wanted = setting.quant
        first = self._taken_as.setdefault(endpoint.model, wanted)
        if wanted and first and not same_quant(first, wanted):
            raise NoServer(
                f"target {self.name} was running before Workbench and is not restarted as {one_line(wanted, 60)}: "
                "stop it, so that it can be launched"
            )
        return endpoint


def _says(line: str) -> str:
    return f": {line}" if line else ""
