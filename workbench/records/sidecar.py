"""Files beside a record: the per-request columns of a big session, and raw events when they were asked for.

Both are JSON lines, appended as cells finish. The record names what it vouches for: each cell's stretch of the columns'
file with its SHA-256, so that a torn tail left by a crash is never read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.records.atomic import saving
from workbench.records.redact import Scrubber
from workbench.records.toml import without_surrogates

MANY_REQUESTS = 5000
"""Requests of a session above which their columns move out of the record."""

_RAW = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


def _line(value: Any, scrub: Scrubber) -> bytes:
    """One JSON line, without secrets in use or anything raw that a terminal would obey."""
    try:
        text = msgspec.json.encode(scrub(value)).decode()
    except UnicodeEncodeError:
        text = msgspec.json.encode(without_surrogates(scrub(value))).decode()
    return _RAW.sub(lambda match: f"\\u{ord(match.group()):04x}", text).encode() + b"\n"


def requests_path(record: Path) -> Path:
    """Where a record's per-request columns go when there are too many for the record itself."""
    return record.with_suffix(".requests.jsonl")


def events_path(record: Path) -> Path:
    """Where a record's raw events go."""
    return record.with_suffix(".events.jsonl")


NO_SECRETS = Scrubber(())


class Appender:
    """Appends lines to a file that is ours alone. A failed append is undone, as far as the disk lets it."""

    def __init__(self, path: Path, scrub: Scrubber = NO_SECRETS) -> None:
        self.path = path
        self._scrub = scrub
        self._size: int | None = None

    def append(self, lines: Iterable[Any]) -> tuple[int, int, str]:
        """Write and sync lines; (offset, bytes, SHA-256) of what was added. Raises SaveTrouble."""
        data = b"".join(_line(msgspec.to_builtins(line), self._scrub) for line in lines)
        with saving(self.path):
            # Created exclusively the first time; later whatever a failed attempt left behind is cut off first.
            with self.path.open("xb" if self._size is None else "r+b") as file:
                start = self._size or 0
                self._size = start
                file.truncate(start)
                file.seek(start)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self._size = start + len(data)
        return start, len(data), hashlib.sha256(data).hexdigest()


class RequestColumns:
    """The per-request columns of a big session. `put` returns what stands in the record in their place."""

    def __init__(self, record: Path) -> None:
        self._appender = Appender(requests_path(record))

    def put(self, cell: int, columns: dict[str, list[Any]]) -> dict[str, Any]:
        """Append a cell's requests, one line each. Raises SaveTrouble."""
        names = list(columns)
        rows = list(zip(*columns.values(), strict=True))
        offset, size, digest = self._appender.append(
            {"cell": cell, **dict(zip(names, row, strict=True))} for row in rows
        )
        return {
            "file": self._appender.path.name,
            "offset": offset,
            "bytes": size,
            "rows": len(rows),
            "sha256": digest,
        }


def fetch(record: Path, reference: dict[str, Any]) -> dict[str, list[Any]]:
    """The columns that a record's reference stands for.

    Raises BadInput, one line, when the file is missing, cut off, or not what the record vouches for.
    """
    name = reference.get("file")
    offset, size, digest = (reference.get(key) for key in ("offset", "bytes", "sha256"))
    where = one_line(str(record))
    if not (isinstance(name, str) and name and Path(name).name == name and name not in (".", "..")):
        raise BadInput(f"{where} names no proper file for its requests")
    if not (isinstance(offset, int) and isinstance(size, int) and offset >= 0 and size >= 0):
        raise BadInput(f"{where} does not say where in {one_line(name)} its requests are")
    path = record.with_name(name)
    try:
        with path.open("rb") as file:
            # Asked before reading, so that a forged size allocates nothing.
            whole = os.fstat(file.fileno()).st_size
            file.seek(offset)
            data = file.read(size) if offset + size <= whole else b""
    except OSError as error:
        raise BadInput(
            f"{one_line(str(path))}, which holds the requests of {where}, can't be read: {error.strerror}"
        ) from None
    if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
        raise BadInput(f"{one_line(str(path))} is not as {where} vouches for it (SHA-256 differs): cut off or edited")
    try:
        rows = [msgspec.json.decode(line, type=dict[str, Any]) for line in data.splitlines()]
    except msgspec.MsgspecError as error:
        raise BadInput(f"{one_line(str(path))} does not hold requests: {one_line(str(error), 200)}") from None
    return _columns(rows)


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    names = [name for name in (rows[0] if rows else {}) if name != "cell"]
    return {name: [row.get(name) for row in rows] for name in names}


def events_sidecar(record: Path, scrub: Scrubber = NO_SECRETS) -> Appender:
    """The writer of a record's raw events (`--events`): `append` takes request traces, one JSON object a line."""
    return Appender(events_path(record), scrub)
