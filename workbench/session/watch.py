"""The machine beside a run: the sampler's readings as the screen and the record want them."""

from __future__ import annotations

from typing import Any

from workbench.environment.gpu.base import GpuReader
from workbench.environment.sampler import Sampler
from workbench.session.events import MemoryView


class Watch:
    """Samples this machine while a session runs; peaks are since the session's start."""

    def __init__(self, gpus: GpuReader | None, server_pid: int | None) -> None:
        self._sampler = Sampler(gpus, server_pid)
        self._peaks: dict[str, float] = {}
        self._last_ns = 0
        self._views: list[MemoryView] = []
        self._sampler.start()

    def follow(self, server_pid: int | None) -> None:
        """Another server process is now the one measured."""
        self._sampler.watch(server_pid)

    def mark(self) -> int:
        """Take a sample now; its stamp (perf_counter_ns)."""
        return self._sampler.mark()

    def tables(self, start_ns: int, end_ns: int) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """The record's memory and evidence of a window."""
        evidence = self._sampler.between(start_ns, end_ns)
        memory = {key: dict(value) for key, value in evidence.memory_table().items() if isinstance(value, dict)}
        return memory, dict(evidence.table())

    def views(self) -> list[MemoryView]:
        """One line a memory, newest reading."""
        sample = self._sampler.latest()
        if sample is None or sample.t_ns == self._last_ns:
            return self._views
        self._last_ns = sample.t_ns
        by_key = {item.uuid or item.label: item for item in sample.gpus}
        self._views = []
        for device in sample.memory.devices:
            if device.used_mib is not None:
                self._peaks[device.key] = max(self._peaks.get(device.key, 0.0), device.used_mib)
            gpu = by_key.get(device.key)
            percent = None if gpu is None else gpu.utilisation_percent
            self._views.append(
                MemoryView(
                    name=device.name,
                    kind=device.kind,
                    used_mib=device.used_mib,
                    total_mib=device.total_mib,
                    peak_mib=self._peaks.get(device.key),
                    others_mib=device.other_mib,
                    utilisation=None if percent is None else percent / 100,
                    power_w=None if gpu is None else gpu.power_w,
                    note=device.lost_why,
                )
            )
        return self._views

    def close(self) -> None:
        self._sampler.stop()
