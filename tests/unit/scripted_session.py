"""A session whose workers, server and machine are scripted: TEST DOUBLES, no process, no socket, no clock but the real one.

What they stand for is tested with real ones in tests/end_to_end; here it is the session's own order of things.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from made_traces import steady, trace_of

from workbench.domain.cell import ClientFitness
from workbench.domain.events import RequestTrace
from workbench.domain.plan import Plan, plan_table
from workbench.domain.record import CellTable, Record, SessionTable, Verdict
from workbench.domain.variables import Setting
from workbench.measure.protocol import Connect, RunCell, Snapshot
from workbench.session.bench import Choice
from workbench.session.endpoint import Endpoint
from workbench.session.events import CountersView, Event, ServerView
from workbench.session.job import Job, PromptUse
from workbench.session.runner import Services, SessionRun
from workbench.session.workers import CellRun

Script = Callable[[RunCell, int], RequestTrace]
"""The reply to a burst's request number N."""


def fine(run: RunCell, number: int) -> RequestTrace:
    """Eight tokens, 100 ms to the first, 20 ms apart, requests one after the other."""
    return steady(8, sent=number * 250.0, index=number, prompt="short", finish="length")


def refused_as(error_class: str, error: str = "no") -> RequestTrace:
    return trace_of(sent=0, end=1, outcome="failed", error_class=error_class, error=error)


SETTING = Setting(model="m", max_tokens=8)


def plan_of(**fields: Any) -> Plan:
    return Plan(**{"baseline": SETTING, "requests": 4, **fields})


def ladder(*rungs: int, order: str = "", **fields: Any) -> Plan:
    return plan_of(varied="concurrency", values=rungs, order=tuple(order), **fields)


class ScriptedCrew:
    """Stands for the worker processes. A stopped burst ends with one cancelled request and sends no more."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.runs: list[RunCell] = []
        self.workers: list[int] = []
        self.connects: list[Connect] = []
        self.trouble: Callable[[RunCell], str] = lambda run: ""
        self.snapshots: list[Snapshot] = []
        self._stopping = False

    @property
    def measured(self) -> list[RunCell]:
        return [run for run in self.runs if not run.warmup]

    @property
    def warmups(self) -> list[RunCell]:
        return [run for run in self.runs if run.warmup]

    def connect(self, connect: Connect) -> None:
        self.connects.append(connect)

    def stop(self) -> None:
        self._stopping = True

    async def run(
        self,
        run: RunCell,
        *,
        workers: int = 1,
        on_snapshot: Callable[[list[Snapshot]], None],
        on_finished: Callable[[RequestTrace], None],
    ) -> CellRun:
        self._stopping = False
        self.runs.append(run)
        self.workers.append(workers)
        await asyncio.sleep(0)
        for snapshot in self.snapshots:
            on_snapshot([snapshot])
        traces: list[RequestTrace] = []
        trouble = self.trouble(run)
        for number in range(0 if trouble else run.requests or 5):
            trace = self.script(run, number)
            if self._stopping:
                trace = trace_of(sent=number * 250.0, end=number * 250.0 + 1, outcome="cancelled", index=number)
            traces.append(trace)
            on_finished(trace)
            if self._stopping:
                break
        return CellRun(traces=traces, fitness=ClientFitness(), stopped=self._stopping, trouble=trouble)


class ScriptedTarget:
    """Stands for a server, or one a model: `server_of` tells which one a setting leads to."""

    name = "scripted"

    def __init__(self, server_of: Callable[[Setting], str] = lambda setting: "s1") -> None:
        self.server_of = server_of
        self.pids: dict[str, int] = {}
        self.body: dict[str, Any] = {}
        self.key = ""
        self.told: list[CountersView | None] = []
        self.tokens: Callable[[str], int | None] = lambda text: None
        self.trouble: Callable[[Setting], None] = lambda setting: None

    async def endpoint(self, setting: Setting) -> Endpoint:
        self.trouble(setting)
        name = self.server_of(setting)
        address = f"http://127.0.0.1:1/{name}"
        return Endpoint(
            base_url=address,
            model=setting.model,
            key=self.key,
            body=self.body,
            view=ServerView(id=name, base_url=address),
            table={"engine": "scripted"},
            unknown={"slots": "ask"},
            pid=self.pids.get(name, 1),
        )

    async def look_again(self, setting: Setting) -> Endpoint:
        return await self.endpoint(setting)

    async def settle(self, setting: Setting) -> Setting:
        return setting

    async def choices(self, variable: str, setting: Setting) -> list[Choice]:
        return []

    async def counters(self) -> CountersView | None:
        return self.told.pop(0) if self.told else None

    async def count_tokens(self, text: str) -> int | None:
        return self.tokens(text)

    async def close(self) -> None:
        """Nothing to stop."""


class StillMachine:
    """Stands for the machine beside the run: nothing moves on it."""

    def __init__(self) -> None:
        self.followed: list[int | None] = []
        self.marks = 0

    def follow(self, server_pid: int | None) -> None:
        self.followed.append(server_pid)

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    def tables(self, start_ns: int, end_ns: int) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        return {"host": {"window": [start_ns, end_ns]}}, {"swap": {}}

    def views(self) -> list[Any]:
        return []


class Kept:
    """Stands for the disk: every state of the record that was saved, as plain values."""

    path = "sessions/kept.toml"

    def __init__(self) -> None:
        self.states: list[dict[str, Any]] = []
        self.traces: list[list[RequestTrace]] = []

    def open(self, record: Record) -> Kept:
        assert not self.states, "opened once"
        self.write(record)
        return self

    def write(self, record: Record) -> None:
        self.states.append(msgspec.to_builtins(record))

    def events(self, traces: list[RequestTrace]) -> None:
        self.traces.append(traces)


class Rig:
    """One scripted session and everything it said and kept."""

    def __init__(
        self,
        plan: Plan,
        script: Script = fine,
        *,
        target: ScriptedTarget | None = None,
        judge: Callable[[Record], Verdict | None] = lambda record: None,
        save: bool = True,
        prompts: Iterable[str] = ("short",),
        **job: Any,
    ) -> None:
        self.crew = ScriptedCrew(script)
        self.target = target or ScriptedTarget()
        self.machine = StillMachine()
        self.kept = Kept()
        self.events: list[Event] = []
        self.calibrations = 0
        self.record = Record(session=SessionTable(id="", started="now"), plan=plan_table(plan))
        self.record.plan["prompts"] = [{"name": name} for name in prompts]
        uses = {name: PromptUse(name=name, text=f"text of {name}", sha256="0" * 64) for name in prompts}
        services = Services(
            crew=self.crew,  # type: ignore[arg-type]
            target=self.target,
            machine=self.machine,
            open_saver=self.kept.open if save else None,
            judge=judge,
            check_cell=self._check,
            instrument=self._calibrate,
        )
        self.session = SessionRun(Job(plan=plan, prompts=uses, **job), services, self.record, self.events.append)

    async def run(self) -> Record:
        return await self.session.run()

    def heard(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def _check(self, cell: CellTable, record: Record) -> dict[str, str]:
        return {"seen": f"pass: {len(record.cells)}"}

    async def _calibrate(self) -> dict[str, Any]:
        self.calibrations += 1
        return {"calibrated": "now"}
