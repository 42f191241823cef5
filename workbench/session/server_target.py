"""A server that is already there: recognised, asked for its facts, measured, never stopped."""

from __future__ import annotations

import msgspec

from workbench.domain.facts import DECLARED, Facts
from workbench.domain.variables import Setting
from workbench.engines.base import ModelEntry
from workbench.engines.http import HttpTrouble
from workbench.engines.recognise import Server
from workbench.environment.network import is_this_machine, server_pid
from workbench.session.bench import Choice
from workbench.session.endpoint import Endpoint, NoServer
from workbench.session.events import CountersView, ServerView


class ServerTarget:
    """One server by its address. `key` goes into the Authorization header and nowhere else."""

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        key: str = "",
        ca_file: str = "",
        model: str = "",
        declared: dict[str, str | int | float | bool] | None = None,
    ) -> None:
        self.name = name
        self.engine = server.engine
        self.base_url = server.base_url
        self._server = server
        self._key = key
        self._ca_file = ca_file
        self._model = model
        self._declared = declared or {}
        self._models: list[ModelEntry] | None = None
        self._endpoints: dict[str, Endpoint] = {}
        self._current = ""

    async def models(self) -> list[ModelEntry]:
        """The models the server lists; [] when it does not list any (a typed model name must do)."""
        if self._models is None:
            try:
                self._models = await self._server.models()
            except HttpTrouble as trouble:
                if trouble.kind == "key":
                    raise NoServer(f"{trouble}: set one in the environment") from None
                self._models = []
        return self._models

    async def settle(self, setting: Setting) -> Setting:
        model = setting.model or self._model or await self._default_model()
        entries = {entry.id: entry for entry in await self.models()}
        known = next((entry for entry in entries.values() if self.engine.same_model(model, entry.id)), None)
        if known is None and entries and self.engine.lists_all:
            raise NoServer(f"no such model at {self.base_url}: {model}; it has: {', '.join(sorted(entries)[:12])}")
        quant = setting.quant or (known.quant if known is not None and known.quant else "")
        return msgspec.structs.replace(
            setting, base_url=self.base_url, engine=setting.engine or self.name, model=model, quant=quant
        )

    async def _default_model(self) -> str:
        models = await self.models()
        if not models:
            raise NoServer(f"{self.base_url} lists no models: name one with --model")
        loaded = [entry for entry in models if entry.loaded]
        return (loaded or models)[0].id

    async def endpoint(self, setting: Setting) -> Endpoint:
        settled = await self.settle(setting)
        model = await self._model_for(settled)
        if model not in self._endpoints:
            self._endpoints[model] = await self._look(model, settled, len(self._endpoints) + 1)
        self._current = model
        endpoint = self._endpoints[model]
        endpoint.body = self.engine.extra_body(settled)
        return endpoint

    async def look_again(self, setting: Setting) -> Endpoint:
        settled = await self.settle(setting)
        model = await self._model_for(settled)
        number = list(self._endpoints).index(model) + 1
        body = self._endpoints[model].body
        self._endpoints[model] = await self._look(model, settled, number)
        self._endpoints[model].body = body
        return self._endpoints[model]

    async def _model_for(self, setting: Setting) -> str:
        """The name on the server of this model in this quantization. Raises NoServer when it has no such one."""
        try:
            alike = await self._server.quants(setting.model)
        except HttpTrouble:
            alike = []
        if not setting.quant or not alike:
            return setting.model
        own = next((entry for entry in alike if self.engine.same_model(setting.model, entry.id)), None)
        if own is not None and _same(own.quant, setting.quant):
            return own.id
        for entry in alike:
            if _same(entry.quant, setting.quant):
                return entry.id
        there = ", ".join(sorted({entry.quant for entry in alike if entry.quant}))
        raise NoServer(f"{setting.model} is not there as {setting.quant} at {self.base_url}; it is as: {there}")

    async def _look(self, model: str, setting: Setting, number: int) -> Endpoint:
        pid = None
        if is_this_machine(self._server.address.host):
            pid = server_pid(self.base_url)
        facts = await self._server.facts(model)
        self._declare(facts, setting)
        reported = facts.get("quant")
        if setting.quant and reported is not None and not _same(str(reported), setting.quant):
            raise NoServer(f"--quant {setting.quant}: {self.base_url} says that {model} is {reported}")
        context, slots = facts.get("context"), facts.get("slots")
        return Endpoint(
            base_url=self.base_url,
            model=model,
            key=self._key,
            ca_file=self._ca_file,
            table={"name": self.name, "base_url": self.base_url, **facts.table()},
            unknown=dict(facts.unknown),
            pid=pid,
            view=ServerView(
                id=f"{self.name}-{number}",
                base_url=self.base_url,
                engine=str(facts.get("engine") or ""),
                version=str(facts.get("version") or ""),
                model=model,
                quant=str(reported or setting.quant or ""),
                context=context if isinstance(context, int) else None,
                slots=slots if isinstance(slots, int) else None,
                local=pid is not None or is_this_machine(self._server.address.host),
            ),
        )

    def _declare(self, facts: Facts, setting: Setting) -> None:
        """The user's word for what could not be verified."""
        for name, value in self._declared.items():
            facts.declare(name, value)
        if setting.quant and "quant" not in facts:
            facts.set("quant", setting.quant, DECLARED)

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        if variable == "model":
            return [Choice(value=entry.id, note=_note(entry)) for entry in await self.models()]
        if variable == "quant":
            try:
                alike = await self._server.quants(setting.model)
            except HttpTrouble:
                return []
            return [Choice(value=entry.quant, note=_note(entry)) for entry in alike if entry.quant]
        return []

    async def counters(self) -> CountersView | None:
        seen = await self._server.counters()
        if seen is None:
            return None
        return CountersView(running=seen.running, waiting=seen.waiting, kv_use=seen.kv_cache_use)

    async def count_tokens(self, text: str) -> int | None:
        return await self._server.tokenize(self._current or self._model, text)

    async def close(self) -> None:
        """A server that was running before is never stopped."""


def _same(a: str | None, b: str) -> bool:
    """Whether two spellings mean one quantization: Q4_K_M, q4_k_m, Q4_K - Medium's are told apart, case is not."""
    return a is not None and a.replace("-", "_").casefold() == b.replace("-", "_").casefold()


def _note(entry: ModelEntry) -> str:
    parts = [entry.quant or "", f"{entry.size / 1e6:.0f} MB" if entry.size else ""]
    if entry.loaded:
        parts.append("loaded")
    if entry.remote:
        parts.append("runs elsewhere")
    return ", ".join(part for part in parts if part)
