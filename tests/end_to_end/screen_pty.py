"""The screen as a person has it: a real process in a pty, driven by keys; what it writes, what it costs, what it leaves."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import struct
import sys
import termios
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from tests.tui.terminal import Terminal

MARK = "WORKBENCH_TEST_MARK"
"""Environment variable that every process of one terminal inherits: by it an orphan is found, whoever its parent is now."""

MORE_KEYS = {"end": "\x1b[F", "home": "\x1b[H", "pagedown": "\x1b[6~", "tab": "\t"}

HARMLESS_MODES = {7, 12, 25}
"""Private modes that may be on when a terminal is given back: line wrap, cursor blinking, cursor shown."""
MOUSE_MODES = {9, 1000, 1001, 1002, 1003, 1005, 1006, 1015, 1016}
ALTERNATE_SCREEN = {47, 1047, 1049}


class Screen(Terminal):
    """A terminal whose bytes are stamped when they arrive and turned into a screen only when that is looked at, so that
    the looking costs nothing while time is taken."""

    def __init__(
        self, arguments: list[str], folder: Path, size: tuple[int, int], environ: dict[str, str], mark: str
    ) -> None:
        self.mark = mark
        self.started = time.monotonic()
        super().__init__(["-m", "workbench"], arguments, size, environ, str(folder))
        self._looked_at = 0
        self._line_settings = termios.tcgetattr(self._master)

    # Looking

    def read(self, seconds: float = 0.05) -> bool:
        stream, self._stream = self._stream, _Later()
        try:
            return super().read(seconds)
        finally:
            self._stream = stream

    def text(self) -> str:
        fresh, self._looked_at = self.raw[self._looked_at :], len(self.raw)
        self._stream.feed(fresh)
        return super().text()

    def words(self) -> str:
        """The screen without frames and line ends: a sentence that was wrapped reads as one line."""
        return " ".join(re.sub(r"[│|╭╮╰╯─]", " ", self.text()).split())

    def wait_until(self, holds: Callable[[str], object], what: str, seconds: float = 30.0) -> str:
        """Read until `holds(text of the screen)`; that text."""
        deadline = time.monotonic() + seconds
        while not holds(self.text()):
            self._go_on(deadline, what)
        return self.text()

    def wait_for_bytes(self, wanted: bytes, since: int = 0, seconds: float = 30.0) -> float:
        """Read until these bytes have come after the first `since`; the time on the monotonic clock, in s."""
        deadline = time.monotonic() + seconds
        while wanted not in self.raw[since:]:
            self._go_on(deadline, repr(wanted))
        return time.monotonic()

    def read_for(self, seconds: float) -> int:
        """Take in what comes within a window of so many seconds; the number of bytes."""
        before, end = len(self.raw), time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)
        return len(self.raw) - before

    def _go_on(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise AssertionError(f"in time there was no {what}; the screen:\n{self.text()}")
        if not self.read() and self.process.poll() is not None:
            raise AssertionError(f"ended with {self.process.returncode} before {what}; the screen:\n{self.text()}")

    # Acting

    def press(self, *keys: str) -> None:
        super().press(*(MORE_KEYS.get(key, key) for key in keys))

    def resize(self, columns: int, lines: int) -> None:
        """As when a window is drawn smaller or larger: the kernel tells the process (SIGWINCH)."""
        self.text()
        self.screen.resize(lines, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def cpu_seconds(self) -> float:
        """Processor time of the screen's own process so far, without its children."""
        used = psutil.Process(self.process.pid).cpu_times()
        return float(used.user + used.system)

    # What is left

    def family(self) -> list[psutil.Process]:
        """Every process alive that this command started, itself included, children of dead parents too."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def programs(self) -> set[str]:
        """Modules of ours that run now for this command, like "workbench.simulator"."""
        found = set()
        for process in self.family():
            with contextlib.suppress(psutil.Error, OSError):
                found |= {word for word in process.cmdline() if word.startswith("workbench.")}
        return found

    def assert_no_orphans(self, seconds: float = 15.0) -> None:
        """Of what the command started nothing is left within that time."""
        psutil.wait_procs(self.family(), timeout=seconds)
        left = self.family()
        assert not left, [process.cmdline() for process in left]

    def assert_given_back(self) -> None:
        """The terminal is as it was: main screen, cursor shown, no mouse or other mode left on, lines edited as before."""
        modes = self.modes()
        assert modes.get(25), "the cursor is hidden"
        assert not {mode for mode in ALTERNATE_SCREEN | MOUSE_MODES if modes.get(mode)}
        assert {mode for mode, on in modes.items() if on} <= HARMLESS_MODES
        assert self.raw.count(b"\x1b[>25u") == self.raw.count(b"\x1b[<u"), "the keyboard's protocol is popped as pushed"
        assert termios.tcgetattr(self._master)[:4] == self._line_settings[:4]

    def modes(self) -> dict[int, bool]:
        """The private modes that were set or reset, as they stand now."""
        return {
            int(number): code == b"h"
            for numbers, code in re.findall(rb"\x1b\[\?([0-9;]+)([hl])", self.raw)
            for number in numbers.split(b";")
        }


class _Later:
    """Takes the place of the stream while bytes are only collected."""

    def feed(self, data: bytes) -> None:
        """Nothing: `text` feeds them."""


@contextlib.contextmanager
def screen(arguments: list[str], folder: Path, size: tuple[int, int] = (80, 24), **environ: str) -> Iterator[Screen]:
    """`workbench` with these arguments in a pty, its settings and its log in `folder`; gone at the end whatever happens.

    No locale, colour or folder choice of this machine is passed on; `environ` is added.
    """
    dropped = ("LC_", "LANG", "NO_COLOR", "COLORTERM", "WORKBENCH_SESSIONS", "TEXTUAL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    mark = uuid.uuid4().hex
    ours = {
        "TERM": "xterm-256color",
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_STATE_HOME": str(folder / "state"),
        MARK: mark,
    }
    found = Screen(arguments, folder, size, {**kept, **ours, **environ}, mark)
    try:
        yield found
    except BaseException:
        print(f"the screen at the end:\n{found.text()}", file=sys.stderr)
        raise
    finally:
        found.hang_up()
        for process in found.family():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        found.process.wait()
