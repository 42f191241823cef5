"""The real `Bench`: finds or starts servers, measures with worker processes, saves records."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from workbench import __version__
from workbench.domain.checks import check_cell
from workbench.domain.compare import judge_record
from workbench.domain.plan import Plan, plan_table
from workbench.domain.record import Record, SessionTable
from workbench.domain.variables import BadInput, Setting
from workbench.engines.builtin import available
from workbench.engines.discover import Found, discover
from workbench.engines.http import HttpTrouble
from workbench.engines.recognise import recognise
from workbench.environment.network import host_and_port, is_private, is_this_machine
from workbench.environment.snapshot import EnvironmentSnapshot, take
from workbench.records.store import RecordWriter
from workbench.session.bench import Choice, FoundTarget
from workbench.session.built_in import BuiltInTarget, SimulatedTarget
from workbench.session.endpoint import NoServer, Target
from workbench.session.events import Listener, Notice, ServerView
from workbench.session.fitness import instrument, kept
from workbench.session.job import Job
from workbench.session.launched import LaunchedTarget, Surroundings
from workbench.session.options import BUILT_IN, SIMULATED, BenchOptions
from workbench.session.prepare import prompts_for
from workbench.session.runner import Saver, Services, SessionRun, rfc3339
from workbench.session.server_target import ServerTarget
from workbench.session.settings import Settings, TargetSettings, load_settings, read_key
from workbench.session.target_set import Opener, TargetSet
from workbench.session.tokenizer_file import FileTokenizer, Tokenizers
from workbench.session.watch import Watch
from workbench.session.workers import Crew, WorkerTrouble


class SeveralServers(NoServer):
    """More than one server was found and none was chosen; `found` lists them."""

    def __init__(self, found: list[FoundTarget]) -> None:
        names = ", ".join(f"{item.engine or 'server'} at {item.base_url}" for item in found)
        super().__init__(f"several servers answer: {names}; choose one with --base-url or --target")
        self.found = found


class LiveBench:
    """One measurement at a time. `on_notice` hears progress that belongs to no measurement (an engine starting)."""

    def __init__(self, options: BenchOptions, on_notice: Callable[[Notice], None]) -> None:
        self.options = options
        self.settings: Settings = load_settings()
        self._notice = on_notice
        self._found: list[Found] | None = None
        self._set: TargetSet | None = None
        self._setting = options.setting
        self._starting: asyncio.Future[Crew] | None = None
        self._run: SessionRun | None = None
        self._log_folder = tempfile.TemporaryDirectory(prefix="workbench-")
        self._log = Path(self._log_folder.name) / "worker.log"
        self._secrets: set[str] = set()
        self._tokenizers = Tokenizers(None if options.tokenizer is None else FileTokenizer(options.tokenizer))
        self.environment: dict[str, Any] = {}
        self.unsaved = ""

    async def targets(self) -> list[FoundTarget]:
        """Servers named in the settings or found on the usual ports; then the built-in engine when it is installed."""
        listed = [
            FoundTarget(name=name, base_url=item.url, engine=item.engine, models=(item.model,) if item.model else ())
            for name, item in self.settings.targets.items()
        ]
        if self._found is None:
            self._found = await discover(os.environ)
        for item in self._found:
            listed.append(
                FoundTarget(
                    name=item.base_url,
                    base_url=item.base_url,
                    engine=item.engine,
                    models=tuple(entry.id for entry in item.models),
                    trouble=item.trouble,
                )
            )
        trouble = available()
        listed.append(FoundTarget(name=BUILT_IN, base_url="", engine="llama.cpp", trouble=trouble or ""))
        return listed

    async def connect(self, name: str = "") -> ServerView:
        """Settle on a target: the one named, else the first that applies (`--base-url`, `--target`, `--engine`,
        OPENAI_BASE_URL, OLLAMA_HOST, the only server found, the built-in engine).

        Raises NoServer (SeveralServers when a choice is needed) or BadInput.
        """
        if self._set is not None:
            await self._set.close()
        # The workers take a second to start (the SDK's imports): they do so while the server is looked for.
        self._start_workers()
        openers = self._openers(name)
        chosen = name or await self._choose(openers)
        first = await (openers[chosen] if chosen in openers else self._by_address(chosen))()
        # A server known only by its address goes by its engine's name from here on.
        chosen = first.name
        self._set = TargetSet({chosen: openers.get(chosen, self._by_address(chosen)), **openers}, chosen, first)
        wanted = self.options.setting
        self._setting = await self._set.settle(msgspec.structs.replace(wanted, engine=chosen))
        endpoint = await self._set.endpoint(self._setting)
        if wanted.engine and wanted.engine not in (chosen, endpoint.view.engine, BUILT_IN):
            raise NoServer(f"--engine {wanted.engine}: {endpoint.base_url} is {endpoint.view.engine or 'not known'}")
        return endpoint.view

    def _start_workers(self) -> asyncio.Future[Crew]:
        async def start() -> Crew:
            crew = Crew(self._log)
            await crew.ensure(1)
            return crew

        starting = self._starting
        if starting is None or (starting.done() and (starting.cancelled() or starting.exception() is not None)):
            starting = self._starting = asyncio.ensure_future(start())
        return starting

    async def _workers(self) -> Crew:
        """The crew, ready. Raises WorkerTrouble, as NoServer: nothing can be measured without it."""
        try:
            # Shielded: a stop ends the waiting for them, while they themselves are closed by `close`.
            return await asyncio.shield(self._start_workers())
        except WorkerTrouble as trouble:
            raise NoServer(str(trouble)) from None

    def _openers(self, wanted: str) -> dict[str, Opener]:
        openers: dict[str, Opener] = {
            name: self._by_settings(name, item) for name, item in self.settings.targets.items()
        }
        for item in self._found or ():
            if not item.trouble and item.engine not in openers:
                openers[item.engine] = self._by_address(item.base_url)
        if available() is None:
            openers[BUILT_IN] = self._built_in
        if SIMULATED in (wanted, self.options.target):
            openers[SIMULATED] = self._simulated
        return openers

    async def _choose(self, openers: dict[str, Opener]) -> str:
        options = self.options
        if options.setting.base_url:
            return options.setting.base_url
        if options.target:
            if options.target not in openers:
                raise BadInput(f"no target named {options.target} in workbench.toml; there are: {', '.join(openers)}")
            return options.target
        if options.setting.engine in openers:
            return options.setting.engine
        given = os.environ.get("OPENAI_BASE_URL", "").strip()
        if given and not options.setting.engine:
            return given
        if self._found is None:
            self._found = await discover(os.environ)
        good = [item for item in self._found if not item.trouble]
        if options.setting.engine:
            good = [item for item in good if item.engine == options.setting.engine]
            if not good:
                raise NoServer(f"no {options.setting.engine} server was found; give its --base-url")
        if os.environ.get("OLLAMA_HOST"):
            named = [item for item in good if item.engine == "ollama"]
            good = named[:1] or good
        if len(good) == 1:
            return good[0].base_url
        if good:
            raise SeveralServers([f for f in await self.targets() if f.base_url and not f.trouble])
        trouble = available()
        if trouble:
            said = "; ".join(item.trouble for item in self._found if item.trouble)
            raise NoServer(f"no server was found ({said or 'nothing listens on the usual ports'}), and {trouble}")
        self._notice(Notice("info", "no server was found: using the built-in engine"))
        return BUILT_IN

    def _by_settings(self, name: str, item: TargetSettings) -> Opener:
        launch = item.launch
        if launch is not None:
            self._secrets |= launch.secrets()

        async def open_target() -> Target:
            key = self._secret(read_key(item.key_env, item.key_file))
            if launch is not None:
                return LaunchedTarget(name, item, self._surroundings(item, key))
            return await self._server(name, item.url, key, item.ca_file, item.model, dict(item.facts))

        return open_target

    def _surroundings(self, item: TargetSettings, key: str) -> Surroundings:
        sessions = self.options.sessions
        return Surroundings(
            logs=Path(self._log_folder.name) if sessions is None else sessions / "logs",
            secrets=self._secrets,
            progress=lambda text: self._notice(Notice("progress", text)),
            key=key,
            ca_file=item.ca_file or self.options.ca_file,
            declared={**item.facts, **self.options.declared},
        )

    def _by_address(self, url: str) -> Opener:
        async def open_target() -> Target:
            # OPENAI_API_KEY was meant for the address that was typed or set, never for a port merely found.
            meant = url in (self.options.setting.base_url, os.environ.get("OPENAI_BASE_URL", "").strip())
            key = self._secret(os.environ.get("OPENAI_API_KEY", "").strip()) if meant else ""
            return await self._server("", url, key, "", "", {})

        return open_target

    def _secret(self, key: str) -> str:
        if key:
            self._secrets.add(key)
        return key

    async def _server(
        self, name: str, url: str, key: str, ca_file: str, model: str, facts: dict[str, str | int | float | bool]
    ) -> ServerTarget:
        try:
            host, _ = host_and_port(url)
        except ValueError as error:
            raise BadInput(str(error)) from None
        local = await asyncio.to_thread(lambda: is_this_machine(host) or is_private(host))
        if not local and not self.options.consent:
            raise NoServer(
                f"{host} is neither this machine nor a private network, and may cost money: agree with --yes"
            )
        try:
            server = await recognise(url, key=key, ca=ca_file or self.options.ca_file)
        except HttpTrouble as trouble:
            raise NoServer(str(trouble)) from None
        declared = {**facts, **self.options.declared}
        return ServerTarget(
            name or server.engine.name,
            server,
            key=key,
            ca_file=ca_file or self.options.ca_file,
            model=model,
            declared=declared,
        )

    async def _built_in(self) -> Target:
        trouble = available()
        if trouble:
            raise NoServer(trouble)
        return BuiltInTarget(self.options.slots, lambda text: self._notice(Notice("progress", text)))

    async def _simulated(self) -> Target:
        return SimulatedTarget()

    def start_setting(self) -> Setting:
        return self._setting

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        return [] if self._set is None else await self._set.choices(variable, setting)

    async def measure(
        self,
        plan: Plan,
        listener: Listener,
        *,
        name: str = "",
        notes: str = "",
        requests_of: dict[str, int] | None = None,
        restored: dict[str, Any] | None = None,
    ) -> Record:
        """Run a plan against the connected target. `requests_of`: requests an arm when they differ. `restored`: the
        prompts of a record that is run again.

        Raises NoServer before anything counts, BadInput for a prompt that can't be used, SaveTrouble.
        """
        if self._set is None:
            await self.connect()
        assert self._set is not None
        crew = await self._workers()
        if plan.varied == "quant" and not await self._set.choices("quant", plan.baseline):
            raise BadInput(
                f"quant can't be flipped at {self._set.name}: it serves the model in one quantization only; flip engine "
                "between two targets, or give the target a launch table"
            )
        endpoint = await self._set.endpoint(plan.baseline)
        looking = asyncio.ensure_future(asyncio.to_thread(take, endpoint.base_url, endpoint.pid))
        prompts = await prompts_for(plan, endpoint.view.context, partial(self._count, endpoint.model), restored)
        snapshot = await looking
        watch = Watch(snapshot.gpus if snapshot.describes_server else None, endpoint.pid)
        record = self._new_record(plan, snapshot, name, notes)
        record.plan["prompts"] = [_prompt_table(item) for item in prompts.values()]
        record.plan["targets"] = await self._set.tables(
            [str(value) for value in plan.values] if plan.varied == "engine" else [], endpoint.base_url
        )
        if self._tokenizers.given is not None:
            record.environment.setdefault("client", {})["tokenizer_sha256"] = self._tokenizers.given.sha256
        if requests_of:
            record.plan["requests_of"] = dict(requests_of)
        job = Job(
            plan=plan,
            requests_of=requests_of or {},
            prompts=prompts,
            tokenizers=self._tokenizers,
            fingerprint=self.options.fingerprint,
            server_log=self.options.server_log,
            secrets=tuple(self._secrets),
            events=self.options.events,
        )
        services = Services(
            crew=crew,
            target=self._set,
            machine=watch,
            open_saver=self._saver_opener(),
            judge=judge_record,
            check_cell=check_cell,
            instrument=self._instrument,
        )
        self._run = SessionRun(job, services, record, listener)
        try:
            return await self._run.run()
        finally:
            self.unsaved = self._run.unsaved
            self._run = None
            watch.close()

    def _new_record(self, plan: Plan, snapshot: EnvironmentSnapshot, name: str, notes: str) -> Record:
        self.environment = dict(snapshot.tables())
        environment = {name: table for name, table in self.environment.items() if name != "how"}
        return Record(
            session=SessionTable(
                id="", name=name, started=rfc3339(), workbench=__version__, command=self.options.command, notes=notes
            ),
            plan=plan_table(plan),
            environment=environment,
        )

    def _saver_opener(self) -> Callable[[Record], Saver] | None:
        folder = self.options.sessions
        if folder is None:
            return None
        return lambda record: RecordWriter(folder, record, self._secrets)

    async def _count(self, model: str, text: str) -> tuple[int | None, str]:
        """Tokens of a text and by what: the server, else a tokenizer file, else not at all."""
        assert self._set is not None
        counted = await self._set.count_tokens(text)
        if counted is None:
            tokenizer = await asyncio.to_thread(self._tokenizers.of, model)
            if tokenizer is not None:
                return tokenizer.count(text), "tokenizer"
        return counted, "" if counted is None else "tokenize"

    async def _instrument(self) -> dict[str, Any]:
        if not kept():
            self._notice(Notice("progress", "checking the instrument, once: a few seconds"))
        return await instrument(self._log)

    def stop(self, reason: str = "stopped by the user") -> None:
        if self._run is not None:
            self._run.stop(reason)

    async def close(self) -> None:
        self.stop("the program ended")
        if self._starting is not None:
            # Those that are not ready yet are not waited for.
            if not self._starting.done():
                self._starting.cancel()
            with suppress(WorkerTrouble, asyncio.CancelledError):
                await (await self._starting).close()
        if self._set is not None:
            await self._set.close()
        self._log_folder.cleanup()


def _prompt_table(prompt: Any) -> dict[str, Any]:
    table: dict[str, Any] = {"name": prompt.name, "sha256": prompt.sha256, "characters": len(prompt.text)}
    if prompt.tokens is not None:
        table |= {"tokens": prompt.tokens, "token_source": prompt.token_source}
    if prompt.share is not None:
        table["share"] = prompt.share
    return {**table, "text": prompt.text}


def make_bench(options: BenchOptions, on_notice: Callable[[Notice], None] = lambda notice: None) -> LiveBench:
    """A bench on real servers. Raises BadInput when workbench.toml can't be used."""
    return LiveBench(options, on_notice)
