"""Nothing secret in what is kept or shown, and nothing else lost."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from workbench.records.redact import GONE, Scrubber, hide_home, redact_command, redact_text, redact_url


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://user:pass@host:8443/v1?key=abc#frag", "https://host:8443/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000/v1/", "http://[::1]:8000/v1/"),
        ("https://a@b@host/v1", "https://host/v1"),
        ("http://[::1/v1", ""),
        ("", ""),
    ],
)
def test_a_url_keeps_its_address_only(url: str, kept: str) -> None:
    assert redact_url(url) == kept


@pytest.mark.parametrize(
    "echo",
    [
        "Incorrect API key provided: {key}",
        '{{"error": "key {key} unknown"}}',
        "{key}",
        "x={quoted}&y",
        "Basic {encoded}",
    ],
)
def test_a_key_in_use_is_taken_out_however_it_is_echoed(echo: str) -> None:
    key = "Zx/9+plain words&more"
    encoded = base64.b64encode(key.encode()).decode()
    text = echo.format(key=key, quoted="Zx%2F9%2Bplain%20words%26more", encoded=encoded)
    clean = redact_text(text, [key])
    assert "Zx" not in clean
    assert encoded not in clean
    assert GONE in clean


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdef0123456789",
        "you sent sk-proj-abcdefgh12345678 to us",
        "hf_abcdefghijklmnop is no good",
        "see https://me:secret-pw@host/v1?token=abcdef012345",
    ],
)
def test_shapes_of_secrets_go_without_being_told(text: str) -> None:
    clean = redact_text(text)
    for secret in ("abcdef0123456789", "sk-proj", "hf_abc", "secret-pw", "abcdef012345"):
        assert secret not in clean


def test_keys_that_are_no_secret_garble_nothing() -> None:
    sentence = "ollama says: model not found, none loaded, EMPTY reply"
    assert redact_text(sentence, ["ollama", "EMPTY", "none", "", "  ", "abc"]) == sentence


def test_the_longer_of_two_secrets_goes_whole() -> None:
    assert redact_text("abcd1234wxyz", ["abcd1234", "abcd1234wxyz"]) == GONE


def test_tables_are_scrubbed_in_depth() -> None:
    table = {"a": ["x hunter22 y", 1, None, {"hunter22": "hunter22", "b": ("hunter22",)}], "c": 1.5}
    assert Scrubber(["hunter22"])(table) == {
        "a": [f"x {GONE} y", 1, None, {"hunter22": GONE, "b": [GONE]}],
        "c": 1.5,
    }
    assert Scrubber(["ollama"])(table) is table


def test_a_command_line_is_fit_for_a_record() -> None:
    home = str(Path.home())
    line = redact_command(
        ["workbench", "run", "--api-key", "abc", "--base-url", "http://u:p@h/v1?k=1", "--tokenizer", f"{home}/t.json"]
    )
    assert line == f"workbench run --api-key {GONE} --base-url http://h/v1 --tokenizer ~/t.json"


def test_a_home_directory_becomes_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert hide_home("/home/ada/models/x.gguf and /home/adam/y") == "~/models/x.gguf and ~/y"
