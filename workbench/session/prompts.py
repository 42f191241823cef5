"""Prompts: the shipped ones by name, a user's own from a file, and the one that is built to a share of the context.

A prompt file is TOML with `name`, `purpose` and `text`; with `share` and `seed_text` besides, it is built to the server's
context before it is sent. Any other text file is a prompt as it stands. One line end at the close of a text is dropped.
"""

from __future__ import annotations

import hashlib
import random
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec

import workbench
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput

SUFFIX = ".toml"
ENTRIES = "{entries}"
LARGEST_FILE = 16 * 1024 * 1024
"""Bytes. A million-token context is 4-5 MB of text; what is larger was hardly meant as a prompt."""

COUNTS = 40
"""Token counts asked for, at most, to build one prompt; 3 to 6 is usual."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt and what identifies it. `sha256` is of the text in UTF-8; `characters` counts code points.

    `file` is where a user's prompt came from, "" for a shipped one. With `share` (0 to 1, of the context) the text holds
    ENTRIES where `build_near_limit` puts lines made from `seed_text`; it isn't fit to be sent before that.
    """

    name: str
    purpose: str
    text: str
    sha256: str
    characters: int
    share: float | None = None
    seed_text: str = ""
    file: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """A prompt file's keys."""

    text: str
    name: str = ""
    purpose: str = ""
    share: float | None = None
    seed_text: str = ""


def text_sha256(text: str) -> str:
    """The hash that identifies a prompt's text: hexadecimal SHA-256 of its UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def shipped_prompts_dir() -> Path:
    """The folder of the shipped prompts: inside the installed package, or the checkout's own."""
    package = Path(workbench.__file__).parent
    installed = package / "shipped_prompts"
    return installed if installed.is_dir() else package.parent / "prompts"


def list_prompts(prompts_dir: Path | None = None) -> list[Prompt]:
    """The shipped prompts (or those of another folder), shortest first, those that are built to a context last.

    Raises BadInput when one can't be read.
    """
    folder = prompts_dir or shipped_prompts_dir()
    prompts = [_from_toml(path, file="") for path in folder.glob(f"*{SUFFIX}")]
    return sorted(prompts, key=lambda prompt: (prompt.share is not None, len(prompt.text.encode()), prompt.name))


def load_prompt(name_or_file: str, prompts_dir: Path | None = None) -> Prompt:
    """A shipped prompt by its name, else a prompt from a file: `.toml` in the format of this module, or plain text.

    A shipped name wins over a file of that name, which is reached as `./NAME`. `prompts_dir` replaces the folder of the
    shipped prompts. Raises BadInput with one line when there is no such prompt or it can't be used.
    """
    folder = prompts_dir or shipped_prompts_dir()
    shipped = next((path for path in folder.glob(f"*{SUFFIX}") if path.stem == name_or_file), None)
    if shipped is not None:
        return _from_toml(shipped, file="")
    path = _existing(name_or_file)
    if path is None:
        names = ", ".join(sorted(path.stem for path in folder.glob(f"*{SUFFIX}")))
        raise BadInput(
            f"no prompt {one_line(name_or_file, 200)!r}: name a shipped one ({names or 'none found'}) "
            "or give the path of a text file"
        )
    if path.suffix.lower() == SUFFIX:
        return _from_toml(path, file=str(path))
    return _prompt(_File(text=_read(path)), path, file=str(path))


def build_near_limit(prompt: Prompt, context_tokens: int, count: Callable[[str], int], reserve: int = 0) -> str:
    """The text of a prompt with a `share`, filled with as many entries as fit into that share of the context.

    `context_tokens`: the window one request has on the server. `count` gives the tokens of a text and must grow with it;
    it is called a few times, on long texts. `reserve`: tokens of the context to keep free whatever the share, for the
    reply, the unique prefix and the chat template. The same arguments give the same text.

    Raises BadInput when the context leaves no room for the prompt.
    """
    if prompt.share is None:
        raise BadInput(f"prompt {prompt.name!r} has no share of the context to be built to")
    target = min(int(prompt.share * context_tokens), context_tokens - reserve)
    template, seeds = prompt.text, prompt.seed_text.splitlines()

    def built(entries: int) -> str:
        return template.replace(ENTRIES, "\n".join(_entries(seeds, entries)))

    fits, fits_tokens = 0, count(built(0))
    over, over_tokens = 0, 0
    entries = len(seeds)
    for _ in range(COUNTS):
        tokens = count(built(entries))
        if tokens <= target:
            fits, fits_tokens = entries, tokens
        else:
            over, over_tokens = entries, tokens
        if over == fits + 1:
            break
        if fits > target:  # more entries than tokens
            raise BadInput(f"prompt {prompt.name!r} can't be built: the token count doesn't grow with the text")
        entries = _next_guess(target, fits, fits_tokens, over, over_tokens)
    if fits == 0:
        raise BadInput(
            f"prompt {prompt.name!r} doesn't fit: of the server's context of {context_tokens} tokens "
            f"{max(target, 0)} are left for it, {reserve} being kept for the reply; lower --max-tokens or raise the context"
        )
    return built(fits)


def _next_guess(target: int, fits: int, fits_tokens: int, over: int, over_tokens: int) -> int:
    """The number of entries to try next, by the tokens an entry has taken so far; always between `fits` and `over`."""
    if not over:
        each = fits_tokens / fits
        return max(fits + 1, min(int(target / each), 8 * fits))
    each = (over_tokens - fits_tokens) / (over - fits)
    guess = fits + int((target - fits_tokens) / each) if each > 0 else (fits + over) // 2
    return min(max(guess, fits + 1), over - 1)


def _entries(seeds: list[str], number: int) -> list[str]:
    """So many lines: the seeds in a new order each time round, each with numbers of its own."""
    lines: list[str] = []
    for start in range(0, number, len(seeds)):
        rng = random.Random(start)
        turn = rng.sample(seeds, len(seeds))
        for entry, seed in enumerate(turn[: number - start], start + 1):
            a, b = rng.randint(3, 60), rng.randint(100, 999)
            lines.append(seed.replace("{entry}", str(entry)).replace("{a}", str(a)).replace("{b}", str(b)))
    return lines


def _existing(name_or_file: str) -> Path | None:
    try:
        path = Path(name_or_file).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError):  # too long for a file name, a folder that may not be entered, no such ~user
        return None


def _read(path: Path) -> str:
    """The text of a file. Raises BadInput."""
    shown = one_line(str(path), 200)
    try:
        # A pipe or a device would be waited on, and may never end.
        if not path.is_file():
            raise BadInput(f"prompt {shown}: not a regular file")
        if path.stat().st_size > LARGEST_FILE:
            raise BadInput(f"prompt {shown}: larger than {LARGEST_FILE // 2**20} MiB")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"prompt {shown}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"prompt {shown}: not UTF-8 text at byte {error.start}: save it as UTF-8") from None


def _from_toml(path: Path, file: str) -> Prompt:
    shown = one_line(str(path), 200)
    try:
        table = msgspec.convert(tomllib.loads(_read(path)), _File)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"prompt {shown}: not valid TOML: {one_line(str(error), 200)}") from None
    except msgspec.ValidationError as error:
        raise BadInput(f"prompt {shown}: {one_line(str(error), 200)}") from None
    return _prompt(table, path, file)


def _prompt(table: _File, path: Path, file: str) -> Prompt:
    shown = one_line(str(path), 200)
    text = _without_last_line_end(table.text)
    seed_text = "\n".join(line for line in table.seed_text.splitlines() if line.strip())
    if not text.strip():
        raise BadInput(f"prompt {shown}: the text is empty")
    if table.share is not None:
        if not 0 < table.share <= 1:
            raise BadInput(f"prompt {shown}: share is {table.share:g}: it must be above 0 and at most 1")
        if text.count(ENTRIES) != 1 or not seed_text:
            raise BadInput(
                f"prompt {shown}: with a share, text must hold {ENTRIES} once and seed_text at least one line"
            )
    elif seed_text:
        raise BadInput(f"prompt {shown}: seed_text is of use only with a share")
    return Prompt(
        name=one_line(table.name) or path.stem,
        purpose=" ".join(table.purpose.split()),
        text=text,
        sha256=text_sha256(text),
        characters=len(text),
        share=table.share,
        seed_text=seed_text,
        file=file,
    )


def _without_last_line_end(text: str) -> str:
    """Editors end a file with a line end that nobody meant as part of the prompt."""
    return text.removesuffix("\n").removesuffix("\r")
