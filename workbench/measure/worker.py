"""The measuring process: a plan comes in on stdin, messages go out on stdout, and nothing else lives in its loop.

    python -m workbench.measure.worker

It ends when its input ends, so that it never outlives whoever started it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import traceback
from contextlib import suppress
from time import perf_counter_ns

import msgspec

from workbench.domain.events import RequestTrace
from workbench.measure.burst import Burst
from workbench.measure.connection import Pool
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
    decode_to_worker,
    encode,
)
from workbench.measure.transport import Client

SNAPSHOT_S = 0.2
FILES = 65_536
INPUT_LIMIT = 256 * 1024 * 1024


class Output:
    """Messages to the pipe, without ever waiting for its reader.

    Finished requests queue in memory; a snapshot is dropped while anything is still unsent (the next one is newer).
    """

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport

    def send(self, message: FromWorker) -> None:
        self._transport.write(encode(message) + b"\n")

    def send_latest(self, message: Snapshot) -> None:
        if self._transport.get_write_buffer_size() == 0:
            self.send(message)


class Worker:
    """One server, one cell at a time."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._client: Client | None = None
        self._pool: Pool | None = None
        self._connect = Connect(base_url="")
        self._burst: Burst | None = None
        self._task: asyncio.Task[None] | None = None

    def take(self, line: bytes) -> None:
        """Act on one message."""
        message = decode_to_worker(line)
        if isinstance(message, Connect):
            self.close()
            self._connect = message
            self._client = Client(message)
            self._pool = Pool(self._client.origin, self._client.tls, message.timeouts.connect)
        elif isinstance(message, RunCell):
            if self._client is None or self._pool is None:
                raise ValueError("a cell came before its server")

            def finished(trace: RequestTrace) -> None:
                self._output.send(Finished(cell=message.cell, trace=trace))

            # Made at once: a Stop that follows on its heels must find it.
            self._burst = Burst(self._client, self._pool, message, self._connect.timeouts, finished)
            self._task = asyncio.get_running_loop().create_task(self._run(message, self._burst))
        elif isinstance(message, Stop) and self._burst is not None:
            self._burst.stop()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    async def _run(self, run: RunCell, burst: Burst) -> None:
        reporter = asyncio.ensure_future(self._report(run, burst))
        try:
            await burst.run()
        except Exception as error:
            traceback.print_exc()
            burst.trouble = f"the measuring process met an error of its own: {error!r}"
        finally:
            reporter.cancel()
            self._burst = None
        self._output.send(
            CellDone(
                cell=run.cell,
                fitness=burst.fitness,
                requests=burst.finished,
                duration_end_ns=burst.duration_end_ns,
                stopped=burst.stopped,
                trouble=burst.trouble,
            )
        )

    async def _report(self, run: RunCell, burst: Burst) -> None:
        """Snapshots a few times a second."""
        chunks, at = 0, perf_counter_ns()
        while True:
            await asyncio.sleep(SNAPSHOT_S)
            now, seen = perf_counter_ns(), burst.chunks_so_far
            self._output.send_latest(
                Snapshot(
                    cell=run.cell,
                    at_ns=now,
                    sent=burst.sent,
                    finished=burst.finished,
                    in_flight=burst.in_flight,
                    chunks=seen,
                    chunk_rate=(seen - chunks) * 1e9 / (now - at),
                    lag_p99_ms=burst.lag.percentile_ms(0.99) if burst.lag is not None else 0.0,
                    rows=burst.rows(),
                )
            )
            chunks, at = seen, now


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=INPUT_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout.buffer)
    output = Output(transport)
    worker = Worker(output)
    output.send(Ready(pid=os.getpid(), clock_ns=perf_counter_ns()))
    try:
        while line := await reader.readline():
            worker.take(line)
    except (msgspec.MsgspecError, ValueError, OSError) as error:
        traceback.print_exc()
        output.send(Crashed(f"the measuring process can't use its instructions: {error}"))
    finally:
        worker.close()


def _allow_many_files() -> None:
    """Every stream is an open file, and shells allow 256 or 1,024 of them though the system has more to give."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> None:
    """Serve until the input ends. A Ctrl-C in the terminal is the session's business, not the worker's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _allow_many_files()
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
