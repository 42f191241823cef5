"""What a server wrote to its log: error and out-of-memory lines counted over a cell, the telling one quoted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from workbench.domain.text import one_line
from workbench.records.redact import Scrubber, redact_text

READ_LIMIT = 16 << 20
"""Bytes looked at of one cell's part of a log; of a longer part the end."""
QUOTE = 240

OUT_OF_MEMORY = re.compile(
    r"out[ -]of[ -]memory|OutOfMemory|\bOOM\b|oom[-_ ]?kill|std::bad_alloc|MemoryError|cannot allocate memory"
    r"|fail(?:ed|ure) to allocate|alloc\w* failed|(?:insufficient|not enough|no available) memory|requires more memory",
    re.IGNORECASE,
)
# The last two are the level marks of llama.cpp ("0.01.234 E srv ...") and glog ("E0131 12:00:00 ...").
_ERROR = re.compile(
    r"\b(?:\w*errors?|\w*exception|fatal|critical|panic\w*|traceback|segmentation fault|core dumped|aborted"
    r"|assertion failed|terminate called)\b|(?-i:^\S*\s*E\s)|(?-i:^[EF]\d{4}\s)",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(r"\b(?:no|0|without|zero)\s+\w*errors?\b|\berrors?\s*[=:]\s*(?:0|none|false)\b", re.IGNORECASE)
# Lines that announce an error of which a later one says what it was.
_HEADING = re.compile(r"traceback|^\s*\w*(?:error|exception):?\s*$", re.IGNORECASE)


def is_out_of_memory(line: str) -> bool:
    """Does a line of a log say that memory ran out?"""
    return OUT_OF_MEMORY.search(line) is not None


def is_error(line: str) -> bool:
    """Does a line of a log report an error? Out of memory is one."""
    return is_out_of_memory(line) or _ERROR.search(_NO_ERROR.sub("", line)) is not None


def telling_line(lines: Iterable[str]) -> str:
    """The line that says best what went wrong: the first about memory, else the last error, else the last line; ""."""
    memory = error = last = ""
    for line in lines:
        if not line.strip():
            continue
        last = line
        if not memory and is_out_of_memory(line):
            memory = line
        if is_error(line) and not _HEADING.search(line):
            error = line
    return memory or error or last


def quoted(line: str, secrets: Iterable[str] = ()) -> str:
    """A log's line fit for a message and a record: one line, no keys, no home directory, not long."""
    return redact_text(one_line(line, QUOTE), secrets)


def log_reason(path: Path, secrets: Iterable[str] = ()) -> str:
    """What a log says went wrong, quoted; "" for an empty or unreadable one."""
    return quoted(telling_line(ServerLog(path, from_start=True).lines()), secrets)


class ServerLogs:
    """The logs followed in a session, so that what is written between two cells goes to the later one."""

    def __init__(self) -> None:
        self._logs: dict[Path, ServerLog] = {}

    def follow(self, path: Path | None) -> ServerLog | None:
        """A log from when it was first followed; None when there is none."""
        return None if path is None else self._logs.setdefault(path, ServerLog(path))


class ServerLog:
    """A log from now on (or from its start): what is added to it, each line read once. One that was cut or replaced is read
    from its start."""

    def __init__(self, path: Path, *, from_start: bool = False) -> None:
        self.path = path
        state = _state(path)
        self._file, self._offset = (0, 0) if state is None else (state.st_ino, 0 if from_start else state.st_size)

    def lines(self) -> Iterator[str]:
        """What was added since the last time, line by line."""
        state = _state(self.path)
        if state is None:
            return
        offset = self._offset if state.st_ino == self._file and state.st_size >= self._offset else 0
        try:
            with self.path.open("rb") as file:
                file.seek(max(offset, state.st_size - READ_LIMIT))
                text = file.read(READ_LIMIT)
        except OSError:
            return
        self._file, self._offset = state.st_ino, max(offset, state.st_size - READ_LIMIT) + len(text)
        # A progress bar redraws its line with CR: only the last state of it is a line.
        for line in text.decode("utf-8", "replace").split("\n"):
            yield line.rstrip("\r").rpartition("\r")[2]

    def table(self, secrets: Iterable[str] = ()) -> dict[str, Any]:
        """The record's `server_log`: lines with errors, those about memory among them, and the telling one if any."""
        bad = [line for line in self.lines() if is_error(line)]
        table: dict[str, Any] = {"error": len(bad), "oom": sum(map(is_out_of_memory, bad))}
        if bad:
            table["says"] = quoted(telling_line(bad), secrets)
        return table


_SUSPECT = re.compile(
    r"(?i)key|token|secret|passw|auth|bearer|basic|credential|cookie|://|home|users|root|\b(?:sk-|hf_|gh|eyJ)"
)


def scrub(path: Path, secrets: Iterable[str] = ()) -> None:
    """Rewrite a log that we kept, once its server has ended: the secrets in use, and what looks like one, are gone."""
    scrubber = Scrubber(secrets)
    home = str(Path.home())
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        clean = "\n".join(
            redact_text(line) if _SUSPECT.search(line) or home in line else line
            for line in scrubber.text(text).split("\n")
        )
        if clean != text:
            temporary = path.with_name(f".{path.name}.part")
            with os.fdopen(
                os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8"
            ) as file:
                file.write(clean)
            temporary.replace(path)
    except OSError:
        path.unlink(missing_ok=True)


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
