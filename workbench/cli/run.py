"""Measure one setting, a ladder (--concurrency 1,4,16) or a sweep (--vary VAR=V1,V2); print a table, save a session."""

from __future__ import annotations

import argparse

from workbench.cli.measuring import default_order, measure
from workbench.cli.options import add_run_options, run_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)


def execute(namespace: argparse.Namespace) -> int:
    """Measure. Raises BadInput, NoServer, SaveTrouble."""
    return measure(default_order(run_options(namespace)))
