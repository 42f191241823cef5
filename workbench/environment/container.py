"""Is this a container, of what kind, and what does its control group allow? Control groups version 1, 2 and mixed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

import msgspec

from workbench.domain.facts import Facts
from workbench.domain.text import one_line
from workbench.environment.files import Files

# Version 1 writes "no limit" as the largest page-aligned number; anything near it is one.
NO_LIMIT = 1 << 60
MIB = 1 << 20


class CgroupLimits(msgspec.Struct, frozen=True):
    """What a process's control groups allow: None is no limit. `cpus` in cores, `memory_mib` in MiB, version 1, 2 or 0
    (none found). `memory_folder` and `cpu_folder` are where the limiting files and counters lie."""

    version: int
    cpus: float | None
    memory_mib: float | None
    memory_folder: str = ""
    cpu_folder: str = ""


def fill_container(facts: Facts, files: Files, environment: Mapping[str, str] = os.environ) -> None:
    """Add `container`, `container_cpus` (cores) and `container_memory_mib`; "none" where there is no limit."""
    kind, source = container(files, environment)
    facts.set("container", kind, source)
    limits = cgroup_limits(files)
    how = "control groups are not mounted here: read /sys/fs/cgroup on the host"
    if limits.version == 0:
        facts.set("container_cpus", None, "", how)
        facts.set("container_memory_mib", None, "", how)
        return
    source = f"control group, version {limits.version}"
    facts.set("container_cpus", "none" if limits.cpus is None else round(limits.cpus, 2), source)
    facts.set("container_memory_mib", "none" if limits.memory_mib is None else round(limits.memory_mib), source)


def container(files: Files, environment: Mapping[str, str]) -> tuple[str, str]:
    """(kind, source) as systemd-detect-virt --container names it; "none" when nothing speaks for a container."""
    if "KUBERNETES_SERVICE_HOST" in environment or files.exists("/var/run/secrets/kubernetes.io"):
        return "kubernetes", "the Kubernetes service variables"
    for path in ("/run/systemd/container", "/run/host/container-manager"):
        named = files.text(path)
        if named:
            return one_line(named, 40), path
    if "APPTAINER_CONTAINER" in environment or "SINGULARITY_CONTAINER" in environment:
        return "apptainer", "its environment variable"
    if files.exists("/run/.containerenv"):
        return "podman", "/run/.containerenv"
    if files.exists("/.dockerenv"):
        return "docker", "/.dockerenv"
    if files.exists("/.flatpak-info"):
        return "flatpak", "/.flatpak-info"
    if files.exists("/proc/vz") and not files.exists("/proc/bc"):
        return "openvz", "/proc/vz"
    groups = files.text("/proc/1/cgroup") or ""
    for word, kind in (("kubepods", "kubernetes"), ("libpod", "podman"), ("docker", "docker"), ("lxc", "lxc")):
        if f"/{word}" in groups:
            return kind, "/proc/1/cgroup"
    return "none", "no container file, variable or control group"


def cgroup_limits(files: Files, process: str = "self") -> CgroupLimits:
    """The tightest CPU and memory limit on the way from the process's group up to the mount's root."""
    mounts = _mounts(files)
    groups = _groups(files, process)
    if not mounts or not groups:
        return CgroupLimits(0, None, None)
    cpu, cpu_folder, cpu_version = _walk(files, mounts, groups, "cpu", _cpus)
    memory, memory_folder, memory_version = _walk(files, mounts, groups, "memory", _memory)
    return CgroupLimits(
        max(cpu_version, memory_version),
        cpu,
        None if memory is None else memory / MIB,
        memory_folder,
        cpu_folder,
    )


def _groups(files: Files, process: str) -> dict[str, str]:
    """Controller -> group path; version 2 under the name ""."""
    groups: dict[str, str] = {}
    for line in (files.text(f"/proc/{process}/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, found, path = rest.partition(":")
        if found:
            for controller in controllers.split(","):
                groups[controller] = path
    return groups


def _mounts(files: Files) -> dict[str, tuple[str, str]]:
    """Controller -> (mount point, root of the mount inside the hierarchy); version 2 under the name ""."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in (files.text("/proc/self/mountinfo") or "").splitlines():
        before, found, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if not found or len(left) < 5 or len(right) < 3:
            continue
        root, point = left[3], left[4]
        if right[0] == "cgroup2":
            mounts.setdefault("", (point, root))
        elif right[0] == "cgroup":
            for controller in right[2].split(","):
                mounts.setdefault(controller, (point, root))
    return mounts


def _folders(point: str, root: str, group: str) -> Iterator[str]:
    """The group's folder below the mount point, then its parents up to the mount point."""
    inner = group
    if root != "/":
        # A container sees only its own part of the hierarchy: the mount's root is a prefix of the group's path.
        inner = group[len(root) :] if group == root or group.startswith(root + "/") else "/"
    parts = [part for part in inner.split("/") if part and part != ".."]
    for length in range(len(parts), -1, -1):
        yield "/".join([point, *parts[:length]])


def _walk(
    files: Files,
    mounts: dict[str, tuple[str, str]],
    groups: dict[str, str],
    controller: str,
    read: Callable[[Files, str, int], float | None],
) -> tuple[float | None, str, int]:
    """(tightest limit, folder that has it or the process's own, version); version 0 when there is no such controller."""
    for name, version in ((controller, 1), ("", 2)):
        if name not in mounts or name not in groups:
            continue
        tightest: float | None = None
        where = ""
        for folder in _folders(*mounts[name], groups[name]):
            if not files.exists(folder):
                continue
            where = where or folder
            limit = read(files, folder, version)
            if limit is not None and (tightest is None or limit < tightest):
                tightest, where = limit, folder
        return tightest, where, version
    return None, "", 0


def _cpus(files: Files, folder: str, version: int) -> float | None:
    if version == 2:
        quota, _, period = (files.text(f"{folder}/cpu.max") or "").partition(" ")
    else:
        quota = files.text(f"{folder}/cpu.cfs_quota_us") or ""
        period = files.text(f"{folder}/cpu.cfs_period_us") or ""
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        return int(quota) / int(period)
    return None


def _memory(files: Files, folder: str, version: int) -> float | None:
    names = ("memory.max", "memory.high") if version == 2 else ("memory.limit_in_bytes",)
    limits = [number for name in names if (number := files.number(f"{folder}/{name}")) and number < NO_LIMIT]
    return min(limits) if limits else None
