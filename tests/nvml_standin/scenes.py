"""Scenarios of the libnvidia-ml stand-in, compiling it, and running code above the real `pynvml` on it.

The stand-in is found by the dynamic loader under the real library's name, so it works in a child process only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE / "nvml_standin.c"
GIB = 1 << 30

RTX = f"""
0 uuid GPU-11111111-aaaa-bbbb-cccc-000000000001
0 name NVIDIA GeForce RTX 4090
0 memory2 {24 * GIB} {GIB // 2} {18 * GIB}
0 architecture 8
0 capability 8 9
0 cores 16384
0 pcie_gen 1
0 pcie_width 16
0 pcie_max_gen 4
0 pcie_max_width 16
0 mig !3
0 ecc !3
0 persistence 0
0 limit 450000
0 default_limit 450000
0 sm_clock_max 3105
0 memory_clock_max 10501
0 use 97 60
0 power 412500
0 temperature 67
0 sm_clock 2745
0 memory_clock 10501
0 throttle 0
"""

A100 = f"""
1 uuid GPU-22222222-aaaa-bbbb-cccc-000000000002
1 name NVIDIA A100-SXM4-40GB
1 memory2 {40 * GIB} {GIB} {2 * GIB}
1 architecture 7
1 capability 8 0
1 mig 0 0
1 ecc 1 1
1 persistence 1
1 nvlink0 1
1 nvlink1 1
1 nvlink2 0
1 limit 400000
1 use 3 1
1 power 61000
1 temperature 31
1 sm_clock 1410
1 throttle 1
"""

SYSTEM = """
- driver 570.86.10
- cuda 12080
"""

MIG = f"""
- count 1
0 uuid GPU-33333333-aaaa-bbbb-cccc-000000000003
0 name NVIDIA A100-SXM4-40GB
0 memory2 {40 * GIB} {GIB} {12 * GIB}
0 mig 1 1
0 mig_count 7
0 power 120000
0 temperature 40
0.0 uuid MIG-44444444-aaaa-bbbb-cccc-000000000004
0.0 name NVIDIA A100-SXM4-40GB MIG 3g.20gb
0.0 memory2 {20 * GIB} 0 {11 * GIB}
0.2 uuid MIG-55555555-aaaa-bbbb-cccc-000000000005
0.2 name NVIDIA A100-SXM4-40GB MIG 1g.5gb
0.2 memory2 {5 * GIB} 0 {GIB}
"""

UNIFIED = """
- count 1
0 uuid GPU-66666666-aaaa-bbbb-cccc-000000000006
0 name NVIDIA GB10
0 memory1 !3
0 memory2 !3
0 architecture 10
0 capability 12 1
0 pcie_gen 1
0 pcie_width 1
0 use 42 0
0 power 11170
0 temperature 35
"""


def compiler() -> str | None:
    """The C compiler of this machine, or None."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: Path, *options: str) -> Path:
    """Compile the stand-in into `folder` under the real library's name."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    found = compiler()
    assert found is not None
    command = [
        found,
        "-shared",
        "-fPIC",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
        *options,
        "-o",
        str(library),
        str(SOURCE),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return library


def run(library: Path, scenario: Path, code: str, *arguments: str, python_path: str = "") -> object:
    """Run Python code in a child that finds the stand-in as NVIDIA's library; gives what it prints as JSON."""
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(library.parent),
        "NVML_STANDIN": str(scenario),
        "PYTHONPATH": os.pathsep.join(filter(None, [python_path, str(HERE.parent.parent)])),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "nothing may be written beside the screen"
    return json.loads(done.stdout)
