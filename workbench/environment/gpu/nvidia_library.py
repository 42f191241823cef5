"""Opening NVIDIA's management library through `pynvml`, and a sentence for every way in which that fails."""

from __future__ import annotations

import ctypes
import importlib
import warnings
from types import ModuleType
from typing import Any

from workbench.environment.files import LINUX

LIBRARY = "libnvidia-ml.so.1"

# From nvml.h, nvmlReturn_t.
LOST_DEVICE = {
    15: "the GPU has fallen off the bus (NVML: GPU is lost); restart the machine or reseat the card",
    16: "the GPU must be reset before it can be used again (NVML: reset required)",
}

INIT_FAILURES = {
    4: "The NVIDIA library may not be used by this user: add the user to the group that owns /dev/nvidia*.",
    9: "The NVIDIA library is installed, but its kernel driver is not loaded: run `sudo modprobe nvidia`, or restart.",
    12: f"No NVIDIA driver library ({LIBRARY}) is installed here.",
    13: f"The NVIDIA library {LIBRARY} is too old for this program: update the driver.",
    18: "The NVIDIA driver and its library are of different versions, as after an upgrade without a restart: restart the"
    " machine.",
}

SHADOWED = (
    "An old `pynvml` package hides nvidia-ml-py: run `pip uninstall pynvml` and `pip install --force-reinstall"
    " nvidia-ml-py`."
)


class DeviceLost(Exception):
    """The device can't be read any more; the message says why."""


class Nvml:
    """The opened library. Each question fails alone: None, with the driver's words kept in `refusal`."""

    def __init__(self, module: ModuleType) -> None:
        self.module: Any = module
        self.refusal = ""

    def ask(self, function: str, *arguments: object) -> Any:
        """Call one pynvml function; None when the driver, the library or the binding can't answer.

        Raises DeviceLost when the answer is that the device is gone.
        """
        self.refusal = ""
        try:
            return getattr(self.module, function)(*arguments)
        except self.module.NVMLError as error:
            code = int(getattr(error, "value", 0))
            if code in LOST_DEVICE:
                raise DeviceLost(LOST_DEVICE[code]) from None
            self.refusal = f"NVML answers {error}"
        except Exception as error:
            # An older binding lacks the function; a driver that fills structures wrongly breaks the binding's decoding.
            self.refusal = f"NVML's binding fails ({type(error).__name__})"
        return None


def open_nvml() -> tuple[Nvml | None, str]:
    """(library, "") when NVML is ready, else (None, one sentence that says why and what to do)."""
    if not LINUX:
        return None, "NVIDIA GPUs are read on Linux (and WSL) only."
    try:
        # Looked for before the binding is imported: that import costs more than the rest of the snapshot.
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        if "cannot open shared object" in str(error):
            return None, INIT_FAILURES[12]
        return None, f"The NVIDIA library {LIBRARY} can't be loaded: install the driver that belongs to this system."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module("pynvml")
    except Exception as error:
        return None, (
            f"The Python binding `pynvml` can't be imported ({type(error).__name__}): run `pip install --force-reinstall"
            " nvidia-ml-py`."
        )
    # nvidia-ml-py is one module; the old package of the same name is a folder or lacks the second memory structure.
    if hasattr(module, "__path__") or not hasattr(module, "nvmlMemory_v2"):
        return None, SHADOWED
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        code = int(getattr(error, "value", 0))
        return None, INIT_FAILURES.get(code, f"The NVIDIA library does not start: {error}.")
    return Nvml(module), ""
