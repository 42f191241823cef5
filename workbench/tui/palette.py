"""The command palette: every action that works now, and the themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.screen import Screen

from workbench.tui import themes

if TYPE_CHECKING:
    from workbench.tui.app import WorkbenchApp


def commands(app: WorkbenchApp, screen: Screen[object]) -> Iterator[SystemCommand]:
    """The palette's entries: bindings that work and explain themselves, then a theme each."""
    for active in screen.active_bindings.values():
        binding = active.binding
        if not active.enabled or binding.system or not binding.tooltip:
            continue
        yield SystemCommand(binding.description, binding.tooltip, _runner(app, active.node, binding.action))
    for name in themes.NAMES:
        yield SystemCommand(f"Theme: {name}", "Change the colours now", lambda name=name: app.set_look(name))


def _runner(app: WorkbenchApp, node: object, action: str) -> Callable[[], object]:
    def run() -> object:
        return app.run_worker(app.run_action(action, default_namespace=node), exit_on_error=False)  # type: ignore[arg-type]

    return run
