"""Named baselines: save a session under a name, list them, or check one: measure it again and compare."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from workbench.cli.compare import comparison_lines, gates_status
from workbench.cli.layout import Column, cut, table, terminal_width
from workbench.cli.measuring import measured, report, status_of
from workbench.cli.options import add_run_options, run_options, sessions_folder
from workbench.cli.rerun import order_again
from workbench.cli.safely import complain, json_text, say
from workbench.cli.status import DONE, INTERRUPTED
from workbench.domain.compare import compare_records
from workbench.domain.text import one_line
from workbench.records.baselines import baseline_file, list_baselines, save_baseline
from workbench.records.listing import find
from workbench.records.store import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="save|list|check")
    save = actions.add_parser("save", help="name a session")
    save.add_argument("baseline", metavar="NAME")
    save.add_argument("session", help='a file, an id, a name, part of a file name, or "last"')
    save.add_argument("--replace", action="store_true", help="take the name from another session")
    save.add_argument("--sessions", metavar="DIR", help="where sessions are (default ./sessions)")
    listed = actions.add_parser("list", help="the baselines there are")
    listed.add_argument("--sessions", metavar="DIR", help="where sessions are (default ./sessions)")
    listed.add_argument("--json", action="store_true", help="print the list as JSON")
    check = actions.add_parser("check", help="measure a baseline again and compare; takes every option of run")
    check.add_argument("baseline", metavar="NAME")
    add_run_options(check)


def execute(namespace: argparse.Namespace) -> int:
    """Do what was asked. Raises BadInput, NoServer, SaveTrouble."""
    folder = sessions_folder(namespace.sessions) or Path()
    if namespace.action == "save":
        file = find(folder, namespace.session)
        save_baseline(folder, namespace.baseline, file, load(file).session.id, namespace.replace)
        complain(f"baseline {namespace.baseline}: {file}")
        return DONE
    if namespace.action == "list":
        return _list(folder, bool(namespace.json))
    return _check(namespace, folder)


def _list(folder: Path, with_json: bool) -> int:
    found = list_baselines(folder)
    if with_json:
        say(json_text(found))
        return DONE
    for each in found:
        if each.trouble:
            complain(each.trouble)
    good = [each for each in found if not each.trouble]
    if not good:
        complain(f"no baselines in {folder}: `workbench baseline save NAME SESSION` makes one")
        return DONE
    columns = [
        Column(heading="baseline", values=[each.name for each in good], left=True),
        Column(heading="session", values=[cut(one_line(each.session), 60) for each in good], left=True),
        Column(heading="named", values=[one_line(each.saved) for each in good], left=True, rank=1),
    ]
    for line in table(columns, terminal_width()):
        say(line)
    return DONE


def _check(namespace: argparse.Namespace, folder: Path) -> int:
    """Measure the baseline's plan again; B is today's run. Gates on a verdict look at the comparison's."""
    options = run_options(namespace)
    baseline = load(baseline_file(folder, namespace.baseline))
    record = measured(order_again(baseline, options))
    if record is None:
        return INTERRUPTED
    verdict_gates = [gate for gate in options.gates if gate.of_verdict]
    status = status_of(
        record, msgspec.structs.replace(options, gates=tuple(gate for gate in options.gates if not gate.of_verdict))
    )
    if not record.cells:
        return status
    comparison = compare_records(baseline, record)
    if options.json:
        say(json_text(comparison.to_json()))
    else:
        report(msgspec.structs.replace(record, verdict=None), options)
        for line in ["", *comparison_lines(comparison, terminal_width())]:
            say(line)
    return status or gates_status(verdict_gates, record, comparison)
