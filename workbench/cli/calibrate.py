"""Check the instrument against a server of known timing: what the client added to TTFT and to gaps, and its loop lag."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from workbench.cli.layout import Column, table, terminal_width, wrap
from workbench.cli.safely import complain, json_text, say
from workbench.cli.status import DONE, NOT_MEASURED
from workbench.domain.variables import BadInput
from workbench.session.calibrate import ITL_MS, STREAMS, TTFT_MS, Added, calibrate
from workbench.session.fitness import keep
from workbench.session.workers import WorkerTrouble

MOST_STREAMS = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    usual = ",".join(map(str, STREAMS))
    parser.add_argument("--streams", metavar="N,N,...", default=usual, help=f"streams at once (default {usual})")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def execute(namespace: argparse.Namespace) -> int:
    """Run the check, print it, and keep the usual one for the records to come. Raises BadInput."""
    streams = _streams(namespace.streams)
    try:
        with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
            results = asyncio.run(calibrate(Path(folder) / "worker.log", streams, _tell))
    except (WorkerTrouble, RuntimeError) as trouble:
        complain(str(trouble))
        return NOT_MEASURED
    if streams == STREAMS:
        keep(results)
    if namespace.json:
        say(json_text([added.table() for added in results]))
    else:
        for line in calibration_lines(results, terminal_width()):
            say(line)
    return DONE


def _streams(text: str) -> tuple[int, ...]:
    try:
        streams = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"--streams {text!r}: write numbers with commas between them, like 1,16,64") from None
    if not all(1 <= count <= MOST_STREAMS for count in streams):
        raise BadInput(f"--streams {text}: each is from 1 to {MOST_STREAMS}")
    return streams


def _tell(added: Added) -> None:
    print(f"{added.streams} streams: done", file=sys.stderr, flush=True)


def calibration_lines(results: Sequence[Added], width: int) -> list[str]:
    """The figures as a table, with what they mean."""

    def three(name: str) -> list[str]:
        return [f"{getattr(added, name):.3f}" for added in results]

    columns = [
        Column(heading="streams", values=[str(added.streams) for added in results]),
        Column(heading="ok", values=[str(added.n) for added in results], rank=1),
        Column(heading="failed", values=[str(added.failed) for added in results]),
        Column(group="TTFT +ms", heading="p50", values=three("ttft_p50_ms")),
        Column(group="TTFT +ms", heading="p99", values=three("ttft_p99_ms")),
        Column(group="gap ±ms", heading="p50", values=three("gap_p50_ms")),
        Column(group="gap ±ms", heading="p99", values=three("gap_p99_ms")),
        Column(group="loop lag ms", heading="p50", values=three("lag_p50_ms"), rank=2),
        Column(group="loop lag ms", heading="p99", values=three("lag_p99_ms")),
        Column(group="CPU", heading="µs/token", values=[f"{added.cpu_us:.0f}" for added in results]),
    ]
    meaning = (
        f"What the client added to the server's own stamps, on a simulated server with TTFT {TTFT_MS:g} ms and a gap of "
        f"{ITL_MS:g} ms. Differences between two sides that are not well above these figures are not the server's."
    )
    return [*table(columns, width), *wrap(meaning, width)]
