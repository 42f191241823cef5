"""Is this a virtual machine, whose, and in which cloud? The logic of systemd-detect-virt, from files alone."""

from __future__ import annotations

import shutil
import subprocess

from workbench.domain.facts import Facts
from workbench.domain.text import one_line
from workbench.environment.files import Files

DMI = "/sys/class/dmi/id"
CLOCKS = "/sys/devices/system/clocksource/clocksource0/available_clocksource"

# Prefix of a DMI string -> name as systemd-detect-virt prints it.
DMI_VENDORS = {
    "KVM": "kvm",
    "OpenStack": "kvm",
    "KubeVirt": "kvm",
    "Amazon EC2": "amazon",
    "QEMU": "qemu",
    "VMware": "vmware",
    "VMW": "vmware",
    "innotek GmbH": "oracle",
    "VirtualBox": "oracle",
    "Xen": "xen",
    "Bochs": "bochs",
    "Parallels": "parallels",
    "BHYVE": "bhyve",
    "Hyper-V": "microsoft",
    "Apple Virtualization": "apple",
    "Google Compute Engine": "google",
}
# These are named by DMI even where the hypervisor below is KVM or imitates another one.
DMI_FIRST = {"oracle", "amazon", "parallels", "google", "xen"}

CLOUDS = {
    "Amazon EC2": "Amazon EC2",
    "Google": "Google Compute Engine",
    "DigitalOcean": "DigitalOcean",
    "Hetzner": "Hetzner Cloud",
    "Alibaba Cloud": "Alibaba Cloud",
    "Tencent Cloud": "Tencent Cloud",
    "OpenStack": "OpenStack",
    "Scaleway": "Scaleway",
    "Vultr": "Vultr",
    "Linode": "Akamai Linode",
    "Akamai": "Akamai",
    "UpCloud": "UpCloud",
    "CoreWeave": "CoreWeave",
    "Exoscale": "Exoscale",
}
# Fixed tags that two clouds put into every machine's chassis.
CHASSIS = {"7783-7084-3265-9085-8269-3286-77": "Microsoft Azure", "OracleCloud.com": "Oracle Cloud"}


def fill_virtualization(facts: Facts, files: Files, ask_systemd: bool = True) -> None:
    """Add `virtualization` ("none", "kvm", "amazon", ...), `machine`, `cloud` and `wsl`."""
    dmi = {
        name: files.text(f"{DMI}/{name}") or ""
        for name in ("product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version")
    }
    kind, source = hypervisor(files, dmi)
    if kind == "" and ask_systemd:
        kind, source = _systemd()
    facts.set("virtualization", kind, source, "install systemd and run `systemd-detect-virt --vm`")
    name, source = _machine(files, dmi)
    facts.set("machine", name, source, "a virtual machine or board without DMI: ask whoever runs it")
    cloud, source = _cloud(files, dmi)
    if cloud:
        facts.set("cloud", cloud, source)
    release = (files.text("/proc/sys/kernel/osrelease") or "").lower()
    version = (
        "none" if "microsoft" not in release else "WSL 2" if "wsl2" in release or "standard" in release else "WSL 1"
    )
    facts.set("wsl", version, "/proc/sys/kernel/osrelease")


def hypervisor(files: Files, dmi: dict[str, str]) -> tuple[str, str]:
    """(name, source): "none" on a bare machine, "" when there is a hypervisor that no file names."""
    by_dmi = next(
        (name for text in dmi.values() for prefix, name in DMI_VENDORS.items() if text.startswith(prefix)), ""
    )
    flags, arm = "", False
    for key, value in files.fields("/proc/cpuinfo"):
        if key == "flags":
            flags = value
            break
        arm = arm or key == "CPU implementer"
    flagged = " hypervisor " in f" {flags} "
    if by_dmi == "amazon" and flags and not flagged:
        return "none", "/proc/cpuinfo: no hypervisor flag (a .metal instance)"
    if by_dmi in DMI_FIRST:
        return by_dmi, DMI
    if "User Mode Linux" in (files.text("/proc/cpuinfo") or ""):
        return "uml", "/proc/cpuinfo"
    clocks = files.text(CLOCKS) or ""
    for clock, name in (("kvm-clock", "kvm"), ("hyperv_clocksource", "microsoft"), ("xen", "xen")):
        if clock in clocks:
            return name, CLOCKS
    if files.text("/sys/hypervisor/type") == "xen" or files.exists("/proc/xen"):
        return "xen", "/sys/hypervisor"
    tree = files.text("/proc/device-tree/hypervisor/compatible") or ""
    for word, name in (("kvm", "kvm"), ("xen", "xen"), ("vmware", "vmware")):
        if word in tree:
            return name, "/proc/device-tree/hypervisor"
    if by_dmi:
        return by_dmi, DMI
    if files.exists("/sys/firmware/qemu_fw_cfg"):
        return "qemu", "/sys/firmware/qemu_fw_cfg"
    if flagged:
        return "", "/proc/cpuinfo"
    if flags:
        return "none", "/proc/cpuinfo: no hypervisor flag"
    if arm and (any(dmi.values()) or files.exists("/proc/device-tree/model")):
        return "none", "neither DMI nor the device tree names a hypervisor"
    return "", "/proc/cpuinfo"


def _systemd() -> tuple[str, str]:
    """Ask systemd-detect-virt, which can run the CPUID instruction, when files left the question open."""
    program = shutil.which("systemd-detect-virt")
    if program is None:
        return "", ""
    try:
        done = subprocess.run([program, "--vm"], capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.SubprocessError):
        return "", ""
    return one_line(done.stdout, 40), "systemd-detect-virt --vm"


def _machine(files: Files, dmi: dict[str, str]) -> tuple[str, str]:
    vendor, product = one_line(dmi["sys_vendor"], 60), one_line(dmi["product_name"], 60)
    if product:
        return (product if product.startswith(vendor) else f"{vendor} {product}".strip()), DMI
    model = files.text("/proc/device-tree/model")
    if model:
        return one_line(model, 80), "/proc/device-tree/model"
    # A microVM has no DMI, but its ACPI tables carry the maker's name at offset 10.
    if files.head("/sys/firmware/acpi/tables/DSDT", 16)[10:16] == b"FIRECK":
        return "Firecracker microVM", "/sys/firmware/acpi/tables/DSDT"
    return "", ""


def _cloud(files: Files, dmi: dict[str, str]) -> tuple[str, str]:
    tag = files.text(f"{DMI}/chassis_asset_tag") or ""
    if tag in CHASSIS:
        return CHASSIS[tag], f"{DMI}/chassis_asset_tag"
    for text in (dmi["sys_vendor"], dmi["product_name"], dmi["board_vendor"]):
        for prefix, name in CLOUDS.items():
            if text.startswith(prefix):
                instance = one_line(dmi["product_name"], 40)
                return (f"{name} {instance}" if name == "Amazon EC2" and instance else name), DMI
    return "", ""
