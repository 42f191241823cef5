"""Memory of the GPUs, or where there is none of this machine, named as such; and what the server tells of itself."""

from __future__ import annotations

from workbench.domain.text import one_line
from workbench.session.events import MemoryView
from workbench.tui import figures as fmt
from workbench.tui.charts import bar
from workbench.tui.widgets.pane import Line, Pane, fit, line_width

GPU_KINDS = ("gpu", "unified")


class MemoryPane(Pane):
    """One line a memory, then one of facts: KV cache, utilisation, power, who else holds memory there."""

    model_name = "memory"
    letter = "m"
    topic = "memory"

    def title(self) -> str:
        views = self.bench_app.model.memory
        gpus = [view for view in views if view.kind in GPU_KINDS]
        if len(gpus) == 1:
            kind = "unified memory" if gpus[0].kind == "unified" else "memory"
            title = f"{kind} · {one_line(gpus[0].name, 40)}"
        elif gpus:
            title = f"memory · {len(gpus)} GPUs"
        else:
            title = "memory · this machine, no GPU seen" if views else "memory"
        server = self.bench_app.model.server
        if server is not None and not server.local and views:
            title += " · not the server's"
        return f"{title} · GiB"

    def lines(self, width: int, height: int) -> list[Line]:
        look = self.look
        views = self.bench_app.model.memory
        if not views:
            return [[("- shown once a run has started", look.muted)]]
        gpus = [view for view in views if view.kind in GPU_KINDS]
        shown = gpus or views
        if height < 2:
            return [[("memory GiB ", look.muted), *self._memory(shown[0], width - 11, "")]]
        facts = self._facts(shown)
        if gpus and len(shown) + (1 if facts else 0) < height:
            shown = views
        if not gpus and facts and len(shown) >= height:
            # Too low for a line of its own: the server's memory goes with the facts.
            facts = [(f"server {fmt.gib(view.used_mib)}  ", look.text) for view in shown[1:]][:1] + facts
        room = height - (1 if facts and height > 1 else 0)
        names = [self._label(view) if len(shown) > 1 else "" for view in shown]
        column = max(len(name) for name in names[:room])
        lines = [
            self._memory(view, width, name.ljust(column)) for view, name in zip(shown[:room], names[:room], strict=True)
        ]
        if facts:
            lines.append(facts)
        return lines

    @staticmethod
    def _label(view: MemoryView) -> str:
        known = {"host": "system", "process": "server"}
        return f"{known.get(view.kind, one_line(view.name, 16))} "

    def _memory(self, view: MemoryView, width: int, name: str) -> Line:
        look = self.look
        if view.used_mib is None:
            why = f" {one_line(view.note)}" if view.note else " not told"
            return [(name, look.muted), ("-", look.text), (fit(why, max(0, width - len(name) - 1)), look.muted)]
        line: Line = [(name, look.muted), (fmt.gib(view.used_mib).rjust(5), look.bright)]
        if view.total_mib:
            line.append((f" of {fmt.gib(view.total_mib)}", look.text))
        peak = f"  peak {fmt.gib(view.peak_mib)}" if view.peak_mib is not None else ""
        room = width - line_width(line) - len(peak) - 2
        if view.total_mib and room >= 4:
            share = view.used_mib / view.total_mib
            full, empty = bar(share, min(room, 40))
            line += [("  ", look.text), (full, look.trouble if share > 0.95 else look.accent), (empty, look.frame)]
        if room >= 0:
            line.append((peak, look.muted))
        return line

    def _facts(self, views: list[MemoryView]) -> Line:
        model, look = self.bench_app.model, self.look
        parts = []
        counters = model.counters
        if counters is not None and counters.kv_use is not None:
            parts.append(f"KV cache {fmt.percent(counters.kv_use)} %")
        if counters is not None and counters.waiting:
            parts.append(f"{counters.waiting:.0f} queued")
        known = [view.utilisation for view in views if view.utilisation is not None]
        if known:
            parts.append(f"use {fmt.percent(sum(known) / len(known))} %")
        powers = [view.power_w for view in views if view.power_w is not None]
        limits = [view.power_limit_w for view in views if view.power_limit_w is not None]
        if powers:
            parts.append(f"{sum(powers):.0f}" + (f"/{sum(limits):.0f} W" if limits else " W"))
        others = [view.others_mib for view in views if view.others_mib]
        if others:
            parts.append(f"others hold {fmt.gib(sum(others))}")
        elif any(view.kind in GPU_KINDS for view in views) and all(view.others_mib is not None for view in views):
            parts.append("ours only")
        if any(view.used_mib and view.total_mib and view.used_mib / view.total_mib > 0.95 for view in views):
            parts.append("NEARLY FULL")
        return [("  ".join(parts), look.text)] if parts else []
