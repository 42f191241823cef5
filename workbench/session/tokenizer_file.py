"""Counting with a local `tokenizer.json` (or a folder that holds one), where the server can't count. No network."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.domain.variables import BadInput

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class FileTokenizer:
    """A tokenizer read from disk. Raises BadInput when the file is none."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise BadInput(f"--tokenizer {path}: no such file; give a tokenizer.json or the folder it is in")
        try:
            self._tokenizer: Tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # The library raises plain Exception for a file it can't read.
            raise BadInput(f"--tokenizer {path}: not a tokenizer.json: {error}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.sha256 = hashlib.sha256(file.read_bytes()).hexdigest()

    def count(self, text: str) -> int:
        """Tokens of the whole text, counted once, without special tokens."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


class Tokenizers:
    """What counts where a server can't: the file that was given, else the model's own in the local Hugging Face cache."""

    def __init__(self, given: FileTokenizer | None = None) -> None:
        self.given = given
        self._cached: dict[str, FileTokenizer | None] = {}

    def of(self, model: str) -> FileTokenizer | None:
        """The tokenizer for a model; None when there is none. Loading one takes up to a second, once."""
        if self.given is not None:
            return self.given
        if model not in self._cached:
            path = cached_tokenizer(model)
            try:
                self._cached[model] = None if path is None else FileTokenizer(path)
            except BadInput:
                self._cached[model] = None
        return self._cached[model]

    def cached_sha256(self, model: str) -> str:
        """The hash of the tokenizer.json that was found for the model and is in use; "" when none is."""
        cached = self._cached.get(model)
        return "" if cached is None else cached.sha256


_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def cached_tokenizer(model: str) -> Path | None:
    """The `tokenizer.json` of exactly this repository (ORG/NAME) in the local Hugging Face cache, of the revision `main` or
    else the newest one; None when there is none."""
    if not _REPOSITORY.fullmatch(model):
        return None
    folder = _hub_folder() / f"models--{model.replace('/', '--')}"
    try:
        try:
            names = [(folder / "refs" / "main").read_text(encoding="ascii").strip()]
        except (OSError, UnicodeDecodeError):
            snapshots = sorted((folder / "snapshots").iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            names = [path.name for path in snapshots]
        files = [folder / "snapshots" / name / "tokenizer.json" for name in names if re.fullmatch(r"\w+", name)]
        return next((file for file in files if file.is_file()), None)
    except OSError:
        return None


def _hub_folder() -> Path:
    """Where Hugging Face's tools keep what they fetch, by the variables that they heed."""
    for name, below in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser() / below
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface" / "hub"
