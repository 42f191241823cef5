"""The simulated model behind the connections: routes, slots and their queue, failures, the prefix cache, counters."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from workbench.simulator.api import Ask, Refused, read_ask, read_tokenize
from workbench.simulator.connection import Connection, Request
from workbench.simulator.options import MAX_MODEL_LEN, SimOptions
from workbench.simulator.reply import (
    MODEL,
    STAMP,
    Form,
    Length,
    Step,
    Usage,
    at_once,
    moments,
    reply_length,
    streamed,
    texts,
)
from workbench.simulator.text import count_tokens, reply_seed, reply_words, token_ids
from workbench.simulator.timing import Scheduler

REMEMBERED_PROMPTS = 65_536
EVENT_STREAM = "text/event-stream; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Generation:
    """One reply on its way: waiting for a slot, then sending its steps as they fall due."""

    __slots__ = (
        "_begun",
        "_following",
        "_start_ns",
        "_step",
        "_steps",
        "ask",
        "connection",
        "ordinal",
        "received_ns",
        "service",
    )

    def __init__(self, service: Service, connection: Connection, ask: Ask, received_ns: int, ordinal: int) -> None:
        self.service = service
        self.connection = connection
        self.ask = ask
        self.received_ns = received_ns
        self.ordinal = ordinal
        self._begun = False
        self._start_ns = 0
        self._steps: Iterator[Step] = iter(())
        self._step: Step | None = None
        self._following: Step | None = None

    def start(self, start_ns: int, steps: Iterator[Step]) -> int:
        """Take a slot at `start_ns`; the first deadline (perf_counter_ns). `steps` holds at least one."""
        self._start_ns = start_ns
        self._steps = steps
        self._step = next(steps)
        self._following = next(steps, None)
        return start_ns + self._step.at_ns

    def drop(self) -> None:
        """Send nothing more."""
        self._step = None
        self._steps = iter(())

    def act(self, due_ns: int) -> int | None:
        """Send the step that is due; the next deadline, or None after the last one."""
        step, following = self._step, self._following
        if step is None:
            return None
        # One step ahead, so that building text and JSON happens after a write, not between a deadline and its write.
        self._step = following
        body = step.body.replace(
            STAMP,
            b'"sim":{"sent_ns":%d,"due_ns":%d,"received_ns":%d}' % (time.perf_counter_ns(), due_ns, self.received_ns),
        )
        if self.ask.stream:
            self.connection.write(body, last=following is None)
        else:
            self.connection.answer(200, body)
        if not self._begun:
            self._begun = True
            self.service.prefilled(self)
        if following is None:
            self.service.ended(self)
            return None
        self._following = next(self._steps, None)
        return self._start_ns + following.at_ns


class Service:
    """Answers the requests of all connections (a `connection.Handler`)."""

    def __init__(self, options: SimOptions, loop: asyncio.AbstractEventLoop) -> None:
        self._options = options
        self._loop = loop
        self._scheduler = Scheduler(loop)
        self._started = int(time.time())
        self._connections: set[Connection] = set()
        self._inbox: deque[tuple[Connection, Request]] = deque()
        self._generations: dict[Connection, Generation] = {}
        self._waiting: deque[Generation] = deque()
        self._running = 0
        self._total = 0
        self._failed = 0
        self._dropped = 0
        self._failures = random.Random(options.seed)
        self._seen: dict[int, None] = {}
        self._routes: dict[str, tuple[str, Callable[[Connection, Request], None]]] = {
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._metrics),
            "/v1/models": ("GET", self._models),
            "/tokenize": ("POST", self._tokenize),
            "/v1/chat/completions": ("POST", self._generate),
            "/v1/completions": ("POST", self._generate),
        }

    # --- connections

    def opened(self, connection: Connection) -> None:
        """A client has connected."""
        self._connections.add(connection)

    def received(self, connection: Connection, request: Request) -> None:
        """Put the request in the inbox. It is read one loop turn later, one a turn, so that the stamps of a burst are
        all taken first and that chunks which fall due meanwhile aren't held up."""
        self._inbox.append((connection, request))
        if len(self._inbox) == 1:
            self._loop.call_soon(self._take_one)

    def refused(self, connection: Connection, status: int, message: str) -> None:
        """Answer what was no acceptable request."""
        _answer_error(connection, status, message)

    def closed(self, connection: Connection) -> None:
        """Drop the reply the client was waiting for, and free its slot."""
        self._connections.discard(connection)
        generation = self._generations.pop(connection, None)
        if generation is None:
            return
        self._dropped += 1
        generation.drop()
        try:
            self._waiting.remove(generation)
        except ValueError:
            self._free_slot()

    def close(self) -> None:
        """Close every connection."""
        for connection in tuple(self._connections):
            connection.close()

    def _take_one(self) -> None:
        connection, request = self._inbox.popleft()
        if self._inbox:
            self._loop.call_soon(self._take_one)
        if connection not in self._connections:
            return
        method, handle = self._routes.get(request.path, ("", None))
        if handle is None:
            _answer_error(connection, 404, f"no such route: {request.path}")
        elif request.method != method:
            _answer_error(connection, 405, f"{request.path} takes {method}, not {request.method}", allow=method)
        else:
            try:
                handle(connection, request)
            except Refused as refusal:
                _answer_error(connection, refusal.status, refusal.message)

    # --- generation

    def _generate(self, connection: Connection, request: Request) -> None:
        ask = read_ask(request.body, chat=request.path == "/v1/chat/completions")
        self._total += 1
        # Drawn for every request, so that the same seed fails the same ones whatever the bodies ask for.
        drawn = self._failures.random() < self._options.fail_rate
        if drawn or ask.override.fail:
            self._failed += 1
            raise Refused(500, "simulated failure")
        generation = Generation(self, connection, ask, request.received_ns, self._total)
        self._generations[connection] = generation
        if ask.stream:
            connection.begin(EVENT_STREAM)
        if self._options.slots and self._running >= self._options.slots:
            self._waiting.append(generation)
        else:
            self._start(generation, request.turn_ns)

    def _start(self, generation: Generation, start_ns: int) -> None:
        self._running += 1
        self._scheduler.add(generation.start(start_ns, self._steps(generation)), generation)

    def ended(self, generation: Generation) -> None:
        """The last step of a reply was sent. Its connection may have gone on to a next request: still in the inbox."""
        if self._generations.pop(generation.connection, None) is not None:
            self._free_slot()

    def _free_slot(self) -> None:
        self._running -= 1
        if self._waiting:
            self._start(self._waiting.popleft(), time.perf_counter_ns())

    def _steps(self, generation: Generation) -> Iterator[Step]:
        options, ask, asked = self._options, generation.ask, generation.ask.override
        natural = asked.tokens if asked.tokens is not None else options.natural_tokens
        length = reply_length(ask.max_tokens, None if ask.ignore_eos else natural)
        hit = options.cache_speedup > 1 and hash(ask.first) in self._seen
        ttft_ms = (options.ttft_ms if asked.ttft_ms is None else asked.ttft_ms) / (options.cache_speedup if hit else 1)
        gap_ms = options.itl_ms if asked.itl_ms is None else asked.itl_ms
        at = moments(
            round(ttft_ms * 1e6),
            round(gap_ms * 1e6),
            options.jitter,
            random.Random(options.seed + generation.ordinal),
        )
        salt = 0 if ask.temperature == 0 else 1 + (generation.ordinal if ask.seed is None else abs(ask.seed))
        words = reply_words(reply_seed(ask.prompt, salt))
        pieces = texts(words, length.tokens, options.tokens_per_chunk)
        form = Form(ask.chat, generation.ordinal, int(time.time()))
        usage = self._usage(ask, length, hit)
        if ask.stream:
            return streamed(form, at, pieces, length.finish, usage if ask.include_usage else None)
        return at_once(form, at, pieces, length.finish, usage)

    # --- prefix cache

    def _usage(self, ask: Ask, length: Length, hit: bool) -> Usage:
        details = {"cached_tokens": count_tokens(ask.first) if hit else 0}
        return Usage(
            prompt_tokens=ask.prompt_tokens,
            completion_tokens=length.tokens,
            total_tokens=ask.prompt_tokens + length.tokens,
            prompt_tokens_details=details if self._options.cache_speedup > 1 else None,
        )

    def prefilled(self, generation: Generation) -> None:
        """The first step of a reply was sent: from now on its prompt is in the prefix cache."""
        if self._options.cache_speedup > 1:
            self._seen[hash(generation.ask.first)] = None
            if len(self._seen) > REMEMBERED_PROMPTS:
                del self._seen[next(iter(self._seen))]

    # --- the other routes

    def _health(self, connection: Connection, request: Request) -> None:
        _answer_json(connection, {"status": "ok"})

    def _models(self, connection: Connection, request: Request) -> None:
        model = {
            "id": MODEL,
            "object": "model",
            "created": self._started,
            "owned_by": "workbench-sim",
            "max_model_len": MAX_MODEL_LEN,
        }
        _answer_json(connection, {"object": "list", "data": [model]})

    def _tokenize(self, connection: Connection, request: Request) -> None:
        text, as_prompt = read_tokenize(request.body)
        tokens = token_ids(text)
        counted = {"count": len(tokens), "max_model_len": MAX_MODEL_LEN} if as_prompt else {}
        _answer_json(connection, {**counted, "tokens": tokens})

    def _metrics(self, connection: Connection, request: Request) -> None:
        lines = []
        for name, kind, meaning, value in (
            ("requests_running", "gauge", "Replies that hold a slot.", self._running),
            ("requests_waiting", "gauge", "Requests that wait for a slot.", len(self._waiting)),
            ("requests_total", "counter", "Generation requests read.", self._total),
            ("requests_failed_total", "counter", "Requests answered by a simulated failure.", self._failed),
            ("requests_dropped_total", "counter", "Replies dropped because their client left.", self._dropped),
        ):
            full = f"workbench_sim_{name}"
            lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}", f"{full} {value}"]
        connection.answer(200, "\n".join([*lines, ""]).encode(), PROMETHEUS)


def _answer_json(connection: Connection, content: Any) -> None:
    connection.answer(200, msgspec.json.encode(content))


def _answer_error(connection: Connection, status: int, message: str, allow: str = "") -> None:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body = msgspec.json.encode({"error": {"message": message, "type": kind, "code": status}})
    connection.answer(status, body, allow=allow)
