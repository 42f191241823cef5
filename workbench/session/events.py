"""What a session tells its listeners while it runs: the CLI prints it, the TUI shows it. Immutable; latest wins.

A listener is any callable that takes one event. It is called on the session's own event loop and must return at once.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from workbench.domain.cell import CellFigures
from workbench.domain.events import RequestTrace
from workbench.domain.metrics import RequestFigures
from workbench.domain.plan import CellPlan, Plan
from workbench.domain.record import CellTable, Record, Verdict
from workbench.measure.protocol import Row as Row


class ServerView(msgspec.Struct, frozen=True, kw_only=True):
    """The server as the status line names it; "" is unknown."""

    id: str
    base_url: str
    engine: str = ""
    version: str = ""
    model: str = ""
    quant: str = ""
    context: int | None = None
    slots: int | None = None
    local: bool = True


class MemoryView(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the memory pane. MiB; `kind` is gpu, unified, host or process; `share` is the device's use 0..1."""

    name: str
    kind: str
    used_mib: float | None = None
    total_mib: float | None = None
    peak_mib: float | None = None
    others_mib: float | None = None
    utilisation: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    note: str = ""


class CountersView(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own counters, where it tells; None is not told. kv_use is 0..1."""

    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None


class SessionStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The plan is settled. `prompt_tokens`: name -> (tokens or None, source). `predicted_s` None when it can't be told."""

    plan: Plan
    cells: list[CellPlan]
    prompt_tokens: dict[str, tuple[int | None, str]]
    predicted_s: float | None = None


class ServerChanged(msgspec.Struct, frozen=True):
    """The server in use: at the start, and whenever flipping engine, model or quant changes it."""

    server: ServerView


class Notice(msgspec.Struct, frozen=True):
    """One line for the user. `level`: info, progress (replaces the last progress), warning."""

    level: str
    text: str


class CellStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A cell begins, or passes to its next phase: "warm-up", "measuring", "draining". `eta_s`: of the whole session."""

    cell: CellPlan
    number: int
    of: int
    phase: str
    eta_s: float | None = None


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """A few times a second while a cell runs: what is in flight, and the rates of the last second.

    `tokens_rate` (all streams) is chunks/s times tokens a chunk so far; `each` is the mean over streams in flight.
    """

    cell: int
    phase: str
    elapsed_s: float
    eta_s: float | None
    sent: int
    finished: int
    ok: int
    failed: int
    in_flight: int
    tokens_rate: float
    each: float | None
    lag_p99_ms: float
    rows: list[Row]
    memory: list[MemoryView] = []
    counters: CountersView | None = None


class RequestEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A request has ended. Warm-up requests come too, marked; they enter no figure."""

    cell: int
    warmup: bool
    figures: RequestFigures
    trace: RequestTrace


class CellEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A cell's figures are final and, when saving, on disk."""

    cell: CellPlan
    figures: CellFigures
    table: CellTable


class VerdictChanged(msgspec.Struct, frozen=True):
    """After a round that lets a comparison be made (A/B, sweep): what can be said so far."""

    verdict: Verdict


class SessionEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The session is over. `path`: the saved record, "" when not saved."""

    record: Record
    path: str
    status: str
    reason: str = ""


Event = (
    SessionStarted
    | ServerChanged
    | Notice
    | CellStarted
    | Live
    | RequestEnded
    | CellEnded
    | VerdictChanged
    | SessionEnded
)
Listener = Callable[[Event], None]
