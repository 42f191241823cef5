"""A recorded session played again on the screen, marked as a replay: for a talk without a server."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.layout import is_terminal
from workbench.cli.options import sessions_folder
from workbench.cli.status import NOT_MEASURED
from workbench.domain.variables import BadInput
from workbench.records.listing import find
from workbench.records.store import load
from workbench.session.live_bench import make_bench
from workbench.session.options import BenchOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help='a file, an id, a name, part of a file name, or "last"')
    parser.add_argument("--sessions", metavar="DIR", help="where sessions are (default ./sessions)")


def execute(namespace: argparse.Namespace) -> int:
    """Play it. Raises BadInput when there is no such session, or no terminal."""
    folder = sessions_folder(namespace.sessions) or Path()
    record = load(find(folder, namespace.session))
    if not is_terminal():
        raise BadInput("a replay needs a terminal; `workbench show` prints a session without one")
    from workbench.tui.app import WorkbenchApp

    bench = make_bench(BenchOptions(sessions=None))
    app = WorkbenchApp(
        bench, replay=record, sessions=folder, theme=bench.settings.theme, keys=dict(bench.settings.keys)
    )
    status = app.run()
    return NOT_MEASURED if status is None else status
