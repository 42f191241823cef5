"""Interleaved A/B of one variable: --vary VAR=A,B. The order is counterbalanced (ABBA), so that drift cancels."""

from __future__ import annotations

import argparse

from workbench.cli.measuring import default_order, measure
from workbench.cli.options import AB_ROUNDS, add_run_options, run_options
from workbench.domain.variables import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser, AB_ROUNDS)
    parser.add_argument(
        "--until", metavar="PERCENT", help="from five rounds on, stop when every interval is this narrow"
    )


def execute(namespace: argparse.Namespace) -> int:
    """Measure both sides. Raises BadInput, NoServer, SaveTrouble."""
    options = run_options(namespace)
    if len(options.values) != 2:
        raise BadInput("an A/B flips one variable between two values: --vary VAR=A,B, like --vary quant=Q4_1,Q8_0")
    return measure(default_order(options, ab=True))
