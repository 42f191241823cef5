"""A model folder in Hugging Face's layout on this machine: what its `config.json` says of the weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workbench.domain.facts import Facts

_LARGEST = 4 << 20


def add_folder_facts(facts: Facts, path: str | None) -> None:
    """Add quant, format, size (bytes) and context_trained from the folder, where they aren't known yet.

    Does nothing when the path is no such folder here (a hub name, another machine).
    """
    config = _config(path)
    if path is None or config is None:
        return
    source = "config.json beside the weights"
    scheme = config.get("quantization_config", config.get("compression_config"))
    dtype = config.get("dtype", config.get("torch_dtype"))
    if "quant" not in facts:
        if isinstance(scheme, dict):
            facts.set("quant", _scheme(scheme), source)
        elif isinstance(dtype, str):
            facts.set("quant", dtype, f"{source}: no quantization, this type")
    window = config.get("max_position_embeddings")
    if "context_trained" not in facts and isinstance(window, int) and window > 0:
        facts.set("context_trained", window, source)
    weights = sorted(Path(path).glob("*.safetensors"))
    if weights and "size" not in facts:
        facts.set("format", "safetensors", "the weights' folder")
        facts.set("size", sum(file.stat().st_size for file in weights), "the weights' folder")


def _scheme(table: dict[str, Any]) -> str | None:
    method = table.get("quant_method")
    bits = table.get("bits", table.get("w_bit"))
    if not isinstance(method, str):
        return None
    return f"{method}-{bits}bit" if isinstance(bits, int) else method


def _config(path: str | None) -> dict[str, Any] | None:
    if not path or not Path(path).is_absolute():
        return None
    file = Path(path) / "config.json"
    try:
        if file.stat().st_size > _LARGEST:
            return None
        value = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
