"""A `Bench` without servers: it plays a made-up session at a chosen pace. A test double, and named so; what it stands in
for (discovery, engines, workers, disk) is what a test of the screen can't have in milliseconds."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tests.tui import script
from workbench.domain.plan import Plan
from workbench.domain.record import Record
from workbench.domain.variables import Setting
from workbench.session.bench import Choice, FoundTarget
from workbench.session.endpoint import NoServer
from workbench.session.events import Listener, ServerView, SessionEnded

SETTING = Setting(
    base_url="http://127.0.0.1:11434/v1",
    engine="ollama",
    model="qwen2.5:7b",
    quant="q4_K_M",
    prompt=("document",),
)


class Clock:
    """Made-up seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ScriptedBench:
    """Plays at once, moving the clock it is given along. `hold_at`: the made-up second at which it waits for `go`."""

    def __init__(
        self,
        world: script.World = script.USUAL,
        *,
        clock: Clock | None = None,
        hold_at: float | None = None,
        found: list[FoundTarget] | None = None,
        setting: Setting = SETTING,
        trouble: str = "",
    ) -> None:
        self.world = world
        self.clock = clock or Clock()
        self.hold_at = hold_at
        self.go = asyncio.Event()
        self.holding = asyncio.Event()
        self.found = (
            found if found is not None else [FoundTarget(name="ollama", base_url=setting.base_url, engine="ollama")]
        )
        self.setting = setting
        self.trouble = trouble
        self.plans: list[Plan] = []
        self.requests_of: dict[str, int] | None = None
        self.connected: list[str] = []
        self.closed = False
        self.environment: dict[str, Any] = {}
        self.stop_reason = ""

    async def targets(self) -> list[FoundTarget]:
        return self.found

    async def connect(self, name: str) -> ServerView:
        self.connected.append(name)
        if self.trouble:
            raise NoServer(self.trouble)
        return msgspec.structs.replace(
            script.SERVER, engine=self.setting.engine, model=self.setting.model, quant=self.setting.quant
        )

    def start_setting(self) -> Setting:
        return self.setting

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        lists = {
            "engine": ["ollama", "vllm"],
            "model": ["qwen2.5:7b", "llama3.1:8b"],
            "quant": ["q4_K_M", "q8_0", "fp16"],
            "prompt": ["short", "document", "code", "chinese"],
        }
        return [Choice(value=value) for value in lists.get(variable, [])]

    async def measure(
        self,
        plan: Plan,
        listener: Listener,
        *,
        name: str = "",
        notes: str = "",
        requests_of: dict[str, int] | None = None,
    ) -> Record:
        self.plans.append(plan)
        self.requests_of = requests_of
        self.stop_reason = ""
        begun = self.clock.now
        record: Record | None = None
        for at, event in script.events(plan, self.world, name, lambda: bool(self.stop_reason), requests_of):
            if self.hold_at is not None and at >= self.hold_at:
                self.holding.set()
                await self.go.wait()
            await asyncio.sleep(0)
            self.clock.now = max(self.clock.now, begun + at)
            if isinstance(event, SessionEnded):
                event = msgspec.structs.replace(event, reason=self.stop_reason)
                record = event.record
            listener(event)
        assert record is not None
        return record

    def stop(self, reason: str = "stopped by the user") -> None:
        self.stop_reason = reason
        self.go.set()

    async def close(self) -> None:
        self.closed = True
