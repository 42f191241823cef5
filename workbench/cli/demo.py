"""The screen on the built-in engine, measuring at once; with --simulated on a simulated server of known timing."""

from __future__ import annotations

import argparse

import msgspec

from workbench.cli.options import add_run_options, run_options
from workbench.cli.tui import open_screen
from workbench.domain.variables import BadInput
from workbench.session.options import BUILT_IN, SIMULATED

DEMO_REQUESTS = 12
DEMO_TOKENS = 64
"""A demo run is short: the built-in engine makes some tens of tokens a second on a laptop's processor."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    parser.add_argument("--simulated", action="store_true", help="use the simulator, not the built-in engine")


def execute(namespace: argparse.Namespace) -> int:
    """Open the screen and start. Raises BadInput."""
    options = run_options(namespace)
    if options.given & {"base_url", "target", "engine"}:
        raise BadInput("demo brings its own server; `workbench tui` takes --base-url, --target and --engine")
    options.target = SIMULATED if namespace.simulated else BUILT_IN
    if "max_tokens" not in options.given:
        options.setting = msgspec.structs.replace(options.setting, max_tokens=DEMO_TOKENS)
    if options.requests is None and options.duration is None:
        options.requests = DEMO_REQUESTS
    return open_screen(options, target="", run_at_once=True)
