"""A weights file on this machine: its size, the hash of its header, and the hash of its content (kept, since it is slow)."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

import msgspec

from workbench.engines.weights import cache_dir
from workbench.session.endpoint import Endpoint

HEADER = 1 << 20
"""Bytes hashed as the header: a GGUF file's metadata and tensor names begin there."""
SOURCE = "the file, read on this machine"
KEPT = 200
_PART = re.compile(r"-\d{5}-of-\d{5}\.\w+$")


def identify(endpoint: Endpoint, content: bool) -> None:
    """Add `file_bytes`, `header_sha256`, and `digest` with `weights_digest` (the content's) to the endpoint's table, when
    its server's weights are one file that can be read here.

    The content is hashed when `content` says so (about a second a GB), else its hash is added only if it was kept. Blocks.
    """
    path = locate(str(endpoint.table.get("path") or ""), endpoint.pid)
    if path is None:
        return
    with suppress(OSError), path.open("rb") as file:
        endpoint.add("file_bytes", os.fstat(file.fileno()).st_size, SOURCE)
        endpoint.add("header_sha256", hashlib.sha256(file.read(HEADER)).hexdigest(), SOURCE)
        # One part of several says nothing of the others.
        digest = None if _PART.search(path.name) else _digest(file, content)
        if digest is not None:
            endpoint.add("digest", f"sha256:{digest}", SOURCE)
            endpoint.add("weights_digest", digest, SOURCE)


def locate(path: str, pid: int | None) -> Path | None:
    """The file that a server means by a path: seen from its own folder and, on Linux, its own file system (it may be in a
    container). None when that isn't one file that this user can read."""
    if not path or pid is None:
        return None
    try:
        place = Path(path).expanduser()
        if sys.platform == "linux":
            process = Path("/proc") / str(pid)
            # A `~` stands for any user's home: it is ours only when the server runs as us.
            if process.stat().st_uid != os.getuid():
                return None
            place = (process / "root" / place.relative_to("/")) if place.is_absolute() else process / "cwd" / place
        elif not place.is_absolute():
            return None
        return place if place.is_file() and os.access(place, os.R_OK) else None
    except (OSError, RuntimeError, ValueError):
        return None


def _digest(file: BufferedReader, content: bool) -> str | None:
    """The sha256 of the content: kept from before while the file is the same by device, inode, size and time; else made
    when asked for."""
    state = os.fstat(file.fileno())
    key = f"{state.st_dev}:{state.st_ino}:{state.st_size}:{state.st_mtime_ns}"
    if not content:
        return _read_kept().get(key)
    with _kept() as kept:
        if key not in kept:
            file.seek(0)
            kept[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return kept[key]


def _place() -> Path:
    return cache_dir() / "weights-digests.json"


def _read_kept() -> dict[str, str]:
    try:
        return msgspec.json.decode(_place().read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


@contextmanager
def _kept() -> Iterator[dict[str, str]]:
    """What is kept, written back when something was added; a cache that can't be written to is done without."""
    kept = _read_kept()
    before = dict(kept)
    yield kept
    if kept != before:
        place = _place()
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_name(f".{place.name}.{os.getpid()}")
            temporary.write_bytes(msgspec.json.encode(dict(list(kept.items())[-KEPT:])))
            temporary.replace(place)
