"""The servers and models that can be found: workbench.toml, the environment, the usual local ports, the built-in engine."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

import msgspec

from workbench.cli.layout import Column, cut, table, terminal_width, wrap
from workbench.cli.safely import complain, json_text, say
from workbench.cli.status import DONE, NOT_MEASURED
from workbench.domain.text import one_line
from workbench.session.bench import FoundTarget
from workbench.session.live_bench import make_bench
from workbench.session.options import BenchOptions

MODELS_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def execute(namespace: argparse.Namespace) -> int:
    """List what there is. The status is 3 when nothing could be measured."""
    found = asyncio.run(_find())
    good = [each for each in found if not each.trouble]
    if namespace.json:
        say(json_text([msgspec.structs.asdict(each) for each in found]))
    else:
        for line in found_lines(good, terminal_width()):
            say(line)
        for each in found:
            if each.trouble:
                complain(f"{each.base_url or each.name}: {each.trouble}")
    if not good:
        complain("no server was found: start one, or give its --base-url")
    return DONE if good else NOT_MEASURED


async def _find() -> list[FoundTarget]:
    bench = make_bench(BenchOptions(sessions=None))
    try:
        return await bench.targets()
    finally:
        await bench.close()


def found_lines(found: Sequence[FoundTarget], width: int) -> list[str]:
    """The targets as a table, with their models under it where there are several."""
    if not found:
        return []
    columns = [
        Column(heading="target", values=[cut(one_line(each.name), 40) for each in found], left=True),
        Column(heading="engine", values=[one_line(each.engine) or "-" for each in found], left=True),
        Column(heading="models", values=[str(len(each.models)) if each.models else "-" for each in found]),
        Column(
            heading="first",
            values=[cut(one_line(each.models[0]), 40) if each.models else "" for each in found],
            left=True,
            rank=1,
        ),
    ]
    lines = table(columns, width)
    for each in found:
        if len(each.models) > 1:
            more = f" and {len(each.models) - MODELS_SHOWN} more" if len(each.models) > MODELS_SHOWN else ""
            names = ", ".join(each.models[:MODELS_SHOWN])
            lines += wrap(f"{names}{more}", width, indent="  ", first=f"{one_line(each.name)}: ")
    return lines
