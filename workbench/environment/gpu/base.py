"""What every GPU reader gives, whatever the vendor. A vendor is one file beside this one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from workbench.domain.facts import Facts

MIB = 1 << 20
UNKNOWN_NAME = "?"

# nvml.h, nvmlClocksEventReasons: bits that mean the clocks were lowered against the load's wish. Idle and user-set clocks
# (bits 0x1, 0x2, 0x10, 0x100) are not among them.
THROTTLE = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
}


class GpuProcess(msgspec.Struct, frozen=True):
    """A process on a GPU. `memory_mib` is None where the driver does not tell it (WSL). `foreign`: the pid is of another
    pid namespace (this program runs in a container), so it can't be matched with processes seen here and has no name."""

    pid: int
    name: str
    memory_mib: float | None
    foreign: bool = False


class GpuDevice(msgspec.Struct, frozen=True):
    """One GPU, or one MIG instance of one (`parent` is then that GPU's UUID), with its static facts.

    `unified`: its memory is the machine's own, so memory figures are the system's. `lost_why` says why it can't be read.
    """

    uuid: str
    name: str
    index: int
    facts: Facts
    unified: bool = False
    parent: str = ""
    lost_why: str = ""

    @property
    def label(self) -> str:
        return f"GPU {self.index} {self.name}"


class GpuSample(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU at one moment; None is "not told", never 0. MiB, percent, watts, degrees Celsius, MHz.

    `throttle` names the reasons for lowered clocks now. `processes` is None when they were not asked for or not told.
    """

    uuid: str
    label: str
    unified: bool = False
    parent: str = ""
    lost_why: str = ""
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    memory_source: str = ""
    utilisation_percent: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle: list[str] = []
    processes: list[GpuProcess] | None = None

    @property
    def lost(self) -> bool:
        return bool(self.lost_why)


class GpuReader(Protocol):
    """Reads the GPUs of one machine. No method raises for what a device or driver does."""

    why_none: str
    """One sentence on why there is no GPU, or on what keeps one from being read; "" when all is well."""

    def devices(self) -> list[GpuDevice]:
        """The GPUs with their static facts, in the driver's order."""

    def sample(self, processes: bool = True) -> list[GpuSample]:
        """Every GPU now; with `processes` also who is on it, which costs more."""

    def versions(self) -> Facts:
        """`driver`, and `cuda` or `rocm`."""


class Neighbour(msgspec.Struct, frozen=True):
    """A process of someone else on a GPU that is being measured."""

    uuid: str
    gpu: str
    pid: int
    name: str
    memory_mib: float | None

    def __str__(self) -> str:
        memory = "memory not told" if self.memory_mib is None else f"{self.memory_mib:.0f} MiB"
        return f"{self.name} (pid {self.pid}) on {self.gpu}: {memory}"


def neighbours(samples: Iterable[GpuSample], ours: Collection[int]) -> list[Neighbour]:
    """The processes on the GPUs that are not `ours` (this program's and the server's pids). Foreign pids can't be told
    apart and are left out. A MIG instance's process is named once, at its instance."""
    found: dict[tuple[str, int], Neighbour] = {}
    instances = {sample.parent for sample in samples if sample.parent}
    for sample in samples:
        if sample.uuid in instances:
            continue
        for process in sample.processes or ():
            if not process.foreign and process.pid not in ours:
                found[sample.uuid, process.pid] = Neighbour(
                    sample.uuid, sample.label, process.pid, process.name, process.memory_mib
                )
    return list(found.values())


class NoGpu:
    """The reader of a machine without a readable GPU."""

    def __init__(self, why: str) -> None:
        self.why_none = why

    def devices(self) -> list[GpuDevice]:
        return []

    def sample(self, processes: bool = True) -> list[GpuSample]:
        return []

    def versions(self) -> Facts:
        return Facts()


class SeveralVendors:
    """The readers of a machine whose GPUs come from more than one vendor, or one of whose drivers is at fault."""

    def __init__(self, readers: list[GpuReader], why_none: str = "") -> None:
        self._readers = readers
        self.why_none = " ".join(filter(None, [why_none, *(reader.why_none for reader in readers)]))

    def devices(self) -> list[GpuDevice]:
        return [device for reader in self._readers for device in reader.devices()]

    def sample(self, processes: bool = True) -> list[GpuSample]:
        return [sample for reader in self._readers for sample in reader.sample(processes)]

    def versions(self) -> Facts:
        facts = Facts()
        for reader in self._readers:
            for name, fact in reader.versions():
                facts.set(name, fact.value, fact.source)
        return facts
