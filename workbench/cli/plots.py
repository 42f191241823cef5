"""Plots of a saved session in the terminal: how TTFT is distributed, and what concurrency does to throughput."""

from __future__ import annotations

import os
from typing import Any

from workbench.cli.layout import cell_width, cut, figures, is_terminal, pad
from workbench.cli.notes import is_steady
from workbench.cli.tables import value_text, varied_of
from workbench.domain.record import CellTable, Record

HEIGHT = 14
WIDEST = 110
BINS = 24
ARMS_SHOWN = 8
LABEL = 16
BLOCKS = " ▁▂▃▄▅▆▇█"


def plots(record: Record, width: int) -> list[str]:
    """The plots that the record has something to show for, as text."""
    found = [ttft_plot(record, width)]
    if record.plan.get("varied") == "concurrency":
        found.append(ladder_plot(record, width))
    return [plot for plot in found if plot]


def ttft_plot(record: Record, width: int) -> str:
    """How TTFT is distributed over the ok requests of each arm; "" when there are fewer than two of them."""
    arms: dict[str, list[CellTable]] = {}
    for cell in record.cells:
        arms.setdefault(cell.arm, []).append(cell)
    varied = varied_of(record)
    series = [
        (cut(value_text(cells[0], varied), LABEL), points)
        for cells in list(arms.values())[:ARMS_SHOWN]
        if (points := [value for cell in cells for value in _ok(cell, "ttft_ms")])
    ]
    if sum(len(points) for _, points in series) < 2:
        return ""
    if len(series) == 1:
        return _histogram(series[0][1], width)
    return _strips(series, varied, width)


def _binned(points: list[float], low: float, step: float, bins: int) -> list[int]:
    counts = [0] * bins
    for value in points:
        counts[min(int((value - low) / step), bins - 1)] += 1
    return counts


def _histogram(points: list[float], width: int) -> str:
    low = min(points)
    step = (max(points) - low) / BINS or 1.0
    counts = _binned(points, low, step, BINS)
    plot = _canvas(width)
    plot.bar([low + step * (position + 0.5) for position in range(BINS)], counts, width=1, marker="sd")
    plot.ylim(0, max(counts))
    plot.yticks(sorted({0, max(counts) // 2, max(counts)}))
    plot.title("TTFT, ms: number of requests")
    return _built(plot)


def _strips(series: list[tuple[str, list[float]]], varied: str, width: int) -> str:
    """One small histogram a line, all on one axis: where each arm's requests lie, and how they overlap."""
    everything = [value for _, points in series for value in points]
    low, high = min(everything), max(everything)
    labels = max(cell_width(label) for label, _ in series)
    bins = min(width, WIDEST) - labels - 3
    step = (high - low) / bins or 1.0
    lines = [f"TTFT, ms, by {varied}: where the requests lie"]
    for label, points in series:
        counts = _binned(points, low, step, bins)
        tallest = max(counts)
        bars = "".join(BLOCKS[-(-count * (len(BLOCKS) - 1) // tallest)] for count in counts)
        lines.append(f"{pad(label, labels, right=True)} │{bars}│")
    ends = figures([low, high])
    lines.append(" " * (labels + 2) + ends[0] + pad(ends[1], bins - len(ends[0]), right=True))
    return "\n".join(lines)


def ladder_plot(record: Record, width: int) -> str:
    """Throughput against concurrency, mean over the rounds; "" when fewer than two rungs have any."""
    rungs: dict[int, list[float]] = {}
    for cell in record.cells:
        concurrency = cell.variables.get("concurrency")
        value = cell.steady_throughput if is_steady(cell) else cell.throughput
        if isinstance(concurrency, int) and value is not None:
            rungs.setdefault(concurrency, []).append(value)
    if len(rungs) < 2:
        return ""
    steps = sorted(rungs)
    plot = _canvas(width)
    means = [sum(rungs[step]) / len(rungs[step]) for step in steps]
    plot.plot(steps, means, marker="braille")
    plot.scatter(steps, means, marker="o")
    plot.xticks(steps)
    plot.ylim(0, max(means) * 1.05)
    plot.title("tokens/s, all requests together, against concurrency")
    return _built(plot)


def _ok(cell: CellTable, figure: str) -> list[float]:
    outcomes, values = cell.per_request.get("outcome", []), cell.per_request.get(figure, [])
    return [value for outcome, value in zip(outcomes, values, strict=False) if outcome == "ok" and value is not None]


def _canvas(width: int) -> Any:
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(width, WIDEST), HEIGHT)
    return plotext


def _built(plot: Any) -> str:
    text: str = plot.build()
    if os.environ.get("NO_COLOR") or not is_terminal():
        text = plot.uncolorize(text)
    return text.rstrip("\n")
