"""What every file of the project must keep to."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 420
"""Lines of a Python file. Past that it has more than one purpose."""

# In two pieces each, so that this file doesn't hold what it looks for: folders of one machine, and package index hosts
# (a lock names versions and hashes; where they come from is the user's own setting).
NEVER = ["/wo" "rk/", "../sha" "red", "py" "pi.org", "python" "hosted.org"]  # fmt: skip

WITHOUT_GIT = {".venv", ".git", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "sessions"}


def project_files() -> list[Path]:
    """The project's files: those git tracks or would track, or all but tools' folders where git isn't to be had."""
    try:
        command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, capture_output=True, check=True, timeout=30).stdout
        paths = [ROOT / os.fsdecode(name) for name in listed.split(b"\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [path for path in ROOT.rglob("*") if not WITHOUT_GIT & set(path.relative_to(ROOT).parts)]
    files = [path for path in paths if path.is_file()]
    assert len(files) > 100
    return files


FILES = project_files()
PYTHON = [path for path in FILES if path.suffix == ".py"]


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_python_files_are_short() -> None:
    lengths = {where(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PYTHON}
    assert not {name: length for name, length in lengths.items() if length > LONGEST}


def test_no_file_names_a_machine_or_a_package_index() -> None:
    found = [
        f"{where(path)}: {word}"
        for path in FILES
        for word in NEVER
        if word.encode() in path.read_bytes()
    ]  # fmt: skip
    assert not found


def test_what_is_left_to_do_has_a_reason() -> None:
    # A marker is followed by a colon and says why; a bare one is a wish that nobody will remember.
    bare = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b(?!: \w+ \w+)")
    found = [
        f"{where(path)}:{number}: {line.strip()}"
        for path in PYTHON
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if bare.search(line)
    ]
    assert not found


def test_every_module_says_what_it_is() -> None:
    bare = [
        where(path)
        for path in PYTHON
        if path.read_text(encoding="utf-8").strip()
        and not path.read_text(encoding="utf-8").lstrip().startswith(('"""', "#"))
    ]
    assert not bare


def test_every_prompt_says_what_it_is_for() -> None:
    prompts = sorted((ROOT / "prompts").iterdir())
    assert {path.stem for path in prompts} >= {"short", "document", "code", "chinese", "near-limit"}
    for path in prompts:
        content = path.read_text(encoding="utf-8")
        assert path.suffix == ".toml", path
        assert content.startswith("# A prompt of the workbench"), path
        table = tomllib.loads(content)
        assert table["name"] == path.stem
        assert len(table["purpose"].split()) >= 10, path


@pytest.mark.parametrize("name", ["run", "dev", "installer"])
def test_the_lock_holds_exact_versions_and_hashes(name: str) -> None:
    lines = (ROOT / "lock" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    packages = [line for line in lines if line[:1].isalnum()]
    assert packages
    assert all(re.match(r"[a-z0-9-]+==[^ ]+ .*\\$", line) for line in packages)
    assert sum("--hash=sha256:" in line for line in lines) >= len(packages)


def test_the_lock_covers_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = {
        "run": [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["local"]]
        + project["dependency-groups"]["build"],
        "dev": project["dependency-groups"]["test"] + project["dependency-groups"]["lint"],
        "installer": project["dependency-groups"]["installer"],
    }
    for name, requirements in asked.items():
        lock = (ROOT / "lock" / f"{name}.txt").read_text(encoding="utf-8")
        locked = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
        assert {re.split(r"[<>=!~\[; ]", requirement)[0] for requirement in requirements} <= locked, (
            f"run `make lock`: {name}"
        )
