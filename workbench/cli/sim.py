"""A simulated OpenAI-compatible server of known timing. Prints its base URL first; ends with Ctrl-C."""

from __future__ import annotations

import argparse

from workbench.simulator import options, server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_arguments(parser)


def execute(namespace: argparse.Namespace) -> int:
    """Serve until told to end. Raises BadInput for an option out of its range."""
    return server.run(options.from_arguments(namespace))
