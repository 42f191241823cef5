"""Watching the machine during a run: a thread that samples twice a second, and what happened between two moments.

It runs in the controller, never in the worker, and nothing a reader does raises out of it: what fails is a gap.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import msgspec

from workbench.environment.container import cgroup_limits
from workbench.environment.counters import (
    Counters,
    cgroup_throttled_s,
    cpu_percent,
    read_counters,
    thermal_throttles,
)
from workbench.environment.evidence import Evidence, gather
from workbench.environment.files import HERE, LINUX, Files
from workbench.environment.gpu.base import GpuProcess, GpuReader, GpuSample
from workbench.environment.memory import DeviceMemory, host_memory, reading, server_memory
from workbench.environment.processes import Busy, Table, busiest, own_processes, scan
from workbench.environment.sample import Sample
from workbench.environment.system_memory import system_memory

T = TypeVar("T")

INTERVAL_S = 0.5
KEPT = 2 * 3600
"""Samples kept: an hour of them at 2 Hz."""

LISTING_LEAST_S = 3.0
LISTING_SHARE = 0.002
"""A process listing costs more than all else, so it comes every 3 s, or as seldom as keeps it below this share of a core."""

STOP_S = 1.0
"""Longest wait for the thread to end."""

MIB = 1 << 20


class Sampler:
    """Samples memory, GPUs, swap, CPU, retransmits and throttling every `interval_s` seconds in a daemon thread.

    `gpus` None: no GPU is watched (the server is on another machine). `server_pid` None: not known, so nothing is said of
    its processes nor of neighbours. All methods may be called from any thread.
    """

    def __init__(
        self,
        gpus: GpuReader | None = None,
        server_pid: int | None = None,
        interval_s: float = INTERVAL_S,
        files: Files = HERE,
    ) -> None:
        self._gpus, self._files, self._interval_s = gpus, files, interval_s
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._changed = threading.Condition()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._cpu_s = 0.0
        self._taken = 0
        self._failed: dict[str, str] = {}
        self._counters: Counters | None = None
        self._listing = _Listing(files)
        self.watch(server_pid)

    def watch(self, server_pid: int | None) -> None:
        """Follow another server process from the next sample on (a launch profile has started a new one)."""
        self._listing.server_pid = server_pid
        self._listing.due_ns = 0
        limits = cgroup_limits(self._files, "self" if server_pid is None else str(server_pid))
        self._cpu_folder = limits.cpu_folder

    def start(self) -> None:
        """Start sampling; the first sample is taken at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop after the sample under way; a reader that hangs is left behind in its daemon thread."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=STOP_S)

    def latest(self) -> Sample | None:
        """The newest sample, for the screen; None before the first."""
        with self._changed:
            return self._samples[-1] if self._samples else None

    def mark(self, wait_s: float = 0.1) -> int:
        """Take a sample now and give its time (`perf_counter_ns`), so that a window begins or ends on a sample.

        Waits at most `wait_s` seconds for it; when none came, the time of the call.
        """
        asked = time.perf_counter_ns()
        with self._changed:
            self._wake.set()
            self._changed.wait_for(lambda: self._samples and self._samples[-1].t_ns >= asked, timeout=wait_s)
            if self._samples and self._samples[-1].t_ns >= asked:
                return self._samples[-1].t_ns
        return asked

    def between(self, t0_ns: int, t1_ns: int) -> Evidence:
        """What happened from `t0_ns` to `t1_ns`, both of `time.perf_counter_ns`."""
        with self._changed:
            samples = list(self._samples)
        return gather(samples, t0_ns, t1_ns, self._interval_s)

    @property
    def cpu_ms_a_sample(self) -> float | None:
        """Mean CPU time of this thread for one sample, in milliseconds, process listings included."""
        return 1000 * self._cpu_s / self._taken if self._taken else None

    def _run(self) -> None:
        due = time.perf_counter()
        while not self._stopping.is_set():
            self._wake.clear()
            began = time.thread_time()
            sample = self._take()
            with self._changed:
                self._samples.append(sample)
                self._cpu_s += time.thread_time() - began
                self._taken += 1
                self._changed.notify_all()
            if self._stopping.is_set():
                return  # Asked while the sample was taken: the wake-up may already have been cleared.
            # A slow reader delays the samples after it; they are not made up for in a burst.
            due = max(due + self._interval_s, time.perf_counter())
            self._wake.wait(max(0.0, due - time.perf_counter()))

    def _take(self) -> Sample:
        self._failed = {}
        now = time.perf_counter_ns()
        listed = now >= self._listing.due_ns
        if listed:
            self._guard("processes", self._listing.renew)
        gpus = self._guard("gpu", lambda: self._read_gpus(listed)) or []
        memory = self._guard("memory", lambda: system_memory(self._files))
        counters = self._guard("counters", lambda: read_counters(self._files))
        server = self._guard("server memory", self._listing.server_memory)
        held_back = self._guard("control group", lambda: cgroup_throttled_s(self._files, self._cpu_folder))
        before, self._counters = self._counters, counters
        return Sample(
            t_ns=now,
            memory=reading(gpus, host_memory(memory), server, self._listing.ours),
            gpus=gpus,
            counters=counters,
            cpu_percent=cpu_percent(before, counters),
            swap_used_mib=None if memory is None else memory.swap_used_mib,
            thermal_throttles=self._listing.thermal,
            cgroup_throttled_s=held_back,
            competing=self._listing.competing,
            ours=self._listing.ours,
            failed=self._failed,
        )

    def _read_gpus(self, with_processes: bool) -> list[GpuSample]:
        if self._gpus is None:
            return []
        samples = self._gpus.sample(with_processes)
        if with_processes:
            self._listing.on_gpu = {sample.uuid: sample.processes for sample in samples}
            return samples
        return [
            sample if sample.lost else msgspec.structs.replace(sample, processes=self._listing.on_gpu.get(sample.uuid))
            for sample in samples
        ]

    def _guard(self, what: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Exception as error:  # A reader's fault must not end the run: it is kept as a gap with its kind.
            self._failed[what] = type(error).__name__
            return None


class _Listing:
    """What is learnt from the process table every few seconds, and carried by the samples until the next."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._table: Table | None = None
        self._tree: set[int] = set()
        self.server_pid: int | None = None
        self.due_ns = 0
        self.competing: list[Busy] = []
        self.ours: frozenset[int] = frozenset()
        self.thermal: int | None = None
        self.on_gpu: dict[str, list[GpuProcess] | None] = {}

    def renew(self) -> None:
        began = time.perf_counter_ns()
        table = scan(self._files)
        own = own_processes(table)
        self._tree = set() if self.server_pid is None else table.tree([self.server_pid])
        if self._table is not None:
            self.competing = busiest(self._table, table, leave_out=own | self._tree)
        self.ours = frozenset(own | self._tree) if self._tree else frozenset()
        self.thermal = thermal_throttles(self._files)
        self._table = table
        cost_ns = time.perf_counter_ns() - began
        self.due_ns = began + max(int(LISTING_LEAST_S * 1e9), int(cost_ns / LISTING_SHARE))

    def server_memory(self) -> DeviceMemory | None:
        """Resident memory of the server now: the pids are the last listing's, their memory is read afresh on Linux."""
        if self._table is None or self.server_pid is None:
            return None
        if not LINUX:
            return server_memory(self._table, self.server_pid)
        page = os.sysconf("SC_PAGE_SIZE")
        resident = [
            int(fields[1]) * page / MIB
            for pid in self._tree
            if len(fields := (self._files.text(f"/proc/{pid}/statm") or "").split()) > 1
        ]
        if not resident:
            return None
        return DeviceMemory(
            key="server",
            name="server processes (resident)",
            kind="process",
            used_mib=sum(resident),
            source="/proc/PID/statm",
        )
