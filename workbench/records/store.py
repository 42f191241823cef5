"""Session records on disk: written whole after every cell, never overwriting another's, read back with care."""

from __future__ import annotations

import math
import re
import secrets
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, cast

import msgspec

from workbench.domain.events import RequestTrace
from workbench.domain.record import KIND, SCHEMA, Record, from_table, to_table
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.records import atomic, sidecar
from workbench.records.atomic import SaveTrouble, ready_folder
from workbench.records.redact import Scrubber, redact_url
from workbench.records.sidecar import MANY_REQUESTS, Appender, RequestColumns, events_sidecar
from workbench.records.toml import read_table, render, without_surrogates

__all__ = [
    "RecordWriter",
    "SaveTrouble",
    "as_json",
    "events_sidecar",
    "load",
    "ready_folder",
    "set_notes",
]

SLUG_LENGTH = 60
TRIES = 32


class RecordWriter:
    """One session's file. Created with its first state, rewritten whole by `write`; the file is always whole or absent.

    `secrets_in_use`: keys that must not reach the file, whoever echoed them. A session without an id gets its file's name.
    Raises SaveTrouble, here and in `write`, when it can't be saved; what was saved before then stays as it was.
    """

    def __init__(self, directory: Path, record: Record, secrets_in_use: Iterable[str] = ()) -> None:
        self._scrub = Scrubber(secrets_in_use)
        self._events: Appender | None = None
        given_id = record.session.id
        for _ in range(TRIES):
            self.file = directory / file_name(record)
            self._cells: dict[int, tuple[dict[str, Any], str]] = {}
            self._references: dict[int, dict[str, Any]] = {}
            self._columns: RequestColumns | None = None
            record.session.id = given_id or self.file.stem
            try:
                atomic.create(self.file, self._text(record).encode())
            except FileExistsError:
                continue
            return
        raise SaveTrouble(f"can't save {self.file}: no free name was found in that folder")

    @property
    def path(self) -> str:
        """The record's file."""
        return str(self.file)

    def write(self, record: Record) -> None:
        """Rewrite the whole file with the record as it stands now."""
        atomic.replace(self.file, self._text(record).encode())

    def events(self, traces: Sequence[RequestTrace]) -> None:
        """Append raw traces to the sidecar `<record>.events.jsonl`."""
        if self._events is None:
            self._events = events_sidecar(self.file, self._scrub)
        self._events.append(traces)

    def _text(self, record: Record) -> str:
        """The file's text. What has not been written before is read back and compared before it may be saved.

        Cells do not change once they are finished, so their text is kept: a session of many cells would otherwise spend
        longer and longer on each save.
        """
        table: dict[str, Any] = self._scrub(_plain_table(record))
        cells = table.pop("cells")
        if self._columns is not None or sum(cell.requests for cell in record.cells) > MANY_REQUESTS:
            self._move_columns(cells)
        parts = [_checked(table)]
        for cell in cells:
            known = self._cells.get(cell["id"])
            if known is None or known[0] != cell:
                known = (cell, _checked_cell(table, cell))
                self._cells[cell["id"]] = known
            parts.append(known[1])
        return "\n".join(parts)

    def _move_columns(self, cells: list[dict[str, Any]]) -> None:
        if self._columns is None:
            self._columns = RequestColumns(self.file)
        for cell in cells:
            number = cell["id"]
            if number not in self._references:
                columns = {
                    name: [None if _is_nan(value) else value for value in column]
                    for name, column in cell["per_request"].items()
                }
                self._references[number] = self._columns.put(number, columns)
            cell["per_request"] = self._references[number]


def file_name(record: Record) -> str:
    """`<UTC start>-<slug of model>-<4 hex>.toml`: plain ASCII that can't leave its folder, another one at every call."""
    try:
        started = datetime.fromisoformat(record.session.started).astimezone(UTC)
    except (ValueError, OverflowError):
        started = datetime.now(UTC)
    return f"{started:%Y%m%dT%H%M%SZ}-{slug(_model_of(record))}-{secrets.token_hex(2)}.toml"


def slug(text: str) -> str:
    """Lower-case ASCII letters, digits, dots and dashes of a name; "model" when nothing is left of it."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    dashed = re.sub(r"[^a-z0-9.]+", "-", ascii_text)
    return re.sub(r"\.{2,}", ".", dashed)[:SLUG_LENGTH].strip("-.") or "model"


def _model_of(record: Record) -> str:
    baseline = record.plan.get("baseline")
    model = baseline.get("model") if isinstance(baseline, dict) else None
    servers = record.environment.get("server")
    if not model and isinstance(servers, list) and servers and isinstance(servers[0], dict):
        model = servers[0].get("model")
    # A path or an id as long as "org/model" is known by its last part.
    return PurePath(str(model or "")).name


def _plain_table(record: Record) -> dict[str, Any]:
    """The record's tables in plain values. Raises SaveTrouble for a value that a record can't hold."""
    try:
        builtins = msgspec.to_builtins(record, enc_hook=_plain, str_keys=True, builtin_types=(bytes, bytearray))
        table = to_table(msgspec.convert(builtins, Record))
    except (TypeError, ValueError, RecursionError) as error:
        raise SaveTrouble(f"the session holds a value that can't be saved: {one_line(str(error), 200)}") from None
    baseline = table.get("plan", {}).get("baseline")
    if isinstance(baseline, dict) and isinstance(baseline.get("base_url"), str):
        baseline["base_url"] = redact_url(baseline["base_url"])
    for cell in table["cells"]:
        for name, column in cell["per_request"].items():
            if any(isinstance(value, float) and math.isinf(value) for value in column):
                cell["per_request"][name] = [
                    math.nan if isinstance(value, float) and math.isinf(value) else value for value in column
                ]
    return table


def _plain(value: object) -> object:
    """numpy numbers and arrays, and paths, as plain values; anything else is refused."""
    if isinstance(value, PurePath):
        return str(value)
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__qualname__} has no place in a record")


def _checked(table: dict[str, Any]) -> str:
    """The text of tables, after it has been read back equal. Raises SaveTrouble when it can't be."""
    try:
        text = render(table)
        try:
            text.encode()
        except UnicodeEncodeError:
            table = without_surrogates(table)
            text = render(table)
        same = _same(tomllib.loads(text), table)
    except (TypeError, ValueError, RecursionError) as error:
        raise SaveTrouble(f"the session holds a value that can't be saved: {one_line(str(error), 200)}") from None
    if not same:
        raise SaveTrouble("the session would not read back as it was: a fault of Workbench's, please report it")
    return text


def _checked_cell(head: dict[str, Any], cell: dict[str, Any]) -> str:
    """The text of one cell, after it has been read back as part of the record."""
    text = _checked({"cells": [cell]})
    if not text.startswith("[[cells]]"):
        raise SaveTrouble("a cell without results can't be saved: a fault of Workbench's, please report it")
    inline = {} if "sha256" in cell["per_request"] else cell["per_request"]
    try:
        from_table({**head, "cells": [{**cell, "per_request": inline}]})
    except BadInput as error:
        raise SaveTrouble(f"the session would not read back: {error}") from None
    return text


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _same(a: Any, b: Any) -> bool:
    """Equality in which nan equals nan, True is not 1, and 1.0 is not 1."""
    if type(a) is not type(b):
        return isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and _same(list(a), list(b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b) or (_is_nan(a) and _is_nan(b))


def load(path: Path) -> Record:
    """Read a session record, with its per-request columns wherever they are.

    Raises BadInput, one line that names the file: missing, empty, cut off, not a session, another schema, too large,
    or its requests' file not as the record vouches for.
    """
    table = read_table(path)
    name = one_line(str(path))
    if not table:
        raise BadInput(f"{name} has no keys: nothing was saved in it")
    cells = table.get("cells")
    for cell in cells if isinstance(cells, list) else ():
        columns = cell.get("per_request") if isinstance(cell, dict) else None
        if isinstance(columns, dict) and "sha256" in columns:
            cell["per_request"] = sidecar.fetch(path, columns)
    try:
        return from_table(table)
    except BadInput as error:
        raise BadInput(f"{name}: {one_line(str(error), 300)}") from None


def set_notes(path: Path, name: str | None = None, notes: str | None = None) -> None:
    """Change a saved session's name or notes; every other key stays, those this version does not know included.

    Raises BadInput when the file is no session, SaveTrouble when it can't be written.
    """
    path = path.resolve()
    table = read_table(path)
    session = table.get("session")
    if table.get("kind") != KIND or not isinstance(session, dict):
        raise BadInput(f'{one_line(str(path))}: not a Workbench session (no kind = "{KIND}" in it)')
    for key, value in (("name", name), ("notes", notes)):
        if value is not None:
            session[key] = value
    atomic.replace(path, _checked(table).encode())


def as_json(record: Record) -> dict[str, Any]:
    """The record's structure as plain JSON values: the TOML's own, with null for what is absent."""
    body = msgspec.to_builtins(record, enc_hook=_plain, str_keys=True)
    extra = body.pop("extra")
    verdict = body.pop("verdict")
    if verdict is not None:
        kinds = verdict.pop("kinds")
        verdict |= kinds
    result: dict[str, Any] = {"schema": SCHEMA, "kind": KIND, "session": body.pop("session"), "verdict": verdict}
    return cast(dict[str, Any], _finite({**result, **body, **extra}))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
