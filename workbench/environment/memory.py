"""Memory of devices, of the host and of a server's processes, in MiB."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from workbench.environment.files import HERE, LINUX, Files
from workbench.environment.gpu.base import GpuReader, GpuSample, neighbours
from workbench.environment.processes import Table, own_processes, scan
from workbench.environment.system_memory import SystemMemory, system_memory


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory at one moment. `kind`: "gpu", "unified" (a GPU that uses the system's), "host", or "process" (resident
    memory of the server and its children). `other_mib`: held by processes that are not ours, where that is known."""

    key: str
    name: str
    kind: str
    used_mib: float | None = None
    total_mib: float | None = None
    other_mib: float | None = None
    source: str = ""
    lost_why: str = ""


class MemoryReading(msgspec.Struct, frozen=True):
    """All memories at one moment, the ones that matter most first."""

    devices: list[DeviceMemory]

    def get(self, key: str) -> DeviceMemory | None:
        return next((device for device in self.devices if device.key == key), None)


def host_memory(memory: SystemMemory | None) -> DeviceMemory | None:
    """The host's memory as a device; None when the system does not tell."""
    if memory is None:
        return None
    return DeviceMemory(
        key="host",
        name="system memory",
        kind="host",
        used_mib=memory.used_mib,
        total_mib=memory.total_mib,
        source=memory.source,
    )


def server_memory(table: Table, server_pid: int) -> DeviceMemory | None:
    """Resident memory of a server and all its children; pages they share are counted for each. None when it is gone."""
    tree = table.tree([server_pid])
    if not tree:
        return None
    return DeviceMemory(
        key="server",
        name="server processes (resident)",
        kind="process",
        used_mib=sum(table.processes[pid].rss_mib for pid in tree),
        source="/proc/PID/stat" if LINUX else "psutil",
    )


def gpu_memory(samples: Iterable[GpuSample], ours: Collection[int]) -> list[DeviceMemory]:
    """One entry a GPU; a GPU that is split into MIG instances is left out for its instances. `ours` are the pids of this
    program and of the server; empty when the server's are not known, and then nobody is called an other."""
    samples = list(samples)
    split = {sample.parent for sample in samples if sample.parent}
    strangers: dict[str, list[float | None]] = {}
    for neighbour in neighbours(samples, ours) if ours else ():
        strangers.setdefault(neighbour.uuid, []).append(neighbour.memory_mib)
    found = []
    for sample in samples:
        if sample.uuid in split:
            continue
        held = strangers.get(sample.uuid)
        told = [memory for memory in held or () if memory is not None]
        found.append(
            DeviceMemory(
                key=sample.uuid or sample.label,
                name=sample.label,
                kind="unified" if sample.unified else "gpu",
                used_mib=sample.memory_used_mib,
                total_mib=sample.memory_total_mib,
                # One neighbour that does not tell its memory makes the sum unknown.
                other_mib=sum(told) if held and len(told) == len(held) else None,
                source=sample.memory_source,
                lost_why=sample.lost_why,
            )
        )
    return found


def reading(
    samples: Iterable[GpuSample],
    host: DeviceMemory | None,
    server: DeviceMemory | None,
    ours: Collection[int] = (),
) -> MemoryReading:
    """Put the parts together. With unified memory the host's figures are already the GPU's and are not said twice."""
    devices = gpu_memory(samples, ours)
    if host is not None and not any(device.kind == "unified" for device in devices):
        devices.append(host)
    if server is not None:
        devices.append(server)
    return MemoryReading(devices)


def read_memory(gpus: GpuReader | None = None, server_pid: int | None = None, files: Files = HERE) -> MemoryReading:
    """One reading now. A run uses the Sampler, which does the same at a lower cost."""
    samples = gpus.sample() if gpus else []
    if server_pid is None:
        return reading(samples, host_memory(system_memory(files)), None)
    table = scan(files)
    ours = own_processes(table) | table.tree([server_pid])
    return reading(samples, host_memory(system_memory(files)), server_memory(table, server_pid), ours)
