"""AMD cards from made-up /sys trees, Apple silicon's answers, a DCGM exporter's page, and the choice between readers."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.domain.facts import Facts
from workbench.environment.files import Files
from workbench.environment.gpu import SeveralVendors, find_gpus
from workbench.environment.gpu.amd import AmdReader
from workbench.environment.gpu.base import GpuDevice, GpuProcess, GpuSample, NoGpu, neighbours
from workbench.environment.gpu.exporter import ExporterReader
from workbench.environment.macos import fill_macos

GIB = 1 << 30


def write(root: Path, files: dict[str, object]) -> Files:
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return Files(str(root))


def amd(root: Path) -> Files:
    return write(
        root,
        {
            "/sys/class/drm/card0/device/vendor": "0x8086",
            "/sys/class/drm/card1-DP-1/status": "connected",
            "/sys/class/drm/card1/device/vendor": "0x1002",
            "/sys/class/drm/card1/device/device": "0x744c",
            "/sys/class/drm/card1/device/unique_id": "a1b2c3d4e5f60718",
            "/sys/class/drm/card1/device/mem_info_vram_total": 24 * GIB,
            "/sys/class/drm/card1/device/mem_info_vram_used": 6 * GIB,
            "/sys/class/drm/card1/device/mem_info_gtt_total": 32 * GIB,
            "/sys/class/drm/card1/device/gpu_busy_percent": 88,
            "/sys/class/drm/card1/device/current_link_speed": "16.0 GT/s PCIe",
            "/sys/class/drm/card1/device/current_link_width": 16,
            "/sys/class/drm/card1/device/hwmon/hwmon4/power1_average": 301000000,
            "/sys/class/drm/card1/device/hwmon/hwmon4/power1_cap": 339000000,
            "/sys/class/drm/card1/device/hwmon/hwmon4/temp1_input": 71000,
            "/sys/class/drm/card1/device/hwmon/hwmon4/freq1_input": 2371000000,
            "/sys/module/amdgpu/version": "6.10.5",
        },
    )


def test_an_amd_card_is_read_from_sysfs(tmp_path: Path) -> None:
    reader = AmdReader(amd(tmp_path))
    [device] = reader.devices()
    assert reader.why_none == ""
    assert (device.uuid, device.name) == ("AMD-a1b2c3d4e5f60718", "AMD GPU 1002:744c")
    assert device.facts.get("memory_mib") == 24576
    assert device.facts.get("power_limit_w") == 339
    assert device.facts.source("memory_mib") == "mem_info_vram_total"
    [sample] = reader.sample()
    assert (sample.memory_used_mib, sample.memory_total_mib) == (6144, 24576)
    assert (sample.utilisation_percent, sample.power_w, sample.temperature_c) == (88, 301, 71)
    assert sample.sm_clock_mhz == 2371
    assert sample.processes is None, "these files do not tell who is on the card"
    assert reader.versions().get("driver") == "6.10.5"


def test_an_amd_card_that_tells_little_leaves_the_rest_absent(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        {
            "/sys/class/drm/card0/device/vendor": "0x1002",
            "/sys/class/drm/card0/device/device": "0x1586",
            "/sys/class/drm/card0/device/mem_info_vram_total": GIB,
        },
    )
    reader = AmdReader(files)
    [sample] = reader.sample()
    assert (sample.memory_used_mib, sample.power_w, sample.utilisation_percent) == (None, None, None)
    [device] = reader.devices()
    assert "power_limit_w" in device.facts.unknown


def test_an_amd_card_whose_files_go_is_lost(tmp_path: Path) -> None:
    reader = AmdReader(amd(tmp_path))
    (tmp_path / "sys/class/drm/card1").rename(tmp_path / "gone")
    [sample] = reader.sample()
    assert "have gone" in sample.lost_why


def test_the_reader_is_picked_by_what_is_there(tmp_path: Path) -> None:
    assert isinstance(find_gpus(amd(tmp_path / "amd")), AmdReader | SeveralVendors)
    intel = write(tmp_path / "intel", {"/sys/class/drm/card0/device/vendor": "0x8086"})
    why = find_gpus(intel).why_none
    assert why.endswith(".")
    assert why.count(". ") <= 1


def test_a_faulty_driver_is_told_beside_another_vendors_gpu(tmp_path: Path) -> None:
    both = SeveralVendors([AmdReader(amd(tmp_path))], "The NVIDIA driver and its library are of different versions.")
    assert len(both.devices()) == len(both.sample()) == 1
    assert "different versions" in both.why_none
    assert both.versions().get("driver") == "6.10.5"


def test_no_gpu_reads_as_nothing() -> None:
    none = NoGpu("There is none.")
    assert (none.devices(), none.sample(), len(none.versions())) == ([], [], 0)


def test_a_mig_instances_process_is_named_once() -> None:
    process = [GpuProcess(7, "vllm", 100.0)]
    samples = [
        GpuSample(uuid="GPU-1", label="GPU 0 A100", processes=process),
        GpuSample(uuid="MIG-1", label="GPU 0 A100 MIG", parent="GPU-1", processes=process),
    ]
    assert [neighbour.uuid for neighbour in neighbours(samples, {1})] == ["MIG-1"]
    assert neighbours(samples, {7}) == []


def test_macos_answers_become_facts() -> None:
    facts = Facts()
    fill_macos(
        facts,
        {
            "machdep.cpu.brand_string": "Apple M3 Max",
            "hw.model": "Mac15,9",
            "hw.packages": "1",
            "hw.physicalcpu": "16",
            "hw.logicalcpu": "16",
            "kern.hv_vmm_present": "0",
        },
    )
    assert (facts.get("cpu"), facts.get("cores"), facts.get("smt")) == ("Apple M3 Max", 16, False)
    assert facts.get("virtualization") == "none"
    assert "powermetrics" in facts.unknown["frequency_max_mhz"]


PAGE = """# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aa",modelName="NVIDIA H100",Hostname="secret-host",DCGM_FI_DRIVER_VERSION="550"} 61234
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-aa",modelName="NVIDIA H100",Hostname="secret-host"} 19766
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",modelName="NVIDIA H100",Hostname="secret-host"} 93
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-aa",modelName="NVIDIA H100",Hostname="secret-host"} 633.5
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu="0",UUID="GPU-aa",modelName="NVIDIA H100",Hostname="secret-host"} 4
"""


class Exporter(http.server.BaseHTTPRequestHandler):
    """A stand-in for a DCGM exporter, made from its documentation."""

    page = PAGE
    status = 200

    def do_GET(self) -> None:
        body = self.page.encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def exporter() -> Iterator[tuple[str, type[Exporter]]]:
    handler = type("Scripted", (Exporter,), {})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics", handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_remote_exporters_page(exporter: tuple[str, type[Exporter]]) -> None:
    reader = ExporterReader(exporter[0])
    [device] = reader.devices()
    assert (device.name, device.uuid, device.facts.get("memory_mib")) == ("NVIDIA H100", "GPU-aa", 81000)
    assert reader.versions().get("driver") == "550"
    [sample] = reader.sample()
    assert (sample.memory_used_mib, sample.utilisation_percent, sample.power_w) == (61234, 93, 633.5)
    assert sample.throttle == ["power cap"]
    assert sample.temperature_c is None
    assert "secret-host" not in repr((device.facts.table(), sample)), "host names are never kept"


def test_a_page_that_goes_stale_is_a_gap(exporter: tuple[str, type[Exporter]], monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ExporterReader(exporter[0])
    clock = time.monotonic
    monkeypatch.setattr("workbench.environment.gpu.exporter.time.monotonic", lambda: clock() + 60)
    exporter[1].status = 503
    [sample] = reader.sample()
    assert "has not answered" in sample.lost_why


def test_a_page_that_is_no_exporters_says_so(exporter: tuple[str, type[Exporter]]) -> None:
    exporter[1].page = "node_load1 0.3\n"
    assert "is it a DCGM exporter" in ExporterReader(exporter[0]).why_none
    exporter[1].status = 404
    assert ExporterReader(exporter[0]).why_none == "The GPU exporter answers HTTP 404."
    with pytest.raises(ValueError, match="9400"):
        ExporterReader("file:///etc/passwd")


def test_a_device_names_itself() -> None:
    assert GpuDevice("GPU-1", "NVIDIA L4", 2, Facts()).label == "GPU 2 NVIDIA L4"
