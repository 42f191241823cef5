"""One look at the machine."""

from __future__ import annotations

import msgspec

from workbench.environment.counters import Counters
from workbench.environment.gpu.base import GpuSample
from workbench.environment.memory import MemoryReading
from workbench.environment.processes import Busy


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The machine at `t_ns` of `time.perf_counter_ns`. What a reader failed to give is in `failed` (reader -> reason).

    `cpu_percent`: of all CPUs, since the sample before. `competing`: processes other than ours and the server that used a
    core's tenth or more, as of the last process listing. `ours`: the pids of this program and the server, empty when
    the server's are not known.
    """

    t_ns: int
    memory: MemoryReading
    gpus: list[GpuSample] = []
    counters: Counters | None = None
    cpu_percent: float | None = None
    swap_used_mib: float | None = None
    thermal_throttles: int | None = None
    cgroup_throttled_s: float | None = None
    competing: list[Busy] = []
    ours: frozenset[int] = frozenset()
    failed: dict[str, str] = {}
