"""CPU facts on Linux: model, sockets, cores, threads, governor, frequency, NUMA."""

from __future__ import annotations

import os
import re

from workbench.domain.facts import Facts
from workbench.domain.text import one_line
from workbench.environment.files import Files

CPUS = "/sys/devices/system/cpu"

# Instruction sets that CPU inference engines choose their kernels by.
FEATURES = (
    "avx",
    "avx2",
    "f16c",
    "fma",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_int8",
    "amx_bf16",
    "asimd",
    "asimddp",
    "i8mm",
    "bf16",
    "sve",
    "sve2",
    "sme",
)

# /proc/cpuinfo names no model on ARM; part numbers are from Arm's and the vendors' manuals, as in util-linux's lscpu.
ARM_PARTS = {
    ("0x41", "0xd08"): "ARM Cortex-A72",
    ("0x41", "0xd0b"): "ARM Cortex-A76",
    ("0x41", "0xd0c"): "ARM Neoverse-N1",
    ("0x41", "0xd40"): "ARM Neoverse-V1",
    ("0x41", "0xd42"): "ARM Cortex-A78AE",
    ("0x41", "0xd49"): "ARM Neoverse-N2",
    ("0x41", "0xd4f"): "ARM Neoverse-V2",
    ("0x41", "0xd83"): "ARM Neoverse-V3AE",
    ("0x41", "0xd84"): "ARM Neoverse-V3",
    ("0x41", "0xd85"): "ARM Cortex-X925",
    ("0x41", "0xd87"): "ARM Cortex-A725",
    ("0x41", "0xd8e"): "ARM Neoverse-N3",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}

HIDDEN = "this kernel shows no cpufreq, as in a virtual machine: read it on the machine that hosts it"


def fill_cpu(facts: Facts, files: Files) -> None:
    """Add the CPU facts; frequencies are MHz, counts are of CPUs that are online."""
    info: dict[str, str] = {}
    parts: list[tuple[str, str]] = []
    implementer = ""
    for key, value in files.fields("/proc/cpuinfo"):
        info.setdefault(key, value)
        if key == "CPU implementer":
            implementer = value.lower()
        elif key == "CPU part":
            parts.append((implementer, value.lower()))
    _model(facts, info, parts)
    _topology(facts, files)
    _frequency(facts, files, info)
    known = set((info.get("flags") or info.get("Features") or "").split())
    if known:
        facts.set("cpu_features", [name for name in FEATURES if name in known], "/proc/cpuinfo")


def _model(facts: Facts, info: dict[str, str], parts: list[tuple[str, str]]) -> None:
    model = info.get("model name") or info.get("cpu model") or info.get("cpu")
    source = "/proc/cpuinfo"
    if not model and parts:
        names = list(dict.fromkeys(ARM_PARTS.get(part, f"implementer {part[0]} part {part[1]}") for part in parts))
        model, source = " + ".join(names), "/proc/cpuinfo implementer and part"
    facts.set("cpu", one_line(model or ""), source, "run `lscpu` on the machine")


def _topology(facts: Facts, files: Files) -> None:
    packages: set[str] = set()
    cores: set[tuple[str, str]] = set()
    threads = 0
    for name in files.names(CPUS):
        if not re.fullmatch(r"cpu\d+", name) or files.number(f"{CPUS}/{name}/online") == 0:
            continue
        threads += 1
        package = files.text(f"{CPUS}/{name}/topology/physical_package_id")
        core = files.text(f"{CPUS}/{name}/topology/core_id")
        if package is not None and core is not None:
            packages.add(package)
            # The cores of two dies or clusters of one package may carry the same core_id; a CPU's siblings are unique.
            siblings = files.text(f"{CPUS}/{name}/topology/thread_siblings_list")
            cores.add((package, siblings or core))
    source = f"{CPUS}/cpu*/topology"
    facts.set("sockets", len(packages) or None, source, "run `lscpu` on the machine")
    facts.set("cores", len(cores) or None, source, "run `lscpu` on the machine")
    facts.set("threads", threads or os.cpu_count(), CPUS if threads else "os.cpu_count")
    active = files.text(f"{CPUS}/smt/active")
    if active in ("0", "1"):
        facts.set("smt", active == "1", f"{CPUS}/smt/active")
    elif cores:
        facts.set("smt", threads > len(cores), source)
    else:
        facts.set("smt", None, "", "run `lscpu` on the machine and compare threads with cores")
    nodes = [name for name in files.names("/sys/devices/system/node") if re.fullmatch(r"node\d+", name)]
    facts.set("numa_nodes", len(nodes) or None, "/sys/devices/system/node", "run `numactl --hardware`")


def _frequency(facts: Facts, files: Files, info: dict[str, str]) -> None:
    policies = [f"{CPUS}/cpufreq/{name}" for name in files.names(f"{CPUS}/cpufreq") if name.startswith("policy")]
    governors = sorted({text for folder in policies if (text := files.text(f"{folder}/scaling_governor"))})
    facts.set("governor", ", ".join(governors), f"{CPUS}/cpufreq/policy*/scaling_governor", HIDDEN)
    now = [kilohertz for folder in policies if (kilohertz := files.number(f"{folder}/scaling_cur_freq"))]
    top = [kilohertz for folder in policies if (kilohertz := files.number(f"{folder}/cpuinfo_max_freq"))]
    if now:
        facts.set("frequency_mhz", round(max(now) / 1000), f"{CPUS}/cpufreq/policy*/scaling_cur_freq")
    else:
        stated = info.get("cpu MHz", "")
        facts.set(
            "frequency_mhz",
            round(float(stated)) if re.fullmatch(r"\d+(\.\d+)?", stated) else None,
            "/proc/cpuinfo",
            HIDDEN,
        )
    facts.set("frequency_max_mhz", round(max(top) / 1000) if top else None, f"{CPUS}/cpufreq/policy*", HIDDEN)
    boost, no_turbo = files.text(f"{CPUS}/cpufreq/boost"), files.text(f"{CPUS}/intel_pstate/no_turbo")
    if boost in ("0", "1"):
        facts.set("boost", boost == "1", f"{CPUS}/cpufreq/boost")
    elif no_turbo in ("0", "1"):
        facts.set("boost", no_turbo == "0", f"{CPUS}/intel_pstate/no_turbo")
    usable = usable_cpus()
    if usable is not None:
        facts.set("cpus_usable", usable, "sched_getaffinity")


def usable_cpus() -> int | None:
    """How many CPUs this process may run on (taskset, cpuset); None where the system can't say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return None
