"""The simulator as a child process, whose loop is free of the caller's work and which ends with its parent."""

from __future__ import annotations

import asyncio
import selectors
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

import msgspec

from workbench.simulator.options import SimOptions, to_arguments

START_LIMIT_S = 15.0
STOP_LIMIT_S = 5.0


class SimulatorProcess:
    """A simulator in a child process, for `with` and `async with`; `base_url` is set once inside."""

    def __init__(self, options: SimOptions) -> None:
        self.options = msgspec.structs.replace(options, until_stdin_closes=True)
        self.base_url = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return self._process.pid if self._process else None

    def start(self) -> str:
        """Start it and wait until it listens; its base URL. Raises RuntimeError (one line) when it doesn't."""
        command = [sys.executable, "-m", "workbench.simulator", *to_arguments(self.options)]
        self._process = process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A Ctrl-C in the terminal stops the measurement; the server is ours to end, when it is over.
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        line = b""
        deadline = time.monotonic() + START_LIMIT_S
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n") and ready.select(deadline - time.monotonic()):
                read = process.stdout.read1(4096)  # type: ignore[attr-defined]
                if not read:
                    break
                line += read
        if not line.endswith(b"\n"):
            process.kill()
            said = process.stderr.read().decode(errors="replace").strip().splitlines()
            self.stop()
            raise RuntimeError(f"the simulator didn't start: {said[-1] if said else 'it said nothing'}")
        self.base_url = line.decode("ascii").strip()
        return self.base_url

    def stop(self) -> None:
        """End it and wait until it has."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)


def spawn(options: SimOptions | None = None) -> SimulatorProcess:
    """A simulator to be started by `with` or `async with`:

    ```
    with spawn(SimOptions(ttft_ms=50)) as simulator:
        measure(simulator.base_url)
    ```
    """
    return SimulatorProcess(options or SimOptions())
