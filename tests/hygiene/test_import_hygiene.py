"""What a process really loads, seen in `sys.modules` of one started afresh: the static contracts' other half.

A module that imports too much makes `workbench --version` slow, or puts a screen's work into the worker's process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import workbench

PACKAGE = Path(workbench.__file__).parent
COSTLY = {
    "gguf", "httpx2", "numpy", "openai", "plotext", "pydantic", "pynvml", "scipy", "textual", "tokenizers", "xllamacpp",
}  # fmt: skip


def modules_of(*packages: str) -> list[str]:
    """The names of all modules in subpackages of workbench, `__main__` files apart: those may act when imported."""
    paths = [path for package in packages for path in (PACKAGE / package).rglob("*.py") if path.name != "__main__.py"]
    assert paths, f"there is no module in {packages}"
    names = (".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in paths)
    return sorted(name.removesuffix(".__init__") for name in names)


def loaded_by(code: str) -> set[str]:
    """The names in `sys.modules` after a fresh interpreter ran the code."""
    program = f"import json, sys\n{code}\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout.splitlines()[-1]))


def loaded_by_importing(names: Iterable[str]) -> set[str]:
    return loaded_by("\n".join(f"import {name}" for name in names))


def roots(loaded: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in loaded}


def ours(loaded: set[str]) -> set[str]:
    """The subpackages of workbench among the loaded modules."""
    return {name.split(".")[1] for name in loaded if name.startswith("workbench.")}


def test_the_command_itself_loads_nothing_costly() -> None:
    loaded = loaded_by("import workbench.__main__")
    assert not roots(loaded) & (COSTLY | {"asyncio", "msgspec", "psutil", "tomli_w"})
    assert ours(loaded) <= {"__main__", "cli", "domain"}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_asking_for_the_version_or_help_loads_nothing_costly(option: str) -> None:
    loaded = loaded_by(f"from workbench.__main__ import main\nassert main([{option!r}]) == 0")
    assert not roots(loaded) & (COSTLY | {"asyncio", "msgspec", "psutil", "tomli_w"})


def test_version_prints_the_version_alone() -> None:
    command = [sys.executable, "-m", "workbench", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (ran.stdout, ran.stderr) == (f"workbench {workbench.__version__}\n", "")


def test_the_domain_is_pure() -> None:
    loaded = loaded_by_importing(modules_of("domain"))
    assert ours(loaded) == {"domain"}
    assert not roots(loaded) & (
        COSTLY - {"numpy", "scipy"} | {"aiohttp", "asyncio", "httptools", "psutil", "socket", "tomli_w"}
    )
    assert "scipy.stats" not in loaded


def test_the_worker_holds_no_screen_no_driver_no_statistics() -> None:
    loaded = loaded_by("import workbench.measure.worker")
    assert not roots(loaded) & (COSTLY - {"httpx2", "openai", "pydantic"} | {"psutil", "rich", "tomli_w"})
    assert ours(loaded) <= {"domain", "measure"}


def test_the_simulator_stands_alone() -> None:
    loaded = loaded_by_importing(modules_of("simulator"))
    assert not roots(loaded) & COSTLY
    assert ours(loaded) <= {"domain", "simulator"}


@pytest.mark.parametrize("package", ["session", "engines", "environment", "records"])
def test_what_stands_between_loads_neither_screen_nor_client(package: str) -> None:
    loaded = loaded_by_importing(name for name in modules_of(package) if name not in RUNS_THE_ENGINE)
    assert not roots(loaded) & (COSTLY - {"numpy", "scipy"})
    assert "scipy.stats" not in loaded
    assert not {"cli", "tui"} & ours(loaded)
    assert "workbench.measure.worker" not in loaded


RUNS_THE_ENGINE = {"workbench.engines.serve_builtin", "workbench.engines.requantize"}
"""Programs of their own, started as processes: the engine and the re-encoding are what they are for."""


def test_the_commands_load_neither_screen_nor_client_nor_plots() -> None:
    loaded = loaded_by_importing(modules_of("cli"))
    assert not roots(loaded) & (COSTLY - {"numpy", "scipy"})
    assert "scipy.stats" not in loaded
    assert "workbench.measure.worker" not in loaded
    assert "tui" not in ours(loaded)


def test_the_screen_loads_no_client_no_engine_and_no_driver() -> None:
    loaded = loaded_by_importing(modules_of("tui"))
    assert not roots(loaded) & (COSTLY - {"numpy", "plotext", "scipy", "textual"})
    assert "scipy.stats" not in loaded
    assert "workbench.measure.worker" not in loaded
    assert "textual" in roots(loaded), "the screen is not there, or this test looks in the wrong place"
