"""The first line: what is measured, where it stands, what failed, how long it will take."""

from __future__ import annotations

from workbench.domain.text import one_line
from workbench.tui import figures as fmt
from workbench.tui.charts import bar
from workbench.tui.widgets.pane import Line, Pane, fit, line_width


class Status(Pane):
    """One line, no frame. The right side keeps its place; the left gives way."""

    model_name = "status"
    framed = False
    can_focus = False

    def lines(self, width: int, height: int) -> list[Line]:
        look = self.look
        after = self._right(width)
        room = width - line_width(after) - 1
        before = self._left(room)
        gap = max(1, width - line_width(before) - line_width(after))
        return [[*before, (" " * gap, look.text), *after]]

    def _left(self, room: int) -> Line:
        model, look = self.bench_app.model, self.look
        server = model.server
        chips: Line = []
        if model.replay:
            chips += [(" REPLAY ", look.chip), (" ", look.text)]
        if model.paused:
            chips += [(" PAUSED ", look.chip), (" ", look.text)]
        room -= line_width(chips)
        setting = model.setting
        engine = one_line(" ".join(filter(None, (server.engine, server.version)))) if server else ""
        name = fmt.short_model(setting.model or (server.model if server else "")) if setting else ""
        quant = one_line((setting.quant if setting else "") or (server.quant if server else ""))
        brand = "workbench"
        texts = [(brand, look.accent), (engine, look.text), (name, look.bright), (quant, look.text)]
        texts = [(text, ink) for text, ink in texts if text]
        total = sum(len(text) + 3 for text, _ in texts)
        if total > room and len(texts) > 1:
            texts = texts[1:]
            total -= len(brand) + 3
        if total > room and name:
            spare = max(8, len(name) - (total - room))
            texts = [(fmt.middle_cut(text, spare) if text == name else text, ink) for text, ink in texts]
        line: Line = [(" ", look.text), *chips]
        for index, (text, ink) in enumerate(texts):
            line += [("   " if index else "", look.text), (text, ink)]
        used = line_width(line)
        if used > room + line_width(chips):
            plain = "".join(text for text, _ in line)
            return [(fit(plain, room + line_width(chips)), look.text)]
        return line

    def _right(self, width: int) -> Line:
        model, look = self.bench_app.model, self.look
        parts: list[Line] = []
        if model.running:
            if model.soak:
                parts.append([(f"soak {fmt.clock(self._since())}", look.text)])
            elif model.of > 1:
                parts.append([(f"cell {model.number} of {model.of}", look.text)])
            if model.phase and model.phase != "measuring":
                parts.append([(model.phase, look.accent), (f" {fmt.clock(model.phase_elapsed)}", look.text)])
        elif model.status:
            parts.append([(model.status, look.text if model.status == "complete" else look.trouble)])
        if model.ok or model.failed:
            counts: Line = [(f"{model.ok} ok", look.text)]
            if model.failed:
                counts += [("  ", look.text), (f"{model.failed} FAILED", look.trouble)]
            parts.append(counts)
        if model.stopping:
            parts.append([("stopping", look.trouble)])
        elif model.running and not model.soak:
            left = model.eta_now
            if left is not None:
                done = self._done(left)
                progress: Line = []
                if width >= 110 and done is not None:
                    full, empty = bar(done, 10)
                    progress = [(full, look.accent), (empty + " ", look.frame)]
                parts.append([*progress, (f"{fmt.clock(left)} left", look.bright)])
        line: Line = []
        for part in parts:
            line += [("   ", look.text), *part] if line else part
        return [*line, (" ", look.text)]

    def _since(self) -> float:
        return self.bench_app.model.x_range[1]

    def _done(self, left: float) -> float | None:
        model = self.bench_app.model
        if model.of < 1:
            return None
        elapsed = model.session_elapsed
        return elapsed / (elapsed + left) if elapsed + left > 0 else None
