"""Plays a recorded session again on the live screen: the same events, from the record's columns, marked as a replay.

What the record does not hold is not made up: a row's chunks arrive at the steady rate between its own first and last
token, and its text is not there, as records keep none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from workbench.domain.cell import CellFigures
from workbench.domain.events import Arrivals, RequestTrace, Usage
from workbench.domain.metrics import RequestFigures
from workbench.domain.plan import CellPlan, plan_from_table
from workbench.domain.record import CellTable, Record
from workbench.domain.variables import BadInput, from_assignment
from workbench.session.events import (
    CellEnded,
    CellStarted,
    Event,
    Live,
    RequestEnded,
    Row,
    ServerChanged,
    ServerView,
    SessionEnded,
    SessionStarted,
    VerdictChanged,
)
from workbench.tui.model import LiveModel
from workbench.tui.plans import mode_of

TICK_S = 0.2


class Played:
    """One request of a record: its figures and when it was sent and over, seconds after its cell's first send."""

    def __init__(self, cell: CellTable, index: int) -> None:
        columns = cell.per_request

        def number(name: str) -> float | None:
            column = columns.get(name, [])
            value = column[index] if index < len(column) else None
            return float(value) if isinstance(value, (int, float)) else None

        def whole(name: str) -> int | None:
            value = number(name)
            return None if value is None else int(value)

        def word(name: str) -> str:
            column = columns.get(name, [])
            return str(column[index]) if index < len(column) else ""

        error_class, _, error = word("error").partition(": ")
        outcome = word("outcome")
        self.figures = RequestFigures(
            index=index,
            prompt=word("prompt"),
            outcome=outcome if outcome in ("ok", "failed", "cancelled") else "failed",
            error=error,
            error_class=error_class,
            finish=word("finish") or "none",
            ttft_ms=number("ttft_ms"),
            ttfa_ms=number("ttfa_ms"),
            total_ms=number("total_ms"),
            end_ms=number("end_ms"),
            connect_ms=number("connect_ms"),
            first_byte_ms=number("first_byte_ms"),
            output_tokens=whole("output_tokens"),
            token_source=cell.token_source,
            prompt_tokens=whole("prompt_tokens"),
            cached_tokens=whole("cached_tokens"),
            chunks=whole("chunks") or 0,
            decode_rate=number("decode_rate"),
            tpot_ms=number("tpot_ms"),
        )
        self.sent_s = (number("started_ms") or 0.0) / 1000
        last = max(number(name) or 0.0 for name in ("end_ms", "total_ms", "first_byte_ms", "ttft_ms"))
        self.over_s = self.sent_s + last / 1000

    def chunks_at(self, now_s: float) -> float:
        """Output chunks by then, spread evenly between the first token and the last."""
        figures = self.figures
        if figures.ttft_ms is None:
            return 0.0
        first = self.sent_s + figures.ttft_ms / 1000
        last = self.sent_s + (figures.total_ms or figures.ttft_ms) / 1000
        if now_s < first:
            return 0.0
        if now_s >= last or last <= first:
            return float(figures.chunks)
        return 1 + (figures.chunks - 1) * (now_s - first) / (last - first)

    def row(self, now_s: float) -> Row:
        """The request in flight."""
        chunks = int(self.chunks_at(now_s))
        return Row(
            index=self.figures.index,
            state="stream" if chunks else "waiting",
            wait_ms=(now_s - self.sent_s) * 1000,
            ttft_ms=self.figures.ttft_ms if chunks else None,
            chunks=chunks,
            rate=self.figures.decode_rate if chunks > 2 else None,
        )

    def trace(self) -> RequestTrace:
        """A bare trace: stamps and counts, no text and no chunks."""
        figures = self.figures
        return RequestTrace(
            index=figures.index,
            prompt=figures.prompt,
            sent_ns=int(self.sent_s * 1e9),
            end_ns=int(self.over_s * 1e9),
            arrivals=Arrivals(),
            finish=figures.finish,
            outcome=figures.outcome,  # type: ignore[arg-type]
            error_class=figures.error_class,
            error=figures.error,
            usage=Usage(prompt=figures.prompt_tokens, completion=figures.output_tokens),
            content="(a record keeps no text)" if figures.outcome == "ok" else "",
        )


def _figures_of(cell: CellTable, requests: list[RequestFigures]) -> CellFigures:
    """The cell's stored figures in the form the live session tells them."""
    return CellFigures(
        requests=cell.requests,
        ok=cell.ok,
        failed=cell.failed,
        cancelled=cell.cancelled,
        empty=cell.empty,
        success_rate=cell.success_rate,
        token_source=cell.token_source,
        window_s=cell.window_s,
        throughput=cell.throughput,
        partial_share=cell.partial_share or 0.0,
        steady_throughput=cell.steady_throughput,
        steady_share=cell.steady_share,
        request_rate=cell.request_rate,
        goodput=cell.goodput,
        in_flight_peak=cell.in_flight_peak,
        in_flight_mean=cell.in_flight_mean,
        slow_requests=cell.slow_requests,
        jitter=cell.jitter,
        coalesced_share=cell.coalesced_share,
        stats=cell.stats,
        errors=cell.errors,
        finish=cell.finish,
        decode_absent=cell.decode_absent,
        per_request=requests,
    )


def server_of(record: Record) -> ServerView:
    """The server as the record names it; its address is left out."""
    servers = record.environment.get("server", [])
    first = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], dict) else {}
    engine, version, model, quant = (str(first.get(name, "")) for name in ("engine", "version", "model", "quant"))
    return ServerView(
        id=str(first.get("id", "recorded")), base_url="", engine=engine, version=version, model=model, quant=quant
    )


def replay_events(record: Record) -> Iterator[tuple[float, Event]]:
    """(seconds since the start, event) of the whole session. Raises BadInput when its plan or a cell can't be read."""
    plan = plan_from_table(record.plan)
    planned = [
        CellPlan(
            index=number,
            round=cell.round,
            arm=cell.arm,
            setting=from_assignment(dict(cell.variables)),
            requests=cell.requests,
            warmup=0,
        )
        for number, cell in enumerate(record.cells)
    ]
    prompts = {
        str(prompt.get("name", "")): (prompt.get("tokens"), str(prompt.get("token_source", "")))
        for prompt in record.plan.get("prompts", [])
        if isinstance(prompt, dict)
    }
    whole = sum((cell.window_s or 0.0) for cell in record.cells)
    yield 0.0, ServerChanged(server_of(record))
    yield 0.0, SessionStarted(plan=plan, cells=planned, prompt_tokens=prompts, predicted_s=whole)
    base = 0.0
    for number, (cell, planned_cell) in enumerate(zip(record.cells, planned, strict=True)):
        yield (
            base,
            CellStarted(
                cell=planned_cell, number=number + 1, of=len(planned), phase="measuring", eta_s=max(0.0, whole - base)
            ),
        )
        count = len(cell.per_request.get("outcome", []))
        requests = [Played(cell, index) for index in range(count)]
        yield from _cell_events(cell, number, requests, base, whole)
        base += max([item.over_s for item in requests], default=cell.window_s or 0.0)
        figures = _figures_of(cell, [item.figures for item in requests])
        yield base, CellEnded(cell=planned_cell, figures=figures, table=cell)
    if record.verdict is not None:
        yield base, VerdictChanged(record.verdict)
    session = record.session
    yield base, SessionEnded(record=record, path="", status=session.status, reason=session.reason)


def _cell_events(
    cell: CellTable, number: int, requests: list[Played], base: float, whole: float
) -> Iterator[tuple[float, Event]]:
    ending = sorted(requests, key=lambda item: item.over_s)
    per_chunk = _tokens_a_chunk(requests)
    ok = failed = done = 0
    now = 0.0
    while done < len(ending):
        now += TICK_S
        while done < len(ending) and ending[done].over_s <= now:
            item = ending[done]
            done += 1
            ok += item.figures.outcome == "ok"
            failed += item.figures.outcome == "failed"
            yield base + item.over_s, RequestEnded(cell=number, warmup=False, figures=item.figures, trace=item.trace())
        flying = [item for item in requests if item.sent_s <= now < item.over_s]
        window = min(now, 1.0)
        before = now - window
        chunks = sum(
            item.chunks_at(now) - item.chunks_at(before)
            for item in requests
            if item.sent_s <= now and item.over_s >= before
        )
        rate = chunks * per_chunk / window
        yield (
            base + now,
            Live(
                cell=number,
                phase="measuring",
                elapsed_s=now,
                eta_s=max(0.0, whole - base - now),
                sent=sum(item.sent_s <= now for item in requests),
                finished=done,
                ok=ok,
                failed=failed,
                in_flight=len(flying),
                tokens_rate=rate,
                each=rate / len(flying) if flying else None,
                lag_p99_ms=0.0,
                rows=[item.row(now) for item in sorted(flying, key=lambda item: -item.figures.index)],
            ),
        )


def _tokens_a_chunk(requests: list[Played]) -> float:
    counted = [item.figures for item in requests if item.figures.output_tokens and item.figures.chunks]
    chunks = sum(item.chunks for item in counted)
    return sum(item.output_tokens or 0 for item in counted) / chunks if chunks else 1.0


async def play(
    record: Record,
    model: LiveModel,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Play a record on the model, at the pace it was measured. Raises BadInput when it can't be read."""
    if not record.cells:
        raise BadInput("there is nothing to play: the session has no finished cell")
    model.replay = True
    model.begin(mode_of(plan_from_table(record.plan)))
    model.setting = from_assignment(dict(record.cells[-1].variables))
    clock = 0.0
    try:
        for at, event in replay_events(record):
            if stopped():
                break
            if at > clock:
                await sleep(at - clock)
                clock = at
            model.receive(event)
    finally:
        model.running = False
        model.touch()
