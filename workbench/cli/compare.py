"""Two sessions side by side: what differs, the figures, and what the candidate B bought against the baseline A."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from workbench.cli.gates import Gate, missed, parse_gate
from workbench.cli.layout import ABSENT, Column, figures, table, terminal_width, wrap
from workbench.cli.options import sessions_folder
from workbench.cli.safely import complain, json_text, say
from workbench.cli.status import DONE, MISSED
from workbench.cli.tables import verdict_lines
from workbench.domain.compare import Comparison, compare_records
from workbench.domain.record import Record
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.records.listing import find
from workbench.records.store import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help='the baseline: a file, an id, a name, part of a file name, or "last"')
    parser.add_argument("b", metavar="B", help="the candidate")
    parser.add_argument("--sessions", metavar="DIR", help="where sessions are (default ./sessions)")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.add_argument(
        "--fail-on", metavar="EXPR", action="append", help="exit 1 when it holds: 'verdict.ttft=slower'"
    )


def execute(namespace: argparse.Namespace) -> int:
    """Compare and print. Raises BadInput."""
    gates = [parse_gate(text) for text in namespace.fail_on or ()]
    for gate in gates:
        if not gate.of_verdict:
            raise BadInput(f"--fail-on {gate.text!r}: a comparison has a verdict only, like 'verdict.ttft=slower'")
    folder = sessions_folder(namespace.sessions) or Path()
    a, b = (load(find(folder, name)) for name in (namespace.a, namespace.b))
    comparison = compare_records(a, b)
    if namespace.json:
        say(json_text(comparison.to_json()))
    else:
        for line in comparison_lines(comparison, terminal_width()):
            say(line)
    return gates_status(gates, b, comparison)


def gates_status(gates: list[Gate], b: Record, comparison: Comparison) -> int:
    """1, said on stderr, when a gate on the comparison's verdict is missed."""
    judged = msgspec.structs.replace(b, verdict=comparison.verdict())
    reasons = [f"--fail-on {gate.text!r}: {why}" for gate in gates if (why := missed(gate, judged))]
    for reason in reasons:
        complain(reason)
    return MISSED if reasons else DONE


def comparison_lines(comparison: Comparison, width: int) -> list[str]:
    """The verdict with its kinds of speed and doubts, the figures side by side, and the checks that passed."""
    lines = [*wrap(comparison.a, width, "  ", "A "), *wrap(comparison.b, width, "  ", "B "), ""]
    lines += verdict_lines(comparison.verdict(), width)
    if comparison.figures:
        lines += ["", *_figures_table(comparison.figures, width)]
    passed = [check.name for check in comparison.checks if check.result == "pass"]
    if passed:
        lines += ["", *wrap(f"passed: {', '.join(passed)}", width, indent="  ", first="")]
    return lines


def _figures_table(found: dict[str, dict[str, Any]], width: int) -> list[str]:
    """A row a figure: the middle, the p95 and the number of values of each side."""
    names = list(found)
    columns = [
        Column(heading="figure", values=[one_line(name) for name in names], left=True),
        Column(heading="", values=[str(found[name].get("unit", "")) for name in names], left=True, rank=2),
    ]
    texts: dict[str, list[str]] = {key: [] for key in ("a", "a_p95", "b", "b_p95")}
    for name in names:
        row = figures([found[name].get(key) for key in texts])
        for key, text in zip(texts, row, strict=True):
            texts[key].append(text)
    for side in ("a", "b"):
        counts = [found[name].get(f"{side}_n") for name in names]
        columns += [
            Column(group=side.upper(), heading="p50", values=texts[side]),
            Column(group=side.upper(), heading="p95", values=texts[f"{side}_p95"], rank=1),
            Column(
                group=side.upper(),
                heading="n",
                values=[ABSENT if count is None else str(count) for count in counts],
                rank=1,
            ),
        ]
    return table(columns, width)
