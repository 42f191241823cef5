"""Processes: who is busy, which belong to a server, how much memory they hold. Names only, never arguments."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable

import msgspec

from workbench.domain.text import one_line
from workbench.environment.files import HERE, LINUX, MACOS, Files

MIB = 1 << 20


class Process(msgspec.Struct, frozen=True):
    """One process at one moment. `started` tells a reused pid apart; `cpu_s` is user plus system time since then, in
    seconds; `rss_mib` its resident memory in MiB (pages it shares with others are counted for each of them)."""

    pid: int
    parent: int
    name: str
    started: float
    cpu_s: float
    rss_mib: float


class Busy(msgspec.Struct, frozen=True):
    """A process and the share of one core it used, in percent (two full cores: 200)."""

    pid: int
    name: str
    cpu_percent: float

    def __str__(self) -> str:
        return f"{self.name} {self.cpu_percent:.0f} %"


class Table(msgspec.Struct, frozen=True):
    """All processes that can be seen, at `t_ns` of `time.perf_counter_ns`."""

    t_ns: int
    processes: dict[int, Process]

    def tree(self, roots: Iterable[int]) -> set[int]:
        """The roots that are alive, with all their descendants."""
        children: dict[int, list[int]] = {}
        for process in self.processes.values():
            children.setdefault(process.parent, []).append(process.pid)
        found: set[int] = set()
        queue = [pid for pid in roots if pid in self.processes]
        while queue:
            pid = queue.pop()
            if pid not in found:
                found.add(pid)
                queue.extend(children.get(pid, ()))
        return found

    def line(self, pid: int) -> set[int]:
        """The process with its ancestors."""
        found: set[int] = set()
        while pid in self.processes and pid not in found:
            found.add(pid)
            pid = self.processes[pid].parent
        return found


def scan(files: Files = HERE) -> Table:
    """Read every process once: on Linux one file each, elsewhere through psutil. What can't be read is left out."""
    now = time.perf_counter_ns()
    if LINUX:
        return Table(now, _scan_proc(files))
    return Table(now, _scan_psutil())


def _scan_proc(files: Files) -> dict[int, Process]:
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found: dict[int, Process] = {}
    for name in files.names("/proc"):
        if not name.isdecimal():
            continue
        stat = files.text(f"/proc/{name}/stat")
        if not stat:
            continue
        # The name stands in brackets and may itself hold brackets and spaces: the last bracket ends it.
        left, right = stat.find("("), stat.rfind(")")
        rest = stat[right + 1 :].split()
        if left < 0 or len(rest) < 22:
            continue
        pid = int(name)
        found[pid] = Process(
            pid=pid,
            parent=int(rest[1]),
            name=one_line(stat[left + 1 : right], 60),
            started=int(rest[19]) / ticks,
            cpu_s=(int(rest[11]) + int(rest[12])) / ticks,
            rss_mib=int(rest[21]) * page / MIB,
        )
    return found


def _scan_psutil() -> dict[int, Process]:
    import psutil

    found: dict[int, Process] = {}
    for process in psutil.process_iter(["pid", "ppid", "name", "create_time", "cpu_times", "memory_info"]):
        info = process.info
        times, memory = info["cpu_times"], info["memory_info"]
        found[info["pid"]] = Process(
            pid=info["pid"],
            parent=info["ppid"] or 0,
            name=one_line(info["name"] or "?", 60),
            started=info["create_time"] or 0.0,
            cpu_s=times.user + times.system if times else 0.0,
            rss_mib=memory.rss / MIB if memory else 0.0,
        )
    return found


def busiest(
    before: Table, after: Table, leave_out: Collection[int] = (), least_percent: float = 10.0, most: int = 5
) -> list[Busy]:
    """Who used at least `least_percent` of one core between two tables, busiest first, at most `most` of them."""
    seconds = (after.t_ns - before.t_ns) / 1e9
    if seconds <= 0:
        return []
    found = []
    for pid, process in after.processes.items():
        if pid in leave_out:
            continue
        earlier = before.processes.get(pid)
        used = process.cpu_s
        if earlier is not None and earlier.started == process.started:
            used -= earlier.cpu_s
        elif earlier is None and process.cpu_s > seconds * (os.cpu_count() or 1):
            continue  # Hidden from the first table, so its CPU time is of another window.
        share = 100 * used / seconds
        if share >= least_percent:
            found.append(Busy(pid, process.name, round(share, 1)))
    return sorted(found, key=lambda busy: -busy.cpu_percent)[:most]


def own_processes(table: Table) -> set[int]:
    """This process with its ancestors and descendants: what is never called a neighbour."""
    return table.line(os.getpid()) | table.tree([os.getpid()])


def process_name(pid: int, files: Files = HERE) -> str | None:
    """The short name of one process; None when there is none or it may not be seen."""
    if LINUX:
        name = files.text(f"/proc/{pid}/comm")
        return one_line(name, 60) if name else None
    import psutil

    try:
        return one_line(psutil.Process(pid).name(), 60)
    except psutil.Error:
        return None


def process_command(pid: int) -> str | None:
    """The command line of a process, fit for a record: secrets redacted, home directories as `~`; None when it can't be
    read."""
    import psutil

    from workbench.environment.redact import redact_command

    try:
        process = psutil.Process(pid)
        arguments = process.cmdline()
        owner = _owner(process)
    except psutil.Error:
        return None
    return redact_command(arguments, users=[owner] if owner else []) if arguments else None


def _owner(process: object) -> str:
    """The login name a process runs under when it is a person's, not a service's (uid below 1000, macOS 500)."""
    import psutil

    try:
        uid = process.uids().real  # type: ignore[attr-defined]
        if uid < (500 if MACOS else 1000):
            return ""
        return str(process.username())  # type: ignore[attr-defined]
    except (psutil.Error, KeyError):
        return ""
