"""A claimed speed-up checked: what it states and leaves out, what it could be, what to ask, how to reproduce it; with
two sessions, whether they bear it out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from workbench.cli.importing import imported
from workbench.cli.layout import terminal_width
from workbench.cli.options import sessions_folder
from workbench.cli.safely import json_text, say
from workbench.cli.status import DONE
from workbench.domain.claim import Claim, check_claim, claim_from_toml, make_claim, parse_factor, parse_given
from workbench.domain.claim_facts import FACTS
from workbench.domain.claim_text import claim_markdown, claim_text
from workbench.domain.compare import Comparison, compare_records
from workbench.domain.record import Record
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.records.listing import find
from workbench.records.store import load
from workbench.records.toml import read_table

SIDES = ("baseline", "candidate")
RESULT_FILES = (".json", ".jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--factor", metavar="N", help="how many times faster it is said to be: 14, 1.5x")
    add(
        "--metric",
        metavar="NAME",
        help="what is said to be faster: ttft, request_time, decode_rate, throughput, capacity, tokens/s, latency; unknown "
        "when it isn't said (the default)",
    )
    add(
        "--given",
        metavar="KEY=VALUE",
        action="append",
        help=f"a condition it states, repeatable; readers need {', '.join(fact.key for fact in FACTS)}; a change is "
        "written 'engine=OLD -> NEW'",
    )
    add("--source", metavar="TEXT", help="where it was published")
    add("--text", metavar="TEXT", help="the claim in its own words")
    add("--file", metavar="FILE", help="a TOML file with factor, metric, source, text, baseline, candidate, [given]")
    add("--baseline", metavar="S", help="the session before, or another tool's result file (.json, .jsonl)")
    add("--candidate", metavar="S", help="the session after")
    add("--sessions", metavar="DIR", help="where sessions are (default ./sessions)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the report as JSON")
    form.add_argument("--markdown", action="store_true", help="print the report as Markdown")


def execute(namespace: argparse.Namespace) -> int:
    """Print the report. What it says of the claim does not change the status. Raises BadInput."""
    claim = _claim(namespace)
    comparison = _comparison(claim, sessions_folder(namespace.sessions) or Path())
    if comparison is not None:
        # By their own names: "last" tells a reader nothing tomorrow.
        claim = msgspec.structs.replace(claim, baseline=comparison.a, candidate=comparison.b)
    report = check_claim(claim, comparison)
    if namespace.json:
        say(json_text(report.to_json()))
    elif namespace.markdown:
        say(claim_markdown(report).rstrip("\n"))
    else:
        say(claim_text(report, terminal_width()))
    return DONE


def _claim(namespace: argparse.Namespace) -> Claim:
    """The claim of the file, if there is one, with what was typed over it. Raises BadInput."""
    typed: dict[str, Any] = {
        name: value for name in ("metric", "source", "text", *SIDES) if (value := getattr(namespace, name)) is not None
    }
    given = parse_given(namespace.given or ())
    if namespace.factor is not None:
        typed["factor"] = parse_factor(namespace.factor)
    if namespace.file is not None:
        read = _from_file(Path(namespace.file).expanduser())
        return make_claim(**{**msgspec.structs.asdict(read), **typed, "given": {**read.given, **given}})
    if "factor" not in typed:
        raise BadInput("a claim says how many times faster: give --factor 14, or --file claim.toml")
    return make_claim(**typed, given=given)


def _from_file(path: Path) -> Claim:
    if path.is_dir():
        raise BadInput(
            f"--file {one_line(str(path))} is a folder: give a TOML file with factor, metric, source, [given]"
        )
    table = read_table(path)
    try:
        return claim_from_toml(table)
    except BadInput as error:
        raise BadInput(f"{one_line(str(path))}: {error}") from None


def _comparison(claim: Claim, folder: Path) -> Comparison | None:
    """The two sessions side by side; None when the claim names none. Raises BadInput when it names one only."""
    named = [name for name in SIDES if getattr(claim, name)]
    if not named:
        return None
    if len(named) < len(SIDES):
        (other,) = set(SIDES) - set(named)
        raise BadInput(f"--{named[0]} alone can't be held against the claim: give --{other} too")
    return compare_records(_record(claim.baseline, folder), _record(claim.candidate, folder))


def _record(name: str, folder: Path) -> Record:
    """A session by what a person calls it, or another tool's result file as it stands. Raises BadInput."""
    if name.endswith(RESULT_FILES):
        return imported(Path(name).expanduser())
    return load(find(folder, name))
