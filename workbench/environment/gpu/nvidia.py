"""NVIDIA GPUs through NVML: by UUID, each field failing alone, a lost device leaving a gap.

Tested through a stand-in of libnvidia-ml below the real binding; see the documentation for what was seen on hardware.
"""

from __future__ import annotations

from typing import Any

from workbench.domain.facts import Facts
from workbench.domain.text import one_line
from workbench.environment.files import HERE, Files
from workbench.environment.gpu.base import MIB, THROTTLE, UNKNOWN_NAME, GpuDevice, GpuProcess, GpuSample
from workbench.environment.gpu.nvidia_facts import device_facts, is_unified, memory_info, version_facts
from workbench.environment.gpu.nvidia_library import DeviceLost, open_nvml
from workbench.environment.processes import process_name
from workbench.environment.system_memory import system_memory

INIT_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel's fixed inode number of the first pid namespace (PROC_PID_INIT_INO)."""

PID_MAX = 1 << 22
"""Linux's highest pid: a larger one comes from a structure filled by a driver of another version."""


class _Device:
    """One handle and what is known of it for good."""

    def __init__(self, handle: Any, uuid: str, name: str, index: int, parent: str = "") -> None:
        self.handle, self.uuid, self.name, self.index, self.parent = handle, uuid, name, index, parent
        self.unified = is_unified(name)
        self.lost_why = ""
        self.answering: dict[str, int] = {}

    @property
    def label(self) -> str:
        return f"GPU {self.index} {self.name}"


class NvidiaReader:
    """See `base.GpuReader`. A device that was lost stays lost for this reader: its handle is not touched again."""

    def __init__(self, files: Files = HERE) -> None:
        self._files = files
        self._nvml, self.why_none = open_nvml()
        self._devices = self._enumerate() if self._nvml else []
        if self._nvml and not self._devices:
            self.why_none = "The NVIDIA driver answers and lists no GPU; in a container, start it with --gpus all."
        self._namespaced = files.link("/proc/self/ns/pid") not in (None, INIT_PID_NAMESPACE)

    def devices(self) -> list[GpuDevice]:
        found = []
        for device in self._devices:
            facts = Facts()
            if not device.lost_why and self._nvml:
                try:
                    facts = device_facts(
                        self._nvml, device.handle, device.uuid, device.name, device.unified, bool(device.parent)
                    )
                except DeviceLost as lost:
                    device.lost_why = str(lost)
            if not len(facts):
                facts.set("name", device.name, "NVML")
                facts.set("uuid", device.uuid, "NVML", device.lost_why)
            if device.parent:
                facts.set("parent", device.parent, "NVML")
            facts.set("index", device.index, "NVML, in PCI bus order")
            found.append(
                GpuDevice(device.uuid, device.name, device.index, facts, device.unified, device.parent, device.lost_why)
            )
        return found

    def sample(self, processes: bool = True) -> list[GpuSample]:
        return [self._sample(device, processes) for device in self._devices]

    def versions(self) -> Facts:
        if self._nvml is None:
            return Facts()
        try:
            return version_facts(self._nvml)
        except DeviceLost:
            return Facts()

    def _enumerate(self) -> list[_Device]:
        nvml = self._nvml
        assert nvml is not None
        found: list[_Device] = []
        try:
            count = nvml.ask("nvmlDeviceGetCount") or 0
        except DeviceLost:
            count = 0
        for index in range(count):
            device = _Device(None, "", "unreadable", index)
            found.append(device)
            try:
                device.handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
                if device.handle is None:
                    device.lost_why = nvml.refusal
                    continue
                device.uuid = one_line(nvml.ask("nvmlDeviceGetUUID", device.handle) or "", 96)
                device.name = one_line(nvml.ask("nvmlDeviceGetName", device.handle) or "NVIDIA GPU", 96)
                device.unified = is_unified(device.name)
                found.extend(self._instances(device))
            except DeviceLost as lost:
                device.lost_why = str(lost)
        return found

    def _instances(self, parent: _Device) -> list[_Device]:
        """The MIG instances of a device; none when MIG is off or not there."""
        nvml = self._nvml
        assert nvml is not None
        modes = nvml.ask("nvmlDeviceGetMigMode", parent.handle)
        if not modes or modes[0] != 1:
            return []
        found = []
        for index in range(nvml.ask("nvmlDeviceGetMaxMigDeviceCount", parent.handle) or 0):
            handle = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", parent.handle, index)
            if handle is None:
                continue
            uuid = one_line(nvml.ask("nvmlDeviceGetUUID", handle) or "", 96)
            name = one_line(nvml.ask("nvmlDeviceGetName", handle) or f"{parent.name} MIG {index}", 96)
            found.append(_Device(handle, uuid, name, parent.index, parent.uuid))
        return found

    def _sample(self, device: _Device, processes: bool) -> GpuSample:
        identity: dict[str, Any] = {
            "uuid": device.uuid,
            "label": device.label,
            "unified": device.unified,
            "parent": device.parent,
        }
        if not device.lost_why:
            try:
                return self._read(device, processes, identity)
            except DeviceLost as lost:
                device.lost_why = str(lost)
        return GpuSample(**identity, lost_why=device.lost_why)

    def _read(self, device: _Device, processes: bool, identity: dict[str, Any]) -> GpuSample:
        nvml, handle = self._nvml, device.handle
        assert nvml is not None
        used, total, source = self._memory(device)
        use = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
        milliwatts = nvml.ask("nvmlDeviceGetPowerUsage", handle)
        reasons = self._first(
            device,
            "throttle",
            [("nvmlDeviceGetCurrentClocksEventReasons", ()), ("nvmlDeviceGetCurrentClocksThrottleReasons", ())],
        )
        core = nvml.module.NVML_TEMPERATURE_GPU
        return GpuSample(
            **identity,
            memory_used_mib=used,
            memory_total_mib=total,
            memory_source=source,
            utilisation_percent=None if use is None else float(use.gpu),
            power_w=None if milliwatts is None else milliwatts / 1000,
            temperature_c=self._first(
                device, "temperature", [("nvmlDeviceGetTemperatureV", (core,)), ("nvmlDeviceGetTemperature", (core,))]
            ),
            sm_clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", handle, nvml.module.NVML_CLOCK_SM),
            memory_clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", handle, nvml.module.NVML_CLOCK_MEM),
            throttle=[name for bit, name in THROTTLE.items() if (reasons or 0) & bit],
            processes=self._processes(device, total) if processes else None,
        )

    def _first(self, device: _Device, what: str, ways: list[tuple[str, tuple[object, ...]]]) -> Any:
        """Ask the newer function, and the older one of a driver that lacks it; the one that answered is kept."""
        assert self._nvml is not None
        known = device.answering.get(what)
        for index in range(len(ways)) if known is None else (known,):
            function, arguments = ways[index]
            answer = self._nvml.ask(function, device.handle, *arguments)
            if answer is not None:
                device.answering[what] = index
                return answer
        return None

    def _memory(self, device: _Device) -> tuple[float | None, float | None, str]:
        assert self._nvml is not None
        if device.unified:
            system = system_memory(self._files)
            return (
                (system.used_mib, system.total_mib, f"{system.source} (unified memory)") if system else (None, None, "")
            )
        memory, source = memory_info(self._nvml, device.handle)
        if memory is None:
            return None, None, ""
        return memory.used / MIB, memory.total / MIB, source

    def _processes(self, device: _Device, total_mib: float | None) -> list[GpuProcess] | None:
        assert self._nvml is not None
        found: dict[int, GpuProcess] = {}
        told = False
        for function in (
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlDeviceGetGraphicsRunningProcesses",
            "nvmlDeviceGetMPSComputeRunningProcesses",
        ):
            entries = self._nvml.ask(function, device.handle)
            if entries is None:
                entries = self._nvml.ask(f"{function}_v2", device.handle)
            if entries is None:
                continue
            if any(not 0 < entry.pid <= PID_MAX for entry in entries):
                return None  # Scrambled by a driver of another version: no pid of the list can be believed.
            told = True
            for entry in entries:
                process, known = self._process(entry, total_mib), found.get(entry.pid)
                # A process that computes and draws is in two lists, each with all its memory or without.
                if known is None or (process.memory_mib or 0.0) > (known.memory_mib or 0.0):
                    found[entry.pid] = process
        return list(found.values()) if told else None

    def _process(self, entry: Any, total_mib: float | None) -> GpuProcess:
        memory = None if entry.usedGpuMemory is None else entry.usedGpuMemory / MIB
        if memory is not None and total_mib is not None and memory > total_mib:
            memory = None  # "Not available" read through a structure of another version: 2^64 bytes and the like.
        if self._namespaced and not self._on_gpu(entry.pid):
            return GpuProcess(entry.pid, UNKNOWN_NAME, memory, foreign=True)
        return GpuProcess(entry.pid, process_name(entry.pid, self._files) or UNKNOWN_NAME, memory)

    def _on_gpu(self, pid: int) -> bool:
        """Has the process of this pid in our own namespace an NVIDIA device open? Then the driver means that one."""
        folder = f"/proc/{pid}/fd"
        return any(
            (self._files.link(f"{folder}/{name}") or "").startswith("/dev/nvidia") for name in self._files.names(folder)
        )
