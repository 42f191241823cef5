"""What `run`, `ab` and `rerun` share: agree, connect, measure with progress, print the result, choose the exit status."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from workbench.cli.consent import agree
from workbench.cli.gates import missed
from workbench.cli.layout import is_terminal, terminal_width
from workbench.cli.notes import keeps_limits
from workbench.cli.options import RunOptions, bench_options, plan_of, requests_of
from workbench.cli.plots import plots
from workbench.cli.progress import Progress
from workbench.cli.safely import complain, json_text, say
from workbench.cli.status import BAD_INPUT, DONE, INTERRUPTED, MISSED
from workbench.cli.summary import cold_start_lines, error_lines
from workbench.cli.tables import cells_table, limits_of, verdict_lines
from workbench.domain.plan import Plan, cells
from workbench.domain.record import Record
from workbench.domain.variables import BadInput, Setting
from workbench.records.atomic import ready_folder
from workbench.records.redact import redact_command
from workbench.records.store import as_json
from workbench.session.live_bench import LiveBench, make_bench

SIGNALS = {"SIGINT": "stopped by Ctrl-C", "SIGTERM": "stopped by SIGTERM", "SIGHUP": "the terminal went away"}


class Order(msgspec.Struct, kw_only=True):
    """What to measure: `plan` makes the plan of the setting that the target settled on; `requests_of` an arm's requests.

    `restored`: the prompts of a record that is run again, by name. `unsaved` is filled in: why the result is not on disk.
    """

    options: RunOptions
    plan: Callable[[Setting], Plan]
    requests_of: Callable[[Plan], dict[str, int]]
    restored: dict[str, Any] | None = None
    unsaved: str = ""


def measure(order: Order) -> int:
    """Measure, print, and say how it went.

    Raises BadInput, NoServer when nothing could be measured, SaveTrouble when the folder can't be used.
    """
    check_gates(order.options)
    record = measured(order)
    if record is None:
        return INTERRUPTED
    report(record, order.options)
    if order.unsaved:
        complain(order.unsaved)
        return BAD_INPUT
    return status_of(record, order.options)


def measured(order: Order) -> Record | None:
    """The record, partial when it was stopped; None, said on stderr, when it was stopped at once.

    Raises BadInput, NoServer when nothing could be measured, SaveTrouble when it could not be saved.
    """
    options = order.options
    agreed = agree(options, order.plan(options.setting), order.requests_of)
    if options.sessions is not None:
        ready_folder(options.sessions)
    progress = Progress()
    try:
        record = asyncio.run(_measured(order, agreed, progress))
    finally:
        progress.clear()
    if record is None:
        kept = f"{progress.cells_done} finished cells are kept" if progress.cells_done else "nothing was measured"
        complain(f"interrupted at once: {kept}")
    return record


def check_gates(options: RunOptions) -> None:
    """Raises BadInput for a gate on a verdict that can't be there."""
    for gate in options.gates:
        if gate.of_verdict and not options.varied:
            raise BadInput(f"--fail-on {gate.text!r}: there is a verdict only where something is varied")


async def _measured(order: Order, agreed: bool, progress: Progress) -> Record | None:
    """The record, partial when it was stopped; None when it was stopped before there was any."""
    command = redact_command(["workbench", *sys.argv[1:]])
    options = msgspec.structs.replace(order.options, yes=agreed)
    bench = make_bench(bench_options(options, command), progress.notice)
    work = asyncio.ensure_future(_work(bench, order, progress))
    _heed_signals(bench, work, progress)
    try:
        record = await work
        order.unsaved = bench.unsaved
        return record
    except asyncio.CancelledError:
        return None
    finally:
        await bench.close()


async def _work(bench: LiveBench, order: Order, progress: Progress) -> Record:
    await bench.connect()
    plan = order.plan(bench.start_setting())
    if not plan.limits:
        plan = msgspec.structs.replace(plan, limits=dict(bench.settings.limits))
    requests = order.requests_of(plan)
    if plan.duration is None and plan.arrival == "closed":
        for cell in cells(plan, requests):
            if cell.requests < cell.setting.concurrency and cell.round == 1:
                complain(f"warning: {cell.requests} requests can't keep {cell.setting.concurrency} in flight")
    return await bench.measure(
        plan,
        progress,
        name=order.options.name,
        notes=order.options.note,
        requests_of=requests,
        restored=order.restored,
    )


def _heed_signals(bench: LiveBench, work: asyncio.Future[Record], progress: Progress) -> None:
    """The first signal stops the session, which then saves what it has; the second one ends it at once."""
    seen = 0

    def heed(reason: str) -> None:
        nonlocal seen
        seen += 1
        if seen > 1 or not progress.started:
            work.cancel()
        else:
            bench.stop(reason)

    loop = asyncio.get_running_loop()
    for name, reason in SIGNALS.items():
        with suppress(AttributeError, NotImplementedError):
            loop.add_signal_handler(getattr(signal, name), heed, reason)


def report(record: Record, options: RunOptions) -> None:
    """The result on stdout: the record as JSON, or table, cold start, errors and verdict, with plots on a terminal."""
    if options.json:
        say(json_text(as_json(record)))
        return
    width = terminal_width()
    lines = [*cells_table(record, width), *cold_start_lines(record, width)]
    for part in (error_lines(record, width), verdict_lines(record.verdict, width) if record.verdict else []):
        if part:
            lines += ["", *part]
    if options.plots or (is_terminal() and os.environ.get("TERM") != "dumb"):
        for plot in plots(record, width):
            lines += ["", plot]
    for line in lines:
        say(line)


def status_of(record: Record, options: RunOptions) -> int:
    """The exit status of a measured session; what made it 1 is said on stderr."""
    reasons = []
    failed = sum(cell.failed for cell in record.cells)
    if failed:
        reasons.append(f"{failed} of {sum(cell.requests for cell in record.cells)} requests failed")
    limits = limits_of(record)
    broken = [cell.id for cell in record.cells if not keeps_limits(cell, limits)]
    if broken:
        reasons.append(f"limits missed in cell {', '.join(map(str, broken))}")
    for gate in options.gates:
        why = missed(gate, record)
        if why:
            reasons.append(f"--fail-on {gate.text!r}: {why}")
    if record.session.status == "failed":
        reasons.append(record.session.reason or "the session failed")
    for reason in reasons:
        complain(reason)
    if record.session.status == "interrupted":
        return INTERRUPTED
    return MISSED if reasons else DONE


def default_order(options: RunOptions, ab: bool = False) -> Order:
    """The order of `run` and `ab`: the plan comes from the options."""
    return Order(
        options=options,
        plan=lambda setting: plan_of(options, setting, ab),
        requests_of=lambda plan: requests_of(options, plan, ab),
    )
