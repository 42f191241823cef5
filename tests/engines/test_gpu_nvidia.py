"""NVIDIA GPUs through the real pynvml, above a compiled stand-in of libnvidia-ml that replays scripted answers."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "nvml_standin"))

import scenes

pytestmark = [
    pytest.mark.skipif(scenes.compiler() is None, reason="no C compiler: the libnvidia-ml stand-in can't be built"),
    pytest.mark.skipif(sys.platform != "linux", reason="NVML is read on Linux"),
]

READ = """
import json, sys
import msgspec
from workbench.environment.files import Files
from workbench.environment.gpu import find_gpus
gpus = find_gpus(Files(sys.argv[2]) if len(sys.argv) > 2 else Files())
devices = gpus.devices()
print(json.dumps({
    "why": gpus.why_none,
    "versions": gpus.versions().values(),
    "devices": [device.facts.table() | {"unknown": device.facts.unknown, "lost": device.lost_why} for device in devices],
    "samples": [msgspec.to_builtins(gpus.sample()) for _ in range(int(sys.argv[1]))],
}))
"""

WATCH = """
import json, sys
import msgspec
from workbench.environment.files import Files
from workbench.environment.gpu import find_gpus
from workbench.environment.sampler import Sampler
server = int(sys.argv[2]) if len(sys.argv) > 2 else None
sampler = Sampler(find_gpus(Files(sys.argv[3])) if server else find_gpus(), server, interval_s=3600,
                  files=Files(sys.argv[3]) if server else Files())
sampler.start()
start = sampler.mark(wait_s=30)
for _ in range(int(sys.argv[1])):
    end = sampler.mark(wait_s=30)
evidence = sampler.between(start, end)
latest = sampler.latest()
sampler.stop()
print(json.dumps({
    "memory": evidence.memory_table(),
    "table": evidence.table(),
    "said": evidence.sentences(),
    "gpus": msgspec.to_builtins(evidence.gpus),
    "latest": [msgspec.to_builtins(device) for device in latest.memory.devices],
    "samples": evidence.samples,
}))
"""

RTX = "GPU-11111111-aaaa-bbbb-cccc-000000000001"
A100 = "GPU-22222222-aaaa-bbbb-cccc-000000000002"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scenes.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scenes.build(tmp_path_factory.mktemp("old-nvml"), "-DWITHOUT_V2")


class Stage:
    """Runs code in a child on one scenario."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._folder, self._library = folder, library

    def __call__(self, scenario: str, code: str, *arguments: object, **options: str) -> Any:
        path = self._folder / "scenario.txt"
        path.write_bytes((scenes.SYSTEM + scenario).encode("utf-8", "surrogateescape"))
        return scenes.run(self._library, path, code, *map(str, arguments), **options)


@pytest.fixture
def stage(tmp_path: Path, library: Path) -> Stage:
    return Stage(tmp_path, library)


def proc(root: Path, *, namespace: str = "4026531836", **processes: int) -> Path:
    """A made-up /proc: name=pid of each process, all children of pid 1, in the pid namespace of that number."""
    (root / "proc/self/ns").mkdir(parents=True)
    (root / "proc/self/ns/pid").symlink_to(f"pid:[{namespace}]")
    for name, pid in processes.items():
        folder = root / f"proc/{pid}"
        folder.mkdir()
        (folder / "comm").write_text(f"{name}\n")
        (folder / "stat").write_text(f"{pid} ({name}) S 1 " + "0 " * 17 + "5 0 256 0 0\n")
        (folder / "statm").write_text("1000 256 0 0 0 0 0\n")
    return root


def test_two_unlike_gpus_by_uuid(stage: Stage) -> None:
    seen = stage("- count 2\n" + scenes.RTX + scenes.A100, READ, 1)
    first, second = seen["devices"]
    assert seen["why"] == ""
    assert seen["versions"] == {"driver": "570.86.10", "cuda": "12.8"}
    assert (first["uuid"], first["name"], first["memory_mib"]) == (RTX, "NVIDIA GeForce RTX 4090", 24576)
    assert (second["uuid"], second["name"], second["memory_mib"]) == (A100, "NVIDIA A100-SXM4-40GB", 40960)
    assert (first["compute_capability"], first["architecture"], first["pcie_max"]) == ("8.9", "Ada", "gen 4 x16")
    assert (first["ecc"], first["mig"], first["nvlinks"]) == ("not supported", "not supported", "not supported")
    assert (second["ecc"], second["mig"], second["nvlinks"]) == ("on", "off", 2)
    assert first["source"]["memory_mib"] == "NVML memory v2"
    assert "cuda_cores" not in second
    assert second["unknown"]["cuda_cores"] == "NVML answers Not Supported"
    fast, slow = seen["samples"][0]
    assert (fast["uuid"], fast["memory_used_mib"], fast["memory_total_mib"]) == (RTX, 18432, 24576)
    assert (fast["utilisation_percent"], fast["power_w"], fast["temperature_c"]) == (97, 412.5, 67)
    assert (fast["sm_clock_mhz"], fast["memory_clock_mhz"], fast["throttle"]) == (2745, 10501, [])
    assert (slow["uuid"], slow["memory_used_mib"], slow["memory_clock_mhz"]) == (A100, 2048, None)
    assert slow["throttle"] == [], "an idle card's lowered clocks are no throttling"


SAMPLED = {
    "memory2": {"memory_used_mib", "memory_total_mib", "memory_source"},
    "use": {"utilisation_percent"},
    "power": {"power_w"},
    "temperature": {"temperature_c"},
    "sm_clock": {"sm_clock_mhz"},
    "memory_clock": {"memory_clock_mhz"},
    "throttle": set(),
}


@pytest.mark.parametrize("code", [3, 4, 10, 999])
def test_each_sampled_field_fails_alone(stage: Stage, code: int) -> None:
    scenario = f"- count {len(SAMPLED) + 1}\n{scenes.RTX}"
    for index, key in enumerate(SAMPLED, 1):
        lines = [line for line in scenes.RTX.splitlines() if line]
        scenario += (
            "".join(f"{index}{line[1:]}\n" for line in lines if line.split()[1] != key) + f"{index} {key} !{code}\n"
        )
    whole, *partial = stage(scenario, READ, 1)["samples"][0]
    for sample, (key, fields) in zip(partial, SAMPLED.items(), strict=True):
        for name, value in whole.items():
            if name == "label":
                continue
            assert sample[name] == ({"memory_source": ""}.get(name) if name in fields else value), (key, name)


def test_memory_falls_back_to_version_1_on_an_older_driver(tmp_path: Path, old_library: Path) -> None:
    scenario = "- count 1\n" + scenes.RTX + f"0 memory1 {24 * scenes.GIB} {19 * scenes.GIB}\n"
    seen = Stage(tmp_path, old_library)(scenario, READ, 1)
    sample = seen["samples"][0][0]
    assert seen["devices"][0]["source"]["memory_mib"] == "NVML memory v1"
    assert (sample["memory_used_mib"], sample["memory_source"]) == (19456, "NVML memory v1")
    assert sample["temperature_c"] == 67, "the older temperature function must be asked"
    assert "memory_reserved_mib" not in seen["devices"][0]


def test_mig_instances_stand_for_their_gpu(stage: Stage) -> None:
    seen = stage(scenes.MIG, READ, 1)
    whole, large, small = seen["devices"]
    assert (whole["mig"], large["mig"]) == ("on", "instance")
    assert large["parent"] == small["parent"] == whole["uuid"]
    assert large["uuid"].startswith("MIG-")
    watched = stage(scenes.MIG, WATCH, 2)
    keys = {device["key"]: device for device in watched["latest"]}
    assert set(keys) == {large["uuid"], small["uuid"], "host"}, "the parent would count the same memory twice"
    assert (keys[large["uuid"]]["used_mib"], keys[large["uuid"]]["total_mib"]) == (11264, 20480)
    assert watched["memory"][small["uuid"]]["peak"] == 1024


def test_unified_memory_is_the_systems_and_named_so(stage: Stage, tmp_path: Path) -> None:
    tree = proc(tmp_path / "spark")
    (tree / "proc/meminfo").write_text(
        "MemTotal: 127600748 kB\nMemFree: 100 kB\nMemAvailable: 118566368 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
    )
    seen = stage(scenes.UNIFIED, READ, 1, tree)
    device, sample = seen["devices"][0], seen["samples"][0][0]
    assert device["memory_kind"] == "unified: shared with the system"
    assert device["source"]["memory_kind"] == "from the name"
    assert "memory_mib" not in device
    assert "pcie_now" not in device, "its PCIe figures describe no slot"
    assert sample["unified"] is True
    assert sample["memory_total_mib"] == pytest.approx(127600748 / 1024)
    assert sample["memory_used_mib"] == pytest.approx((127600748 - 118566368) / 1024)
    assert sample["memory_source"] == "/proc/meminfo (unified memory)"
    assert sample["utilisation_percent"] == 42
    kinds = [device["kind"] for device in stage(scenes.UNIFIED, WATCH, 1)["latest"]]
    assert kinds == ["unified"], "the host's figures are the same and not said twice"


def test_unified_memory_with_a_driver_that_answers_wrongly(stage: Stage) -> None:
    scenario = scenes.UNIFIED + f"0 memory2 @0 {120 * scenes.GIB} 0 {119 * scenes.GIB}\n0 memory1 @0 0 0\n"
    sample = stage(scenario, READ, 1)["samples"][0][0]
    assert sample["memory_used_mib"] != 119 * 1024
    assert sample["memory_source"] == "/proc/meminfo (unified memory)"


def test_memory_that_is_not_told_stays_absent(stage: Stage) -> None:
    scenario = "- count 1\n0 uuid GPU-7\n0 name NVIDIA Unheard-of\n0 memory2 0 0 0\n0 memory1 !3\n"
    seen = stage(scenario, WATCH, 1)
    table = seen["memory"]["GPU-7"]
    assert not {"before", "peak", "after", "total"} & set(table)
    sample = stage(scenario, READ, 1)["samples"][0][0]
    assert (sample["memory_used_mib"], sample["memory_total_mib"]) == (None, None)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "kernel driver is not loaded"),
        (18, "different versions"),
        (4, "may not be used by this user"),
        (999, "start"),
    ],
)
def test_a_library_that_does_not_start_says_why(stage: Stage, code: int, words: str) -> None:
    seen = stage(f"- init !{code}\n", READ, 1)
    assert words in seen["why"]
    assert seen["why"].endswith(".")
    assert (seen["devices"], seen["samples"], seen["versions"]) == ([], [[]], {})


def test_no_device_behind_a_working_driver(stage: Stage) -> None:
    assert "lists no GPU" in stage("- count 0\n", READ, 1)["why"]


def test_no_driver_at_all(tmp_path: Path) -> None:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        pass
    else:
        pytest.skip("this machine has NVIDIA's library")
    (tmp_path / "sys/class/drm").mkdir(parents=True)
    seen: Any = scenes.run(tmp_path / "nothing", tmp_path / "none", READ, "1", str(tmp_path))
    assert seen["why"] == "No GPU was found: no NVIDIA driver library, no AMD card, no Apple silicon."
    (tmp_path / "sys/class/drm/card0/device").mkdir(parents=True)
    (tmp_path / "sys/class/drm/card0/device/vendor").write_text("0x10de\n")
    seen = scenes.run(tmp_path / "nothing", tmp_path / "none", READ, "1", str(tmp_path))
    assert "install NVIDIA's driver" in seen["why"]


def test_an_old_pynvml_package_in_the_way_is_named(stage: Stage, tmp_path: Path) -> None:
    package = tmp_path / "site/pynvml"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import warnings\nwarnings.warn('deprecated', FutureWarning)\n")
    seen = stage("- count 1\n" + scenes.RTX, READ, 1, python_path=str(package.parent))
    assert "old `pynvml` package hides nvidia-ml-py" in seen["why"]
    assert seen["devices"] == []


def test_a_binding_that_can_not_be_imported_is_named(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/pynvml.py").write_text("raise RuntimeError('broken')\n")
    seen = stage("- count 1\n" + scenes.RTX, READ, 1, python_path=str(tmp_path / "site"))
    assert "can't be imported (RuntimeError)" in seen["why"]


@pytest.mark.parametrize("code", [15, 16])
def test_a_gpu_lost_in_mid_run_leaves_a_gap(stage: Stage, code: int) -> None:
    scenario = "- count 2\n" + scenes.RTX + scenes.A100 + f"0 memory2 @6 !{code}\n"
    seen = stage(scenario, READ, 12)
    states = [bool(samples[0]["lost_why"]) for samples in seen["samples"]]
    # The static facts asked once, so the sixth question is that of the fifth sample; a lost device stays lost.
    assert states == [False] * 4 + [True] * 8
    last_lost, last_other = seen["samples"][-1]
    assert last_lost["memory_used_mib"] is None
    assert last_other["memory_used_mib"] == 2048, "the other GPU is read on"
    watched = stage(scenario, WATCH, 12)
    assert watched["samples"] == 13, "sampling goes on"
    memory = watched["memory"][RTX]
    assert memory["peak"] == 18432
    assert memory["before"] == 18432
    assert "after" not in memory
    assert memory["gap"]
    assert any("GPU 0 NVIDIA GeForce RTX 4090" in gap for gap in watched["table"]["gaps"])
    assert "gap" not in watched["memory"][A100]


def test_a_gpu_lost_from_the_start_hides_no_other(stage: Stage) -> None:
    scenario = "- count 2\n0 handle !15\n" + scenes.A100
    seen = stage(scenario, READ, 1)
    assert "fallen off the bus" in seen["devices"][0]["lost"]
    assert seen["devices"][1]["uuid"] == A100
    assert [bool(sample["lost_why"]) for sample in seen["samples"][0]] == [True, False]


def test_neighbours_are_named_and_the_servers_processes_are_not(stage: Stage, tmp_path: Path) -> None:
    tree = proc(tmp_path / "host", ollama=100, python3=200)
    scenario = (
        "- count 1\n"
        + scenes.RTX
        + f"0 compute 100 {12 * scenes.GIB}\n0 compute 200 {5 * scenes.GIB}\n"
        + f"0 graphics 300 na\n0 graphics 100 {scenes.GIB}\n"
    )
    found = {process["pid"]: process for process in stage(scenario, READ, 1, tree)["samples"][0][0]["processes"]}
    assert found[200]["name"] == "python3"
    assert found[300] == {"pid": 300, "name": "?", "memory_mib": None, "foreign": False}
    watched = stage(scenario, WATCH, 1, 100, tree)
    said = watched["table"]["neighbours"]
    assert "python3 (pid 200) on GPU 0 NVIDIA GeForce RTX 4090: 5120 MiB" in said
    assert any(text.startswith("? (pid 300)") and text.endswith("memory not told") for text in said)
    assert not any("ollama" in text for text in said)
    assert watched["latest"][0]["other_mib"] is None, "a neighbour that does not tell its memory makes the sum unknown"
    known = stage(scenario.replace("0 graphics 300 na\n", ""), WATCH, 1, 100, tree)
    assert known["latest"][0]["other_mib"] == 5120
    assert known["memory"]["server"]["peak"] == 1, "the server's resident memory stands beside the GPU's"


def test_a_process_seen_twice_keeps_the_memory_that_is_told(stage: Stage, tmp_path: Path) -> None:
    tree = proc(tmp_path / "host", ollama=100)
    scenario = "- count 1\n" + scenes.RTX + f"0 compute 100 {12 * scenes.GIB}\n0 graphics 100 na\n"
    assert stage(scenario, READ, 1, tree)["samples"][0][0]["processes"] == [
        {"pid": 100, "name": "ollama", "memory_mib": 12288, "foreign": False}
    ]


def test_pids_of_another_namespace_stay_unnamed(stage: Stage, tmp_path: Path) -> None:
    tree = proc(tmp_path / "inside", namespace="4026532999", postgres=100, vllm=200)
    (tree / "proc/200/fd").mkdir()
    (tree / "proc/200/fd/7").symlink_to("/dev/nvidia0")
    scenario = "- count 1\n" + scenes.RTX + f"0 compute 100 {scenes.GIB}\n0 compute 200 {scenes.GIB}\n"
    found = {process["pid"]: process for process in stage(scenario, READ, 1, tree)["samples"][0][0]["processes"]}
    assert (found[100]["name"], found[100]["foreign"]) == ("?", True), "pid 100 in here is someone else"
    assert (found[200]["name"], found[200]["foreign"]) == ("vllm", False)
    assert "neighbours" not in stage(scenario, WATCH, 1, 200, tree)["table"]


def test_a_scrambled_process_list_is_not_believed(stage: Stage, tmp_path: Path) -> None:
    tree = proc(tmp_path / "host", ollama=100)
    scenario = "- count 1\n" + scenes.RTX + f"0 compute 4294967295 {scenes.GIB}\n0 compute 100 {scenes.GIB}\n"
    sample = stage(scenario, READ, 1, tree)["samples"][0][0]
    assert sample["processes"] is None
    assert sample["memory_used_mib"] == 18432
    huge = "- count 1\n" + scenes.RTX + "0 compute 100 18446744073709486080\n"
    assert stage(huge, READ, 1, tree)["samples"][0][0]["processes"][0]["memory_mib"] is None


def test_power_throttling_is_counted_and_said(stage: Stage) -> None:
    scenario = "- count 1\n" + scenes.RTX + "0 throttle @4 0x4\n0 throttle @6 0x24\n0 throttle @8 0x1\n"
    watched = stage(scenario, WATCH, 9)
    # Samples 1 to 10: 4 and 5 power, 6 and 7 power and heat, the rest idle or free.
    assert watched["gpus"][0]["throttle"] == {"power cap": 4, "thermal slowdown (software)": 2}
    assert watched["gpus"][0]["samples"] == 10
    assert "GPU 0 NVIDIA GeForce RTX 4090: clocks lowered by power cap in 4 of 10 samples." in watched["said"]
    assert "GPU 0 NVIDIA GeForce RTX 4090: power cap" in watched["table"]["throttle"]


def test_before_peak_and_after(stage: Stage) -> None:
    scenario = "- count 1\n" + "".join(
        f"{line}\n" for line in scenes.RTX.splitlines() if line and line.split()[1] != "memory2"
    )
    for call, gib in ((0, 4), (3, 21), (5, 9)):
        scenario += f"0 memory2 @{call} {24 * scenes.GIB} 0 {gib * scenes.GIB}\n"
    memory = stage(scenario, WATCH, 6)["memory"][RTX]
    assert (memory["before"], memory["peak"], memory["after"], memory["total"]) == (4096, 21504, 9216, 24576)
    assert memory["source"] == "NVML memory v2"


def test_a_name_that_is_no_text_does_not_stop_the_reading(stage: Stage) -> None:
    lines = scenes.RTX.replace("name NVIDIA GeForce RTX 4090", "name NVIDIA \udcff\udcfe")
    seen = stage("- count 1\n" + lines, READ, 1)
    assert seen["devices"][0]["name"] == "NVIDIA GPU"
    assert seen["samples"][0][0]["memory_used_mib"] == 18432


def test_a_name_with_terminal_codes_is_made_visible(stage: Stage) -> None:
    seen = stage("- count 1\n" + scenes.RTX.replace("RTX 4090", "\x1b]52;c;aGk=\x07"), READ, 1)
    assert "\x1b" not in seen["devices"][0]["name"]
