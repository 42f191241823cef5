"""Facts about the machine this program runs on. Never in them: user names, home directories, host names, command lines."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path

from workbench.domain.facts import Facts
from workbench.domain.text import one_line
from workbench.environment.container import fill_container
from workbench.environment.cpu import fill_cpu, usable_cpus
from workbench.environment.files import HERE, MACOS, Files
from workbench.environment.processes import Table, busiest, own_processes, scan
from workbench.environment.system_memory import system_memory
from workbench.environment.virtual import fill_virtualization

BUSY_WINDOW_S = 0.15
"""How long others are watched at the start. The kernel counts CPU time in hundredths of a second, so this sees a tenth of a
core."""


def host_facts(files: Files = HERE, server_pid: int | None = None, watch_s: float = BUSY_WINDOW_S) -> Facts:
    """CPU, memory, load, virtualization, container, power and system, each with its source.

    Memory is MiB, frequencies MHz, limits in cores and MiB. Takes at least `watch_s` seconds, in which the busiest other
    processes are looked for; the server's own processes do not count as others. 0 leaves that fact out.
    """
    facts = Facts()
    began = scan(files) if watch_s else None
    if MACOS:
        from workbench.environment.macos import fill_macos, sysctl

        fill_macos(facts, sysctl())
    else:
        fill_cpu(facts, files)
        fill_virtualization(facts, files, ask_systemd=files is HERE)
        _os(facts, files)
    usable = usable_cpus()
    if usable is not None and files is HERE:
        facts.set("cpus_usable", usable, "sched_getaffinity")
    fill_container(facts, files)
    _memory(facts, files)
    _power(facts, files)
    facts.set("kernel", f"{platform.system()} {platform.release()}", "uname")
    facts.set("architecture", platform.machine(), "uname")
    _load(facts)
    if began is not None:
        _busiest(facts, files, began, server_pid, watch_s)
    return facts


def _os(facts: Facts, files: Files) -> None:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        for key, value in files.fields(path, "="):
            if key == "PRETTY_NAME":
                facts.set("os", one_line(value.strip("\"'"), 80), path)
                return
    facts.set("os", platform.system(), "uname")


def _memory(facts: Facts, files: Files) -> None:
    memory = system_memory(files)
    how = "run `free -m`"
    source = memory.source if memory else ""
    facts.set("memory_mib", round(memory.total_mib) if memory else None, source, how)
    facts.set("memory_used_mib", round(memory.used_mib) if memory else None, source, how)
    facts.set("swap_mib", round(memory.swap_total_mib) if memory else None, source, how)
    facts.set("swap_used_mib", round(memory.swap_used_mib) if memory else None, source, how)


def _power(facts: Facts, files: Files) -> None:
    """Mains or battery: a laptop on battery lowers its clocks."""
    if MACOS:
        import psutil

        battery = psutil.sensors_battery()
        state = "no battery" if battery is None else "mains" if battery.power_plugged else "battery"
        facts.set("power_source", state, "psutil")
        return
    folder = "/sys/class/power_supply"
    if not files.exists(folder):
        facts.set("power_source", None, "", f"{folder} is not there: look at the machine")
        return
    mains: list[bool] = []
    battery_states: list[str] = []
    for name in files.names(folder):
        kind = files.text(f"{folder}/{name}/type")
        if kind == "Battery" and files.text(f"{folder}/{name}/scope") != "Device":
            battery_states.append(files.text(f"{folder}/{name}/status") or "")
        elif kind in ("Mains", "USB") and files.number(f"{folder}/{name}/online") is not None:
            mains.append(files.number(f"{folder}/{name}/online") == 1)
    if not battery_states:
        facts.set("power_source", "no battery", folder)
    else:
        on_battery = not any(mains) and "Discharging" in battery_states
        facts.set("power_source", "battery" if on_battery else "mains", folder)


def _load(facts: Facts) -> None:
    try:
        load = os.getloadavg()
    except OSError:
        facts.set("load_1m", None, "", "run `uptime`")
        return
    facts.set("load_1m", round(load[0], 2), "getloadavg")
    facts.set("load_5m", round(load[1], 2), "getloadavg")


def _busiest(facts: Facts, files: Files, began: Table, server_pid: int | None, watch_s: float) -> None:
    left = watch_s - (time.perf_counter_ns() - began.t_ns) / 1e9
    if left > 0:
        time.sleep(left)
    now = scan(files)
    ours = own_processes(now) | now.tree([] if server_pid is None else [server_pid])
    seconds = (now.t_ns - began.t_ns) / 1e9
    facts.set(
        "busiest",
        [str(busy) for busy in busiest(began, now, leave_out=ours)],
        f"CPU time of other processes over {seconds:.2f} s, of one core; 10 % and more",
    )


def disk_kind(path: str, files: Files = HERE) -> tuple[str, str] | None:
    """("NVMe" | "SSD" | "hard disk" | "network (nfs4)" | "memory (tmpfs)" | "virtual disk", source) of the disk that holds a
    file such as a model's weights; None when it can't be told."""
    try:
        device = Path(path).stat().st_dev
    except OSError:
        return None
    numbers = f"{os.major(device)}:{os.minor(device)}"
    for line in (files.text("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if len(left) > 4 and right and left[2] == numbers:
            system = right[0]
            if system in ("tmpfs", "ramfs"):
                return f"memory ({system})", "/proc/self/mountinfo"
            if re.match(r"nfs|cifs|smb|ceph|lustre|gpfs|9p|fuse\.|virtiofs|beegfs", system):
                return f"network or shared ({system})", "/proc/self/mountinfo"
            break
    link = files.link(f"/sys/dev/block/{numbers}")
    if link is None:
        return None
    disk = next(
        (part for part in link.split("/") if re.match(r"nvme\d+n\d+|sd[a-z]+|vd[a-z]+|xvd[a-z]+|mmcblk\d+", part)), ""
    )
    if disk.startswith("nvme"):
        return "NVMe", f"/sys/dev/block/{numbers}"
    if re.match(r"x?vd", disk):
        return "virtual disk", f"/sys/dev/block/{numbers}"
    rotational = files.number(f"/sys/block/{disk}/queue/rotational") if disk else None
    if rotational is None:
        return None
    return ("hard disk" if rotational else "SSD"), f"/sys/block/{disk}/queue/rotational"
