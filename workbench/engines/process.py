"""The process behind a server on this machine: its command line and a few named settings, read, never changed.

A port may belong to something else than the engine (an SSH forward, a container's proxy): a process counts only when its
command line carries one of the engine's marks.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from workbench.domain.text import one_line
from workbench.environment.redact import GONE, is_secret_name, redact_text

if TYPE_CHECKING:
    import psutil


class LocalServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server's process on this machine.

    `options` holds its command line's options by name without dashes ("" for a switch), `words` what stands alone,
    `settings` the environment variables that were asked for, `children` the command lines of its child processes,
    `pids` itself and its children. Nothing in it is a secret; paths are as they are: hide them before saving.
    """

    pid: int
    pids: tuple[int, ...]
    options: dict[str, str]
    words: tuple[str, ...]
    settings: dict[str, str]
    settings_known: bool
    children: tuple[dict[str, str], ...] = ()

    @property
    def source(self) -> str:
        return "its command line"

    @property
    def flags(self) -> list[str]:
        """The command line for a record: `name=value` each, secrets and home directories gone."""
        return show_options(self.options)

    def option(self, *names: str) -> str | None:
        """The value of the first of the options that was given."""
        return next((self.options[name] for name in names if name in self.options), None)


def show_options(options: dict[str, str]) -> list[str]:
    """Options for a record: `name=value` each, secrets and home directories gone."""
    return [one_line(redact_text(f"{name}={value}" if value else name), 400) for name, value in options.items()]


def read_options(arguments: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Options by name, and words that stand alone. Values of options that hold secrets are gone.

    `--name value`, `--name=value` and `-n value` are read alike; an option followed by another is a switch.
    """
    options: dict[str, str] = {}
    words: list[str] = []
    name = ""
    for argument in arguments:
        if argument.startswith("-") and not _is_number(argument) and argument.strip("-"):
            name, equals, value = argument.lstrip("-").partition("=")
            options[name] = value
            if equals:
                _hide(options, name)
                name = ""
        elif name:
            options[name] = argument
            _hide(options, name)
            # Further words of a secret option may be keys as well.
            if options[name] != GONE:
                name = ""
        else:
            words.append(argument)
    return options, tuple(words)


def _hide(options: dict[str, str], name: str) -> None:
    if is_secret_name(name):
        options[name] = GONE


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Is this host name or address this machine itself?"""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def find_server(host: str, port: int, marks: Sequence[str], settings: Sequence[str] = ()) -> LocalServer | None:
    """The process that listens on a loopback port, when its command line (or that of its parents) holds one of `marks`.

    None when there is none, when it is another user's, or when it is something else. Never raises.
    """
    if not marks or not is_loopback(host):
        return None
    return await asyncio.to_thread(_find, port, tuple(marks), tuple(settings))


def _find(port: int, marks: tuple[str, ...], settings: tuple[str, ...]) -> LocalServer | None:
    import psutil

    try:
        pids = {
            connection.pid
            for connection in psutil.net_connections("tcp")
            if connection.pid and connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        }
    except (psutil.Error, OSError):
        return None
    for pid in sorted(pids):
        process = _marked(pid, marks)
        if process is not None:
            return _read(process, settings)
    return None


def _marked(pid: int, marks: tuple[str, ...]) -> psutil.Process | None:
    """The process, or the nearest of three parents, whose command line holds a mark: a server may listen in a child."""
    import psutil

    try:
        process: psutil.Process | None = psutil.Process(pid)
        for _ in range(4):
            if process is None or process.pid in (1, os.getpid()):
                return None
            if any(_names(word, mark) for word in process.cmdline()[:4] for mark in marks):
                return process
            process = process.parent()
    except psutil.Error:
        return None
    return None


def _names(word: str, mark: str) -> bool:
    """Is this word of a command line the program or Python module `mark` (`/usr/bin/vllm`, `vllm.entrypoints.api`)?"""
    program = word.replace("\\", "/").rpartition("/")[2]
    return program == mark or (program.startswith(f"{mark}.") and not program.endswith(".py"))


def _read(process: psutil.Process, settings: tuple[str, ...]) -> LocalServer | None:
    import psutil

    try:
        options, words = read_options(process.cmdline()[1:])
    except psutil.Error:
        return None
    try:
        environment = process.environ() if settings else {}
        known = bool(settings)
    except (psutil.Error, OSError):
        environment, known = {}, False
    children: list[dict[str, str]] = []
    pids = [process.pid]
    try:
        for child in process.children(recursive=True):
            pids.append(child.pid)
            children.append(read_options(child.cmdline()[1:])[0])
    except psutil.Error:
        pass
    return LocalServer(
        pid=process.pid,
        pids=tuple(pids),
        options=options,
        words=words,
        settings={name: environment[name] for name in settings if name in environment},
        settings_known=known,
        children=tuple(children),
    )
