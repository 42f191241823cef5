"""GPUs: `find_gpus` picks the reader of this machine."""

from __future__ import annotations

import re

from workbench.environment.files import HERE, MACOS, Files
from workbench.environment.gpu.amd import DRM, AmdReader
from workbench.environment.gpu.apple import AppleReader
from workbench.environment.gpu.base import (
    GpuDevice,
    GpuProcess,
    GpuReader,
    GpuSample,
    Neighbour,
    NoGpu,
    SeveralVendors,
    neighbours,
)
from workbench.environment.gpu.nvidia import NvidiaReader
from workbench.environment.gpu.nvidia_library import INIT_FAILURES

__all__ = [
    "GpuDevice",
    "GpuProcess",
    "GpuReader",
    "GpuSample",
    "Neighbour",
    "NoGpu",
    "SeveralVendors",
    "find_gpus",
    "neighbours",
]

NOT_INSTALLED = INIT_FAILURES[12]


def find_gpus(files: Files = HERE) -> GpuReader:
    """The reader for the GPUs of this machine; without any, a reader whose `why_none` says why in one sentence."""
    if MACOS:
        apple = AppleReader()
        return NoGpu("No GPU that can be read: an Intel Mac.") if apple.why_none else apple
    nvidia, amd = NvidiaReader(files), AmdReader(files)
    found: list[GpuReader] = [reader for reader in (nvidia, amd) if not reader.why_none]
    # A driver that is there and at fault is told even beside another vendor's GPU.
    fault = "" if nvidia.why_none == NOT_INSTALLED else nvidia.why_none
    if not found:
        return NoGpu(fault or _nothing(files))
    return found[0] if len(found) == 1 and not fault else SeveralVendors(found, fault)


def _nothing(files: Files) -> str:
    vendors = {files.text(f"{DRM}/{name}/device/vendor") for name in files.names(DRM) if re.fullmatch(r"card\d+", name)}
    if "0x10de" in vendors:
        return "An NVIDIA GPU is here, but no NVIDIA driver library (libnvidia-ml.so.1): install NVIDIA's driver."
    if "0x8086" in vendors:
        return "Only an Intel GPU is here; reading Intel GPUs is not built."
    return "No GPU was found: no NVIDIA driver library, no AMD card, no Apple silicon."
