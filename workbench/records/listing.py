"""Finding sessions: a folder's list, read from the heads of its files only, and one session by what a person calls it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from workbench.domain.record import KIND
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.records.toml import read_table

HEAD = 16 * 1024
HEAD_MOST = 4 * 1024 * 1024
SHOWN = 5

_SECTION = re.compile(r"\[+([^\]]+)\]+\s*")
_PAIR = re.compile(r"([A-Za-z0-9_-]+) = (.+)")
_WANTED = {
    "": {"schema", "kind"},
    "session": {"id", "name", "started", "status", "reason", "notes"},
    "verdict": {"sentence"},
    "plan": {"varied", "values", "rounds"},
    "plan.baseline": {"engine", "model", "quant", "prompt"},
}


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list. `trouble`: why the file can't be read, else ""; the rest is then empty."""

    path: Path
    id: str = ""
    name: str = ""
    started: str = ""
    status: str = ""
    reason: str = ""
    notes: str = ""
    engine: str = ""
    model: str = ""
    quant: str = ""
    prompt: str = ""
    varied: str = ""
    values: tuple[Any, ...] = ()
    rounds: int = 1
    sentence: str = ""
    trouble: str = ""


def list_sessions(directory: Path) -> list[SessionSummary]:
    """The folder's sessions, newest first. A broken file is listed with its trouble; a folder that isn't there is empty.

    Only the head of each file is read: a thousand sessions take a fraction of a second.
    """
    return [summary_of(path) for path in _files(directory)]


def _files(directory: Path) -> list[Path]:
    try:
        found = [path for path in directory.iterdir() if path.suffix == ".toml" and not path.name.startswith(".")]
    except OSError:
        return []
    # The names begin with the start in UTC; what does not begin with a date goes to the end.
    return sorted(found, key=lambda path: (path.name[:1].isdecimal(), path.name), reverse=True)


def summary_of(path: Path) -> SessionSummary:
    """A file's line in the list. Never raises: what can't be read has its trouble said."""
    try:
        return _summary(path, _head(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # Not laid out as we write it, or broken: read it whole to find out which.
        try:
            return _summary(path, _whole(path))
        except BadInput as error:
            return SessionSummary(path=path, trouble=str(error))


def _summary(path: Path, tables: dict[str, dict[str, Any]]) -> SessionSummary:
    session, plan, baseline = tables["session"], tables.get("plan", {}), tables.get("plan.baseline", {})
    if tables[""].get("kind") != KIND:
        raise BadInput(f'{one_line(str(path))}: not a Workbench session (no kind = "{KIND}" in it)')
    values = plan.get("values", [])
    try:
        return msgspec.convert(
            {
                "path": path,
                **{key: session[key] for key in _WANTED["session"] if key in session},
                **{key: baseline[key] for key in _WANTED["plan.baseline"] if key in baseline},
                "varied": plan.get("varied", ""),
                "values": tuple(values),
                "rounds": plan.get("rounds", 1),
                "sentence": tables.get("verdict", {}).get("sentence", ""),
            },
            SessionSummary,
            dec_hook=lambda _, value: value,
        )
    except (msgspec.ValidationError, TypeError) as error:
        raise BadInput(f"{one_line(str(path))}: {one_line(str(error), 200)}") from None


def _whole(path: Path) -> dict[str, dict[str, Any]]:
    """The wanted tables by a full read. Raises BadInput."""
    table = read_table(path)
    plan = table.get("plan", {})
    found: dict[str, Any] = {
        "": table,
        "session": table.get("session"),
        "verdict": table.get("verdict", {}),
        "plan": plan,
        "plan.baseline": plan.get("baseline", {}) if isinstance(plan, dict) else None,
    }
    if not all(isinstance(value, dict) for value in found.values()):
        raise BadInput(f'{one_line(str(path))}: not a Workbench session (no kind = "{KIND}" in it)')
    return found


def _head(path: Path) -> dict[str, dict[str, Any]]:
    """The wanted keys of the tables before the cells, in the layout that we write. Raises ValueError for any other."""
    with path.open("rb") as file:
        data = file.read(HEAD)
        while b"\n[environment" not in data and b"\n[[cells]]" not in data:
            more = file.read(HEAD_MOST // 16)
            if not more:
                break
            data += more
            if len(data) > HEAD_MOST:
                raise ValueError("no head")
    head = data.partition(b"\n[[cells]]")[0]
    lines = iter(head.decode("utf-8", "ignore").split("\n"))
    tables: dict[str, dict[str, Any]] = {"": {}}
    section = ""
    for line in lines:
        if line.startswith("["):
            match = _SECTION.fullmatch(line)
            section = match.group(1) if match else "?"
            tables.setdefault(section, {})
        elif section in _WANTED and (pair := _PAIR.fullmatch(line)) and pair.group(1) in _WANTED[section]:
            key, text = pair.groups()
            while text == "[" or (text.startswith("[") and not text.endswith("]")):
                text += next(lines, "]")
            tables[section][key] = _value(text)
    if "id" not in tables["session"]:
        raise ValueError("no session table")
    return tables


def _value(text: str) -> Any:
    """A TOML value. Most are JSON as well, whose reader is far quicker; the others go through TOML's own."""
    try:
        return json.loads(text)
    except ValueError:
        return tomllib.loads(f"value = {text}")["value"]


def find(directory: Path, wanted: str) -> Path:
    """The file of the session that `wanted` names: a path, an id, a name, the start or end of a file name, or "last".

    Raises BadInput when there is none, or more than one.
    """
    path = Path(wanted)
    try:
        if path.is_file() and (path.suffix == ".toml" or len(path.parts) > 1):
            return path
    except (OSError, ValueError):
        pass
    files = _files(directory)
    shown = one_line(str(directory))
    is_path = path.suffix == ".toml" or len(path.parts) > 1
    if not files and not is_path:
        raise BadInput(f"no sessions in {shown}: measure something first, or name the folder with --sessions DIR")
    if wanted == "last" and files:
        return files[0]
    stem = wanted.removesuffix(".toml")
    hits = [file for file in files if file.stem == stem]
    if not hits and stem:
        hits = [file for file in files if file.stem.startswith(stem) or file.stem.endswith(stem)]
    if not hits and wanted:
        summaries = [summary_of(file) for file in files]
        hits = [item.path for item in summaries if wanted in (item.id, item.name)]
        hits = hits or [item.path for item in summaries if item.id.startswith(wanted)]
    if not hits and is_path:
        raise BadInput(f"{one_line(wanted)}: no such file")
    if not hits:
        raise BadInput(f"no session {one_line(wanted)!r} in {shown}: `workbench show` lists them")
    if len(hits) > 1:
        names = ", ".join(file.stem for file in hits[:SHOWN]) + (", ..." if len(hits) > SHOWN else "")
        raise BadInput(f"{one_line(wanted)!r} fits {len(hits)} sessions in {shown}: {one_line(names)}; give more of it")
    return hits[0]
