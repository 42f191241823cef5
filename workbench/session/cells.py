"""Runs one cell on an endpoint: drain, warm-up, measured requests, recount, figures."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from workbench.domain.cell import CellFigures, cell_figures, judge_client
from workbench.domain.events import RequestTrace
from workbench.domain.plan import CellPlan, Plan
from workbench.domain.variables import Setting
from workbench.measure.protocol import Connect, PromptText, RunCell, Snapshot
from workbench.session.endpoint import Endpoint, NoServer, Target
from workbench.session.job import Job
from workbench.session.probes import PROBED, Probes
from workbench.session.weights_file import identify
from workbench.session.workers import CellRun, Crew, WorkerTrouble

DRAIN_S = 30.0
DRAIN_POLL_S = 0.1
STREAMS_A_WORKER = 256
NOT_MEASURABLE = ("refused", "redirect", "timeout_connect", "http_401", "http_403", "http_404")
"""What the very first request can meet that means nothing can be measured at all."""


class Warmup(msgspec.Struct, kw_only=True):
    """What the warm-up saw. `cold`: the first request's trace when the server was fresh to us."""

    sent: int = 0
    failed: int = 0
    cold: RequestTrace | None = None


class CellRunner:
    """Runs cells for one session; remembers what its servers refused (outside the sample, once)."""

    def __init__(self, plan: Plan, crew: Crew, target: Target, job: Job) -> None:
        self._plan = plan
        self._crew = crew
        self._target = target
        self._prompts = job.prompts
        self._tokenizers = job.tokenizers
        self._fingerprint = job.fingerprint
        self._probes = Probes(tokenizers=plan.varied in PROBED or job.fingerprint, replies=job.fingerprint)
        self._no_usage: set[str] = set()
        self._completion_tokens: set[str] = set()
        self._template: dict[str, int] = {}
        self._connected = ""
        self._counter = 0
        # New each session: a server that still holds the last one's prefixes must not make the first request warm.
        self._nonce = secrets.token_hex(4)
        self.stopped = False

    def connect(self, endpoint: Endpoint) -> None:
        """Point the workers at the endpoint, when it is another than before."""
        identity = f"{endpoint.base_url} {endpoint.view.id} {id(endpoint) if endpoint.fresh else ''}"
        if identity != self._connected:
            self._connected = identity
            self._crew.connect(
                Connect(
                    base_url=endpoint.base_url,
                    key=endpoint.key,
                    ca_file=endpoint.ca_file,
                    timeouts=self._plan.timeouts,
                )
            )

    def stop(self) -> None:
        self.stopped = True
        self._crew.stop()

    async def drain(self) -> str:
        """Wait until the server has nothing of ours running; a sentence when it still had after the wait."""
        deadline = asyncio.get_running_loop().time() + DRAIN_S
        while not self.stopped:
            counters = await self._target.counters()
            busy = None if counters is None else (counters.running or 0) + (counters.waiting or 0)
            if not busy:
                return ""
            if asyncio.get_running_loop().time() > deadline:
                return f"the server still had {busy:g} requests running or waiting {DRAIN_S:g} s after the last cell"
            await asyncio.sleep(DRAIN_POLL_S)
        return ""

    async def warm_up(
        self, endpoint: Endpoint, cell: CellPlan, cold: bool, on_finished: Callable[[RequestTrace], None]
    ) -> Warmup:
        """The first request alone (it may load the model), the others as the cell will. A server that was just started gets
        the plan's whole warm-up.

        Raises NoServer when the session's first request shows that nothing can be measured, WorkerTrouble when a measuring
        process dies.
        """
        result = Warmup()
        if cell.warmup < 1 or self.stopped:
            return result
        while True:
            first = await self._burst(endpoint, cell.setting, 1, 1, on_finished)
            trace = first.traces[0] if first.traces else None
            if trace is None or not self._withdrawn(endpoint, trace):
                break
        result.sent = 1
        if trace is not None:
            result.failed += trace.outcome == "failed"
            if cold:
                result.cold = trace
            if cell.index == 0 and trace.error_class in NOT_MEASURABLE:
                raise NoServer(f"{endpoint.base_url} can't be measured: {first_trouble(trace)}")
        more = (max(cell.warmup, self._plan.warmup) if cold else cell.warmup) - 1
        if trace is not None and trace.outcome == "ok" and await self._probe(endpoint, cell.setting):
            # What it sent may have pushed a warm cell's own prompt out of the cache.
            more = max(more, 1 if cell.setting.cache == "warm" else 0)
        if more > 0 and not self.stopped:
            rest = await self._burst(endpoint, cell.setting, more, min(more, cell.setting.concurrency), on_finished)
            result.sent += len(rest.traces)
            result.failed += sum(item.outcome == "failed" for item in rest.traces)
        return result

    def _withdrawn(self, endpoint: Endpoint, trace: RequestTrace) -> bool:
        """Whether the server refused a field that can be left out or renamed; then it is, for the whole session."""
        if trace.error_class not in ("http_400", "http_422"):
            return False
        if "stream_options" in trace.error and endpoint.view.id not in self._no_usage:
            self._no_usage.add(endpoint.view.id)
            return True
        if "max_completion_tokens" in trace.error and endpoint.view.id not in self._completion_tokens:
            self._completion_tokens.add(endpoint.view.id)
            return True
        return False

    def refused_fields(self, endpoint: Endpoint) -> list[str]:
        """Request fields this server refused and that were withdrawn or renamed."""
        fields = []
        if endpoint.view.id in self._no_usage:
            fields.append("stream_options")
        if endpoint.view.id in self._completion_tokens:
            fields.append("max_tokens")
        return fields

    async def measure(
        self,
        endpoint: Endpoint,
        cell: CellPlan,
        nonce_seed: str,
        on_snapshot: Callable[[list[Snapshot]], None],
        on_finished: Callable[[RequestTrace], None],
    ) -> CellRun:
        """The cell's measured requests."""
        plan, setting = self._plan, cell.setting
        run = self._run_cell(endpoint, setting)
        run.concurrency = setting.concurrency
        run.requests = None if plan.duration is not None else cell.requests
        run.duration = plan.duration
        run.arrival = plan.arrival
        run.rate = plan.rate
        run.schedule_seed = plan.seed
        run.nonce_seed = nonce_seed if setting.cache == "unique" else ""
        workers = plan.workers or -(-setting.concurrency // STREAMS_A_WORKER)
        return await self._crew.run(run, workers=workers, on_snapshot=on_snapshot, on_finished=on_finished)

    async def _burst(
        self,
        endpoint: Endpoint,
        setting: Setting,
        requests: int,
        concurrency: int,
        on_finished: Callable[[RequestTrace], None],
    ) -> CellRun:
        run = self._run_cell(endpoint, setting)
        self._counter += 1
        run.requests, run.concurrency, run.warmup = requests, concurrency, True
        # Warm-up is unique too, whatever the cell's cache mode; a warm cell warms its cache with the prompts themselves.
        run.nonce_seed = f"warm-up {self._nonce} {self._counter}" if setting.cache == "unique" else ""
        done = await self._crew.run(run, on_snapshot=_unseen, on_finished=on_finished)
        if done.trouble:
            # A fresh worker would go on, with a warm-up that never was.
            raise WorkerTrouble(done.trouble)
        return done

    def _run_cell(self, endpoint: Endpoint, setting: Setting) -> RunCell:
        limit = "max_completion_tokens" if endpoint.view.id in self._completion_tokens else "max_tokens"
        body: dict[str, Any] = {
            "model": endpoint.model,
            limit: setting.max_tokens,
            "temperature": setting.temperature,
            "stream": setting.stream,
        }
        if setting.seed is not None:
            body["seed"] = setting.seed
        if setting.stop:
            body["stop"] = list(setting.stop)
        if setting.ignore_eos:
            body["ignore_eos"] = True
        body |= endpoint.body | setting.body
        self._counter += 1
        return RunCell(
            cell=self._counter,
            body=body,
            prompts=[PromptText(name=name, text=self._prompts[name].text) for name in setting.prompt],
            system=setting.system,
            include_usage=endpoint.view.id not in self._no_usage,
        )

    async def figures(self, endpoint: Endpoint, cell: CellPlan, run: CellRun) -> CellFigures:
        """The cell's figures, tokens recounted where the server did not count them."""
        await self._recount(endpoint, run.traces)
        template = 0
        if cell.setting.cache == "unique" and any(trace.usage.cached for trace in run.traces) and not self.stopped:
            template = await self._template_tokens(endpoint, cell.setting)
        figures = cell_figures(
            run.traces,
            concurrency=cell.setting.concurrency if self._plan.arrival == "closed" else None,
            limits=dict(self._plan.limits),
            template_tokens=template,
            duration_end_ns=run.duration_end_ns,
        )
        ttft = figures.stats.get("ttft_ms")
        run.fitness.limited = judge_client(run.fitness, ttft.p50 if ttft else None)
        return figures

    async def _recount(self, endpoint: Endpoint, traces: list[RequestTrace]) -> None:
        """Count each joined output once where a server's count is missing, off the worker: by the server's own
        tokenizer, else by a file."""
        ok = [trace for trace in traces if trace.outcome == "ok" and trace.visible]
        if all(trace.usage.completion for trace in ok):
            return
        for trace in ok:
            text = trace.reasoning + trace.content + trace.tool_calls
            count = await self._target.count_tokens(text)
            trace.counted_by = "tokenize"
            if count is None:
                tokenizer = await asyncio.to_thread(self._tokenizers.of, endpoint.model)
                count = None if tokenizer is None else tokenizer.count(text)
                trace.counted_by = "tokenizer"
            if count is None:
                trace.counted_by = ""
                return
            trace.counted = count

    async def _probe(self, endpoint: Endpoint, setting: Setting) -> bool:
        """Take the server's fingerprints, once: after its first request, before the rest of the warm-up. Was it done?"""
        wanted = not self.stopped and self._probes.wanted(endpoint)
        if wanted:
            await self._probes.take(
                endpoint,
                self._target.count_tokens,
                lambda texts, tokens: self._ask(endpoint, msgspec.structs.replace(setting, system=""), texts, tokens),
            )
        return wanted

    async def identify(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint with what only a probe or its weights file can tell."""
        self._probes.describe(endpoint)
        await asyncio.to_thread(identify, endpoint, self._fingerprint)
        found = self._tokenizers.cached_sha256(endpoint.model)
        if found:
            endpoint.add("tokenizer_sha256", found, "the model's tokenizer.json in the local Hugging Face cache")
        return endpoint

    async def _ask(
        self, endpoint: Endpoint, setting: Setting, texts: Sequence[str], max_tokens: int
    ) -> list[RequestTrace]:
        """Send each text as it is, one after the other, outside of what is measured."""
        bare = msgspec.structs.replace(
            setting, max_tokens=max_tokens, temperature=0.0, cache="warm", stream=False, stop=(), ignore_eos=False
        )
        run = self._run_cell(endpoint, bare)
        run.prompts = [PromptText(name=str(number), text=text) for number, text in enumerate(texts)]
        run.requests, run.concurrency, run.warmup = len(texts), 1, True
        return (await self._crew.run(run, on_snapshot=_unseen, on_finished=_unheard)).traces

    async def _template_tokens(self, endpoint: Endpoint, setting: Setting) -> int:
        """Tokens of the chat template alone: the prompt_tokens of an empty message, asked once a server."""
        if endpoint.view.id not in self._template:
            asked = await self._ask(endpoint, setting, [""], 1)
            told = asked[0].usage.prompt if asked else None
            self._template[endpoint.view.id] = told or 0
        return self._template[endpoint.view.id]


def first_trouble(trace: RequestTrace) -> str:
    """What a failed request met, in one line with its remedy."""
    remedies = {
        "refused": "nothing listens there: start the server, or give another --base-url",
        "redirect": "give the address it redirects to as --base-url",
        "timeout_connect": "it does not answer: is the address right?",
        "http_401": "it refuses the key: set one in the environment (key_env of the target, or OPENAI_API_KEY)",
        "http_403": "it refuses the key: set one in the environment (key_env of the target, or OPENAI_API_KEY)",
        "http_404": "no such model or route there: see `workbench discover`, name one with --model",
    }
    remedy = remedies.get(trace.error_class, "")
    return f"{trace.error_class}: {trace.error}" + (f" ({remedy})" if remedy else "")


def _unseen(snapshots: list[Snapshot]) -> None:
    """Warm-up needs no rates on screen."""


def _unheard(trace: RequestTrace) -> None:
    """A probe's request is nobody's business."""
