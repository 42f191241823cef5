"""One cell's requests: built ahead, launched at their moment, watched for their timeouts, each ended exactly once."""

from __future__ import annotations

import asyncio
import errno
import gc
import hashlib
import random
import resource
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter_ns
from typing import Any

from workbench.domain.cell import ClientFitness
from workbench.domain.events import RequestTrace
from workbench.domain.plan import Timeouts
from workbench.measure.connection import Exchange, Pool
from workbench.measure.lag import LagMeter
from workbench.measure.protocol import Row, RunCell
from workbench.measure.reply import ReplyReader
from workbench.measure.transport import Client, Gated

BUILT_AHEAD = 512
"""Requests built before a burst; a cell with more builds one for each that has been launched."""

SWEEP_S = 0.05
DONE_GRACE_NS = 50_000_000
FINISH_GRACE_NS = 2_000_000_000
USAGE_GRACE_NS = 10_000_000_000
"""The most that is waited for the counts and the end of a reply with its finish reason, whatever else the server sends."""

ROWS = 48
COLLECT_EVERY = 1000


def nonce(seed: str, index: int) -> str:
    """The unique prefix of a request: ten digits in brackets, so that every tokenizer gives every request the same width."""
    digest = hashlib.sha256(f"{seed}/{index}".encode()).digest()
    return f"[{int.from_bytes(digest[:8]) % 10**10:010d}] "


def messages_of(run: RunCell, index: int) -> list[dict[str, Any]]:
    """The chat messages of request number `index`; the unique prefix opens the first one."""
    prompt = run.prompts[index % len(run.prompts)].text
    messages = [{"role": "user", "content": prompt}]
    if run.system:
        messages.insert(0, {"role": "system", "content": run.system})
    if run.nonce_seed:
        messages[0]["content"] = nonce(run.nonce_seed, index) + messages[0]["content"]
    return messages


def schedule_offsets(run: RunCell) -> Iterator[tuple[int, float]]:
    """Open loop: (request number, seconds after the start), this worker's share of the one common schedule."""
    assert run.rate
    rng = random.Random(run.schedule_seed)
    at = 0.0
    index = 0
    while (run.requests is None or index < run.requests) and (run.duration is None or at < run.duration):
        if index % run.shares == run.share:
            yield index, at
        at += rng.expovariate(run.rate) if run.arrival == "poisson" else 1.0 / run.rate
        index += 1


class Burst:
    """Runs one cell. `on_finished` gets each request's trace as it ends; `lag` meters the loop while requests run."""

    def __init__(
        self, client: Client, pool: Pool, run: RunCell, timeouts: Timeouts, on_finished: Callable[[RequestTrace], None]
    ) -> None:
        self._client = client
        self._pool = pool
        self._run = run
        self._timeouts = timeouts
        self._on_finished = on_finished
        self._loop = asyncio.get_running_loop()
        self._all_over: asyncio.Future[None] = self._loop.create_future()
        self._ready: deque[Gated] = deque()
        self._ready_changed = asyncio.Event()
        self._gated: dict[Exchange, Gated] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight: dict[Exchange, None] = {}
        self._building: set[Exchange] = set()
        self._owed: deque[int] = deque()
        self._schedule: Iterator[tuple[int, float]] | None = schedule_offsets(run) if run.arrival != "closed" else None
        self._schedule_spent = False
        self._next_number = run.share
        self._started = False
        self._closing = False
        self._stop_launching_ns: int | None = None
        self._start_ns = 0
        self.sent = 0
        self.finished = 0
        self.chunks = 0
        self.lag: LagMeter | None = None
        self.fitness = ClientFitness()
        self.stopped = False
        self.duration_end_ns: int | None = None
        self.trouble = ""

    async def run(self) -> None:
        """Build, launch, and return when every request that was launched has ended."""
        self._build(BUILT_AHEAD if self._run.requests is not None else max(64, 2 * self._run.concurrency))
        while self._building and not self.trouble and not self.stopped:
            self._ready_changed.clear()
            await self._ready_changed.wait()
        if self.trouble or self.stopped:
            await self._end_tasks()
            return
        await self._pool.open_ahead(min(self._run.concurrency, len(self._ready)))
        gc.collect()
        gc.freeze()
        gc.disable()
        self.lag = LagMeter(self._loop)
        sweep = asyncio.ensure_future(self._sweep())
        try:
            wait = self._run.start_at_ns - perf_counter_ns()
            if wait > 0:
                await asyncio.sleep(wait / 1e9)
            self._start()
            await self._all_over
        finally:
            sweep.cancel()
            self.fitness = self.lag.stop()
            await self._end_tasks()
            gc.enable()
            gc.unfreeze()

    def stop(self) -> None:
        """End now: what is in flight is closed and counted as cancelled, what waits at the gate is never sent."""
        if self.stopped:
            return
        self.stopped = self._closing = True
        self._ready_changed.set()
        now = perf_counter_ns()
        for exchange in list(self._in_flight):
            exchange.reader.give_up(now, "", "stopped before it had ended")
            self._release(exchange)
        self._check_over()

    def rows(self) -> list[Row]:
        """The newest requests in flight, as the screen shows them."""
        now = perf_counter_ns()
        rows = []
        for exchange in list(self._in_flight)[-ROWS:]:
            reader, trace = exchange.reader, exchange.reader.trace
            stamps = trace.arrivals.at_ns
            sent = trace.sent_ns
            row = Row(
                index=trace.index,
                state="stream" if stamps else "connect" if sent is None else "waiting",
                wait_ms=(now - (sent or exchange.launched_ns)) / 1e6,
                chunks=reader.chunks,
                tail=reader.tail[-160:],
            )
            if stamps and sent is not None and trace.streamed:
                row.ttft_ms = (stamps[0] - sent) / 1e6
                if len(stamps) > 2:
                    row.rate = (reader.chunks - trace.arrivals.chunks[0]) * 1e9 / (stamps[-1] - stamps[0])
            rows.append(row)
        return rows

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def chunks_so_far(self) -> int:
        return self.chunks + sum(exchange.reader.chunks for exchange in self._in_flight)

    def _numbers_spent(self) -> bool:
        return self._run.requests is not None and self._next_number >= self._run.requests

    def _build(self, count: int) -> None:
        """Have up to `count` more requests built and brought to the gate."""
        run = self._run
        for _ in range(count):
            if self._numbers_spent() or self._closing:
                return
            number = self._next_number
            self._next_number += run.shares
            prompt = run.prompts[number % len(run.prompts)].name
            exchange = Exchange(ReplyReader(RequestTrace(index=number, prompt=prompt)))
            exchange.on_end = self._ended
            body = {**run.body, "messages": messages_of(run, number)}
            if run.include_usage and body.get("stream"):
                body["stream_options"] = {"include_usage": True}
            self._building.add(exchange)
            task = self._loop.create_task(self._client.send(exchange, body, self._built))
            self._tasks.add(task)
            task.add_done_callback(partial(self._send_over, exchange))

    def _built(self, gated: Gated) -> None:
        self._building.discard(gated.exchange)
        self._gated[gated.exchange] = gated
        self._ready.append(gated)
        self._ready_changed.set()
        if self._started:
            self._launch_due()

    def _send_over(self, exchange: Exchange, task: asyncio.Task[None]) -> None:
        """The client is through with a request: all is well unless it could not even build it."""
        self._tasks.discard(task)
        if exchange in self._building and not task.cancelled():
            self._building.discard(exchange)
            self.trouble = self.trouble or f"a request can't be built: {task.exception()}"
            self._closing = True
            self._ready_changed.set()
            self._check_over()

    def _start(self) -> None:
        self._start_ns = perf_counter_ns()
        self._started = True
        if self._run.duration is not None:
            self._stop_launching_ns = self._start_ns + int(self._run.duration * 1e9)
            self._loop.call_later(self._run.duration, self._duration_over)
        if self._schedule is not None:
            self._next_due()
        else:
            self._launch_due()

    def _duration_over(self) -> None:
        self.duration_end_ns = perf_counter_ns()
        self._closing = True
        self._check_over()

    def _next_due(self) -> None:
        """Open loop: wait for the schedule's next moment, whatever the server does."""
        assert self._schedule is not None
        while not self._closing:
            due = next(self._schedule, None)
            if due is None:
                self._schedule_spent = True
                self._check_over()
                return
            at_ns = self._start_ns + int(due[1] * 1e9)
            wait = (at_ns - perf_counter_ns()) / 1e9
            if wait > 0:
                self._loop.call_later(wait, self._come_due, at_ns)
                return
            self._owe(at_ns)

    def _come_due(self, at_ns: int) -> None:
        self._owe(at_ns)
        self._next_due()

    def _owe(self, at_ns: int) -> None:
        if not self._closing:
            self._owed.append(at_ns)
            self._launch_due()

    def _launch_due(self) -> None:
        """Launch what may start now: up to the concurrency (closed loop), or all that the schedule owes (open loop)."""
        while self._ready and not self._closing:
            scheduled = None
            if self._schedule is None:
                if len(self._in_flight) >= self._run.concurrency:
                    return
            elif not self._owed:
                return
            else:
                scheduled = self._owed.popleft()
            if self._stop_launching_ns is not None and perf_counter_ns() >= self._stop_launching_ns:
                return
            exchange = self._ready.popleft().exchange
            exchange.reader.trace.scheduled_ns = scheduled
            self._launch(exchange)
            if self._run.requests is None or self._run.requests > BUILT_AHEAD:
                self._loop.call_soon(self._build, 1)

    def _launch(self, exchange: Exchange) -> None:
        self._in_flight[exchange] = None
        self.sent += 1
        exchange.launched_ns = perf_counter_ns()
        connection = self._pool.take()
        if connection is not None:
            connection.send(exchange)
        else:
            self._open_for(exchange)

    def _open_for(self, exchange: Exchange) -> None:
        task = self._loop.create_task(self._open_and_send(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open_and_send(self, exchange: Exchange) -> None:
        start = perf_counter_ns()
        try:
            connection = await self._pool.open()
        except TimeoutError:
            self._give_up(exchange, "timeout_connect", f"no connection within {self._timeouts.connect:g} s")
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                # Not the server's failure: nothing that follows would be measured as it was asked for.
                limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
                self.trouble = (
                    f"a process may have no more than {limit} files and connections open here: raise `ulimit -n`"
                )
                self.stop()
                return
            refused = isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error)
            self._give_up(exchange, "refused" if refused else "connection", str(error))
            return
        except (
            Exception
        ) as error:  # Whatever else opening meets (a host name no resolver takes), the request has ended.
            self._give_up(exchange, "connection", f"{type(error).__name__}: {error}")
            return
        if exchange.over:
            self._pool.give_back(connection)
            return
        exchange.reader.trace.connect_ns = perf_counter_ns() - start
        exchange.launched_ns = perf_counter_ns()
        connection.send(exchange)

    def _give_up(self, exchange: Exchange, error_class: str, message: str) -> None:
        if not exchange.over:
            exchange.reader.give_up(perf_counter_ns(), error_class, message)
            self._release(exchange)

    def _release(self, exchange: Exchange) -> None:
        if exchange.connection is not None:
            exchange.connection.release()
        exchange.finish()

    async def _sweep(self) -> None:
        """Look for requests past one of their timeouts, and for replies that are decided while their body goes on."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = perf_counter_ns()
            for exchange in list(self._in_flight):
                self._look_at(exchange, now)

    def _look_at(self, exchange: Exchange, now: int) -> None:
        reader, trace, timeouts = exchange.reader, exchange.reader.trace, self._timeouts
        if exchange.connection is None or exchange.over:
            return
        if trace.first_byte_ns is None:
            if now - (trace.sent_ns or exchange.launched_ns) > timeouts.first_byte * 1e9:
                self._give_up(exchange, "timeout_first_byte", f"no byte of a reply within {timeouts.first_byte:g} s")
            return
        quiet = now - max(reader.touched_ns, trace.first_byte_ns)
        settled = now - reader.settled_ns if reader.settled_ns else 0
        if (reader.complete and quiet > (DONE_GRACE_NS if trace.done else FINISH_GRACE_NS)) or settled > (
            FINISH_GRACE_NS if trace.done or reader.failed else USAGE_GRACE_NS
        ):
            reader.end(reader.touched_ns)
            self._release(exchange)
        elif quiet > timeouts.idle * 1e9:
            self._give_up(
                exchange, "timeout_idle", f"nothing more for {timeouts.idle:g} s after {reader.chunks} chunks"
            )

    def _ended(self, exchange: Exchange) -> None:
        if not exchange.over:
            # Written to a connection the server had already closed: sent again on a fresh one, with a fresh clock.
            self._open_for(exchange)
            return
        self._in_flight.pop(exchange, None)
        gated = self._gated.pop(exchange)
        if not gated.ended.done():
            gated.ended.set_result(None)
        self.finished += 1
        self.chunks += exchange.reader.chunks
        self._on_finished(exchange.reader.trace)
        if self.finished % COLLECT_EVERY == 0:
            gc.collect()
        if self._schedule is None:
            self._launch_due()
        self._check_over()

    def _check_over(self) -> None:
        if self._in_flight or self._all_over.done():
            return
        if self._schedule is not None:
            exhausted = self._schedule_spent and not self._owed
        else:
            exhausted = self._numbers_spent() and not self._ready and not self._building
        if self._closing or exhausted:
            self._all_over.set_result(None)

    async def _end_tasks(self) -> None:
        """Wait for the client to let go of what has ended, and cancel what never left the gate."""
        for gated in self._ready:
            gated.ended.cancel()
        tasks = list(self._tasks)
        _, hanging = await asyncio.wait(tasks, timeout=1.0) if tasks else (set(), set())
        for task in hanging:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
