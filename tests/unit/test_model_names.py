"""What a model's name says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engines.names import base_name, quant_in


@pytest.mark.parametrize(
    ("name", "quant", "base"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1", "smollm2-135m-instruct"),
        ("smollm2:q8_0", "Q8_0", "smollm2"),
        ("smollm2:latest", None, "smollm2"),
        ("llama3:8b-instruct-q4_K_M", "Q4_K_M", "llama3-8b-instruct"),
        ("qwen2.5-7b-instruct@q4_k_m", "Q4_K_M", "qwen2-5-7b-instruct"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "AWQ", "qwen2-5-7b-instruct"),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", "GPTQ-INT4", "qwen2-5-7b-instruct"),
        ("mlx-community/foo-4bit", "4BIT", "foo"),
        ("Meta-Llama-3-FP8-dynamic", "FP8-DYNAMIC", "meta-llama-3"),
        ("Qwen3-30B-A3B-UD-Q4_K_XL-00001-of-00002.gguf", "UD-Q4_K_XL", "qwen3-30b-a3b"),
        ("x/y-w4a16", "W4A16", "y"),
        ("gpt-oss-20b-MXFP4", "MXFP4", "gpt-oss-20b"),
        ("Foo-v0.1-F16", "F16", "foo-v0-1"),
        ("gemma-3-270m-it-qat", None, "gemma-3-270m-it-qat"),
        ("gpt-oss:20b", None, "gpt-oss-20b"),
        ("phi-4", None, "phi-4"),
        ("Qwen3-8B", None, "qwen3-8b"),
        ("models/Q4_0/plain", None, "plain"),
    ],
)
def test_names(name: str, quant: str | None, base: str) -> None:
    assert quant_in(name) == quant
    assert base_name(name) == base


@given(st.text(max_size=60))
def test_any_name_will_do(name: str) -> None:
    quant_in(name)
    base_name(name)
