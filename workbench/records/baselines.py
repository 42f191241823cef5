"""Named baselines: small files beside the sessions, each the name of a session to come back to."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.records import atomic
from workbench.records.toml import read_table, render

FOLDER = "baselines"
KIND = "workbench-baseline"
_NAME = re.compile(r"[\w][\w.-]{0,59}", re.ASCII)


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """A baseline: the session's file (in the sessions' folder, or a path), its id, and when it was named.

    `trouble`: why it can't be read, else "".
    """

    name: str
    session: str = ""
    id: str = ""
    saved: str = ""
    trouble: str = ""


def save_baseline(sessions: Path, name: str, record: Path, session_id: str, replace: bool = False) -> None:
    """Name a session. Raises BadInput for a name that can't be a file's or is taken, SaveTrouble."""
    path = _path(sessions, name)
    place = record.name if record.resolve().parent == sessions.resolve() else str(record.resolve())
    saved = datetime.now(UTC).isoformat(timespec="seconds")
    table = {"schema": 1, "kind": KIND, "name": name, "session": place, "id": session_id, "saved": saved}
    data = render(table).encode()
    if replace:
        with atomic.saving(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        atomic.replace(path, data)
        return
    try:
        atomic.create(path, data)
    except FileExistsError:
        raise BadInput(f"there is a baseline {name} already: choose another name, or give --replace") from None


def list_baselines(sessions: Path) -> list[Baseline]:
    """All of them by name; a broken one is listed with its trouble."""
    try:
        files = sorted((sessions / FOLDER).glob("*.toml"))
    except OSError:
        return []
    found = []
    for file in files:
        try:
            found.append(_read(file))
        except BadInput as error:
            found.append(Baseline(name=file.stem, trouble=str(error)))
    return found


def baseline_file(sessions: Path, name: str) -> Path:
    """The session file a baseline names. Raises BadInput when there is no such baseline or its session is gone."""
    path = _path(sessions, name)
    if not path.is_file():
        there = ", ".join(each.name for each in list_baselines(sessions)) or "none yet"
        raise BadInput(f"no baseline {name} in {one_line(str(sessions))}; there are: {one_line(there)}")
    record = sessions / _read(path).session
    if not record.is_file():
        raise BadInput(f"the session of baseline {name} is gone: {one_line(str(record))}")
    return record


def _path(sessions: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise BadInput(f"{one_line(name)!r} can't name a baseline: letters, digits, dots, dashes, 60 at most")
    return sessions / FOLDER / f"{name}.toml"


def _read(path: Path) -> Baseline:
    table = read_table(path)
    if table.pop("kind", None) != KIND:
        raise BadInput(f"{one_line(str(path))} is no baseline")
    try:
        return msgspec.convert({**table, "name": path.stem}, Baseline)
    except msgspec.ValidationError as error:
        raise BadInput(f"{one_line(str(path))}: {error}") from None
