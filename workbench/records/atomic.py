"""Files that are whole or not there: a temporary file in the same folder, flushed, synced, then moved into place."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class SaveTrouble(Exception):
    """Something could not be saved; the message is one line: what, where, how to mend it. What was there before stays."""


_REMEDIES = {
    errno.ENOSPC: "no space is left there: free some, or give another folder with --sessions DIR",
    errno.EDQUOT: "your quota there is used up: free some space, or give another folder with --sessions DIR",
    errno.EFBIG: "files there may not get that big: give another folder with --sessions DIR",
    errno.EACCES: "you may not write there: give another folder with --sessions DIR",
    errno.EPERM: "you may not write there: give another folder with --sessions DIR",
    errno.EROFS: "it is read-only: give another folder with --sessions DIR",
    errno.ENOTDIR: "a file is in the way: give a folder with --sessions DIR",
    errno.EEXIST: "a file is in the way: give a folder with --sessions DIR",
    errno.ENAMETOOLONG: "its name is too long: give another folder with --sessions DIR",
}


@contextmanager
def saving(path: Path) -> Iterator[None]:
    """Turns an OSError into SaveTrouble that names the file and the remedy."""
    try:
        yield
    except OSError as error:
        why = _REMEDIES.get(error.errno or 0) or (error.strerror or type(error).__name__)
        raise SaveTrouble(f"can't save {path}: {why}") from None


def ready_folder(folder: Path) -> None:
    """Try that a file can be written into the folder, or into what it will be made in: a long run should not find out at
    its end. Nothing stays behind.

    Raises SaveTrouble.
    """
    with saving(folder):
        there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
        with _temporary(there / "trial", b"\n"):
            pass


def create(path: Path, data: bytes) -> None:
    """Write a new file. Raises FileExistsError when the name is taken (nothing is overwritten), and SaveTrouble."""
    with saving(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    taken = False
    with saving(path), _temporary(path, data) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            taken = True
        except OSError:
            # A file system without hard links: take the name first, then move over it.
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            except FileExistsError:
                taken = True
            else:
                temporary.replace(path)
    if taken:
        raise FileExistsError(errno.EEXIST, "the name is taken", str(path))
    _sync_folder(path.parent)


def replace(path: Path, data: bytes) -> None:
    """Rewrite a file whole. Raises SaveTrouble; the file is then as it was before."""
    with saving(path), _temporary(path, data) as temporary:
        temporary.replace(path)
    _sync_folder(path.parent)


@contextmanager
def _temporary(path: Path, data: bytes) -> Iterator[Path]:
    """A synced file beside `path` with this content; gone afterwards unless it was moved."""
    temporary = path.with_name(f".{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut; some file systems refuse to sync a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
