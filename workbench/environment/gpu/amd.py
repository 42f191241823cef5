"""AMD GPUs through the amdgpu driver's files in /sys/class/drm. Written from the kernel's documentation
(Documentation/gpu/amdgpu/driver-misc.rst and thermal.rst): not seen on hardware."""

from __future__ import annotations

import re

from workbench.domain.facts import Facts
from workbench.domain.text import one_line
from workbench.environment.files import HERE, Files
from workbench.environment.gpu.base import MIB, GpuDevice, GpuSample

DRM = "/sys/class/drm"
AMD = "0x1002"


class _Card:
    def __init__(self, files: Files, card: str, index: int) -> None:
        self.folder, self.index = f"{DRM}/{card}/device", index
        monitors = files.names(f"{self.folder}/hwmon")
        self.monitor = f"{self.folder}/hwmon/{monitors[0]}" if monitors else ""
        ids = f"{AMD[2:]}:{(files.text(f'{self.folder}/device') or '').removeprefix('0x')}"
        self.name = one_line(files.text(f"{self.folder}/product_name") or f"AMD GPU {ids}", 96)
        unique = files.text(f"{self.folder}/unique_id")
        address = (files.link(f"{DRM}/{card}/device") or card).rsplit("/", 1)[-1]
        # Cards without a unique number are known by the place they are plugged in.
        self.uuid = f"AMD-{unique}" if unique and unique.strip("0") else f"AMD-pci-{address}"

    @property
    def label(self) -> str:
        return f"GPU {self.index} {self.name}"


class AmdReader:
    """See `base.GpuReader`. Processes are not told by these files."""

    def __init__(self, files: Files = HERE) -> None:
        self._files = files
        cards = [name for name in files.names(DRM) if re.fullmatch(r"card\d+", name)]
        cards = [
            name
            for name in cards
            if files.text(f"{DRM}/{name}/device/vendor") == AMD
            and files.exists(f"{DRM}/{name}/device/mem_info_vram_total")
        ]
        self._cards = [_Card(files, name, index) for index, name in enumerate(cards)]
        self.why_none = "" if self._cards else "No AMD GPU with the amdgpu driver is here."

    def devices(self) -> list[GpuDevice]:
        found = []
        for card in self._cards:
            facts = Facts()
            facts.set("name", card.name, f"{card.folder}/product_name" if "AMD GPU " not in card.name else "PCI id")
            facts.set("uuid", card.uuid, card.folder)
            facts.set("index", card.index, DRM)
            total = self._files.number(f"{card.folder}/mem_info_vram_total")
            facts.set(
                "memory_mib", round(total / MIB) if total else None, "mem_info_vram_total", "run `amd-smi static`"
            )
            shared = self._files.number(f"{card.folder}/mem_info_gtt_total")
            if shared:
                facts.set("memory_shared_mib", round(shared / MIB), "mem_info_gtt_total (system memory it may use)")
            limit = self._files.number(f"{card.monitor}/power1_cap") if card.monitor else None
            facts.set(
                "power_limit_w", round(limit / 1e6) if limit else None, "power1_cap", "run `amd-smi static --limit`"
            )
            speed = self._files.text(f"{card.folder}/current_link_speed")
            width = self._files.text(f"{card.folder}/current_link_width")
            facts.set(
                "pcie_now", f"{one_line(speed)} x{width}" if speed and width else None, card.folder, "run `lspci -vv`"
            )
            found.append(GpuDevice(card.uuid, card.name, card.index, facts))
        return found

    def sample(self, processes: bool = True) -> list[GpuSample]:
        return [self._sample(card) for card in self._cards]

    def versions(self) -> Facts:
        facts = Facts()
        facts.set(
            "driver", self._files.text("/sys/module/amdgpu/version"), "/sys/module/amdgpu/version", "the kernel's own"
        )
        facts.set("rocm", self._files.text("/opt/rocm/.info/version"), "/opt/rocm/.info/version", "install ROCm")
        return facts

    def _sample(self, card: _Card) -> GpuSample:
        number = self._files.number
        total, used = number(f"{card.folder}/mem_info_vram_total"), number(f"{card.folder}/mem_info_vram_used")
        if total is None and not self._files.exists(card.folder):
            return GpuSample(uuid=card.uuid, label=card.label, lost_why="the card's files in /sys have gone")
        busy = number(f"{card.folder}/gpu_busy_percent")
        microwatts = millidegrees = hertz = None
        if card.monitor:
            microwatts = number(f"{card.monitor}/power1_average")
            if microwatts is None:
                microwatts = number(f"{card.monitor}/power1_input")
            millidegrees = number(f"{card.monitor}/temp1_input")
            hertz = number(f"{card.monitor}/freq1_input")
        return GpuSample(
            uuid=card.uuid,
            label=card.label,
            memory_used_mib=None if used is None else used / MIB,
            memory_total_mib=None if total is None else total / MIB,
            memory_source="mem_info_vram_used",
            utilisation_percent=None if busy is None else float(busy),
            power_w=None if microwatts is None else microwatts / 1e6,
            temperature_c=None if millidegrees is None else millidegrees / 1000,
            sm_clock_mhz=None if hertz is None else round(hertz / 1e6),
        )
