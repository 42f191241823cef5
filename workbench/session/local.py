"""The built-in engine in the foreground, for the command line."""

from __future__ import annotations

from workbench.engines.builtin import run_foreground as run_engine
from workbench.engines.serve_builtin import add_arguments as engine_arguments

__all__ = ["engine_arguments", "run_engine"]
