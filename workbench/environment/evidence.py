"""What happened on the machine between two moments, from the samples around them: pure computation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import pairwise

import msgspec

from workbench.environment.counters import Counters, cpu_percent, stolen_percent
from workbench.environment.gpu.base import Neighbour, neighbours
from workbench.environment.memory import DeviceMemory
from workbench.environment.processes import Busy
from workbench.environment.sample import Sample

GAP_FACTOR = 2.5
"""Two samples further apart than this many intervals have a gap between them."""

MIB = 1 << 20


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """One memory over a window, MiB: before it, its peak within, after it. None is not told, never 0.

    `other_mib`: the most that processes of others held. `gap`: why figures are missing for a part, "" when none are.
    """

    key: str
    name: str
    kind: str
    before_mib: float | None = None
    peak_mib: float | None = None
    after_mib: float | None = None
    total_mib: float | None = None
    other_mib: float | None = None
    source: str = ""
    gap: str = ""


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU over a window. `throttle`: reason -> samples in which it was given, of `samples`."""

    uuid: str
    label: str
    samples: int
    utilisation_mean_percent: float | None = None
    power_mean_w: float | None = None
    power_peak_w: float | None = None
    temperature_peak_c: float | None = None
    sm_clock_mean_mhz: float | None = None
    throttle: dict[str, int] = {}


class Gap(msgspec.Struct, frozen=True):
    """A stretch without figures: of `what` ("everything", a device, a reader), from `start_ns`, `seconds` long, and why."""

    what: str
    start_ns: int
    seconds: float
    reason: str


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What to hold beside a window's figures. Counts and MiB are growth within the window; None is not told."""

    seconds: float
    samples: int
    memory: list[MemoryUse] = []
    gpus: list[GpuUse] = []
    cpu_mean_percent: float | None = None
    cpu_stolen_percent: float | None = None
    swap_growth_mib: float | None = None
    swap_in_mib: float | None = None
    swap_out_mib: float | None = None
    major_faults: int | None = None
    retransmits: int | None = None
    cpu_throttles: int | None = None
    cgroup_throttled_s: float | None = None
    competing: list[Busy] = []
    neighbours: list[Neighbour] = []
    gaps: list[Gap] = []

    def memory_table(self) -> dict[str, object]:
        """The record's `[cells.memory]`: per device (GPU UUID, "host", "server") before, peak and after in MiB, and
        source; what was not told is left out."""
        return {
            use.key: _present(
                name=use.name,
                kind=use.kind,
                before=_mib(use.before_mib),
                peak=_mib(use.peak_mib),
                after=_mib(use.after_mib),
                total=_mib(use.total_mib),
                other=_mib(use.other_mib),
                source=use.source,
                gap=use.gap,
            )
            for use in self.memory
        }

    def table(self) -> dict[str, object]:
        """The rest for the record: plain values, absent ones left out."""
        return _present(
            cpu_mean_percent=self.cpu_mean_percent,
            cpu_stolen_percent=self.cpu_stolen_percent,
            swap_growth_mib=_mib(self.swap_growth_mib),
            swap_in_mib=_mib(self.swap_in_mib),
            swap_out_mib=_mib(self.swap_out_mib),
            major_faults=self.major_faults,
            tcp_retransmits=self.retransmits,
            cpu_throttles=self.cpu_throttles,
            cpu_limit_held_back_s=None if self.cgroup_throttled_s is None else round(self.cgroup_throttled_s, 2),
            competing=[str(busy) for busy in self.competing],
            neighbours=[str(neighbour) for neighbour in self.neighbours],
            throttle=[f"{use.label}: {reason}" for use in self.gpus for reason in use.throttle],
            gaps=[f"{gap.what}: {gap.seconds:.1f} s, {gap.reason}" for gap in self.gaps],
            gpu={
                use.uuid or use.label: _present(
                    use_mean_percent=use.utilisation_mean_percent,
                    power_mean_w=use.power_mean_w,
                    power_peak_w=use.power_peak_w,
                    temperature_peak_c=use.temperature_peak_c,
                    sm_clock_mean_mhz=use.sm_clock_mean_mhz,
                )
                for use in self.gpus
            },
        )

    def sentences(self) -> list[str]:
        """What could have disturbed the figures, one sentence each; empty when nothing was seen."""
        said = []
        if self.swap_growth_mib is not None and self.swap_growth_mib >= 1:
            said.append(f"Swap grew by {_size(self.swap_growth_mib)}.")
        if self.swap_in_mib is not None and self.swap_in_mib >= 1:
            said.append(f"{_size(self.swap_in_mib)} came back from swap.")
        if self.retransmits:
            said.append(f"{self.retransmits} TCP segments were sent again (all connections of this machine).")
        for use in self.gpus:
            for reason, count in use.throttle.items():
                said.append(f"{use.label}: clocks lowered by {reason} in {count} of {use.samples} samples.")
        if self.cpu_throttles:
            said.append(f"The CPU was slowed for heat {self.cpu_throttles} times.")
        if self.cgroup_throttled_s is not None and self.cgroup_throttled_s >= 0.1:
            said.append(f"The container's CPU limit held its processes back for {self.cgroup_throttled_s:.1f} s.")
        if self.cpu_stolen_percent is not None and self.cpu_stolen_percent >= 1:
            said.append(f"The hypervisor gave {self.cpu_stolen_percent:.0f} % of the CPU time to other machines.")
        said.extend(f"{busy.name} used {busy.cpu_percent:.0f} % of a core meanwhile." for busy in self.competing)
        said.extend(f"Also on the GPU: {neighbour}." for neighbour in self.neighbours)
        said.extend(f"No figures of {gap.what} for {gap.seconds:.1f} s: {gap.reason}." for gap in self.gaps)
        return said


def gather(samples: list[Sample], t0_ns: int, t1_ns: int, interval_s: float) -> Evidence:
    """Evidence of the window [t0, t1] from samples in order of time.

    Before is the last sample at or before t0, or the first after it; after is the first at or after t1, or the last
    before it. Growth is taken between those two, so a window shorter than the interval still has one.
    """
    inside = [sample for sample in samples if t0_ns <= sample.t_ns <= t1_ns]
    before = next((sample for sample in reversed(samples) if sample.t_ns <= t0_ns), inside[0] if inside else None)
    after = next((sample for sample in samples if sample.t_ns >= t1_ns), inside[-1] if inside else None)
    around = [*_not_inside(before, inside), *inside, *_not_inside(after, inside)]
    seconds = (t1_ns - t0_ns) / 1e9
    if not around or before is None or after is None:
        return Evidence(
            seconds=seconds, samples=0, gaps=[Gap("everything", t0_ns, seconds, "no sample was taken in this time")]
        )
    first, last = before.counters or Counters(t_ns=0), after.counters or Counters(t_ns=0)
    page_mib = os.sysconf("SC_PAGE_SIZE") / MIB
    swapped_in, swapped_out = (
        _grown(first.swap_in_pages, last.swap_in_pages),
        _grown(first.swap_out_pages, last.swap_out_pages),
    )
    return Evidence(
        seconds=seconds,
        samples=len(inside),
        memory=_memory(around, before, after),
        gpus=_gpus(inside or around),
        cpu_mean_percent=cpu_percent(before.counters, after.counters),
        cpu_stolen_percent=stolen_percent(before.counters, after.counters),
        swap_growth_mib=None
        if before.swap_used_mib is None or after.swap_used_mib is None
        else after.swap_used_mib - before.swap_used_mib,
        swap_in_mib=None if swapped_in is None else swapped_in * page_mib,
        swap_out_mib=None if swapped_out is None else swapped_out * page_mib,
        major_faults=_grown(first.major_faults, last.major_faults),
        retransmits=_grown(first.retransmits, last.retransmits),
        cpu_throttles=_grown(before.thermal_throttles, after.thermal_throttles),
        cgroup_throttled_s=None
        if before.cgroup_throttled_s is None or after.cgroup_throttled_s is None
        else max(0.0, after.cgroup_throttled_s - before.cgroup_throttled_s),
        competing=_competing(around),
        neighbours=_neighbours(around),
        gaps=[*_silences(around, t0_ns, t1_ns, interval_s), *_losses(around, interval_s)],
    )


def _not_inside(sample: Sample | None, inside: list[Sample]) -> list[Sample]:
    return [] if sample is None or any(sample is other for other in inside) else [sample]


def _grown(before: int | None, after: int | None) -> int | None:
    """Growth of a counter; None when it was not told or was set back."""
    return None if before is None or after is None or after < before else after - before


def _memory(around: list[Sample], before: Sample, after: Sample) -> list[MemoryUse]:
    latest: dict[str, DeviceMemory] = {}
    for sample in around:
        for device in sample.memory.devices:
            latest[device.key] = device
    uses = []
    for key, device in latest.items():
        seen = [found for sample in around if (found := sample.memory.get(key)) is not None]
        used = [found.used_mib for found in seen if found.used_mib is not None]
        others = [found.other_mib for found in seen if found.other_mib is not None]
        lost = next((found.lost_why for found in seen if found.lost_why), "")
        gone = "" if len(seen) == len(around) else f"not there in {len(around) - len(seen)} of {len(around)} samples"
        start, end = before.memory.get(key), after.memory.get(key)
        uses.append(
            MemoryUse(
                key=key,
                name=device.name,
                kind=device.kind,
                before_mib=start.used_mib if start else None,
                peak_mib=max(used, default=None),
                after_mib=end.used_mib if end else None,
                total_mib=next((found.total_mib for found in seen if found.total_mib is not None), None),
                other_mib=max(others, default=None),
                source=next((found.source for found in seen if found.source), ""),
                gap=lost or gone,
            )
        )
    return uses


def _gpus(samples: list[Sample]) -> list[GpuUse]:
    by_key: dict[str, list[int]] = {}
    rows = [gpu for sample in samples for gpu in sample.gpus]
    for index, gpu in enumerate(rows):
        by_key.setdefault(gpu.uuid or gpu.label, []).append(index)
    uses = []
    for indices in by_key.values():
        gpus = [rows[index] for index in indices if not rows[index].lost]
        throttle: dict[str, int] = {}
        for gpu in gpus:
            for reason in gpu.throttle:
                throttle[reason] = throttle.get(reason, 0) + 1
        powers = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
        uses.append(
            GpuUse(
                uuid=rows[indices[0]].uuid,
                label=rows[indices[0]].label,
                samples=len(gpus),
                utilisation_mean_percent=_mean(gpu.utilisation_percent for gpu in gpus),
                power_mean_w=_mean(powers),
                power_peak_w=round(max(powers), 1) if powers else None,
                temperature_peak_c=max(
                    (gpu.temperature_c for gpu in gpus if gpu.temperature_c is not None), default=None
                ),
                sm_clock_mean_mhz=_mean(gpu.sm_clock_mhz for gpu in gpus),
                throttle=throttle,
            )
        )
    return uses


def _competing(samples: list[Sample]) -> list[Busy]:
    """Each competing process once, at the most it used."""
    most: dict[int, Busy] = {}
    for sample in samples:
        for busy in sample.competing:
            if busy.pid not in most or busy.cpu_percent > most[busy.pid].cpu_percent:
                most[busy.pid] = busy
    return sorted(most.values(), key=lambda busy: -busy.cpu_percent)


def _neighbours(samples: list[Sample]) -> list[Neighbour]:
    """Each neighbour once, at the most memory it held; nobody where the server's own pids are not known."""
    most: dict[tuple[str, int], Neighbour] = {}
    for sample in samples:
        for found in neighbours(sample.gpus, sample.ours) if sample.ours else ():
            key = (found.uuid, found.pid)
            if key not in most or (found.memory_mib or 0.0) > (most[key].memory_mib or 0.0):
                most[key] = found
    return list(most.values())


def _silences(around: list[Sample], t0_ns: int, t1_ns: int, interval_s: float) -> list[Gap]:
    """Stretches of the window without any sample."""
    times = [t0_ns, *(min(max(sample.t_ns, t0_ns), t1_ns) for sample in around), t1_ns]
    return [
        Gap("everything", start, round((end - start) / 1e9, 2), "no sample was taken in this time")
        for start, end in pairwise(times)
        if end - start > GAP_FACTOR * interval_s * 1e9
    ]


def _losses(around: list[Sample], interval_s: float) -> list[Gap]:
    """Stretches in which one reader failed or one GPU was lost, while sampling went on."""
    gaps = []
    for what, reason_in in _sources(around):
        start: Sample | None = None
        reason = ""
        for sample in [*around, None]:
            now = reason_in(sample) if sample is not None else ""
            if now and start is None:
                start, reason = sample, now
            elif not now and start is not None:
                end_ns = sample.t_ns if sample is not None else around[-1].t_ns + int(interval_s * 1e9)
                gaps.append(Gap(what, start.t_ns, round((end_ns - start.t_ns) / 1e9, 2), reason))
                start = None
    return gaps


def _sources(around: list[Sample]) -> list[tuple[str, Callable[[Sample], str]]]:
    """(name, why it failed in a sample or "") of every reader and GPU that failed at least once."""
    found: dict[str, Callable[[Sample], str]] = {}
    for sample in around:
        for reader in sample.failed:
            found[f"the {reader} reader"] = lambda s, reader=reader: s.failed.get(reader, "")  # type: ignore[misc]
        for gpu in sample.gpus:
            if gpu.lost:
                found[gpu.label] = lambda s, label=gpu.label: next(  # type: ignore[misc]
                    (other.lost_why for other in s.gpus if other.label == label), ""
                )
    return list(found.items())


def _mean(values: Iterable[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return round(sum(told) / len(told), 1) if told else None


def _mib(value: float | None) -> int | None:
    return None if value is None else round(value)


def _size(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def _present(**values: object) -> dict[str, object]:
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}
