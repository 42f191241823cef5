"""A terminal without a person: a pty whose output pyte turns into a screen, and keys typed into it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pyte

KEYS = {
    "right": "\x1b[C",
    "left": "\x1b[D",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "enter": "\r",
    "escape": "\x1b",
    "ctrl+c": "\x03",
}


class Terminal:
    """One process in a pty of its own, as its controlling terminal."""

    def __init__(
        self, program: list[str], arguments: list[str], size: tuple[int, int], environ: dict[str, str], cwd: str
    ) -> None:
        columns, lines = size
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._open = True

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def read(self, seconds: float = 0.05) -> bool:
        """Take in what has been written; False when nothing came in that time or the process is gone."""
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def wait_for(self, *words: str, seconds: float = 40.0) -> str:
        """Read until every word is on the screen; the screen's text."""
        deadline = time.monotonic() + seconds
        while not all(word in self.text() for word in words):
            if time.monotonic() > deadline:
                raise AssertionError(f"{words} did not come within {seconds} s; the screen:\n{self.text()}")
            if not self.read() and self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode} before {words} came:\n{self.text()}")
        return self.text()

    def press(self, *keys: str) -> None:
        for key in keys:
            os.write(self._master, KEYS.get(key, key).encode())

    def hang_up(self) -> None:
        """Close the terminal: the kernel sends SIGHUP."""
        if self._open:
            self._open = False
            os.close(self._master)

    def ended(self, seconds: float = 20.0) -> int:
        """Wait for the process, reading on; its exit status."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"did not end within {seconds} s; the screen:\n{self.text()}")
            if self._open:
                self.read()
            else:
                time.sleep(0.02)
        while self._open and self.read(0.0):
            pass
        return self.process.returncode


@contextlib.contextmanager
def terminal(
    arguments: list[str],
    cwd: str,
    size: tuple[int, int] = (80, 24),
    program: tuple[str, ...] | list[str] = ("-m", "workbench"),
    **environ: str,
) -> Iterator[Terminal]:
    """A `workbench` process in a pty, gone at the end whatever happens. `environ` is added; no locale is passed on."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "NO_COLOR"))}
    found = Terminal(list(program), arguments, size, {**kept, "TERM": "xterm-256color", **environ}, cwd)
    try:
        yield found
    finally:
        found.hang_up()
        if found.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(found.process.pid, signal.SIGKILL)
            found.process.wait()
