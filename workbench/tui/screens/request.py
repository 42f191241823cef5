"""One request in full: its figures, when its chunks came, what the server said, the text."""

from __future__ import annotations

from textual.app import ComposeResult

from workbench.domain.metrics import chunk_gaps_ms
from workbench.domain.text import one_line, visible
from workbench.tui import figures as fmt
from workbench.tui.charts import sparkline
from workbench.tui.requestlog import DETAILED, Entry
from workbench.tui.screens.base import OverScreen
from workbench.tui.widgets.pane import Line
from workbench.tui.widgets.reader import Reader, named, paragraph

TEXT_SHOWN = 60_000


class RequestScreen(OverScreen):
    """Details of one row; while it is still in flight they grow."""

    name_shown = "request"

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self._entry = entry

    def body(self) -> ComposeResult:
        yield Reader(f"request {self._entry.number}", self._document, id="request")

    def repaint(self, touched: set[str]) -> None:
        super().repaint(touched)
        if "requests" in touched and not self._entry.over:
            self.query_one(Reader).remake()

    def _document(self, width: int) -> list[Line]:
        entry, look = self._entry, self.workbench.look
        inks = (look.muted, look.text)
        state = entry.state + (f", {entry.end}" if entry.end else "")
        lines = named("state", state, width, (look.muted, look.trouble if entry.error else look.bright))
        if entry.error:
            lines += named("error", entry.error, width, (look.muted, look.trouble))
        figures = entry.figures
        if figures is None:
            lines += named("waited so far", fmt.waited(entry.wait_ms), width, inks)
            lines += named("TTFT", f"{fmt.milliseconds(entry.ttft_ms)} ms", width, inks)
            return [*lines, [], *paragraph(entry.text, width, look.text)]
        for name, value, unit in (
            ("TTFT", fmt.milliseconds(figures.ttft_ms), "ms"),
            ("first answer", fmt.milliseconds(figures.ttfa_ms), "ms"),
            ("total", fmt.milliseconds(figures.total_ms), "ms"),
            ("connect", fmt.milliseconds(figures.connect_ms), "ms"),
            ("first byte", fmt.milliseconds(figures.first_byte_ms), "ms"),
            ("output", fmt.count(figures.output_tokens), f"tokens ({figures.token_source or 'not counted'})"),
            ("prompt", fmt.count(figures.prompt_tokens), "tokens"),
            ("cached", fmt.count(figures.cached_tokens), "tokens"),
            ("decode rate", fmt.rate(figures.decode_rate), "tokens/s"),
            ("tokens per chunk", fmt.rate(figures.tokens_per_chunk), ""),
        ):
            if value != fmt.ABSENT:
                lines += named(name, f"{value} {unit}", width, inks)
        if figures.decode_absent:
            lines += named("decode rate", f"- ({figures.decode_absent})", width, inks)
        return [*lines, *self._trace(width)]

    def _trace(self, width: int) -> list[Line]:
        look = self.workbench.look
        trace = self._entry.trace
        if trace is None:
            text = f"Its chunks and text are let go: the newest {DETAILED} requests keep theirs."
            return [[], *paragraph(text, width, look.muted)]
        lines: list[Line] = []
        stamps = trace.arrivals.at_ns
        if trace.sent_ns is not None and len(stamps) > 1:
            span = (stamps[-1] - trace.sent_ns) / 1e9
            columns = max(10, width - 2)
            counts = [0.0] * columns
            for at, chunks in zip(stamps, trace.arrivals.chunks, strict=False):
                column = int((at - trace.sent_ns) / 1e9 / span * (columns - 1)) if span > 0 else 0
                counts[max(0, min(columns - 1, column))] += chunks
            gaps = sorted(chunk_gaps_ms(trace))
            drawn = sparkline(counts, columns, max(counts), self.workbench.ascii_only)
            ends = f"sent{'last chunk':>{columns - 4}}"
            lines += [
                [],
                [("chunks over time", look.bright), (f"   {sum(trace.arrivals.chunks)} in {span:.2f} s", look.muted)],
                [(drawn, look.accent)],
                [(ends, look.muted)],
                *named(
                    "gaps between",
                    f"median {fmt.milliseconds(gaps[len(gaps) // 2])} ms, longest {fmt.milliseconds(gaps[-1])} ms",
                    width,
                    (look.muted, look.text),
                ),
            ]
        if trace.status is not None or trace.headers:
            lines += [[], [("response", look.bright), (f"   status {trace.status}", look.muted)]]
            for name, value in trace.headers.items():
                lines += named(one_line(name, 30), one_line(value, 500), width, (look.muted, look.text), 24)
        if trace.server_says:
            lines += [[], [("the server says", look.bright), ("   its own figures, used for nothing here", look.muted)]]
            for name, number in trace.server_says.items():
                lines += named(one_line(name, 30), f"{number:g}", width, (look.muted, look.text), 24)
        if trace.error:
            lines += [[], [("error body", look.bright)], *paragraph(visible(trace.error), width, look.trouble)]
        for title, text in (
            ("reasoning", trace.reasoning),
            ("tool calls", trace.tool_calls),
            ("text", trace.content),
        ):
            if text:
                cut = text[:TEXT_SHOWN]
                lines += [[], [(title, look.bright), (f"   {len(text)} characters", look.muted)]]
                lines += paragraph(visible(cut), width, look.text)
                if len(text) > TEXT_SHOWN:
                    lines += [[(f"cut here: {len(text) - TEXT_SHOWN} more characters", look.muted)]]
        return lines
