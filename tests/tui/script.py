"""A made-up session: what a server of stated speed would make the runner tell, event by event, at exact times.

It drives the screen in tests that are about the screen. The traces are real traces with made-up stamps, and every figure
comes from the domain's own functions, so that what is shown hangs together. The end-to-end tests use the real bench.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workbench.domain.cell import cell_figures
from workbench.domain.events import CONTENT, Arrivals, RequestTrace, Usage
from workbench.domain.metrics import request_figures
from workbench.domain.plan import CellPlan, Plan, cells, plan_table
from workbench.domain.record import KindVerdict, Record, SessionTable, Verdict, cell_table
from workbench.domain.variables import assignment
from workbench.session.events import (
    CellEnded,
    CellStarted,
    CountersView,
    Event,
    Live,
    MemoryView,
    Notice,
    RequestEnded,
    Row,
    ServerChanged,
    ServerView,
    SessionEnded,
    SessionStarted,
    VerdictChanged,
)

S = 1_000_000_000
TEXT = (
    "The river crosses the old market town before it turns south, and in the second winter the harbour froze and "
    "nobody could say when the boats would leave again; the ferryman counted his days by the ice. "
)

SERVER = ServerView(
    id="s1",
    base_url="http://127.0.0.1:11434/v1",
    engine="ollama",
    version="0.30.1",
    model="qwen2.5:7b",
    quant="q4_K_M",
    slots=4,
)
GPU = MemoryView(
    name="GPU 0 RTX 4090",
    kind="gpu",
    used_mib=18637,
    total_mib=24564,
    peak_mib=18842,
    others_mib=0.0,
    utilisation=0.97,
    power_w=412,
    power_limit_w=450,
)
HOST = MemoryView(name="system memory", kind="host", used_mib=3174, total_mib=32051, peak_mib=3300)


@dataclass(frozen=True)
class World:
    """The made-up server. `failing`: share of requests that fail; `text`: what it answers."""

    ttft_ms: float = 205.0
    rate: float = 61.0
    slots: int = 4
    tokens: int = 120
    failing: float = 0.0
    text: str = TEXT
    error: str = "out of memory"
    memory: tuple[MemoryView, ...] = (GPU, HOST)
    kv: bool = True
    seed: int = 7


USUAL = World()


def _traces(world: World, cell: CellPlan, start_s: float, count: int, draw: random.Random) -> list[RequestTrace]:
    """The cell's requests in a closed loop."""
    free = [start_s] * min(cell.setting.concurrency, count)
    traces = []
    tokens = min(world.tokens, cell.setting.max_tokens)
    streams = cell.setting.concurrency
    rate = world.rate / (1 + 0.05 * (min(streams, world.slots) - 1))
    for index in range(count):
        slot = min(range(len(free)), key=free.__getitem__)
        sent = free[slot]
        queue = max(0, streams - world.slots) * 0.15 * draw.uniform(0.8, 1.2)
        ttft = world.ttft_ms / 1000 * draw.uniform(0.93, 1.1) + queue
        sent_ns = int(sent * S)
        if draw.random() < world.failing:
            traces.append(
                RequestTrace(
                    index=index,
                    prompt="short",
                    sent_ns=sent_ns,
                    first_byte_ns=sent_ns + int(0.4 * S),
                    end_ns=sent_ns + int(0.4 * S),
                    outcome="failed",
                    error_class="http_500",
                    error=world.error,
                    status=500,
                    headers={"content-type": "application/json", "x-request-id": f"r{index}"},
                )
            )
            free[slot] = sent + 0.41
            continue
        gap = 1 / (rate * draw.uniform(0.98, 1.02))
        stamps = [sent_ns + int((ttft + gap * step) * S) for step in range(tokens)]
        text = (world.text * (tokens * 5 // max(len(world.text), 1) + 1))[: max(tokens * 5, len(world.text))]
        traces.append(
            RequestTrace(
                index=index,
                prompt="short",
                sent_ns=sent_ns,
                first_byte_ns=stamps[0],
                end_ns=stamps[-1],
                arrivals=Arrivals(
                    at_ns=stamps,
                    size=[5] * tokens,
                    chunks=[1] * tokens,
                    kinds=[CONTENT] * tokens,
                    server_ns=[0] * tokens,
                ),
                done=True,
                status=200,
                finish="length",
                usage=Usage(prompt=84, completion=tokens),
                content=text,
                headers={"content-type": "text/event-stream", "server": "made-up"},
            )
        )
        free[slot] = stamps[-1] / S + 0.002
    return traces


def _row(trace: RequestTrace, now_ns: int) -> Row:
    stamps = trace.arrivals.at_ns
    seen = sum(at <= now_ns for at in stamps)
    assert trace.sent_ns is not None
    row = Row(
        index=trace.index,
        state="stream" if seen else "waiting",
        wait_ms=(now_ns - trace.sent_ns) / 1e6,
        chunks=seen,
        tail=trace.content[: seen * 5][-160:],
    )
    if seen:
        row.ttft_ms = (stamps[0] - trace.sent_ns) / 1e6
        if seen > 2:
            row.rate = (seen - 1) * 1e9 / (stamps[seen - 1] - stamps[0])
    return row


def events(
    plan: Plan,
    world: World = USUAL,
    name: str = "",
    stopped: Callable[[], bool] = lambda: False,
    requests_of: dict[str, int] | None = None,
) -> Iterator[tuple[float, Event]]:
    """(seconds since the start, event), in order. `stopped` is asked before each event."""
    draw = random.Random(world.seed)
    planned = cells(plan, requests_of)
    record = Record(
        session=SessionTable(id="made-up", name=name, started="2026-03-02T10:00:00+00:00", workbench="0"),
        plan=plan_table(plan),
        environment={"server": [{"id": "s1", "engine": "ollama"}], "unknown": []},
    )
    yield 0.0, ServerChanged(SERVER)
    yield 0.0, SessionStarted(plan=plan, cells=planned, prompt_tokens={"short": (84, "tokenize")}, predicted_s=None)
    now = 0.0
    reason = ""
    for number, cell in enumerate(planned):
        yield now, CellStarted(cell=cell, number=number + 1, of=len(planned), phase="warm-up", eta_s=None)
        for trace in _traces(world, cell, now, cell.warmup, draw):
            trace.end_ns = trace.end_ns or 0
            end = (trace.end_ns or 0) / S
            now = max(now, end)
            yield end, RequestEnded(cell=cell.index, warmup=True, figures=request_figures(trace), trace=trace)
        yield now, CellStarted(cell=cell, number=number + 1, of=len(planned), phase="measuring", eta_s=None)
        count = cell.requests if plan.duration is None else max(4, int(plan.duration))
        traces = _traces(world, cell, now, count, draw)
        begun, finish = now, max((trace.end_ns or 0) / S for trace in traces)
        ended = [((trace.end_ns or 0) / S, trace) for trace in traces]
        ended.sort(key=lambda pair: pair[0])
        done: list[RequestTrace] = []
        tick = begun
        while tick < finish + 0.2 and not reason:
            tick += 0.2
            if stopped():
                reason = "stopped by the user"
            while ended and (ended[0][0] <= tick or reason):
                at, trace = ended.pop(0)
                if reason and at > tick:
                    if (trace.sent_ns or 0) / S > tick:
                        continue
                    trace.outcome, trace.finish, trace.end_ns = "cancelled", "none", int(tick * S)
                done.append(trace)
                figures = request_figures(trace)
                yield min(at, tick), RequestEnded(cell=cell.index, warmup=False, figures=figures, trace=trace)
            now_ns = int(tick * S)
            flying = [trace for _, trace in ended if (trace.sent_ns or 0) <= now_ns]
            rows = [_row(trace, now_ns) for trace in sorted(flying, key=lambda t: -t.index)]
            before = now_ns - S
            chunks = sum(sum(before < at <= now_ns for at in trace.arrivals.at_ns) for trace in traces)
            rate = chunks / min(1.0, max(tick - begun, 0.2))
            left = finish - tick + (finish - begun + 1.5) * (len(planned) - number - 1)
            yield (
                tick,
                Live(
                    cell=cell.index,
                    phase="measuring",
                    elapsed_s=tick - begun,
                    eta_s=max(0.0, left),
                    sent=sum((trace.sent_ns or 0) <= now_ns for trace in traces),
                    finished=len(done),
                    ok=sum(trace.outcome == "ok" for trace in done),
                    failed=sum(trace.outcome == "failed" for trace in done),
                    in_flight=len(rows),
                    tokens_rate=rate,
                    each=rate / len(rows) if rows else None,
                    lag_p99_ms=0.3,
                    rows=rows,
                    memory=list(world.memory),
                    counters=CountersView(running=len(rows), waiting=0.0, kv_use=0.31) if world.kv else None,
                ),
            )
        now = tick
        figures = cell_figures(done, concurrency=cell.setting.concurrency)
        table = cell_table(
            figures, done, index=cell.index + 1, round_=cell.round, arm=cell.arm, variables=assignment(cell.setting)
        )
        record.cells.append(table)
        verdict = _verdict(plan, record)
        if verdict is not None:
            record.verdict = verdict
            yield now, VerdictChanged(verdict)
        yield now, CellEnded(cell=cell, figures=figures, table=table)
        if reason:
            break
    record.session.status = "interrupted" if reason else "complete"
    record.session.reason = reason
    yield now, Notice("info", "the record is saved")
    path = "sessions/made-up.toml"
    yield now, SessionEnded(record=record, path=path, status=record.session.status, reason=reason)


def _verdict(plan: Plan, record: Record) -> Verdict | None:
    """A made-up verdict with the true ratios, whose interval narrows with the rounds; the domain's own is not asked."""
    first, last = record.cells[0].arm, sorted({cell.arm for cell in record.cells})[-1]
    if not plan.varied or (first == last and len({cell.arm for cell in record.cells}) < 2):
        return None
    sides = {arm: [cell for cell in record.cells if cell.arm == arm] for arm in ("A", last)}
    rounds = min(len(side) for side in sides.values())
    if not rounds:
        return None
    kinds = {}
    for kind, better, figure in (
        ("ttft", "lower", "ttft_ms"),
        ("request_time", "lower", "total_ms"),
        ("decode_rate", "higher", "decode_rate"),
        ("throughput", "higher", ""),
    ):
        values = []
        for arm in ("A", last):
            found = [
                (cell.stats[figure].p50 if figure in cell.stats else None) if figure else cell.throughput
                for cell in sides[arm]
            ]
            numbers = [value for value in found if value is not None]
            values.append(sum(numbers) / len(numbers) if numbers else None)
        a, b = values
        if not a or not b:
            continue
        ratio = b / a
        spread = 0.3 / rounds
        goodness = ratio if better == "higher" else 1 / ratio
        call = "faster" if goodness > 1.1 else "slower" if goodness < 0.9 else "no difference shown"
        kinds[kind] = KindVerdict(
            better=better, ratio=ratio, low=ratio / (1 + spread), high=ratio * (1 + spread), call=call, a=a, b=b
        )
    whole = kinds.get("throughput")
    sentence = f"{plan.varied} {plan.values[0]} to {plan.values[-1]}: "
    if whole is not None and whole.ratio and whole.low and whole.high:
        sentence += f"{whole.ratio:.1f}x the tokens/s ({whole.low:.1f}-{whole.high:.1f}). "
    ttft = kinds.get("ttft")
    if ttft is not None and ttft.a and ttft.b:
        sentence += f"One request is not faster: TTFT {ttft.a:.0f} and {ttft.b:.0f} ms, {ttft.call}."
    checks = {"one-variable": "pass", "sample-size": "doubt: few rounds so far"}
    return Verdict(sentence=sentence, a="A", b=last, checks=checks, kinds=kinds)
