"""What a model's name says, and no more: "from the name" is a source of its own, weaker than any other."""

from __future__ import annotations

import re

_QUANT = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        (?:UD[-_])?I?Q[1-8](?:_[A-Z0-9]{1,3}){0,3}      # GGUF: Q4_K_M, IQ3_XXS, Q8_0, UD-Q4_K_XL
      | TQ[12]_0
      | (?:AWQ|GPTQ|EXL[23]|HQQ|AQLM)(?:[-_.]?(?:INT)?[2-8](?:[-_.]?BITS?)?)?
      | W[248]A(?:8|16)(?:[-_.]?(?:FP8|INT8))?
      | (?:MX|NV)FP[468]
      | (?:BNB[-_.]?)?[2-8][-_.]?BITS?
      | FP8(?:[-_.]DYNAMIC)? | INT[48]
      | BF16 | FP?16 | FP?32
    )(?![A-Za-z0-9])""",
    re.IGNORECASE | re.VERBOSE,
)
_WEIGHT_FILE = re.compile(r"(?:[-_.]\d{5}-of-\d{5})?\.(?:gguf|safetensors|bin)$", re.IGNORECASE)


def quant_in(name: str) -> str | None:
    """The quantization that a model's name carries (`...-Q4_K_M.gguf`, `...-AWQ`, `llama3:8b-q8_0`), in upper case.

    The last one counts: an earlier one is more often part of the model's own name. None when the name carries none.
    """
    found = _QUANT.findall(name.replace("\\", "/").rpartition("/")[2])
    return found[-1].upper() if found else None


def base_name(name: str) -> str:
    """A model's name without folder, tag, file ending and quantization: equal for two quantizations of one model."""
    text = _WEIGHT_FILE.sub("", name.replace("\\", "/").rpartition("/")[2]).lower()
    text, _, tag = text.partition(":")
    text = _QUANT.sub("", text.partition("@")[0])
    # A tag may hold the size (llama3:8b-q8_0), which is another model, not another quantization.
    size = _QUANT.sub("", tag) if tag != "latest" else ""
    return re.sub(r"[-_.:\s]+", "-", f"{text}:{size}").strip("-")
