"""TOML text of plain tables and back: single-line strings only, short arrays on one line, nothing that steers a terminal."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from workbench.domain.text import one_line
from workbench.domain.variables import BadInput

WIDTH = 120
TOO_LARGE = 32 * 1024 * 1024
"""Bytes above which a file is no session record: with 5,000 requests in columns one has about two million."""

# The writer puts every element of an array on its own line. Elements are whole tokens on whole lines, as strings are never
# multi-line here, so plain ones can be gathered; arrays of arrays and of tables stay as they are.
_ARRAY = re.compile(r"= \[\n((?:    (?![{\[ ])[^\n]*,\n)+)\]")
# What TOML lets stand raw in a string but what a terminal obeys: `cat` of a record must be harmless.
_RAW = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def render(table: dict[str, Any]) -> str:
    """The table as TOML 1.0. Raises TypeError for a value that TOML has no form for."""
    text = tomli_w.dumps(table, multiline_strings=False)
    return _ARRAY.sub(_gather, _RAW.sub(_escape, text))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def _gather(match: re.Match[str]) -> str:
    elements = [line[4:-1] for line in match.group(1).rstrip("\n").split("\n")]
    one = ", ".join(elements)
    if len(one) < WIDTH - 30:
        return f"= [{one}]"
    lines, line = [], ""
    for element in elements:
        if line and len(line) + len(element) > WIDTH - 8:
            lines.append(f"    {line}\n")
            line = ""
        line += (" " if line else "") + element + ","
    return "= [\n" + "".join(lines) + f"    {line}\n]"


def without_surrogates(value: Any) -> Any:
    """The value with lone surrogates, which no encoding can hold, as U+FFFD in every string and key."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_surrogates(item) for item in value]
    return value


def read_bytes(path: Path) -> bytes:
    """A file's bytes. Raises BadInput, one line, when it is not there, not a file, unreadable, too large or empty."""
    name = one_line(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(TOO_LARGE + 1)
    except FileNotFoundError:
        raise BadInput(f"{name}: no such file") from None
    except IsADirectoryError:
        raise BadInput(f"{name} is a folder, not a session file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have such a name"
        raise BadInput(f"{name} can't be read: {reason}") from None
    if len(data) > TOO_LARGE:
        raise BadInput(f"{name} is too large for a session ({TOO_LARGE // 1024 // 1024} MiB is the most)")
    if not data.strip():
        raise BadInput(f"{name} is empty: nothing was saved in it")
    return data


def read_table(path: Path) -> dict[str, Any]:
    """A TOML file's tables. Raises BadInput, one line that names the file."""
    data = read_bytes(path)
    name = one_line(str(path))
    try:
        # Editors on Windows put a byte-order mark in front.
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadInput(f"{name} is not UTF-8 text: not a session file, or damaged") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{name} is not valid TOML, cut off or edited? {one_line(str(error), 200)}") from None
    except RecursionError:
        raise BadInput(f"{name} is nested too deeply for a session file") from None
