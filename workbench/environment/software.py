"""Software facts: Python, the packages that do the measuring, and the GPU driver's versions."""

from __future__ import annotations

import platform
from importlib import metadata

from workbench.domain.facts import Facts
from workbench.environment.gpu.base import GpuReader

MEASURING = (
    "openai",
    "httpx2",
    "httptools",
    "msgspec",
    "tokenizers",
    "scipy",
    "psutil",
    "nvidia-ml-py",
    "textual",
)
"""Distributions whose version can change a figure or its presentation."""

OPTIONAL = ("xllamacpp", "gguf", "uvloop")


def software_facts(gpus: GpuReader | None = None) -> Facts:
    """Versions from the installed packages' metadata: nothing is imported. With a GPU reader also `driver` and `cuda`."""
    facts = Facts()
    facts.set("python", f"{platform.python_implementation()} {platform.python_version()}", "platform")
    facts.set("workbench", _version("inference-workbench"), "package metadata", "install it with pip")
    for name in MEASURING:
        facts.set(name, _version(name), "package metadata", f"run `pip install {name}`")
    for name in OPTIONAL:
        version = _version(name)
        if version:
            facts.set(name, version, "package metadata")
    if gpus is None:
        return facts
    versions = gpus.versions()
    for name, fact in versions:
        facts.set(name, fact.value, fact.source)
    why = gpus.why_none or "run `nvidia-smi`"
    for name in ("driver", "cuda"):
        if name not in facts and not (name == "cuda" and "rocm" in facts):
            facts.set(name, None, "", versions.unknown.get(name) or why)
    return facts


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
