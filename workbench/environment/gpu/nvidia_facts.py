"""The static facts of one NVIDIA device, each asked for alone."""

from __future__ import annotations

from typing import Any

from workbench.domain.facts import Facts
from workbench.domain.text import one_line
from workbench.environment.gpu.base import MIB
from workbench.environment.gpu.nvidia_library import Nvml

SOURCE = "NVML"
NOT_SUPPORTED = "Not Supported"
"""pynvml's words for NVML_ERROR_NOT_SUPPORTED."""

# nvml.h, NVML_DEVICE_ARCH_*
ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}

# Chips whose memory is the machine's own. NVML tells it by no means that every driver has, so the name is the source.
UNIFIED_NAMES = ("GB10", "Orin", "Thor", "Xavier", "Tegra", "Jetson")


def is_unified(name: str) -> bool:
    """Does the chip's name (GB10, Jetson's Orin, Thor, Xavier) say that it shares the machine's memory?"""
    return any(word.lower() in name.lower() for word in UNIFIED_NAMES)


def device_facts(nvml: Nvml, handle: Any, uuid: str, name: str, unified: bool, mig_instance: bool) -> Facts:
    """Memory in MiB, power in W, clocks in MHz. Raises DeviceLost when the device goes away meanwhile."""
    facts = Facts()

    def put(key: str, value: Any, otherwise: str = "") -> None:
        facts.set(key, value, SOURCE, otherwise or nvml.refusal or "NVML does not tell it")

    put("name", name)
    put("uuid", uuid)
    if unified:
        facts.set("memory_kind", "unified: shared with the system", "from the name")
    else:
        memory, source = memory_info(nvml, handle)
        facts.set("memory_mib", round(memory.total / MIB) if memory else None, source, nvml.refusal)
        if memory is not None and hasattr(memory, "reserved"):
            facts.set("memory_reserved_mib", round(memory.reserved / MIB), source)
    if mig_instance:
        put("mig", "instance")
        return facts
    architecture = nvml.ask("nvmlDeviceGetArchitecture", handle)
    put("architecture", ARCHITECTURES.get(architecture, "") if architecture is not None else None)
    capability = nvml.ask("nvmlDeviceGetCudaComputeCapability", handle)
    put("compute_capability", f"{capability[0]}.{capability[1]}" if capability else None)
    put("cuda_cores", nvml.ask("nvmlDeviceGetNumGpuCores", handle))
    _links(nvml, handle, put, unified)
    _modes(nvml, handle, put)
    _power_and_clocks(nvml, handle, put)
    return facts


def memory_info(nvml: Nvml, handle: Any) -> tuple[Any, str]:
    """(structure in bytes, source): version 2, whose `used` leaves out what the driver reserves, else version 1; None when
    the driver tells neither or tells a total of 0."""
    version = nvml.module.nvmlMemory_v2
    for arguments, source in (((handle, version), "NVML memory v2"), ((handle,), "NVML memory v1")):
        memory = nvml.ask("nvmlDeviceGetMemoryInfo", *arguments)
        if memory is not None and memory.total > 0 and memory.used <= memory.total:
            return memory, source
    return None, ""


def _links(nvml: Nvml, handle: Any, put: Any, unified: bool) -> None:
    if not unified:
        # On a chip with unified memory these describe no slot that anyone could have wired differently.
        generation, width = (
            nvml.ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            nvml.ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
        )
        put("pcie_now", f"gen {generation} x{width}" if generation and width else None)
        generation, width = (
            nvml.ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            nvml.ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        )
        put("pcie_max", f"gen {generation} x{width}" if generation and width else None)
    states = [nvml.ask("nvmlDeviceGetNvLinkState", handle, link) for link in range(nvml.module.NVML_NVLINK_MAX_LINKS)]
    told = [state for state in states if state is not None]
    # Asked last, link by link: a device without any refuses each of them.
    put("nvlinks", sum(told) if told else "not supported" if NOT_SUPPORTED in nvml.refusal else None)


def _modes(nvml: Nvml, handle: Any, put: Any) -> None:
    on_off = {0: "off", 1: "on"}
    for key, function in (("mig", "nvmlDeviceGetMigMode"), ("ecc", "nvmlDeviceGetEccMode")):
        modes = nvml.ask(function, handle)
        # A card without the feature says so: that is an answer, not a gap.
        absent = "not supported" if NOT_SUPPORTED in nvml.refusal else None
        put(key, on_off.get(modes[0]) if modes else absent)
    put("persistence", on_off.get(nvml.ask("nvmlDeviceGetPersistenceMode", handle)))


def _power_and_clocks(nvml: Nvml, handle: Any, put: Any) -> None:
    for key, function in (
        ("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit"),
        ("power_limit_default_w", "nvmlDeviceGetPowerManagementDefaultLimit"),
    ):
        milliwatts = nvml.ask(function, handle)
        put(key, round(milliwatts / 1000, 1) if milliwatts else None)
    module = nvml.module
    put("sm_clock_max_mhz", nvml.ask("nvmlDeviceGetMaxClockInfo", handle, module.NVML_CLOCK_SM))
    put("memory_clock_max_mhz", nvml.ask("nvmlDeviceGetMaxClockInfo", handle, module.NVML_CLOCK_MEM))


def version_facts(nvml: Nvml) -> Facts:
    """`driver`, and `cuda`: the newest CUDA the driver supports, not the toolkit an engine was built with."""
    facts = Facts()
    driver = nvml.ask("nvmlSystemGetDriverVersion")
    facts.set("driver", one_line(str(driver)) if driver else None, SOURCE, "run `nvidia-smi`")
    cuda = nvml.ask("nvmlSystemGetCudaDriverVersion_v2")
    facts.set("cuda", f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None, SOURCE, "run `nvidia-smi`")
    return facts
