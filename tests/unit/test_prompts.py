"""Prompts: the shipped ones, a user's files, and the one that is built to a share of the context."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.domain.variables import BadInput
from workbench.session.prompts import (
    ENTRIES,
    build_near_limit,
    list_prompts,
    load_prompt,
    shipped_prompts_dir,
    text_sha256,
)

SHIPPED = ["short", "chinese", "code", "document", "near-limit"]


def words(text: str) -> int:
    return len(text.split())


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_the_five_shipped_prompts_each_say_what_they_are_for() -> None:
    prompts = list_prompts()
    assert [prompt.name for prompt in prompts] == SHIPPED
    for prompt in prompts:
        assert len(prompt.purpose) > 60
        assert prompt.file == ""
        assert prompt.characters == len(prompt.text)
        assert prompt.sha256 == hashlib.sha256(prompt.text.encode()).hexdigest() == text_sha256(prompt.text)
        assert prompt.text == prompt.text.strip()
        assert load_prompt(prompt.name) == prompt
    assert len({prompt.sha256 for prompt in prompts}) == len(SHIPPED)
    assert [prompt.name for prompt in prompts if prompt.share is not None] == ["near-limit"]


def test_shipped_texts_have_the_sizes_the_runs_count_on() -> None:
    # Words stand in for tokens here (1.25 tokens a word for SmolLM2): short 82 tokens, document 2,669.
    assert 60 <= words(load_prompt("short").text) <= 90
    assert 1800 <= words(load_prompt("document").text) <= 2400
    assert sum("\u4e00" <= letter <= "\u9fff" for letter in load_prompt("chinese").text) > 250


def test_the_code_prompt_is_code_of_this_project() -> None:
    code = load_prompt("code").text.split("```python\n")[1].removesuffix("```")
    compile(code + "        return []\n", "code prompt", "exec")
    assert "class EventSplitter:" in code


def test_a_shipped_name_wins_over_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "short", "mine")
    monkeypatch.chdir(tmp_path)
    assert load_prompt("short").text != "mine"
    assert load_prompt("./short").text == "mine"


def test_a_plain_file_is_the_prompt_as_it_stands_but_its_last_line_end(tmp_path: Path) -> None:
    file = write(tmp_path, "mine.txt", "\ufeffone\r\ntwo  \r\n\r\n")
    prompt = load_prompt(file)
    assert (prompt.text, prompt.name, prompt.file, prompt.share) == ("one\r\ntwo  \r\n", "mine", file, None)
    assert prompt.sha256 == hashlib.sha256(b"one\r\ntwo  \r\n").hexdigest()


def test_a_toml_file_of_the_users(tmp_path: Path) -> None:
    file = write(tmp_path, "mine.toml", "purpose = 'to try'\ntext = '''\nWhat is {entries}?\n'''\n")
    prompt = load_prompt(file)
    assert (prompt.name, prompt.purpose, prompt.text, prompt.file) == ("mine", "to try", "What is {entries}?", file)


def test_another_folder_of_prompts(tmp_path: Path) -> None:
    write(tmp_path, "only.toml", "name = 'only'\ntext = 'hello'\n")
    assert [prompt.name for prompt in list_prompts(tmp_path)] == ["only"]
    assert load_prompt("only", tmp_path).text == "hello"
    with pytest.raises(BadInput, match=r"name a shipped one \(only\)"):
        load_prompt("short", tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.txt", "", "the text is empty"),
        ("a.txt", b"caf\xe9", "not UTF-8 text at byte 3"),
        ("a.toml", "text = 'a", "not valid TOML"),
        ("a.toml", "name = 'a'", "missing required field `text`"),
        ("a.toml", "text = 3", "Expected `str`, got `int`"),
        ("a.toml", "text = 'a'\ntemperature = 0.5", "unknown field `temperature`"),
        ("a.toml", "text = ' '", "the text is empty"),
        ("a.toml", f"text = '{ENTRIES}'\nshare = 1.2\nseed_text = 'x'", "share is 1.2"),
        ("a.toml", f"text = '{ENTRIES}'\nshare = nan\nseed_text = 'x'", "share is nan"),
        ("a.toml", "text = 'a'\nshare = 0.5\nseed_text = 'x'", "must hold {entries} once"),
        ("a.toml", f"text = '{ENTRIES}'\nshare = 0.5", "seed_text at least one line"),
        ("a.toml", "text = 'a'\nseed_text = 'x'", "only with a share"),
    ],
)
def test_a_bad_file_is_told_of_in_one_line(tmp_path: Path, name: str, content: str | bytes, complaint: str) -> None:
    with pytest.raises(BadInput) as caught:
        load_prompt(write(tmp_path, name, content))
    message = str(caught.value)
    assert complaint in message
    assert name in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["nonesuch", "../prompts/short", "x" * 5000, "~nobody-here/x", "a\0b", "two\nlines*"])
def test_no_such_prompt_names_the_shipped_ones(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="chinese, code, document, near-limit, short") as caught:
        load_prompt(name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_pipe_or_a_folder_is_refused_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(BadInput, match="not a regular file"):
            load_prompt(str(path))


def test_an_installed_package_finds_its_own_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "workbench"
    (package / "shipped_prompts").mkdir(parents=True)
    monkeypatch.setattr("workbench.__file__", str(package / "__init__.py"))
    assert shipped_prompts_dir() == package / "shipped_prompts"
    (package / "shipped_prompts").rmdir()
    assert shipped_prompts_dir() == tmp_path / "prompts"


@given(
    context=st.integers(400, 60_000),
    reserve=st.integers(0, 200),
    letters_a_token=st.floats(0.7, 6),
)
def test_near_limit_is_full_to_within_one_entry(context: int, reserve: int, letters_a_token: float) -> None:
    prompt = load_prompt("near-limit")
    asked = 0

    def count(text: str) -> int:
        nonlocal asked
        asked += 1
        return int(len(text) / letters_a_token)

    assert prompt.share is not None
    target = min(int(prompt.share * context), context - reserve)
    longest = int(200 / letters_a_token) + 1
    least = count(prompt.text) + longest
    asked = 0
    if target < least:
        return
    text = build_near_limit(prompt, context, count, reserve)
    assert asked <= 12
    assert target - longest < count(text) <= target
    opening, closing = prompt.text.split(ENTRIES)
    assert text.startswith(opening)
    assert text.endswith(closing)
    lines = [line for line in text.splitlines() if line]
    assert len(set(lines)) == len(lines)
    assert text == build_near_limit(prompt, context, count, reserve)


def test_near_limit_says_when_the_context_is_too_small() -> None:
    near = load_prompt("near-limit")
    with pytest.raises(BadInput, match=r"of 512 tokens 0 are left .* 512 being kept for the reply"):
        build_near_limit(near, 512, words, reserve=512)
    with pytest.raises(BadInput, match="of 40 tokens 36 are left"):
        build_near_limit(near, 40, words)
    with pytest.raises(BadInput, match="no share"):
        build_near_limit(load_prompt("short"), 4096, words)


def test_a_count_that_does_not_grow_ends_all_the_same() -> None:
    asked = 0

    def count(text: str) -> int:
        nonlocal asked
        asked += 1
        assert asked < 100
        return 7 if len(text) < 30_000 else 1_000_000

    text = build_near_limit(load_prompt("near-limit"), 4096, count)
    assert len(text) < 30_000
    with pytest.raises(BadInput, match="doesn't grow"):
        build_near_limit(load_prompt("near-limit"), 4096, lambda _: 7)
