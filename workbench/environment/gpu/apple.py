"""Apple silicon: the GPU uses the machine's memory, so the figures are the system's. Written from Apple's documentation and
psutil's: not run on macOS. Utilisation, power and clocks need root (`sudo powermetrics`) and are not read."""

from __future__ import annotations

import platform

from workbench.domain.facts import Facts
from workbench.environment.files import MACOS
from workbench.environment.gpu.base import GpuDevice, GpuSample
from workbench.environment.macos import sysctl
from workbench.environment.system_memory import system_memory


class AppleReader:
    """See `base.GpuReader`. Not run on macOS."""

    def __init__(self) -> None:
        here = MACOS and platform.machine() == "arm64"
        self.why_none = "" if here else "This is not an Apple silicon machine."
        self._name = sysctl().get("machdep.cpu.brand_string", "Apple silicon") if here else ""

    def devices(self) -> list[GpuDevice]:
        if not self._name:
            return []
        facts = Facts()
        facts.set("name", f"{self._name} GPU", "sysctl machdep.cpu.brand_string")
        facts.set("memory_kind", "unified: shared with the system", "Apple silicon")
        memory = system_memory()
        facts.set("memory_mib", round(memory.total_mib) if memory else None, "psutil")
        facts.set("power_limit_w", None, "", "macOS does not tell it")
        return [GpuDevice("apple-0", f"{self._name} GPU", 0, facts, unified=True)]

    def sample(self, processes: bool = True) -> list[GpuSample]:
        if not self._name:
            return []
        memory = system_memory()
        return [
            GpuSample(
                uuid="apple-0",
                label=f"GPU 0 {self._name}",
                unified=True,
                memory_used_mib=memory.used_mib if memory else None,
                memory_total_mib=memory.total_mib if memory else None,
                memory_source="psutil (unified memory)",
            )
        ]

    def versions(self) -> Facts:
        return Facts()
