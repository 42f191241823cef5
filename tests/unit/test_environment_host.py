"""Host facts: made-up /proc and /sys trees of machines that are not at hand, and this machine against its own files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.domain.facts import Facts
from workbench.environment.container import cgroup_limits, container
from workbench.environment.cpu import fill_cpu
from workbench.environment.files import LINUX, Files
from workbench.environment.host import disk_kind, host_facts
from workbench.environment.virtual import fill_virtualization, hypervisor

CPUS = "/sys/devices/system/cpu"
DMI_NAMES = ("product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version")


def tree(root: Path, files: dict[str, object]) -> Files:
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return Files(str(root))


def xeon(root: Path) -> Files:
    """Two sockets of two cores with two threads each, on a bare machine; the cores of a socket are on two dies."""
    files: dict[str, object] = {
        "/proc/cpuinfo": "processor : 0\nmodel name : Intel(R) Xeon(R) Gold\nflags : fpu avx2 avx512f amx_int8\n",
        f"{CPUS}/smt/active": 1,
        f"{CPUS}/intel_pstate/no_turbo": 1,
        "/sys/devices/system/node/node0/cpulist": "0-3",
        "/sys/devices/system/node/node1/cpulist": "4-7",
    }
    for number in range(8):
        core = number // 2
        folder = f"{CPUS}/cpu{number}/topology"
        # Each die numbers its cores from 0, as some do.
        files |= {
            f"{folder}/physical_package_id": core // 2,
            f"{folder}/core_id": 0,
            f"{folder}/thread_siblings_list": f"{core * 2}-{core * 2 + 1}",
            f"{CPUS}/cpufreq/policy{number}/scaling_governor": "powersave" if number else "performance",
            f"{CPUS}/cpufreq/policy{number}/scaling_cur_freq": 800000 + number,
            f"{CPUS}/cpufreq/policy{number}/cpuinfo_max_freq": 3900000,
        }
    return tree(root, files)


def test_sockets_cores_threads_and_frequency(tmp_path: Path) -> None:
    facts = Facts()
    fill_cpu(facts, xeon(tmp_path))
    assert facts.get("cpu") == "Intel(R) Xeon(R) Gold"
    assert (facts.get("sockets"), facts.get("cores"), facts.get("threads"), facts.get("smt")) == (2, 4, 8, True)
    assert facts.get("numa_nodes") == 2
    assert facts.get("governor") == "performance, powersave"
    assert (facts.get("frequency_mhz"), facts.get("frequency_max_mhz")) == (800, 3900)
    assert facts.get("boost") is False
    assert facts.get("cpu_features") == ["avx2", "avx512f", "amx_int8"]


def test_cpus_that_are_off_do_not_count(tmp_path: Path) -> None:
    files = xeon(tmp_path)
    for number in (1, 3, 5, 7):
        (tmp_path / f"{CPUS}/cpu{number}/online".lstrip("/")).write_text("0\n")
    (tmp_path / f"{CPUS}/smt/active".lstrip("/")).write_text("0\n")
    facts = Facts()
    fill_cpu(facts, files)
    assert (facts.get("threads"), facts.get("smt")) == (4, False)


def test_an_arm_cpu_is_named_by_its_part(tmp_path: Path) -> None:
    info = "".join(
        f"processor : {n}\nCPU implementer : 0x41\nCPU part : {part}\nFeatures : asimd sve\n\n"
        for n, part in enumerate(("0xd85", "0xd87", "0xd85"))
    )
    facts = Facts()
    fill_cpu(facts, tree(tmp_path, {"/proc/cpuinfo": info}))
    assert facts.get("cpu") == "ARM Cortex-X925 + ARM Cortex-A725"
    assert facts.source("cpu") == "/proc/cpuinfo implementer and part"
    assert "governor" in facts.unknown


def dmi(**values: str) -> dict[str, str]:
    return {name: values.get(name, "") for name in DMI_NAMES}


X86 = {"/proc/cpuinfo": "flags : fpu hypervisor avx"}
BARE = {"/proc/cpuinfo": "flags : fpu avx"}
CLOCKS = f"{CPUS}/../clocksource/clocksource0/available_clocksource".replace("cpu/../", "")


@pytest.mark.parametrize(
    ("files", "names", "kind"),
    [
        (BARE, dmi(sys_vendor="LENOVO"), "none"),
        (X86, dmi(sys_vendor="QEMU"), "qemu"),
        (X86 | {CLOCKS: "kvm-clock tsc"}, dmi(sys_vendor="QEMU"), "kvm"),
        (X86 | {CLOCKS: "kvm-clock tsc"}, dmi(sys_vendor="Amazon EC2", product_name="g5.xlarge"), "amazon"),
        (BARE, dmi(sys_vendor="Amazon EC2", product_name="c5.metal"), "none"),
        (X86, dmi(product_name="Google Compute Engine"), "google"),
        (X86 | {CLOCKS: "hyperv_clocksource_tsc_page"}, dmi(sys_vendor="Microsoft Corporation"), "microsoft"),
        (X86, dmi(sys_vendor="VMware, Inc."), "vmware"),
        (X86, dmi(sys_vendor="innotek GmbH"), "oracle"),
        (X86 | {"/sys/hypervisor/type": "xen"}, dmi(), "xen"),
        (X86, dmi(), ""),
        ({"/proc/cpuinfo": "CPU implementer : 0x41", "/proc/device-tree/model": "Jetson"}, dmi(), "none"),
        ({"/proc/device-tree/hypervisor/compatible": "linux,kvm"}, dmi(), "kvm"),
    ],
)
def test_hypervisors_by_the_files_they_leave(
    tmp_path: Path, files: dict[str, object], names: dict[str, str], kind: str
) -> None:
    assert hypervisor(tree(tmp_path, files), names)[0] == kind


def test_a_cloud_machine_and_wsl_are_named(tmp_path: Path) -> None:
    folder = "/sys/class/dmi/id"
    files = X86 | {
        f"{folder}/sys_vendor": "Amazon EC2",
        f"{folder}/product_name": "g5.xlarge",
        "/proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2",
    }
    facts = Facts()
    fill_virtualization(facts, tree(tmp_path / "aws", files), ask_systemd=False)
    assert facts.get("cloud") == "Amazon EC2 g5.xlarge"
    assert facts.get("machine") == "Amazon EC2 g5.xlarge"
    assert facts.get("wsl") == "WSL 2"
    azure = {
        f"{folder}/chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77",
        f"{folder}/sys_vendor": "Microsoft Corporation",
    }
    facts = Facts()
    fill_virtualization(facts, tree(tmp_path / "azure", X86 | azure), ask_systemd=False)
    assert facts.get("cloud") == "Microsoft Azure"
    assert "systemd-detect-virt" in facts.unknown["virtualization"]


MOUNT2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"


def test_limits_of_version_2_are_the_tightest_on_the_way_up(tmp_path: Path) -> None:
    files = tree(
        tmp_path,
        {
            "/proc/self/mountinfo": MOUNT2,
            "/proc/self/cgroup": "0::/outer/inner",
            "/sys/fs/cgroup/outer/cpu.max": "150000 100000",
            "/sys/fs/cgroup/outer/memory.max": 8 << 30,
            "/sys/fs/cgroup/outer/inner/cpu.max": "max 100000",
            "/sys/fs/cgroup/outer/inner/memory.max": 16 << 30,
            "/sys/fs/cgroup/outer/inner/memory.high": "max",
        },
    )
    limits = cgroup_limits(files)
    assert (limits.version, limits.cpus, limits.memory_mib) == (2, 1.5, 8192)
    assert limits.cpu_folder == "/sys/fs/cgroup/outer"


def test_limits_of_version_1_inside_a_container(tmp_path: Path) -> None:
    mounts = (
        "33 32 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
        "36 32 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"
    )
    files = tree(
        tmp_path,
        {
            "/proc/self/mountinfo": mounts,
            "/proc/self/cgroup": "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc/job",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": -1,
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": 100000,
            "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": 200000,
            "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": 100000,
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
        },
    )
    limits = cgroup_limits(files)
    assert (limits.version, limits.cpus, limits.memory_mib) == (1, 2.0, None)


def test_no_limit_and_no_control_groups_are_told_apart(tmp_path: Path) -> None:
    free = tree(tmp_path / "free", {"/proc/self/mountinfo": MOUNT2, "/proc/self/cgroup": "0::/"})
    (tmp_path / "free/sys/fs/cgroup").mkdir(parents=True)
    assert cgroup_limits(free).version == 2
    assert cgroup_limits(free).memory_mib is None
    assert cgroup_limits(Files(str(tmp_path / "nothing"))).version == 0


@pytest.mark.parametrize(
    ("files", "environment", "kind"),
    [
        ({"/.dockerenv": ""}, {}, "docker"),
        ({"/run/.containerenv": ""}, {}, "podman"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"/run/systemd/container": "lxc"}, {}, "lxc"),
        ({}, {"APPTAINER_CONTAINER": "/x.sif"}, "apptainer"),
        ({"/proc/1/cgroup": "0::/docker/abc"}, {}, "docker"),
        ({"/proc/1/cgroup": "0::/init.scope"}, {}, "none"),
    ],
)
def test_kinds_of_containers(tmp_path: Path, files: dict[str, object], environment: dict[str, str], kind: str) -> None:
    assert container(tree(tmp_path, files), environment)[0] == kind


@pytest.mark.parametrize(
    ("files", "source"),
    [
        ({}, "no battery"),
        ({"AC/type": "Mains", "AC/online": 0, "BAT0/type": "Battery", "BAT0/status": "Discharging"}, "battery"),
        ({"AC/type": "Mains", "AC/online": 1, "BAT0/type": "Battery", "BAT0/status": "Charging"}, "mains"),
        ({"mouse/type": "Battery", "mouse/scope": "Device", "mouse/status": "Discharging"}, "no battery"),
    ],
)
def test_power_source(tmp_path: Path, files: dict[str, object], source: str) -> None:
    folder = tmp_path / "sys/class/power_supply"
    folder.mkdir(parents=True)
    tree(folder, {f"/{name}": content for name, content in files.items()})
    assert host_facts(Files(str(tmp_path)), watch_s=0).get("power_source") == source


def test_a_machine_that_tells_nothing_leaves_unknowns_with_a_way_to_learn_them(tmp_path: Path) -> None:
    facts = host_facts(Files(str(tmp_path)), watch_s=0)
    for name in ("cpu", "sockets", "governor", "memory_mib", "machine", "power_source", "container_cpus"):
        assert name not in facts
        assert facts.unknown[name], name


@pytest.mark.skipif(not LINUX, reason="reads /proc")
def test_this_machine_against_its_own_files() -> None:
    facts = host_facts(watch_s=0)
    assert facts.get("threads") == os.cpu_count()
    total = int(Path("/proc/meminfo").read_text().split()[1]) / 1024
    assert facts.get("memory_mib") == round(total)
    assert facts.get("kernel") == f"Linux {os.uname().release}"
    assert facts.get("architecture") == os.uname().machine
    flagged = " hypervisor " in Path("/proc/cpuinfo").read_text()
    if flagged:
        assert facts.get("virtualization") != "none"
    for name, fact in facts:
        assert fact.source, name
    for name, how in facts.unknown.items():
        assert how, name


def test_nothing_personal_is_among_the_facts() -> None:
    text = repr(host_facts(watch_s=0).table())
    assert os.uname().nodename == "localhost" or f"'{os.uname().nodename}'" not in text
    assert str(Path.home()) not in text


def test_the_disk_of_a_file(tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev
    place = f"{os.major(number)}:{os.minor(number)}"
    shared = tree(tmp_path / "nfs", {"/proc/self/mountinfo": f"27 1 {place} / / rw - nfs4 server:/x rw"})
    kind = disk_kind(str(tmp_path), shared)
    assert kind is not None
    assert kind[0] == "network or shared (nfs4)"
    plain = tree(tmp_path / "nvme", {"/proc/self/mountinfo": f"27 1 {place} / / rw - ext4 /dev/nvme0n1p2 rw"})
    link = tmp_path / f"nvme/sys/dev/block/{place}"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../devices/pci0000:00/nvme/nvme0/nvme0n1/nvme0n1p2")
    kind = disk_kind(str(tmp_path), plain)
    assert kind is not None
    assert kind[0] == "NVMe"
    assert disk_kind("/nowhere/at/all") is None
