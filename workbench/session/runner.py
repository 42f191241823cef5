"""One session from plan to record: cells in order, each told to the listener and on disk as it finishes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Protocol

import msgspec

from workbench.domain.cell import CellFigures
from workbench.domain.events import RequestTrace
from workbench.domain.metrics import request_figures
from workbench.domain.plan import CellPlan, cells
from workbench.domain.record import CellTable, Record, Verdict, cell_table
from workbench.domain.variables import assignment, show_value, value_of
from workbench.measure.protocol import Snapshot
from workbench.records.atomic import SaveTrouble
from workbench.records.redact import redact_text
from workbench.session.cells import CellRunner, Warmup, first_trouble
from workbench.session.endpoint import Endpoint, NoServer, Target
from workbench.session.estimate import Estimate
from workbench.session.events import (
    CellEnded,
    CellStarted,
    CountersView,
    Listener,
    Live,
    Notice,
    RequestEnded,
    ServerChanged,
    ServerView,
    SessionEnded,
    SessionStarted,
    VerdictChanged,
)
from workbench.session.job import Job
from workbench.session.server_log import ServerLogs
from workbench.session.workers import CellRun, Crew, WorkerTrouble

COUNTERS_S = 1.0
UNFINISHED = "it was still running, or was killed before it could end"


class Saver(Protocol):
    """Where the growing record goes."""

    def write(self, record: Record) -> None: ...
    def events(self, traces: list[RequestTrace]) -> None: ...
    @property
    def path(self) -> str: ...


class Machine(Protocol):
    """The machine beside the run, as `watch.Watch` gives it."""

    def follow(self, server_pid: int | None) -> None: ...
    def mark(self) -> int: ...
    def tables(self, start_ns: int, end_ns: int) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]: ...
    def views(self) -> list[Any]: ...


class Services(msgspec.Struct, kw_only=True):
    """What a session is given to work with. `open_saver` is called once, when there is something to save."""

    crew: Crew
    target: Target
    machine: Machine
    open_saver: Callable[[Record], Saver] | None
    judge: Callable[[Record], Verdict | None]
    check_cell: Callable[[CellTable, Record], dict[str, str]]
    instrument: Callable[[], Awaitable[dict[str, Any]]]


class SessionRun:
    """Runs one job. `run` returns the record, partial when it was stopped; it raises NoServer before anything counts.

    `unsaved`: why the record is not on disk as it stands, "" when it is.
    """

    def __init__(self, job: Job, services: Services, record: Record, listener: Listener) -> None:
        self._job = job
        self._plan = job.plan
        self._services = services
        self._record = record
        self._tell = listener
        self._cells = cells(job.plan, job.requests_of)
        self._estimate = Estimate(job.plan, self._cells)
        self._logs = ServerLogs()
        self._runner = CellRunner(job.plan, services.crew, services.target, job)
        self._saver: Saver | None = None
        self._stop_reason = ""
        self.unsaved = self._events_unsaved = ""
        self._started = 0.0
        self._seen_servers: dict[str, Endpoint] = {}
        self._nonce = secrets.token_hex(8)
        self._view: ServerView | None = None
        self._counters: CountersView | None = None
        self._ok = self._failed = 0

    def stop(self, reason: str) -> None:
        """End early: what is in flight is cancelled, finished cells are kept."""
        if not self._stop_reason:
            self._stop_reason = reason
        self._runner.stop()

    async def run(self) -> Record:
        """Raises NoServer when nothing could be measured; anything after that is in the record."""
        record = self._record
        self._started = perf_counter()
        status, reason = "complete", ""
        # What a reader finds should this process be killed before it can say how it ended.
        record.session.status, record.session.reason = "interrupted", UNFINISHED
        self._tell(
            SessionStarted(
                plan=self._plan,
                cells=self._cells,
                prompt_tokens={p.name: (p.tokens, p.token_source) for p in self._job.prompts.values()},
                predicted_s=self._estimate.remaining(0),
            )
        )
        try:
            for number, cell in enumerate(self._cells):
                if self._out_of_time(number):
                    reason = f"the time budget was spent after {number} of {len(self._cells)} cells"
                    break
                await self._cell(number, cell)
                if self._stop_reason:
                    status, reason = "interrupted", self._stop_reason
                    break
                if self._narrow_enough():
                    reason = f"the interval was narrow enough after {number + 1} of {len(self._cells)} cells"
                    break
        except (WorkerTrouble, NoServer) as trouble:
            if not record.cells:
                raise NoServer(str(trouble)) from None
            # The server, or a measuring process, went away after a cell: what was measured stays.
            status, reason = "failed", str(trouble)
        if status == "complete":
            await self._check_instrument()
        record.session.status = status
        record.session.reason = reason
        record.session.finished = rfc3339()
        self._save()
        path = self._saver.path if self._saver is not None and not self.unsaved else ""
        self._tell(SessionEnded(record=record, path=path, status=status, reason=reason))
        return record

    async def _cell(self, number: int, cell: CellPlan) -> None:
        endpoint, fresh = await self._endpoint(cell)
        server_log = self._logs.follow(endpoint.log or self._job.server_log)
        self._phase(number, cell, "draining")
        left_over = await self._runner.drain()
        self._phase(number, cell, "warm-up")
        warmup = await self._runner.warm_up(
            endpoint, cell, cold=fresh, on_finished=lambda trace: self._finished(cell, trace, warmup=True)
        )
        if number == 0 and not self._stop_reason:
            self._predict()
            for field in self._runner.refused_fields(endpoint):
                self._tell(Notice("warning", f"the server refuses {field}: sent without it, or under its newer name"))
        if self._stop_reason:
            return
        if fresh:
            self._describe(await self._runner.identify(await self._services.target.look_again(cell.setting)))
        self._phase(number, cell, "measuring")
        started = rfc3339()
        machine = self._services.machine
        start_ns = await asyncio.to_thread(machine.mark)
        if self._runner.stopped:
            return
        begun = perf_counter()
        self._ok = self._failed = 0
        polling = asyncio.create_task(self._poll_counters())
        try:
            run = await self._runner.measure(
                endpoint,
                cell,
                f"{self._nonce} {number}",
                lambda snapshots: self._live(number, cell, begun, snapshots),
                lambda trace: self._finished(cell, trace, warmup=False),
            )
        finally:
            polling.cancel()
        end_ns = await asyncio.to_thread(machine.mark)
        if run.trouble and not run.traces:
            raise WorkerTrouble(run.trouble)
        figures = await self._runner.figures(endpoint, cell, run)
        table = self._table(cell, figures, run, warmup, endpoint)
        table.started = started
        table.memory, table.evidence = machine.tables(start_ns, end_ns)
        if server_log is not None:
            table.evidence["server_log"] = await asyncio.to_thread(server_log.table, self._job.secrets)
        if left_over:
            table.evidence["left_over"] = left_over
        self._record.cells.append(table)
        table.checks = self._services.check_cell(table, self._record)
        self._learn_prompt_tokens(figures)
        await self._judge()
        self._save()
        self._save_events(run)
        self._tell(CellEnded(cell=cell, figures=figures, table=table))
        if run.trouble:
            raise WorkerTrouble(run.trouble)

    async def _check_instrument(self) -> None:
        """The client's own figures belong into every record; they are measured after the run, where they disturb none."""
        self._save()
        client = self._record.environment.setdefault("client", {})
        client.update(await self._services.instrument())

    async def _endpoint(self, cell: CellPlan) -> tuple[Endpoint, bool]:
        """The cell's server, ready; and whether it is one this session has not used yet (its first request is cold)."""
        endpoint = await self._services.target.endpoint(cell.setting)
        known = self._seen_servers.get(endpoint.view.id)
        fresh = known is None or known.pid != endpoint.pid
        if fresh:
            self._seen_servers[endpoint.view.id] = endpoint
            self._describe(endpoint)
            self._services.machine.follow(endpoint.pid)
        self._runner.connect(endpoint)
        return endpoint, fresh

    def _describe(self, endpoint: Endpoint) -> None:
        """Put what is known of a server into the record, in place of what was known of it before."""
        environment, name = self._record.environment, endpoint.view.id
        others = [server for server in environment.get("server", []) if server["id"] != name]
        environment["server"] = [*others, {"id": name, **endpoint.table}]
        unknown = [item for item in environment.get("unknown", []) if not item.startswith(f"server.{name}.")]
        environment["unknown"] = [*unknown, *(f"server.{name}.{item}" for item in endpoint.unknown)]
        if endpoint.view != self._view:
            self._view = endpoint.view
            self._tell(ServerChanged(endpoint.view))

    def _table(
        self, cell: CellPlan, figures: CellFigures, run: CellRun, warmup: Warmup, endpoint: Endpoint
    ) -> CellTable:
        table = cell_table(
            figures,
            run.traces,
            index=cell.index + 1,
            round_=cell.round,
            arm=cell.arm,
            variables=assignment(cell.setting),
        )
        table.server = endpoint.view.id
        table.warmup, table.warmup_failed = warmup.sent, warmup.failed
        table.client = msgspec.to_builtins(run.fitness)
        table.stopped = self._stop_reason or run.trouble
        if warmup.cold is not None:
            cold = request_figures(warmup.cold)
            table.cold_start = {
                name: value
                for name, value in (("ttft_ms", cold.ttft_ms), ("total_ms", cold.total_ms))
                if value is not None
            }
        return table

    def _phase(self, number: int, cell: CellPlan, phase: str) -> None:
        self._tell(
            CellStarted(
                cell=cell, number=number + 1, of=len(self._cells), phase=phase, eta_s=self._estimate.remaining(number)
            )
        )

    def _predict(self) -> None:
        seconds = self._estimate.remaining(0)
        if seconds is not None:
            self._tell(Notice("info", f"about {duration_text(seconds)} in all, by the warm-up's first request"))

    def _live(self, number: int, cell: CellPlan, begun: float, snapshots: list[Snapshot]) -> None:
        in_flight = sum(item.in_flight for item in snapshots)
        rate = sum(item.chunk_rate for item in snapshots) * self._tokens_a_chunk
        elapsed = perf_counter() - begun
        rows = sorted((row for item in snapshots for row in item.rows), key=lambda row: -row.index)
        self._tell(
            Live(
                cell=cell.index,
                phase="measuring",
                elapsed_s=elapsed,
                eta_s=self._estimate.remaining(number, elapsed),
                sent=sum(item.sent for item in snapshots),
                finished=sum(item.finished for item in snapshots),
                ok=self._ok,
                failed=self._failed,
                in_flight=in_flight,
                tokens_rate=rate,
                each=rate / in_flight if in_flight else None,
                lag_p99_ms=max((item.lag_p99_ms for item in snapshots), default=0.0),
                rows=rows,
                memory=self._services.machine.views(),
                counters=self._counters,
            )
        )

    _tokens_a_chunk = 1.0

    def _finished(self, cell: CellPlan, trace: RequestTrace, warmup: bool) -> None:
        if trace.error:
            # Servers echo keys in their refusals; this is the first that anyone here sees of it.
            trace.error = redact_text(trace.error, self._job.secrets)
        figures = request_figures(trace)
        if figures.total_ms is not None and trace.outcome == "ok":
            self._estimate.saw(cell.arm, figures.total_ms / 1000)
        if figures.tokens_per_chunk and figures.token_source != "chunks":
            self._tokens_a_chunk = figures.tokens_per_chunk
        if not warmup:
            self._ok += trace.outcome == "ok"
            self._failed += trace.outcome == "failed"
        elif trace.outcome == "failed":
            self._tell(Notice("warning", f"a warm-up request failed: {first_trouble(trace)}"))
        self._tell(RequestEnded(cell=cell.index, warmup=warmup, figures=figures, trace=trace))

    async def _poll_counters(self) -> None:
        """The server's own counters, once a second, while a cell runs."""
        while True:
            self._counters = await self._services.target.counters()
            if self._counters is None:
                return
            await asyncio.sleep(COUNTERS_S)

    def _learn_prompt_tokens(self, figures: CellFigures) -> None:
        """A prompt nobody could count beforehand is as long as the server says it was (template and prefix included)."""
        counts = {item.prompt: item.prompt_tokens for item in figures.per_request if item.prompt_tokens}
        for prompt in self._record.plan.get("prompts", []):
            if "tokens" not in prompt and prompt["name"] in counts:
                prompt["tokens"], prompt["token_source"] = counts[prompt["name"]], "usage"

    async def _judge(self) -> None:
        """The verdict so far, in a thread: the first one imports scipy, and nothing may hold up the screen meanwhile."""
        if not self._plan.varied:
            return
        verdict = await asyncio.to_thread(self._services.judge, self._record)
        if verdict is not None:
            self._record.verdict = verdict
            self._tell(VerdictChanged(verdict))

    def _narrow_enough(self) -> bool:
        """`--until`: every kind that has an interval is within the asked width, looked at from five rounds on."""
        until, verdict = self._plan.until, self._record.verdict
        if until is None or verdict is None:
            return False
        arms = {cell.arm for cell in self._record.cells}
        rounds = min(sum(cell.arm == arm for cell in self._record.cells) for arm in arms)
        if len(arms) < 2 or rounds < 5:
            return False
        with_interval = [kind for kind in verdict.kinds.values() if kind.low and kind.high and kind.ratio]
        return bool(with_interval) and all(
            max(kind.high / kind.ratio, kind.ratio / kind.low) - 1 <= until  # type: ignore[operator]
            for kind in with_interval
        )

    def _out_of_time(self, number: int) -> bool:
        budget = self._plan.budget
        if budget is None or number == 0:
            return False
        next_cell = self._estimate.of_cell(self._cells[number]) or 0.0
        return perf_counter() - self._started + next_cell > budget

    def _save(self) -> None:
        open_saver = self._services.open_saver
        if open_saver is None or not self._record.cells:
            return
        try:
            if self._saver is None:
                self._saver = open_saver(self._record)
            else:
                self._saver.write(self._record)
            self.unsaved = self._events_unsaved
        except SaveTrouble as trouble:
            self._not_saved(trouble)

    def _save_events(self, run: CellRun) -> None:
        if self._saver is None or not self._job.events:
            return
        try:
            self._saver.events(run.traces)
        except SaveTrouble as trouble:
            self._events_unsaved = str(trouble)
            self._not_saved(trouble)

    def _not_saved(self, trouble: SaveTrouble) -> None:
        """Measuring goes on: the disk may have room again when the next cell is over, and the result is shown anyway."""
        if str(trouble) != self.unsaved:
            self._tell(Notice("warning", str(trouble)))
        self.unsaved = str(trouble)


def rfc3339() -> str:
    """The wall time now, with its offset: a start stamp, never a duration."""
    return datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")


def duration_text(seconds: float) -> str:
    """A duration as a person says it: 40 s, 3 min, 1.5 h."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def arm_text(cell: CellPlan, varied: str) -> str:
    """What sets a cell apart: "concurrency 4"; "" when nothing is varied."""
    return f"{varied} {show_value(value_of(cell.setting, varied))}" if varied else ""
