"""What the live screen shows, kept in a plain class: events change it, panes read it at their next repaint."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter

import msgspec

from workbench.domain.cell import CellFigures, percentile, stated_throughput
from workbench.domain.plan import CellPlan, Plan
from workbench.domain.record import Record, Verdict
from workbench.domain.variables import Setting, differences, show_value, value_of
from workbench.session.events import (
    CellEnded,
    CellStarted,
    CountersView,
    Event,
    Live,
    MemoryView,
    Notice,
    RequestEnded,
    ServerChanged,
    ServerView,
    SessionEnded,
    SessionStarted,
    VerdictChanged,
)
from workbench.tui.requestlog import RequestLog

POINTS_KEPT = 20_000
SOAK_WINDOW_S = 300.0
CELLS_KEPT = 500
ALL_PANES = frozenset({"status", "variables", "ttft", "rate", "memory", "requests", "cells", "verdict"})


class CellSummary(msgspec.Struct, kw_only=True):
    """One finished or running cell as tables and charts show it. ms and tokens/s; None is absent."""

    label: str
    arm: str = ""
    round: int = 1
    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    n: int = 0
    ttft_p50: float | None = None
    ttft_p95: float | None = None
    ttft_max: float | None = None
    total_p50: float | None = None
    each: float | None = None
    throughput: float | None = None
    in_flight_peak: int | None = None
    errors: dict[str, int] = {}
    running: bool = False

    @property
    def tail(self) -> tuple[float | None, str]:
        """The slow end of TTFT with its name: p95, or from fewer than 20 requests the maximum, which it then is."""
        return (self.ttft_p95, "p95") if self.n >= 20 else (self.ttft_max, "max")


def summary_of(figures: CellFigures, label: str, arm: str = "", round_: int = 1) -> CellSummary:
    """A cell's figures in short."""
    ttft = figures.stats.get("ttft_ms")
    total = figures.stats.get("total_ms")
    decode = figures.stats.get("decode_rate")
    return CellSummary(
        label=label,
        arm=arm,
        round=round_,
        ok=figures.ok,
        failed=figures.failed,
        cancelled=figures.cancelled,
        n=ttft.n if ttft else 0,
        ttft_p50=ttft.p50 if ttft else None,
        ttft_p95=ttft.p95 if ttft else None,
        ttft_max=ttft.max if ttft else None,
        total_p50=total.p50 if total else None,
        each=decode.p50 if decode else None,
        throughput=stated_throughput(figures),
        in_flight_peak=figures.in_flight_peak,
        errors=dict(figures.errors),
    )


class LiveModel:
    """The state of the screen. `touched` names the panes whose content has changed since it was last taken."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self.touched: set[str] = set(ALL_PANES)
        self.server: ServerView | None = None
        self.memory: list[MemoryView] = []
        self.counters: CountersView | None = None
        self.setting: Setting | None = None
        self.baseline: Setting | None = None
        self.baseline_cell: CellSummary | None = None
        self.last_changed = ""
        self.selected = "concurrency"
        self.mode = "run"
        self.replay = False
        self.paused = False
        self.running = False
        self.stopping = False
        self.sentence = ""
        self.alert = ""
        self.hint = ""
        self.notice = ""
        self.saved_path = ""
        self.record: Record | None = None
        self.requests = RequestLog()
        self._reset_session()

    def _reset_session(self) -> None:
        self.plan: Plan | None = None
        self.planned: list[CellPlan] = []
        self.cell: CellPlan | None = None
        self.number = self.of = 0
        self._enter("")
        self.status = ""
        self.eta_s: float | None = None
        self.elapsed_s = 0.0
        self.ok = self.failed = self.cancelled = 0
        self.sent = self.in_flight = 0
        self.lag_p99_ms = 0.0
        self.verdict: Verdict | None = None
        self.cells: deque[CellSummary] = deque(maxlen=CELLS_KEPT)
        self._eta_at = 0.0
        self._began = self._clock()
        self._reset_cell()

    def _reset_cell(self) -> None:
        self.cell_began = self._clock()
        self.cell_ok = self.cell_failed = 0
        self.tokens_rate: float | None = None
        self.each: float | None = None
        self.finished_cell: CellSummary | None = None
        self.errors: dict[str, int] = {}
        self.ttft: deque[tuple[float, float]] = deque(maxlen=POINTS_KEPT)
        self.failures: deque[float] = deque(maxlen=POINTS_KEPT)
        self.rates: deque[tuple[float, float]] = deque(maxlen=POINTS_KEPT)
        self._early: dict[int, tuple[float, float]] = {}

    @property
    def session_elapsed(self) -> float:
        """Seconds since the measurement was asked for."""
        return self._clock() - self._began

    @property
    def now(self) -> float:
        """Seconds of the model's clock."""
        return self._clock()

    @property
    def phase_elapsed(self) -> float:
        """Seconds since the phase began."""
        return self._clock() - self._phase_began

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self._phase_began = self._clock()

    def touch(self, *panes: str) -> None:
        """These panes' content has changed; with no name, all of them."""
        self.touched |= set(panes) or ALL_PANES

    def take_touched(self) -> set[str]:
        """The panes to look at now; forgotten with the asking."""
        touched, self.touched = self.touched, set()
        return touched

    @property
    def soak(self) -> bool:
        return self.mode == "soak"

    @property
    def differing(self) -> tuple[str, ...]:
        """The variables in which the current setting differs from the pinned baseline."""
        if self.baseline is None or self.setting is None:
            return ()
        return differences(self.baseline, self.setting)

    @property
    def eta_now(self) -> float | None:
        """Seconds left, counting down between two estimates; None when unknown or when it runs until stopped."""
        if self.eta_s is None or not self.running or self.soak:
            return None
        return max(0.0, self.eta_s - (self._clock() - self._eta_at))

    @property
    def x_range(self) -> tuple[float, float]:
        """The time axis, seconds since the cell (in a soak: the session) began."""
        last = max(self.rates[-1][0] if self.rates else 0.0, self.ttft[-1][0] if self.ttft else 0.0)
        if self.soak and last > SOAK_WINDOW_S:
            return last - SOAK_WINDOW_S, last
        return 0.0, max(last, 5.0)

    def ttft_points(self) -> list[tuple[float, float]]:
        """(seconds, ms) of every request with a first token, those still streaming included, in the window shown."""
        low = self.x_range[0]
        points = [point for point in self.ttft if point[0] >= low]
        return sorted([*points, *(point for point in self._early.values() if point[0] >= low)])

    def ttft_now(self) -> CellSummary:
        """The running TTFT figures: over ok requests, and those in flight that have their first token."""
        values = sorted(value for _, value in self.ttft_points())
        summary = CellSummary(label="", n=len(values))
        if values:
            summary.ttft_p50 = percentile(values, 0.5)
            summary.ttft_p95 = percentile(values, 0.95)
            summary.ttft_max = values[-1]
        return summary

    def receive(self, event: Event) -> None:
        """Take in what the session tells."""
        match event:
            case Live():
                self._live(event)
            case RequestEnded():
                self._request_ended(event)
            case CellStarted():
                self._cell_started(event)
            case CellEnded():
                self._cell_ended(event)
            case SessionStarted():
                self._session_started(event)
            case SessionEnded():
                self._session_ended(event)
            case ServerChanged(server):
                self.server = server
                self.touch("status", "variables")
            case VerdictChanged(verdict):
                self.verdict = verdict
                self.touch("verdict", "cells")
            case Notice(level, text):
                if level == "warning":
                    self.alert = text
                else:
                    self.notice = text
                self.touch("verdict")

    def begin(self, mode: str) -> None:
        """A measurement has been asked for; the session's own first event follows."""
        self._reset_session()
        self.mode = mode
        self.running, self.stopping = True, False
        self._enter("starting")
        self.sentence = self.alert = self.hint = self.notice = self.saved_path = ""
        self.requests.clear()
        self.touch()

    def _session_started(self, event: SessionStarted) -> None:
        self.plan = event.plan
        self.planned = event.cells
        self.of = len(event.cells)
        self._say_eta(event.predicted_s)
        tokens = [f"{name} {count} tokens" for name, (count, _) in event.prompt_tokens.items() if count]
        if tokens:
            self.notice = "prompt: " + ", ".join(tokens)
        self.touch()

    def _say_eta(self, seconds: float | None) -> None:
        self.eta_s = seconds
        self._eta_at = self._clock()

    def cell_label(self, cell: CellPlan) -> str:
        """What sets the cell apart: the varied variable's value, else the concurrency."""
        varied = self.plan.varied if self.plan is not None else ""
        return show_value(value_of(cell.setting, varied or "concurrency"))

    def _cell_started(self, event: CellStarted) -> None:
        if self.cell is None or self.cell.index != event.cell.index:
            varied = self.plan.varied if self.plan is not None else ""
            if self.soak and self.cell is not None:
                self.finished_cell, self.cell_ok, self.cell_failed, self.errors = None, 0, 0, {}
            else:
                self._reset_cell()
            if self.of > 1:
                text = f"{varied or 'round'} {self.cell_label(event.cell) if varied else event.cell.round}"
                many = self.plan is not None and self.plan.rounds > 1 and varied
                self.requests.heading(f"{text} · round {event.cell.round}" if many else text)
        if event.phase == "measuring" and not self.soak:
            self.cell_began = self._clock()
        self.cell = event.cell
        self.number, self.of = event.number, event.of
        self._enter(event.phase)
        if event.eta_s is not None:
            self._say_eta(event.eta_s)
        self.touch()

    def _live(self, event: Live) -> None:
        now = self._clock() - self.cell_began
        self.elapsed_s = event.elapsed_s
        self.sent, self.in_flight = event.sent, event.in_flight
        self.lag_p99_ms = event.lag_p99_ms
        self.tokens_rate, self.each = event.tokens_rate, event.each
        measuring = event.phase == "measuring"
        if measuring:
            self.rates.append((now, event.tokens_rate))
        self._say_eta(event.eta_s)
        for row in event.rows if measuring else ():
            if row.ttft_ms is not None and row.index not in self._early:
                self._early[row.index] = (now, row.ttft_ms)
        self.requests.rows(event.cell, event.rows, not measuring)
        if event.memory:
            self.memory = event.memory
        if event.counters is not None:
            self.counters = event.counters
        self.touch("status", "ttft", "rate", "requests", "memory", "cells")

    def _request_ended(self, event: RequestEnded) -> None:
        figures = event.figures
        self.requests.ended(event.cell, figures, event.trace, event.warmup)
        self.touch("requests", "status", "ttft", "cells")
        if event.warmup:
            return
        now = self._clock() - self.cell_began
        early = self._early.pop(figures.index, None)
        if figures.outcome == "ok":
            self.ok += 1
            self.cell_ok += 1
            if figures.ttft_ms is not None:
                self.ttft.append((early[0] if early else now, figures.ttft_ms))
        elif figures.outcome == "failed":
            self.failed += 1
            self.cell_failed += 1
            self.failures.append(now)
            self.errors[figures.error_class] = self.errors.get(figures.error_class, 0) + 1
        else:
            self.cancelled += 1

    def running_cell(self) -> CellSummary | None:
        """The cell under way in the form of a finished one."""
        if self.cell is None or not self.running or self.finished_cell is not None:
            return None
        now = self.ttft_now()
        return CellSummary(
            label=self.cell_label(self.cell),
            arm=self.cell.arm,
            round=self.cell.round,
            ok=self.cell_ok,
            failed=self.cell_failed,
            n=now.n,
            ttft_p50=now.ttft_p50,
            ttft_p95=now.ttft_p95,
            ttft_max=now.ttft_max,
            each=self.each,
            throughput=self.tokens_rate,
            errors=dict(self.errors),
            running=True,
        )

    def _cell_ended(self, event: CellEnded) -> None:
        label = self.cell_label(event.cell)
        self.finished_cell = summary_of(event.figures, label, event.cell.arm, event.cell.round)
        self.cells.append(self.finished_cell)
        self._early.clear()
        self.in_flight = 0
        self.touch()

    def _session_ended(self, event: SessionEnded) -> None:
        self.record = event.record
        self.saved_path = event.path
        self.status = event.status
        self.running = self.stopping = False
        self.phase = ""
        self.in_flight = 0
        self.verdict = event.record.verdict or self.verdict
        self.notice = ""
        if event.status != "complete" and event.reason:
            self.alert = f"{event.status}: {event.reason}"
        self.touch()
