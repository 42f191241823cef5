"""Starts worker processes and speaks their protocol: one cell goes out to all of them, their traces come back merged."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns

import msgspec

from workbench.domain.cell import ClientFitness
from workbench.domain.events import RequestTrace
from workbench.domain.text import one_line
from workbench.engines.launch import how_it_ended
from workbench.measure.protocol import (
    CellDone,
    Connect,
    Crashed,
    Finished,
    FromWorker,
    Ready,
    RunCell,
    Snapshot,
    Stop,
    ToWorker,
    decode_from_worker,
    encode,
)

LINE_LIMIT = 1024 * 1024 * 1024
START_S = 30.0
TOGETHER_NS = 100_000_000
"""Several workers start a cell together, this long after they were told to."""


class WorkerTrouble(Exception):
    """A measuring process could not start, or died; the message is one line."""


class WorkerProcess:
    """One worker process. Everything it says goes to `on_message`; its death is reported once as `Crashed`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._reading: asyncio.Task[None] | None = None
        self.on_message: Callable[[FromWorker], None] = _ignore
        self.trouble = ""

    @classmethod
    async def start(cls, log: Path) -> WorkerProcess:
        """Spawn and wait until it is ready. Raises WorkerTrouble."""
        # The SDK reads these by itself; nothing but what the session gives may reach a server.
        env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        try:
            with log.open("ab") as sink:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "workbench.measure.worker",
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=sink,
                    env=env,
                    limit=LINE_LIMIT,
                    start_new_session=True,
                )
        except OSError as error:
            raise WorkerTrouble(f"the measuring process can't be started: {error.strerror or error}") from None
        worker = cls(process, log)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_S):
                line = await process.stdout.readline()
            if not isinstance(decode_from_worker(line), Ready):
                raise WorkerTrouble("the measuring process did not start as it should")
        except BaseException as error:
            # A stop while it starts must not leave it behind.
            worker.kill()
            await worker.close()
            if isinstance(error, (TimeoutError, msgspec.DecodeError)):
                raise WorkerTrouble(f"the measuring process did not start as it should{_last_words(log)}") from None
            raise
        worker._reading = asyncio.create_task(worker._read())
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: ToWorker) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(encode(message) + b"\n")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                self.on_message(decode_from_worker(line))
        except ValueError as error:
            # Cut off in the middle of a message, or too long a one.
            self.kill()
            self.trouble = f"the measuring process can't be understood: {error}"
        else:
            status = await self._process.wait()
            self.trouble = f"the measuring process ended ({how_it_ended(status)}{_last_words(self._log)})"
        self.on_message(Crashed(self.trouble))

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    async def close(self) -> None:
        """End of its input ends it; what does not end in time is killed."""
        if self._reading is not None:
            self._reading.cancel()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(3.0):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()


def _last_words(log: Path) -> str:
    """The last line of the log, after a colon: the log itself goes with the session."""
    try:
        lines = log.read_bytes()[-4096:].decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    said = next((line for line in reversed(lines) if line.strip()), "")
    return f": {one_line(said, 200)}" if said else ""


def _ignore(message: FromWorker) -> None:
    """Nobody listens between cells."""


class CellRun(msgspec.Struct, kw_only=True):
    """What came of one cell: traces in order of sending, the client's fitness, why it ended early if it did."""

    traces: list[RequestTrace]
    fitness: ClientFitness
    duration_end_ns: int | None = None
    stopped: bool = False
    trouble: str = ""


class Crew:
    """The workers of a session. All run the same cell, each its own share of the requests."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._workers: list[WorkerProcess] = []
        self._connect: Connect | None = None
        self._stopped = False

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [worker.pid for worker in self._workers]

    async def ensure(self, count: int) -> None:
        """Have `count` workers. Raises WorkerTrouble."""
        # One that died between two cells told nobody.
        self._workers = [worker for worker in self._workers if not worker.trouble]
        missing = count - len(self._workers)
        if missing > 0:
            tried = await asyncio.gather(
                *(WorkerProcess.start(self._log) for _ in range(missing)), return_exceptions=True
            )
            started = [item for item in tried if isinstance(item, WorkerProcess)]
            for trouble in tried:
                if isinstance(trouble, BaseException):
                    await asyncio.gather(*(worker.close() for worker in started))
                    raise trouble
            for worker in started:
                if self._connect is not None:
                    worker.send(self._connect)
            self._workers += started

    def connect(self, connect: Connect) -> None:
        """Point every worker at a server."""
        self._connect = connect
        for worker in self._workers:
            worker.send(connect)

    async def run(
        self,
        run: RunCell,
        *,
        workers: int = 1,
        on_snapshot: Callable[[list[Snapshot]], None],
        on_finished: Callable[[RequestTrace], None],
    ) -> CellRun:
        """Run one cell over `workers` processes; returns when all of them are done.

        A closed loop takes only as many workers as share its concurrency evenly: requests are dealt out in turn, and a
        worker with fewer streams would be left with the others' work at the end.
        """
        count = max(1, workers if run.arrival != "closed" else _even(run.concurrency, workers))
        self._stopped = False
        await self.ensure(count)
        if self._stopped:
            return CellRun(traces=[], fitness=ClientFitness(), stopped=True)
        crew = self._workers[:count]
        streams = max(1, run.concurrency // count)
        latest: dict[int, Snapshot] = {}
        done: dict[int, CellDone] = {}
        traces: list[RequestTrace] = []
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        crash = ""

        def receive(index: int, message: FromWorker) -> None:
            # A listener that fails must end the cell with its error, not leave it waiting for ever.
            try:
                take(index, message)
            except BaseException as error:
                if not finished.done():
                    finished.set_exception(error)

        def take(index: int, message: FromWorker) -> None:
            nonlocal crash
            if isinstance(message, (Snapshot, Finished, CellDone)) and message.cell != run.cell:
                return  # Of a cell that was given up before.
            if isinstance(message, Snapshot):
                latest[index] = message
                on_snapshot(list(latest.values()))
            elif isinstance(message, Finished):
                traces.append(message.trace)
                on_finished(message.trace)
            elif isinstance(message, CellDone):
                done[index] = message
            elif isinstance(message, Crashed):
                crash = message.message
            if (crash or len(done) == count) and not finished.done():
                finished.set_result(None)

        start_at = perf_counter_ns() + TOGETHER_NS if count > 1 else 0
        for index, worker in enumerate(crew):
            worker.on_message = lambda message, index=index: receive(index, message)  # type: ignore[misc]
            worker.send(
                msgspec.structs.replace(run, share=index, shares=count, concurrency=streams, start_at_ns=start_at)
            )
        try:
            await finished
        finally:
            for index, worker in enumerate(crew):
                worker.on_message = _ignore
                if index not in done:
                    worker.send(Stop())
        if crash:
            self._workers = [worker for worker in self._workers if worker not in crew]
            for worker in crew:
                worker.kill()
        traces.sort(key=lambda trace: (trace.sent_ns is None, trace.sent_ns or trace.index))
        return CellRun(
            traces=traces,
            fitness=_busiest([item.fitness for item in done.values()]),
            duration_end_ns=max((item.duration_end_ns or 0 for item in done.values()), default=0) or None,
            stopped=any(item.stopped for item in done.values()),
            trouble=crash or next((item.trouble for item in done.values() if item.trouble), ""),
        )

    def stop(self) -> None:
        self._stopped = True
        for worker in self._workers:
            worker.send(Stop())

    async def close(self) -> None:
        await asyncio.gather(*(worker.close() for worker in self._workers))
        self._workers.clear()


def _even(concurrency: int, workers: int) -> int:
    """The largest number of workers up to the one asked for that divides the concurrency."""
    return next(count for count in range(max(1, min(workers, concurrency)), 0, -1) if concurrency % count == 0)


def _busiest(fitness: list[ClientFitness]) -> ClientFitness:
    """The figures of the worst worker, field by field."""
    if not fitness:
        return ClientFitness()
    return ClientFitness(
        lag_p50_ms=max(item.lag_p50_ms for item in fitness),
        lag_p99_ms=max(item.lag_p99_ms for item in fitness),
        lag_max_ms=max(item.lag_max_ms for item in fitness),
        cpu_share=max(item.cpu_share for item in fitness),
        workers=len(fitness),
    )
