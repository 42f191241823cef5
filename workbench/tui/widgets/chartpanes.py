"""The two charts: time to first token, and tokens a second; over time within a cell, or over the values of a sweep."""

from __future__ import annotations

from rich.style import Style

from workbench.tui import figures as fmt
from workbench.tui.charts import chart, nice_ceiling, sparkline
from workbench.tui.model import CellSummary, LiveModel
from workbench.tui.widgets.pane import Line, Pane, fit, inked, line_width


class ChartPane(Pane):
    """A line of figures, the baseline's where there is room, and a chart under them."""

    joined = True

    def figures(self, model: LiveModel, width: int) -> Line:
        raise NotImplementedError

    def base_figures(self, base: CellSummary) -> str:
        raise NotImplementedError

    def series(self, model: LiveModel) -> list[tuple[float, float]]:
        raise NotImplementedError

    def of_cell(self, cell: CellSummary) -> float | None:
        """The cell's figure that this chart plots over a sweep."""
        raise NotImplementedError

    def failures(self, model: LiveModel) -> list[float]:
        return []

    @property
    def over_values(self) -> bool:
        """Whether the chart shows the sweep's values instead of the time within a cell."""
        model = self.bench_app.model
        return model.mode in ("ladder", "sweep") and self.bench_app.charts_over_values and bool(model.planned)

    def _inks(self) -> dict[str, Style]:
        look = self.look
        return {"a": look.muted, "b": look.base, "s": look.accent, "x": look.trouble}

    def lines(self, width: int, height: int) -> list[Line]:
        model = self.bench_app.model
        head = self.figures(model, width)
        if height < 4:
            return [self._one_line(model, head, width)] if height < 2 else [head]
        result = [head]
        base = model.baseline_cell
        if base is not None and height >= 9:
            result.append([(fit(self.base_figures(base), width), self.look.base)])
        return result + self._chart(model, base, width, height - len(result))

    def _one_line(self, model: LiveModel, head: Line, width: int) -> Line:
        name = f"{self.title()} "
        room = width - len(name) - line_width(head) - 2
        values = [y for _, y in self.series(model)]
        line: Line = [(name, self.look.muted), *head]
        if room > 4 and values:
            spark = sparkline(values[-4 * room :], room, max(values), self.bench_app.ascii_only)
            line += [("  ", self.look.text), (spark, self.look.accent)]
        return line

    def _chart(self, model: LiveModel, base: CellSummary | None, width: int, height: int) -> list[Line]:
        baseline = self.of_cell(base) if base is not None else None
        labels: list[tuple[float, str]] = []
        if self.over_values:
            points, failures, labels = self._sweep(model)
            x_range = (-0.35, max(1.0, len(model.planned) / max(1, self._rounds(model))) - 0.65)
        else:
            points, failures, x_range = self.series(model), self.failures(model), model.x_range
            if height >= 7:
                left, right = x_range
                labels = [(left, f"{left:.0f} s"), (right, f"{right:.0f} s")]
        top = nice_ceiling(max([y for _, y in points] + ([baseline] if baseline else []), default=0.0) * 1.02)
        plot = chart(
            points,
            width,
            height,
            x_range=x_range,
            top=top,
            baseline=baseline,
            failures=failures,
            joined=self.joined or self.over_values,
            thick=not self.joined or self.over_values,
            x_labels=labels,
            ascii_only=self.bench_app.ascii_only,
        )
        inks = self._inks()
        return [inked(text, kinds, inks) for text, kinds in zip(plot.lines, plot.inks, strict=True)]

    @staticmethod
    def _rounds(model: LiveModel) -> int:
        return model.plan.rounds if model.plan is not None else 1

    def _sweep(self, model: LiveModel) -> tuple[list[tuple[float, float]], list[float], list[tuple[float, str]]]:
        """The sweep's cells so far, the one under way included: points, places of failures, labels under the axis."""
        places: dict[str, int] = {}
        for cell in model.planned:
            places.setdefault(cell.arm, len(places))
        labels = dict.fromkeys(places.values(), "")
        for cell in model.planned:
            labels[places[cell.arm]] = fit(model.cell_label(cell), 6).rstrip()
        cells = list(model.cells)
        running = model.running_cell()
        if running is not None:
            cells.append(running)
        latest: dict[int, CellSummary] = {places[cell.arm]: cell for cell in cells if cell.arm in places}
        points = []
        for place, cell_summary in sorted(latest.items()):
            value = self.of_cell(cell_summary)
            if value is not None:
                points.append((float(place), value))
        failed = [float(place) for place, cell_summary in latest.items() if cell_summary.failed]
        return points, failed, [(float(place), text) for place, text in labels.items()]


class TtftPane(ChartPane):
    """Time to first token, a dot a request; failures are crosses on the axis."""

    model_name = "ttft"
    letter = "t"
    topic = "ttft_ms"
    joined = False

    def title(self) -> str:
        return "TTFT ms"

    def figures(self, model: LiveModel, width: int) -> Line:
        look = self.look
        done = model.finished_cell
        cell = done if done is not None else model.ttft_now()
        tail, word = cell.tail
        line: Line = [
            (fmt.milliseconds(cell.ttft_p50).rjust(3), look.bright),
            (" p50  ", look.muted),
            (fmt.milliseconds(tail).rjust(3), look.bright),
            (f" {word}  ", look.muted),
        ]
        if line_width(line) + 5 <= width:
            line.append((f"n {cell.n}", look.muted))
        return line

    def base_figures(self, base: CellSummary) -> str:
        tail, word = base.tail
        return f"{fmt.milliseconds(base.ttft_p50).rjust(3)} p50  {fmt.milliseconds(tail).rjust(3)} {word}  base"

    def series(self, model: LiveModel) -> list[tuple[float, float]]:
        return model.ttft_points()

    def failures(self, model: LiveModel) -> list[float]:
        low = model.x_range[0]
        return [x for x in model.failures if x >= low]

    def of_cell(self, cell: CellSummary) -> float | None:
        return cell.ttft_p50


class RatePane(ChartPane):
    """Tokens a second: of each stream, and of the whole service, which is the one drawn."""

    model_name = "rate"
    letter = "r"
    topic = "throughput"

    def title(self) -> str:
        return "tokens/s"

    def figures(self, model: LiveModel, width: int) -> Line:
        look = self.look
        done = model.finished_cell
        each = done.each if done is not None else model.each
        whole = done.throughput if done is not None else model.tokens_rate
        return [
            (fmt.rate(each).rjust(4), look.bright),
            (" each  ", look.muted),
            (fmt.rate(whole).rjust(5), look.bright),
            (" all", look.muted),
        ]

    def base_figures(self, base: CellSummary) -> str:
        return f"{fmt.rate(base.each).rjust(4)} each  {fmt.rate(base.throughput).rjust(5)} all   base"

    def series(self, model: LiveModel) -> list[tuple[float, float]]:
        low = model.x_range[0]
        return [point for point in model.rates if point[0] >= low]

    def of_cell(self, cell: CellSummary) -> float | None:
        return cell.throughput
