"""Keeps one server process: starts it, and ends it with all its children when told to, or when whoever asked is gone.

`python -m workbench.engines.keeper` stands between Workbench and a server of a launch profile, so that no server outlives a
Workbench that was killed. stdin carries one JSON line (`Order`) and then stays open: its end, however it comes, means
stop. stdout carries "started PID" or "failed WHY", then "ended STATUS" (negative: the signal). Standard library only, and
one thread: code may run between fork and exec.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TypedDict

STOP_S = 10.0
"""How long a server may take to end by itself before it is killed, seconds."""
KILLED_S = 2.0
POLL_S = 0.1

_STOPS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Order(TypedDict):
    """What to start. Values of `environment` may be secrets: they travel here and never in an argument."""

    words: list[str]
    folder: str | None
    environment: dict[str, str]
    log: str
    stop_signal: str


def main() -> int:
    order = _read_order()
    if order is None:
        return 0
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    for number in (signal.SIGCHLD, *_STOPS):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    # Processes that the server leaves behind become ours, to be ended and reaped with the rest.
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        child = subprocess.Popen(
            order["words"],
            cwd=order["folder"],
            env=order["environment"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=_die_with_keeper,
        )
    except (OSError, ValueError) as error:
        why = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
        _tell(f"failed {why}")
        return 3
    _tell(f"started {child.pid}")
    kept = _Kept(child)
    while kept.status is None:
        for ready in select.select([0, wake_read], [], [])[0]:
            data = os.read(ready, 4096)
            if (ready == 0 and not data) or (ready == wake_read and _STOPS & set(data)):
                kept.end(getattr(signal, order["stop_signal"]), wake_read)
        kept.reap()
    _tell(f"ended {kept.status}")
    kept.end(signal.SIGTERM, wake_read)
    return 0


class _Kept:
    """The server and what it started. `status` is the server's own, None while it runs."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self.status: int | None = None

    def reap(self) -> None:
        """Take the status of every process that has ended."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self._child.pid:
                    self.status = self._child.returncode = os.waitstatus_to_exitcode(status)

    def end(self, number: int, wake: int) -> None:
        """Ask the whole group to end, then kill what is left of it, and what has left it."""
        for each, seconds in ((number, STOP_S), (signal.SIGKILL, KILLED_S)):
            if self._signal(each):
                deadline = time.monotonic() + seconds
                while self._signal(0) and time.monotonic() < deadline:
                    if select.select([wake], [], [], POLL_S)[0]:
                        os.read(wake, 4096)
                    self.reap()
        while orphans := _children():
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(POLL_S / 10)
            self.reap()

    def _signal(self, number: int) -> bool:
        """Send a signal to the group; is there one?"""
        try:
            os.killpg(self._child.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _children() -> list[int]:
    """Processes that are ours now, on Linux: those that left the server's group."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 (light)
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _read_order() -> Order | None:
    """The order, or None when stdin ends before there is one."""
    text = b""
    while not text.endswith(b"\n"):
        data = os.read(0, 65536)
        if not data:
            return None
        text += data
    order: Order = json.loads(text)
    return order


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):  # whoever asked is gone: stdin will say so
        os.write(1, line.encode(errors="replace") + b"\n")


def _die_with_keeper() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value)


if __name__ == "__main__":
    sys.exit(main())
