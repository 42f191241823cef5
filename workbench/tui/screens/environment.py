"""Every fact of the environment with its source, what is unknown first with the way to learn it."""

from __future__ import annotations

from typing import Any

from textual.app import ComposeResult

from workbench.domain.facts import DECLARED, FROM_THE_NAME
from workbench.domain.text import one_line
from workbench.tui.screens.base import OverScreen
from workbench.tui.widgets.pane import Line, fit, right
from workbench.tui.widgets.reader import Reader, named, paragraph

SECTIONS = ("server", "gpu", "host", "software", "network", "client")


class EnvironmentScreen(OverScreen):
    """Nothing is looked up here: it shows what the last run was recorded with."""

    name_shown = "environment"

    def body(self) -> ComposeResult:
        yield Reader("facts and how they are known", self._document, id="environment")

    def _tables(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The environment and, where it is known, how to learn what isn't."""
        record = self.workbench.model.record
        now = self.workbench.bench.environment
        how = now.get("how", {})
        table = {**now, **(record.environment if record is not None else {})}
        return table, how if isinstance(how, dict) else {}

    def _document(self, width: int) -> list[Line]:
        look = self.workbench.look
        table, how = self._tables()
        if not table:
            return paragraph("Known after the first run: press r on the live screen.", width, look.text)
        lines: list[Line] = []
        scope = table.get("scope")
        if scope:
            lines += [*paragraph(one_line(str(scope)), width, look.bright), []]
        unknown = table.get("unknown", [])
        if isinstance(unknown, list) and unknown:
            lines.append([(f"unknown ({len(unknown)})", look.bright)])
            for name in unknown:
                way = one_line(str(how.get(name, "")))
                lines += named(one_line(str(name), 36), way or "-", width, (look.accent, look.muted), 36)
        for section in SECTIONS:
            held = table.get(section)
            parts = held if isinstance(held, list) else [held] if isinstance(held, dict) and held else []
            for number, part in enumerate(parts):
                if isinstance(part, dict):
                    title = section if len(parts) == 1 else f"{section} {one_line(str(part.get('id', number)), 30)}"
                    lines += [[], [(title, look.bright)], *self._facts(part, width)]
        return lines

    def _facts(self, table: dict[str, Any], width: int) -> list[Line]:
        look = self.workbench.look
        sources = table.get("source", {})
        sources = sources if isinstance(sources, dict) else {}
        room = max(10, width - 50) if width >= 90 else max(10, width - 44)
        source_width = width - 22 - room
        lines: list[Line] = []
        for name, value in table.items():
            if name == "source":
                continue
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            source = one_line(str(sources.get(name, "")))
            word = {DECLARED: "DECLARED", FROM_THE_NAME: "from the name only"}.get(source, source)
            ink = look.accent if source in (DECLARED, FROM_THE_NAME) else look.muted
            lines.append(
                [
                    (fit(one_line(str(name)), 21) + " ", look.muted),
                    (fit(one_line(text), room), look.text),
                    (right(fit(word, min(source_width - 1, len(word))), source_width), ink),
                ]
            )
        return lines
