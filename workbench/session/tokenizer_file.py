"""Counting with a local `tokenizer.json` (or a folder that holds one), where the server can't count. No network."""

from __future__ import annotations

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

    def count(self, text: str) -> int:
        """Tokens of the whole text, counted once, without special tokens."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
