"""A server process that Workbench starts by a command, seen by whoever starts it: it ends with us, however we end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from workbench.domain.text import one_line
from workbench.engines.keeper import KILLED_S, STOP_S, Order


class LaunchTrouble(Exception):
    """A server could not be started; the message is one line."""


class ServerProcess:
    """A started server. `pid` is its own; `status` is None while it runs, then its exit status (negative: the signal)."""

    def __init__(self, keeper: asyncio.subprocess.Process, log: Path) -> None:
        self._keeper = keeper
        self.log = log
        self.pid = 0
        self.status: int | None = None
        self._ending: asyncio.Task[int] | None = None

    @classmethod
    async def start(
        cls,
        words: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        folder: str = "",
        stop_signal: str = "SIGTERM",
    ) -> ServerProcess:
        """Start a command in a process group of its own, without a shell. `environment` is the whole of it (None: ours);
        stdout and stderr are appended to `log`. Raises LaunchTrouble."""
        keeper = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "workbench.engines.keeper"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        process = cls(keeper, log)
        try:
            await process._order(
                Order(
                    words=list(words),
                    folder=folder or None,
                    environment=dict(os.environ if environment is None else environment),
                    log=str(log),
                    stop_signal=stop_signal,
                )
            )
        except BaseException:
            await process.stop()
            raise
        return process

    async def _order(self, order: Order) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(json.dumps(order).encode() + b"\n")
        with suppress(ConnectionError):
            await self._keeper.stdin.drain()
        word, _, rest = (await self._said()).partition(" ")
        if word != "started":
            raise LaunchTrouble(one_line(rest, 300) or "the process that keeps it ended at once")
        self.pid = int(rest)
        self._ending = asyncio.ensure_future(self._until_ended())

    async def _said(self) -> str:
        assert self._keeper.stdout is not None
        return (await self._keeper.stdout.readline()).decode(errors="replace").strip()

    async def _until_ended(self) -> int:
        word, _, rest = (await self._said()).partition(" ")
        # A keeper that says nothing was killed, and its server with it.
        self.status = int(rest) if word == "ended" else -int(signal.SIGKILL)
        return self.status

    async def ended(self, within_s: float) -> bool:
        """Wait for the server's end, at most so many seconds; has it ended?"""
        assert self._ending is not None
        await asyncio.wait([self._ending], timeout=within_s)
        return self._ending.done()

    async def stop(self) -> None:
        """End the server and all it started, and wait until they have ended; nothing when they already have."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        try:
            async with asyncio.timeout(STOP_S + 2 * KILLED_S):
                await self._keeper.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._keeper.kill()
            await self._keeper.wait()
        if self._ending is not None:
            await self._ending


def how_it_ended(status: int) -> str:
    """An exit status as a person says it: "exit status 1", "killed by SIGKILL, ..."."""
    if status >= 0:
        return f"exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if name == "SIGKILL":
        return "killed by SIGKILL, as the system does when memory runs out"
    return f"killed by {name}"


def new_server_log(folder: Path, name: str) -> Path:
    """A fresh log file `NAME-<UTC start>.log` in the folder, for its owner's eyes. Raises LaunchTrouble."""
    stem = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'server'}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1000):
            path = folder / (f"{stem}-{number}.log" if number else f"{stem}.log")
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                return path
    except OSError as error:
        raise LaunchTrouble(f"no log can be written in {folder}: {error.strerror}") from None
    raise LaunchTrouble(f"no log can be written in {folder}: every name is taken")
