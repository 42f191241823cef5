"""Host facts on macOS, by one call of sysctl. Written from Apple's documentation: not run on macOS."""

from __future__ import annotations

import platform
import subprocess

from workbench.domain.facts import Facts
from workbench.domain.text import one_line

NAMES = (
    "machdep.cpu.brand_string",
    "hw.model",
    "hw.packages",
    "hw.physicalcpu",
    "hw.logicalcpu",
    "hw.cpufrequency_max",
    "kern.hv_vmm_present",
)


def sysctl() -> dict[str, str]:
    """Name -> value of the sysctls above that this machine has; empty when sysctl can't be run. Not run on macOS."""
    try:
        done = subprocess.run(["/usr/sbin/sysctl", *NAMES], capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.SubprocessError):
        return {}
    pairs = (line.partition(":") for line in done.stdout.splitlines())
    return {key.strip(): one_line(value) for key, found, value in pairs if found}


def fill_macos(facts: Facts, answers: dict[str, str]) -> None:
    """Add CPU, machine, virtualization and OS from sysctl's answers. Not run on macOS."""

    def number(name: str) -> int | None:
        text = answers.get(name, "")
        return int(text) if text.isdecimal() else None

    how = "run `sysctl hw machdep.cpu`"
    facts.set("cpu", answers.get("machdep.cpu.brand_string"), "sysctl machdep.cpu.brand_string", how)
    facts.set("sockets", number("hw.packages"), "sysctl hw.packages", how)
    cores, threads = number("hw.physicalcpu"), number("hw.logicalcpu")
    facts.set("cores", cores, "sysctl hw.physicalcpu", how)
    facts.set("threads", threads, "sysctl hw.logicalcpu", how)
    facts.set("smt", threads > cores if cores and threads else None, "sysctl hw.logicalcpu", how)
    hertz = number("hw.cpufrequency_max")
    facts.set(
        "frequency_max_mhz",
        round(hertz / 1e6) if hertz else None,
        "sysctl hw.cpufrequency_max",
        "Apple silicon does not tell it: run `sudo powermetrics --samplers cpu_power`",
    )
    facts.set("governor", None, "", "macOS has no governor; see the power source and Low Power Mode")
    facts.set("machine", answers.get("hw.model"), "sysctl hw.model", "run `sysctl hw.model`")
    present = answers.get("kern.hv_vmm_present")
    facts.set(
        "virtualization",
        {"0": "none", "1": "virtual machine"}.get(present or ""),
        "sysctl kern.hv_vmm_present",
        "run `sysctl kern.hv_vmm_present`",
    )
    facts.set("os", f"macOS {platform.mac_ver()[0]}".strip(), "platform.mac_ver")
