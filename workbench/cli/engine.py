"""The built-in engine (SmolLM2-135M on llama.cpp, on the CPU) as a server. Prints its base URL first; ends with Ctrl-C."""

from __future__ import annotations

import argparse

from workbench.session.local import engine_arguments, run_engine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    engine_arguments(parser)


def execute(namespace: argparse.Namespace) -> int:
    """Serve until told to end; exit status 3 when the engine or its weights can't be had."""
    return run_engine(namespace)
