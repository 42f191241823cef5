"""The machine's own memory, read once for all who need it."""

from __future__ import annotations

import msgspec

from workbench.environment.files import HERE, LINUX, Files

MIB = 1 << 20


class SystemMemory(msgspec.Struct, frozen=True):
    """MiB. Used is total less available, as `free` prints it."""

    used_mib: float
    total_mib: float
    swap_used_mib: float
    swap_total_mib: float
    source: str


def system_memory(files: Files = HERE) -> SystemMemory | None:
    """Memory and swap now; None when the system does not tell."""
    if not LINUX:
        import psutil

        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        return SystemMemory(
            (memory.total - memory.available) / MIB, memory.total / MIB, swap.used / MIB, swap.total / MIB, "psutil"
        )
    kib = {"MemTotal": 0, "MemAvailable": -1, "SwapTotal": 0, "SwapFree": 0}
    for key, value in files.fields("/proc/meminfo"):
        if key in kib:
            kib[key] = int(value.split()[0])
    if not kib["MemTotal"] or kib["MemAvailable"] < 0:
        return None
    return SystemMemory(
        (kib["MemTotal"] - kib["MemAvailable"]) / 1024,
        kib["MemTotal"] / 1024,
        (kib["SwapTotal"] - kib["SwapFree"]) / 1024,
        kib["SwapTotal"] / 1024,
        "/proc/meminfo",
    )
