"""The cells of a session: a sweep as a growing table with its failures, an A/B as intervals that narrow."""

from __future__ import annotations

import math

from workbench.domain.record import KindVerdict
from workbench.domain.text import one_line
from workbench.tui import figures as fmt
from workbench.tui.model import CellSummary
from workbench.tui.widgets.pane import Line, Pane, fit, line_width, right

KINDS = {
    "ttft": "TTFT",
    "request_time": "request",
    "decode_rate": "decode",
    "throughput": "all tok/s",
    "capacity": "capacity",
}
"""Kinds of speed by their short names, in the order shown."""
KIND = 10
CALLS = {"no difference shown": "no diff.", "not comparable": "not comp."}


def call_word(kind: KindVerdict) -> str:
    """A verdict's call in at most nine characters."""
    return CALLS.get(kind.call, kind.call)


def interval_bar(kind: KindVerdict, width: int) -> str:
    """The ratio's interval around 1 (the bar in the middle), turned so that better is to the right.

    The scale is the square root of the log, to four times either way: a small difference can still be seen.
    """
    middle = width // 2

    def place(ratio: float) -> int:
        logs = math.log(max(min(ratio, 4.0), 0.25)) / math.log(4.0)
        if kind.better == "lower":
            logs = -logs
        return min(width - 1, max(0, middle + round(math.copysign(math.sqrt(abs(logs)), logs) * middle)))

    cells = [" "] * width
    if kind.low and kind.high:
        ends = sorted((place(kind.low), place(kind.high)))
        for column in range(ends[0], ends[1] + 1):
            cells[column] = "━"
    cells[middle] = "│" if cells[middle] == " " else "┼"
    if kind.ratio:
        cells[place(kind.ratio)] = "●"
    return "".join(cells)


class Cells(Pane):
    """Beside the requests while a plan has more than one cell."""

    model_name = "cells"
    letter = "c"
    topic = "cells"

    def title(self) -> str:
        model = self.bench_app.model
        varied = model.plan.varied if model.plan is not None else ""
        word = {"ab": "A/B", "soak": "soak", "ladder": "ladder"}.get(model.mode, "sweep")
        if model.mode == "ab" and model.plan is not None and len(model.plan.values) == 2:
            names = {cell.arm: model.cell_label(cell) for cell in model.planned}
            return f"A/B · {varied} {one_line(names.get('A', ''), 12)} / {one_line(names.get('B', ''), 12)}"
        return f"{word} · {varied}" if varied else word

    def corner(self) -> Line:
        model = self.bench_app.model
        done = len(model.cells)
        if model.soak:
            return [(f"{done} min", self.look.muted)]
        if model.mode == "ab" and model.plan is not None:
            return [(f"round {min(model.plan.rounds, done // 2 + 1)} of {model.plan.rounds}", self.look.muted)]
        return [(f"{done} of {model.of}", self.look.muted)]

    def lines(self, width: int, height: int) -> list[Line]:
        if self.bench_app.model.mode == "ab":
            return self._intervals(width, height)
        return self._table(width, height)

    def _table(self, width: int, height: int) -> list[Line]:
        look = self.look
        model = self.bench_app.model
        cells = list(model.cells)
        running = model.running_cell()
        if running is not None:
            cells.append(running)
        label = max(6, min(16, width - 40))
        wide = width >= label + 56
        head = (
            right("minute" if model.soak else "at", label)
            + right("ok", 5)
            + right("TTFT", 7)
            + right("tail", 6)
            + right("each", 6)
            + right("all", 6)
            + (right("in flight", 11) if wide else "")
            + right("FAILED", 7)
        )
        result: list[Line] = [[(fit(head, width), look.muted)]]
        if not cells:
            result.append([(fit("  - the first cell is warming up", width), look.muted)])
        for number, cell in enumerate(cells[-(height - 1) :], start=max(1, len(cells) - height + 2)):
            name = str(number) if model.soak else one_line(cell.label, label)
            ink = look.bright if cell.running else look.text
            line: Line = [
                (("▸" if cell.running else " ") + right(name, label - 1), look.accent if cell.running else look.text),
                (
                    right(str(cell.ok), 5)
                    + right(fmt.milliseconds(cell.ttft_p50), 7)
                    + right(fmt.milliseconds(cell.tail[0]), 6)
                    + right(fmt.rate(cell.each), 6)
                    + right(fmt.rate(cell.throughput), 6)
                    + (right(fmt.count(cell.in_flight_peak), 11) if wide else ""),
                    ink,
                ),
            ]
            line.append((right(str(cell.failed or "-"), 7), look.trouble if cell.failed else look.muted))
            room = width - line_width(line) - 2
            if cell.errors and room > 6:
                worst = max(cell.errors, key=lambda name: cell.errors[name])
                line.append((f"  {fit(one_line(worst), room)}", look.trouble))
            result.append(line)
        return result

    def _intervals(self, width: int, height: int) -> list[Line]:
        """A line a kind: its interval around 1, the ratio, its bounds, the call in a word."""
        look = self.look
        model = self.bench_app.model
        verdict = model.verdict
        room = max(5, min(41, width - KIND - 7 - 11 - 11))
        middle = room // 2
        sides = f"{'worse':>{middle - 1}} │ better" if middle > 6 else f"{'│':>{middle + 1}}"
        head = fit("", KIND) + fit(sides, room) + right("B / A", 7) + right("95 %", 11)
        result: list[Line] = [[(fit(head, width), look.muted)]]
        for key, name in KINDS.items():
            kind = verdict.kinds.get(key) if verdict is not None else None
            if kind is None or (key == "capacity" and kind.ratio is None):
                if key != "capacity":
                    result.append([(fit(name, KIND), look.muted), (fit("-", room), look.muted)])
                continue
            bounds = f"{kind.low:.2f}-{kind.high:.2f}" if kind.low is not None and kind.high is not None else "-"
            word = call_word(kind)
            strong = kind.call in ("faster", "slower")
            ink = look.accent if kind.call == "faster" else look.trouble if kind.call == "slower" else look.text
            result.append(
                [
                    (fit(name, KIND), look.text),
                    (interval_bar(kind, room), ink),
                    (right(fmt.ratio(kind.ratio), 7), look.bright if strong else look.text),
                    (right(bounds, 11), look.muted),
                    (f"  {word}", ink),
                ]
            )
        return result + self._rounds(width, height - len(result))

    def _rounds(self, width: int, height: int) -> list[Line]:
        """The rounds so far, the newest last, in both sides' own figures."""
        look = self.look
        if height < 3:
            return []
        rounds: dict[int, dict[str, CellSummary]] = {}
        for cell in self.bench_app.model.cells:
            rounds.setdefault(cell.round, {})[cell.arm] = cell
        running = self.bench_app.model.running_cell()
        if running is not None:
            rounds.setdefault(running.round, {})[running.arm] = running
        head = right("round", 7) + right("TTFT A", 9) + right("B", 7) + right("all A", 9) + right("B", 7) + "  failed"
        result: list[Line] = [[], [(fit(head, width), look.muted)]]
        for number, sides in sorted(rounds.items())[-(height - 2) :]:
            a, b = sides.get("A"), sides.get("B")
            failed = sum(side.failed for side in sides.values())
            text = (
                right(str(number), 7)
                + right(fmt.milliseconds(a.ttft_p50 if a else None), 9)
                + right(fmt.milliseconds(b.ttft_p50 if b else None), 7)
                + right(fmt.rate(a.throughput if a else None), 9)
                + right(fmt.rate(b.throughput if b else None), 7)
            )
            result.append([(text, look.text), (f"  {failed or '-'}", look.trouble if failed else look.muted)])
        return result
