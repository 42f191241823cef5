"""Evidence from made-up samples, counters from made-up files, and memory readings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.environment.counters import (
    Counters,
    cgroup_throttled_s,
    cpu_percent,
    read_counters,
    stolen_percent,
    thermal_throttles,
)
from workbench.environment.evidence import gather
from workbench.environment.files import LINUX, Files
from workbench.environment.gpu.base import GpuProcess, GpuSample
from workbench.environment.memory import DeviceMemory, MemoryReading, read_memory, reading
from workbench.environment.processes import Busy
from workbench.environment.sample import Sample

S = 1_000_000_000
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def look(t_s: float, used: float | None = 100.0, **more: object) -> Sample:
    host = DeviceMemory(key="host", name="system memory", kind="host", used_mib=used, total_mib=1000.0, source="test")
    fields: dict[str, object] = {"memory": MemoryReading([host])}
    return Sample(t_ns=int(t_s * S), **(fields | more))  # type: ignore[arg-type]


def counters(t_s: float, **totals: object) -> Counters:
    return Counters(t_ns=int(t_s * S), **totals)  # type: ignore[arg-type]


def test_before_peak_and_after_of_a_window() -> None:
    samples = [look(t / 2, used) for t, used in enumerate((10, 20, 90, 40, 30, 5))]
    [host] = gather(samples, int(0.6 * S), int(1.9 * S), 0.5).memory
    # Before is the sample at 0.5 s, after the one at 2 s; between them 1.0 and 1.5 s.
    assert (host.before_mib, host.peak_mib, host.after_mib) == (20, 90, 30)
    assert gather(samples, 0, int(2.5 * S), 0.5).memory_table()["host"] == {
        "name": "system memory",
        "kind": "host",
        "before": 10,
        "peak": 90,
        "after": 5,
        "total": 1000,
        "source": "test",
    }


def test_a_window_between_two_samples_still_has_growth() -> None:
    samples = [
        look(0, counters=counters(0, retransmits=5), swap_used_mib=0.0),
        look(0.5, counters=counters(0.5, retransmits=9), swap_used_mib=1228.8),
    ]
    found = gather(samples, int(0.1 * S), int(0.2 * S), 0.5)
    assert (found.samples, found.retransmits) == (0, 4)
    assert "Swap grew by 1.2 GiB." in found.sentences()
    assert "4 TCP segments were sent again (all connections of this machine)." in found.sentences()


def test_quiet_windows_say_nothing() -> None:
    quiet = counters(
        0, retransmits=7, swap_in_pages=1, swap_out_pages=1, major_faults=0, cpu_busy_s=1.0, cpu_idle_s=9.0
    )
    samples = [look(t / 2, counters=quiet, swap_used_mib=10.0) for t in range(5)]
    found = gather(samples, 0, 2 * S, 0.5)
    assert found.sentences() == []
    assert (found.retransmits, found.swap_growth_mib) == (0, 0)


def test_what_is_not_told_is_absent_and_never_0() -> None:
    found = gather([look(0, None), look(0.5, None)], 0, S // 2, 0.5)
    assert found.table() == {}
    assert found.memory_table() == {"host": {"name": "system memory", "kind": "host", "total": 1000, "source": "test"}}


def test_swap_cpu_and_steal() -> None:
    first = counters(0, cpu_busy_s=10.0, cpu_idle_s=50.0, cpu_stolen_s=0.0, swap_in_pages=0, swap_out_pages=100)
    last = counters(4, cpu_busy_s=16.0, cpu_idle_s=51.0, cpu_stolen_s=1.0, swap_in_pages=2560, swap_out_pages=612)
    samples = [look(0, counters=first), look(1), look(2), look(3), look(4, counters=last)]
    found = gather(samples, 0, 4 * S, 1.0)
    assert (found.cpu_mean_percent, found.cpu_stolen_percent) == (75, 12.5)
    assert (found.swap_in_mib, found.swap_out_mib) == (2560 * PAGE_MIB, 512 * PAGE_MIB)
    assert any("came back from swap" in text for text in found.sentences())
    assert "The hypervisor gave 12 % of the CPU time to other machines." in found.sentences()


def test_a_counter_that_was_set_back_is_not_told() -> None:
    samples = [look(0, counters=counters(0, retransmits=9)), look(1, counters=counters(1, retransmits=2))]
    assert gather(samples, 0, S, 1.0).retransmits is None


def test_a_silence_is_a_gap() -> None:
    samples = [look(t) for t in (0.0, 0.5, 1.0, 5.0, 5.5)]
    found = gather(samples, 0, int(5.5 * S), 0.5)
    assert [(gap.what, gap.seconds) for gap in found.gaps] == [("everything", 4.0)]
    empty = gather([], 0, 2 * S, 0.5)
    assert [(gap.what, gap.seconds) for gap in empty.gaps] == [("everything", 2.0)]
    assert empty.samples == 0
    early = gather([look(0)], 0, 3 * S, 0.5)
    assert [gap.seconds for gap in early.gaps] == [3.0]


def gpu(used: float | None = 50.0, **more: object) -> GpuSample:
    return GpuSample(uuid="GPU-1", label="GPU 0 L4", memory_used_mib=used, memory_total_mib=80.0, **more)  # type: ignore[arg-type]


def test_failing_readers_and_lost_gpus_are_gaps_while_the_rest_goes_on() -> None:
    lost = GpuSample(uuid="GPU-1", label="GPU 0 L4", lost_why="fallen off the bus")
    states = [gpu(), gpu(), lost, lost]
    samples = [look(t / 2, gpus=[state], memory=reading([state], None, None)) for t, state in enumerate(states)]
    samples.append(look(2.0, failed={"counters": "OSError"}))
    found = gather(samples, 0, 2 * S, 0.5)
    assert [(gap.what, gap.seconds, gap.reason) for gap in found.gaps] == [
        ("GPU 0 L4", 1.0, "fallen off the bus"),
        ("the counters reader", 0.5, "OSError"),
    ]
    use = next(use for use in found.memory if use.key == "GPU-1")
    assert (use.before_mib, use.peak_mib, use.after_mib, use.gap) == (50, 50, None, "fallen off the bus")


def test_gpu_use_throttling_and_neighbours() -> None:
    processes = [GpuProcess(7, "ours", 40.0), GpuProcess(8, "game", 10.0), GpuProcess(9, "?", None, foreign=True)]
    states = [
        gpu(utilisation_percent=80.0, power_w=200.0, processes=processes),
        gpu(utilisation_percent=100.0, power_w=300.0, throttle=["power cap"], processes=processes),
    ]
    samples = [look(t, gpus=[state], ours=frozenset({7})) for t, state in enumerate(states)]
    found = gather(samples, 0, S, 1.0)
    [use] = found.gpus
    assert (use.utilisation_mean_percent, use.power_mean_w, use.power_peak_w) == (90, 250, 300)
    assert use.throttle == {"power cap": 1}
    assert [str(neighbour) for neighbour in found.neighbours] == ["game (pid 8) on GPU 0 L4: 10 MiB"]
    unknown = [look(t, gpus=[state]) for t, state in enumerate(states)]
    assert gather(unknown, 0, S, 1.0).neighbours == [], "without the server's pids nobody can be called a neighbour"


def test_competing_processes_are_said_once_at_their_most() -> None:
    samples = [
        look(0, competing=[Busy(5, "cc1", 40.0)]),
        look(1, competing=[Busy(5, "cc1", 90.0), Busy(6, "rustc", 95.0)]),
    ]
    found = gather(samples, 0, S, 1.0)
    assert [str(busy) for busy in found.competing] == ["rustc 95 %", "cc1 90 %"]


def files(root: Path, **contents: str) -> Files:
    for name, text in contents.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Files(str(root))


@pytest.mark.skipif(not LINUX, reason="reads /proc")
def test_counters_from_proc(tmp_path: Path) -> None:
    tree = files(
        tmp_path,
        proc__stat="cpu  1000 100 300 5000 200 10 90 400 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n",
        proc__vmstat="nr_free_pages 5\npswpin 12\npswpout 34\npgmajfault 56\n",
        proc__net__snmp="Ip: A B\nIp: 1 2\nTcp: RtoMin OutSegs RetransSegs InErrs\nTcp: 200 999 17 0\n",
    )
    found = read_counters(tree)
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert found.cpu_busy_s == pytest.approx(1500 * tick)
    assert found.cpu_idle_s == pytest.approx(5200 * tick)
    assert found.cpu_stolen_s == pytest.approx(400 * tick)
    assert (found.swap_in_pages, found.swap_out_pages, found.major_faults, found.retransmits) == (12, 34, 56, 17)
    nothing = read_counters(Files(str(tmp_path / "empty")))
    assert (nothing.cpu_busy_s, nothing.swap_in_pages, nothing.retransmits) == (None, None, None)


def test_shares_of_cpu_time() -> None:
    first = counters(0, cpu_busy_s=0.0, cpu_idle_s=0.0, cpu_stolen_s=0.0)
    last = counters(1, cpu_busy_s=1.0, cpu_idle_s=2.0, cpu_stolen_s=1.0)
    assert (cpu_percent(first, last), stolen_percent(first, last)) == (25, 25)
    assert cpu_percent(first, first) is None
    assert cpu_percent(None, last) is None


def test_throttle_counters(tmp_path: Path) -> None:
    tree = files(
        tmp_path,
        sys__devices__system__cpu__cpu0__thermal_throttle__core_throttle_count="3",
        sys__devices__system__cpu__cpu1__thermal_throttle__core_throttle_count="4",
        group__cpu_stat="x",
    )
    assert thermal_throttles(tree) == 7
    assert thermal_throttles(Files(str(tmp_path / "empty"))) is None
    (tmp_path / "v2").mkdir()
    (tmp_path / "v2/cpu.stat").write_text("nr_throttled 5\nthrottled_usec 2500000\n")
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1/cpu.stat").write_text("nr_throttled 5\nthrottled_time 1500000000\n")
    assert (cgroup_throttled_s(tree, "/v2"), cgroup_throttled_s(tree, "/v1")) == (2.5, 1.5)
    assert cgroup_throttled_s(tree, "/none") is None


def test_a_reading_of_this_machine_and_process() -> None:
    found = read_memory(server_pid=os.getpid())
    host, server = found.get("host"), found.get("server")
    assert host is not None
    assert host.used_mib is not None
    assert host.total_mib is not None
    assert 0 < host.used_mib < host.total_mib
    assert server is not None
    assert server.used_mib is not None
    assert 5 < server.used_mib < host.total_mib
    assert read_memory().get("server") is None
