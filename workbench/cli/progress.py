"""Progress on stderr while a session runs: one line that updates on a terminal, one line a cell anywhere else."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from time import monotonic
from typing import TextIO

from workbench.cli.layout import cell_width, cut, wrap
from workbench.cli.notes import is_steady
from workbench.domain.plan import CellPlan, Plan
from workbench.domain.record import CellTable
from workbench.domain.text import one_line
from workbench.domain.variables import show_value, value_of
from workbench.session.events import (
    CellEnded,
    CellStarted,
    Event,
    Live,
    Notice,
    ServerChanged,
    ServerView,
    SessionEnded,
    SessionStarted,
)
from workbench.session.runner import duration_text

REPAINT_S = 0.2


class Progress:
    """A listener that tells stderr how a session goes.

    `started`: its plan is settled, so it can be stopped in order. `cells_done`: cells that are over, and saved.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._is_terminal()
        self._painted = False
        self._last_paint = 0.0
        self._plan: Plan | None = None
        self._place = ""
        self.started = False
        self.cells_done = 0

    def _is_terminal(self) -> bool:
        with suppress(ValueError, OSError):
            return self._stream.isatty() and os.environ.get("TERM", "") != "dumb"
        return False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Live):
            self._paint(self._live_parts(event))
        elif isinstance(event, CellStarted):
            self._place = self._place_text(event)
            self._paint([self._place, event.phase, left_text(event.eta_s)], at_once=True)
        elif isinstance(event, CellEnded):
            self.cells_done += 1
            self._print(f"{self._setting_text(event.cell) or 'done'}: {cell_text(event.table)}")
        elif isinstance(event, Notice):
            self.notice(event)
        elif isinstance(event, ServerChanged):
            self._print(server_text(event.server))
        elif isinstance(event, SessionStarted):
            self.started = True
            self._plan = event.plan
            self._print(plan_text(event))
        elif isinstance(event, SessionEnded):
            self._ended(event)

    def notice(self, notice: Notice) -> None:
        """A line for the user; progress replaces itself on a terminal and is left out elsewhere."""
        if notice.level == "progress":
            self._paint([notice.text], at_once=True)
        else:
            self._print(f"warning: {notice.text}" if notice.level == "warning" else notice.text)

    def clear(self) -> None:
        """Take the updating line away."""
        if self._painted:
            self._write("\r\x1b[K")
            self._painted = False

    def _ended(self, event: SessionEnded) -> None:
        if event.status != "complete":
            self._print(f"{event.status}: {event.reason}")
        elif event.reason:
            self._print(event.reason)
        if event.path:
            self._print(f"saved: {event.path}")
        self.clear()

    def _print(self, text: str) -> None:
        self.clear()
        lines = wrap(text, self._columns(), indent="  ", first="") if self._live else [one_line(text)]
        self._write("".join(f"{line}\n" for line in lines))

    def _paint(self, parts: list[str], at_once: bool = False) -> None:
        now = monotonic()
        if not self._live or (not at_once and now - self._last_paint < REPAINT_S):
            return
        self._last_paint = now
        # The last column stays free: writing into it makes some terminals wrap.
        room = max(self._columns() - 1, 1)
        while len(parts) > 1 and cell_width("  ".join(map(one_line, parts))) > room:
            parts = parts[:-1]
        self._write("\r\x1b[K" + cut("  ".join(map(one_line, parts)), room))
        self._painted = True

    def _columns(self) -> int:
        """Of the terminal that progress goes to, which need not be the one of stdout."""
        with suppress(ValueError):
            return int(os.environ.get("COLUMNS", ""))
        with suppress(OSError, ValueError):
            return os.get_terminal_size(self._stream.fileno()).columns
        return 80

    def _write(self, text: str) -> None:
        # A terminal that has gone away (a dropped connection) must not end the session that is being saved.
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()

    def _setting_text(self, cell: CellPlan) -> str:
        """What tells the cell from the others; "" when it is the only one."""
        plan = self._plan
        if plan is None:
            return ""
        value = f"{plan.varied} {show_value(value_of(cell.setting, plan.varied))}" if plan.varied else ""
        return f"{value} round {cell.round}".strip() if plan.rounds > 1 else value

    def _place_text(self, event: CellStarted) -> str:
        of = f"{event.number}/{event.of}" if event.of > 1 else ""
        return f"{of} {self._setting_text(event.cell)}".strip() or "measuring"

    def _live_parts(self, live: Live) -> list[str]:
        return [
            self._place,
            f"{live.in_flight} in flight",
            f"{live.ok} ok",
            *([f"{live.failed} FAILED"] if live.failed else []),
            f"{live.tokens_rate:.0f} tokens/s",
            left_text(live.eta_s),
        ]


def left_text(eta_s: float | None) -> str:
    """The time left as a person says it; nothing is made up while nothing is known."""
    return "time left not known yet" if eta_s is None else f"about {duration_text(eta_s)} left"


def plan_text(event: SessionStarted) -> str:
    """What is about to be measured, and how long it will take if that can be told."""
    plan = event.plan
    count = len(event.cells)
    size = f"{plan.duration:g} s" if plan.duration is not None else _requests_text(event.cells)
    varied = f"{plan.varied} {', '.join(show_value(value) for value in plan.values)}" if plan.varied else "one setting"
    rounds = f", {plan.rounds} rounds" if plan.rounds > 1 else ""
    prompts = ", ".join(
        f"{name} ({tokens} tokens)" if tokens is not None else name for name, (tokens, _) in event.prompt_tokens.items()
    )
    long = "" if event.predicted_s is None else f"; about {duration_text(event.predicted_s)}"
    cells = f"{count} cells" if count > 1 else "1 cell"
    return f"{cells}: {varied}{rounds}, {size} each; prompt {prompts or 'none'}, max_tokens {plan.baseline.max_tokens}{long}"


def _requests_text(cells: list[CellPlan]) -> str:
    counts = sorted({cell.requests for cell in cells})
    most = f"{counts[-1]} request{'' if counts[-1] == 1 else 's'}" if counts else "no requests"
    return most if len(counts) < 2 else f"{counts[0]} to {most}"


def server_text(server: ServerView) -> str:
    """The server in one line."""
    parts = [
        f"{server.engine or 'server'} {server.version}".strip() + f" at {server.base_url}",
        f"{server.model} {server.quant}".strip(),
        "" if server.context is None else f"context {server.context}",
        "" if server.slots is None else f"{server.slots} slots",
    ]
    return ", ".join(part for part in parts if part)


def cell_text(cell: CellTable) -> str:
    """A finished cell in one line."""
    parts = [f"{cell.ok} ok"]
    if cell.failed:
        parts.append(f"{cell.failed} FAILED")
    if cell.cancelled:
        parts.append(f"{cell.cancelled} cancelled")
    for name, words, unit in (("ttft_ms", "TTFT", "ms"), ("decode_rate", "each", "tokens/s")):
        stats = cell.stats.get(name)
        if stats is not None:
            parts.append(f"{words} {stats.p50:.{0 if stats.p50 >= 100 else 1}f} {unit}")
    rate = cell.steady_throughput if is_steady(cell) else cell.throughput
    if rate is not None:
        parts.append(f"all {rate:.1f} tokens/s")
    return ", ".join(parts)
