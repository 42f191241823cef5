"""The command line's outermost layer: every trouble becomes one line on stderr and an exit status, never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from workbench.cli.status import BAD_INPUT, INTERRUPTED, NOT_MEASURED
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput


def safely(work: Callable[[], int]) -> int:
    """Do the work and turn what goes wrong into one line and a status. An unforeseen error leaves a traceback in a file."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that can't show a character gets a substitute, not an error.
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        status = work()
        _flush()
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        return _trouble(error)
    return status


def _open_streams() -> None:
    """What was closed before we started leads to nowhere, so that no file or pipe of ours gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _trouble(error: Exception) -> int:
    from workbench.records.atomic import SaveTrouble
    from workbench.session.endpoint import NoServer

    if isinstance(error, (BadInput, SaveTrouble)):
        complain(str(error))
        return BAD_INPUT
    if isinstance(error, NoServer):
        complain(str(error))
        return NOT_MEASURED
    complain(f"a fault of Workbench's own: {type(error).__name__}: {error}; its traceback: {_keep_traceback(error)}")
    return NOT_MEASURED


def _keep_traceback(error: Exception) -> str:
    """Write the traceback to a file of its own; its path."""
    import tempfile
    import traceback

    from workbench.records.redact import redact_text

    text = redact_text("".join(traceback.format_exception(error)))
    try:
        handle, path = tempfile.mkstemp(prefix="workbench-fault-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError:
        return "could not be kept"
    return path


def complain(text: str) -> None:
    """One line on stderr."""
    with suppress(OSError, ValueError):
        print(f"workbench: {one_line(text)}", file=sys.stderr, flush=True)


def say(text: str = "") -> None:
    """A line of the result on stdout. A reader that has gone away (`| head`) ends the printing, not the program.

    Raises SaveTrouble when what stdout leads to can't be written.
    """
    with _readers_may_leave():
        print(text)


def json_text(value: Any) -> str:
    """Plain values as JSON for a program to read: null for nan, and plain ASCII, so that nothing in it steers a terminal."""
    import json

    import msgspec

    return json.dumps(json.loads(msgspec.json.encode(value)), indent=2)


def _flush() -> None:
    with _readers_may_leave():
        sys.stdout.flush()


@contextmanager
def _readers_may_leave() -> Iterator[None]:
    from workbench.records.atomic import SaveTrouble

    try:
        yield
    except OSError as error:
        _mute(sys.stdout)
        # A closed pipe, or a terminal that went away.
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise SaveTrouble(f"the result can't be printed: {error.strerror}") from None


def _mute(stream: object) -> None:
    """Send what a closed pipe can't take to nowhere, so that the interpreter's last flush is quiet too."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
