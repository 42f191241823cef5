"""The machine's running counters (CPU time, swap, page faults, TCP retransmits, throttling), each absent when not told."""

from __future__ import annotations

import os
import re
import time

import msgspec

from workbench.environment.files import HERE, LINUX, Files


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Totals since boot, so that two of them give what happened in between; None where the system does not tell.

    CPU times are in seconds over all CPUs. `cpu_stolen_s`: taken by the hypervisor for other machines. Swap counts are
    pages. `retransmits`: TCP segments sent again, the whole machine's.
    """

    t_ns: int
    cpu_busy_s: float | None = None
    cpu_idle_s: float | None = None
    cpu_stolen_s: float | None = None
    swap_in_pages: int | None = None
    swap_out_pages: int | None = None
    major_faults: int | None = None
    retransmits: int | None = None


def read_counters(files: Files = HERE) -> Counters:
    now = time.perf_counter_ns()
    if not LINUX:
        return _psutil_counters(now)
    busy, idle, stolen = _cpu(files)
    pages = _vmstat(files)
    return Counters(
        t_ns=now,
        cpu_busy_s=busy,
        cpu_idle_s=idle,
        cpu_stolen_s=stolen,
        swap_in_pages=pages.get("pswpin"),
        swap_out_pages=pages.get("pswpout"),
        major_faults=pages.get("pgmajfault"),
        retransmits=_retransmits(files),
    )


def _cpu(files: Files) -> tuple[float | None, float | None, float | None]:
    """Busy, idle and stolen seconds from the first line of /proc/stat; waiting for a disk counts as idle."""
    line = files.head("/proc/stat", 256).decode("ascii", "replace").partition("\n")[0].split()
    if len(line) < 9 or line[0] != "cpu":
        return None, None, None
    user, nice, system, idle, waiting, interrupt, soft, stolen = (int(word) for word in line[1:9])
    tick = 1 / os.sysconf("SC_CLK_TCK")
    return (user + nice + system + interrupt + soft) * tick, (idle + waiting) * tick, stolen * tick


def _vmstat(files: Files) -> dict[str, int]:
    text = "\n" + (files.text("/proc/vmstat") or "")
    found = {}
    for name in ("pswpin", "pswpout", "pgmajfault"):
        start = text.find(f"\n{name} ")
        value = text[start + len(name) + 2 :].partition("\n")[0] if start >= 0 else ""
        if value.isdecimal():
            found[name] = int(value)
    return found


def _retransmits(files: Files) -> int | None:
    lines = [line.split() for line in (files.text("/proc/net/snmp") or "").splitlines() if line.startswith("Tcp:")]
    if len(lines) == 2 and "RetransSegs" in lines[0] and len(lines[0]) == len(lines[1]):
        return int(lines[1][lines[0].index("RetransSegs")])
    return None


def _psutil_counters(now: int) -> Counters:
    import psutil

    times, swap = psutil.cpu_times(), psutil.swap_memory()
    page = os.sysconf("SC_PAGE_SIZE")
    return Counters(
        t_ns=now,
        cpu_busy_s=times.user + times.system + getattr(times, "nice", 0.0),
        cpu_idle_s=times.idle,
        swap_in_pages=swap.sin // page,
        swap_out_pages=swap.sout // page,
    )


def cpu_percent(before: Counters | None, after: Counters | None) -> float | None:
    """Share of all CPUs that was busy between two readings, in percent; None when not told or no time has passed."""
    spent = _spent(before, after)
    return None if spent is None else round(100 * spent[0] / sum(spent), 1)


def stolen_percent(before: Counters | None, after: Counters | None) -> float | None:
    """Share of all CPU time that the hypervisor gave to other machines between two readings, in percent."""
    spent = _spent(before, after)
    return None if spent is None else round(100 * spent[2] / sum(spent), 1)


def _spent(before: Counters | None, after: Counters | None) -> tuple[float, float, float] | None:
    """Seconds busy, idle and stolen between two readings."""
    if before is None or after is None or before.cpu_busy_s is None or after.cpu_busy_s is None:
        return None
    spent = (
        after.cpu_busy_s - before.cpu_busy_s,
        (after.cpu_idle_s or 0.0) - (before.cpu_idle_s or 0.0),
        (after.cpu_stolen_s or 0.0) - (before.cpu_stolen_s or 0.0),
    )
    return spent if sum(spent) > 0 else None


def thermal_throttles(files: Files = HERE) -> int | None:
    """How often the CPU's cores were slowed for heat since boot (Intel's counters); None where the kernel has none."""
    folder = "/sys/devices/system/cpu"
    counts = [
        count
        for name in files.names(folder)
        if re.fullmatch(r"cpu\d+", name)
        and (count := files.number(f"{folder}/{name}/thermal_throttle/core_throttle_count")) is not None
    ]
    return sum(counts) if counts else None


def cgroup_throttled_s(files: Files, folder: str) -> float | None:
    """Seconds for which the CPU limit of a control group held its processes back; None where there is no counter."""
    for key, value in files.fields(f"{folder}/cpu.stat", " "):
        if key == "throttled_usec":
            return int(value) / 1e6
        if key == "throttled_time":
            return int(value) / 1e9
    return None
