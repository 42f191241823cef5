"""The screen: flip one variable, watch the requests, read what changed. Takes every option of `run`."""

from __future__ import annotations

import argparse
import sys

from workbench.cli.layout import is_terminal
from workbench.cli.options import RunOptions, add_run_options, bench_options, run_options
from workbench.cli.status import NOT_MEASURED
from workbench.domain.variables import BadInput
from workbench.records.atomic import ready_folder
from workbench.records.redact import redact_command
from workbench.session.live_bench import make_bench


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    parser.add_argument("--run", action="store_true", help="start measuring at once")


def execute(namespace: argparse.Namespace) -> int:
    """Open the screen. Raises BadInput."""
    options = run_options(namespace)
    # A server that was named is used at once; otherwise the screen looks for servers and lets the person choose.
    named = bool(options.setting.base_url or options.target or options.setting.engine)
    return open_screen(options, target="" if named else None, run_at_once=namespace.run)


def open_screen(options: RunOptions, *, target: str | None, run_at_once: bool) -> int:
    """Run the application in this terminal; its exit status. Raises BadInput when there is no terminal."""
    if not is_terminal():
        raise BadInput("the screen needs a terminal; `workbench run` measures without one")
    if options.sessions is not None:
        ready_folder(options.sessions)
    # Textual is imported only here: no other verb pays for it.
    from workbench.tui.app import WorkbenchApp
    from workbench.tui.plans import PlanDefaults

    bench = make_bench(bench_options(options, redact_command(["workbench", *sys.argv[1:]])))
    settings = bench.settings
    app = WorkbenchApp(
        bench,
        run_at_once=run_at_once,
        target=target,
        defaults=PlanDefaults(
            requests=options.requests,
            warmup=options.warmup,
            rounds=options.rounds,
            limits=options.limits or settings.limits,
            timeouts=options.timeouts,
            workers=options.workers,
            duration=options.duration,
            arrival=options.arrival,  # type: ignore[arg-type]
            rate=options.rate,
            budget=options.budget,
            until=options.until,
            seed=options.setting.seed,
            varied=options.varied,
            values=options.values,
        ),
        sessions=options.sessions,
        theme=settings.theme,
        keys=settings.keys,
    )
    status = app.run()
    return NOT_MEASURED if status is None else status
