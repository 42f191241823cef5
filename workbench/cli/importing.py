"""Another tool's result file as a session: its own figures under its own name, and where its definitions differ."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from workbench import __version__
from workbench.cli.layout import ABSENT, Column, figures, table, terminal_width, wrap
from workbench.cli.options import sessions_folder
from workbench.cli.safely import complain, json_text, say
from workbench.cli.status import DONE
from workbench.cli.summary import environment_lines, item
from workbench.domain.cell import stats_of
from workbench.domain.compare import UNITS, judge_record
from workbench.domain.record import CellTable, Record
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput, show_value
from workbench.records.imports import KNOWN, import_file
from workbench.records.store import RecordWriter, as_json, load

STATISTICS = {"n": 2, "mean": 0, "std": 5, "min": 6, "p50": 0, "p90": 4, "p95": 0, "p99": 1, "max": 3}
"""A tool's statistics in the order shown, each with the rank at which it goes when there is no room."""
RECKONED = "*"
NOT_JSON = (".csv", ".html", ".md", ".sql")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=f"the JSON that {KNOWN} wrote")
    parser.add_argument("--sessions", metavar="DIR", help="where the session is saved (default ./sessions)")
    parser.add_argument("--name", metavar="N", help="the session's name (default: the tool's and the file's)")
    parser.add_argument("--json", action="store_true", help="print the record's structure as JSON, null for absent")


def execute(namespace: argparse.Namespace) -> int:
    """Save the file's runs as a session and print them. Raises BadInput, SaveTrouble."""
    folder = sessions_folder(namespace.sessions) or Path()
    record = imported(Path(namespace.file).expanduser(), namespace.name or "")
    saved = RecordWriter(folder, record).file
    complain(f"saved: {saved}")
    record = load(saved)
    if namespace.json:
        say(json_text(as_json(record)))
        return DONE
    for line in import_lines(record, terminal_width()):
        say(line)
    return DONE


def imported(path: Path, name: str = "") -> Record:
    """The file's runs as a record that is not saved yet, its verdict included where it varies something.

    Unnamed, it is called by the tool and the file, so that whatever names the session names the tool. Raises BadInput.
    """
    shown = one_line(str(path))
    if path.suffix == ".toml":
        raise BadInput(f"{shown}: import reads other tools' JSON; a session is shown with `workbench show`")
    if path.exists() and not path.is_file():
        raise BadInput(f"{shown} is not a file")
    if path.suffix in NOT_JSON and path.exists():
        raise BadInput(f"{shown}: {path.suffix[1:].upper()} isn't read; have the tool write JSON")
    record = import_file(path)
    tool = _tool(record)[0]
    stem = one_line(path.stem)
    record.session.name = name or (stem if tool in stem.lower() else f"{tool} {stem}")
    record.session.workbench = __version__
    record.verdict = judge_record(record)
    return record


def _tool(record: Record) -> tuple[str, str]:
    """The other tool's name, and its name with its version."""
    source = record.extra["imported"]
    name = one_line(str(source["tool"]))
    return name, f"{name} {one_line(str(source.get('version', '')))}".strip()


def import_lines(record: Record, width: int) -> list[str]:
    """What was read: the session, the tool's figures of each setting, and how its definitions differ from Workbench's."""
    source = record.extra["imported"]
    tool, versioned = _tool(record)
    lines = wrap(record.session.name, width)
    lines += item("session", (record.session.id,), width)
    lines += item("measured by", (versioned, record.session.started), width)
    lines += item("file", (f"sha256 {source['sha256'][:16]}",), width)
    lines += environment_lines(record, width)
    reckoned = False
    for cells in _groups(record.cells):
        rows, marked = _rows(cells)
        reckoned = reckoned or marked
        lines += ["", *wrap(f"{_title(cells, record)}: {_counts(cells)}", width, indent="  ", first="")]
        if rows:
            lines += _table(rows, tool, width)
    if reckoned:
        lines += wrap(
            f"over the requests in the file, by Workbench; the other statistics are {tool}'s own",
            width,
            indent="  ",
            first=f"{RECKONED} ",
        )
    differences = source.get("differences_of_definition", [])
    if differences:
        lines += ["", *wrap(f"Where {tool}'s figures differ in definition from Workbench's:", width)]
        for difference in differences:
            lines += wrap(str(difference), width, indent="  ", first="· ")
    return lines


def _groups(cells: Iterable[CellTable]) -> list[list[CellTable]]:
    """Repetitions that the tool summed up once, together: cells of one arm with its statistics in common and no rate of
    their own. Every other cell stands alone."""

    def key(cell: CellTable) -> tuple[object, ...]:
        whole = cell.throughput is not None or cell.request_rate is not None or not _summary(cell)
        return (cell.arm, cell.id) if whole else (cell.arm, _summary(cell))

    return [list(group) for _, group in groupby(cells, key)]


def _summary(cell: CellTable) -> dict[str, dict[str, float]]:
    found = cell.evidence.get("summary")
    return found if isinstance(found, dict) else {}


def _title(cells: list[CellTable], record: Record) -> str:
    """What tells these cells from the others: variables and servers that differ, else all variables; the round when it has
    several."""
    first = cells[0]
    unlike = [name for name in first.variables if len({str(cell.variables.get(name)) for cell in record.cells}) > 1]
    names = unlike or [name for name in first.variables if name != "model"]
    parts = [f"{name} {_shown(first.variables[name])}" for name in names]
    if len({cell.server for cell in record.cells}) > 1:
        parts.insert(0, _model(record, first.server))
    if len({cell.arm for cell in record.cells}) > 1 and not unlike:
        parts.insert(0, first.arm)
    if sum(cell.arm == first.arm for cell in record.cells) > len(cells):
        parts.append(f"round {first.round}")
    return ", ".join(filter(None, parts)) or "one setting"


def _model(record: Record, server: str) -> str:
    """The model that a server of the record had; "" when the tool doesn't say."""
    servers = {each.get("id"): each for each in record.environment.get("server", ())}
    return one_line(str(servers.get(server, {}).get("model", "")))


def _shown(value: Any) -> str:
    return one_line(show_value(value) if isinstance(value, (str, int, float, bool)) else ABSENT)


def _counts(cells: list[CellTable]) -> str:
    """How many requests there were, and the rates of the whole; what the tool doesn't say is left out."""
    ok, failed, cancelled = (sum(getattr(cell, name) for cell in cells) for name in ("ok", "failed", "cancelled"))
    parts = [f"{ok} ok", f"{failed} FAILED" if failed else "0 failed", f"{cancelled} cancelled" if cancelled else ""]
    if len(cells) == 1:
        rates = (
            ("throughput", "tokens/s"),
            ("request_rate", "requests/s"),
            ("goodput", "requests/s within its limits"),
        )
        for name, unit in rates:
            value = getattr(cells[0], name)
            parts.append(f"{figures([value])[0]} {unit}" if value is not None else "")
    return ", ".join(filter(None, parts))


def _rows(cells: list[CellTable]) -> tuple[dict[str, dict[str, float]], bool]:
    """Each figure's statistics: the tool's own, else those over the ok requests in the file, whose names are marked."""
    summary = _summary(cells[0])
    rows: dict[str, dict[str, float]] = {}
    marked = False
    names = dict.fromkeys([*UNITS, *summary, *(name for cell in cells for name in cell.stats)])
    for name in names:
        if name in summary:
            rows[name] = summary[name]
            continue
        stats = stats_of(value for cell in cells for value in _column(cell, name))
        if stats is not None:
            rows[name + RECKONED] = {key: float(value) for key, value in msgspec.structs.asdict(stats).items()}
            marked = True
    return rows, marked


def _column(cell: CellTable, name: str) -> list[float]:
    """One figure of the ok requests."""
    columns = cell.per_request
    pairs = zip(columns.get(name, ()), columns.get("outcome", ()), strict=False)
    return [value for value, outcome in pairs if outcome == "ok" and isinstance(value, (int, float))]


def _table(rows: dict[str, dict[str, float]], tool: str, width: int) -> list[str]:
    shown = [name for name in STATISTICS if any(name in row for row in rows.values())]
    texts = {name: figures([row.get(key) for key in shown if key != "n"]) for name, row in rows.items()}
    columns = [
        Column(heading=f"by {tool}", values=list(rows), left=True),
        Column(heading="", values=[_unit(name.rstrip(RECKONED)) for name in rows], left=True, rank=7),
    ]
    plain = [name for name in shown if name != "n"]
    for name in shown:
        if name == "n":
            values = [f"{row['n']:.0f}" if "n" in row else ABSENT for row in rows.values()]
        else:
            values = [texts[row][plain.index(name)] for row in rows]
        columns.append(Column(heading=name, values=values, rank=STATISTICS[name]))
    return table(columns, width)


def _unit(name: str) -> str:
    """The unit of a figure, by its name in the record."""
    if name in UNITS:
        return UNITS[name]
    if name.endswith("_ms"):
        return "ms"
    if name.endswith(("_rate", "throughput")):
        return "tokens/s"
    return "tokens" if "tokens" in name else ""
