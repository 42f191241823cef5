"""Reading small kernel and system files under a root, so that another machine's tree can be read as well as our own."""

# ruff: noqa: PTH208, PTH110, PTH115
# Plain os calls: building a Path for each of some hundred files a sample costs more than reading them.
from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import suppress

LINUX = platform.system() == "Linux"
MACOS = platform.system() == "Darwin"


CHUNK = 1 << 16


class Files:
    """The files below `root`. Nothing here raises: what is missing, denied or not there in this kernel reads as None."""

    def __init__(self, root: str = "/") -> None:
        self._root = root.rstrip("/")

    def path(self, name: str) -> str:
        return self._root + name

    def text(self, name: str) -> str | None:
        """The whole file without the white space at its ends; "" for an empty file."""
        data = self._read(name)
        return None if data is None else data.decode("utf-8", "replace").strip("\x00 \t\r\n")

    def head(self, name: str, count: int) -> bytes:
        """The first `count` bytes, for binary tables; empty when the file can't be read."""
        return (self._read(name, count) or b"")[:count]

    def _read(self, name: str, enough: int = 0) -> bytes | None:
        """All bytes, or at least `enough` of them. Unbuffered: a file object costs as much as the reading."""
        try:
            handle = os.open(self._root + name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            data = part = os.read(handle, CHUNK)
            # A kernel file may give less than was asked for before its end: only an empty read ends it.
            while part and (not enough or len(data) < enough):
                part = os.read(handle, CHUNK)
                data += part
            return data
        except OSError:
            return None
        finally:
            os.close(handle)

    def number(self, name: str) -> int | None:
        with suppress(TypeError, ValueError):
            return int(self.text(name))  # type: ignore[arg-type]
        return None

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty when it is not there."""
        try:
            return sorted(os.listdir(self._root + folder))
        except OSError:
            return []

    def exists(self, name: str) -> bool:
        return os.path.exists(self._root + name)

    def link(self, name: str) -> str | None:
        try:
            return os.readlink(self._root + name)
        except OSError:
            return None

    def fields(self, name: str, separator: str = ":") -> Iterator[tuple[str, str]]:
        """`key<separator>value` lines of a file such as /proc/meminfo, both stripped; other lines are skipped."""
        for line in (self.text(name) or "").splitlines():
            key, found, value = line.partition(separator)
            if found:
                yield key.strip(), value.strip()


HERE = Files()
