"""The built-in engine's weights, fetched at most once."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.engines.weights import cache_dir, ensure_weights


@pytest.fixture(scope="session")
def builtin_cache() -> Path:
    """The cache in force (WORKBENCH_CACHE, else the user's own) with the Q4_1 weights; tests that do harm make their own."""
    ensure_weights("Q4_1")
    return cache_dir()
