"""One session: environment, plan, table, verdict, and plots on a terminal. Without a name: the list of sessions."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from workbench.cli import plots, summary, tables
from workbench.cli.layout import Column, cut, is_terminal, table, terminal_width
from workbench.cli.options import sessions_folder
from workbench.cli.safely import complain, json_text, say
from workbench.cli.status import DONE
from workbench.domain.record import Record
from workbench.domain.text import one_line
from workbench.domain.variables import show_value
from workbench.records.listing import find, list_sessions
from workbench.records.store import as_json, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", help='a file, an id, a name, part of a file name, or "last"')
    parser.add_argument("--sessions", metavar="DIR", help="where sessions are (default ./sessions)")
    parser.add_argument("--json", action="store_true", help="the record's structure as JSON, null for absent")
    parser.add_argument("--plots", action="store_true", help="print plots even when the output is no terminal")
    parser.add_argument("--no-plots", action="store_true", help="print no plots")


def execute(namespace: argparse.Namespace) -> int:
    """Print the session. Raises BadInput when there is none of that name or it can't be read."""
    folder = sessions_folder(namespace.sessions) or Path()
    if not namespace.session:
        return _list(folder, bool(namespace.json))
    record = load(find(folder, namespace.session))
    if namespace.json:
        say(json_text(as_json(record)))
        return DONE
    width = terminal_width()
    with_plots = namespace.plots or (is_terminal() and not namespace.no_plots)
    for line in show_lines(record, width, with_plots):
        say(line)
    return DONE


def show_lines(record: Record, width: int, with_plots: bool) -> list[str]:
    """Everything that `show` prints of a session."""
    verdict = tables.verdict_lines(record.verdict, width) if record.verdict is not None else []
    parts = [
        summary.session_lines(record, width),
        summary.environment_lines(record, width),
        summary.plan_lines(record, width),
        [*tables.cells_table(record, width), *summary.cold_start_lines(record, width)],
        summary.error_lines(record, width),
        verdict,
        *([[plot] for plot in plots.plots(record, width)] if with_plots else []),
    ]
    lines: list[str] = []
    for part in parts:
        if part:
            lines += ["", *part] if lines else part
    return lines


def _list(folder: Path, with_json: bool) -> int:
    found = list_sessions(folder)
    if with_json:
        say(json_text([{**msgspec.structs.asdict(each), "path": str(each.path)} for each in found]))
        return DONE
    good = [each for each in found if not each.trouble]
    for each in found:
        if each.trouble:
            complain(each.trouble)
    if not good:
        complain(f"no sessions in {folder}: `workbench run` measures one")
        return DONE
    width = terminal_width()
    varied = [
        f"{each.varied} {','.join(show_value(value) for value in each.values)}" if each.varied else "" for each in good
    ]
    columns = [
        Column(heading="session", values=[one_line(each.path.stem) for each in good], left=True),
        Column(heading="status", values=["" if each.status == "complete" else each.status for each in good], left=True),
        Column(heading="name", values=[cut(one_line(each.name), 24) for each in good], left=True, rank=1),
        Column(heading="varied", values=[cut(one_line(text), 30) for text in varied], left=True, rank=2),
        Column(heading="engine", values=[cut(one_line(each.engine), 16) for each in good], left=True, rank=3),
        Column(heading="verdict", values=[cut(one_line(each.sentence), 60) for each in good], left=True, rank=4),
    ]
    for line in table(columns, width):
        say(line)
    return DONE
