"""workbench.toml and keys: found where they should be, used as written, refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.domain.plan import LIMITS
from workbench.domain.variables import BadInput
from workbench.session import settings as module
from workbench.session.settings import FILE, Settings, TargetSettings, load_settings, read_key, settings_file

GOOD = """
theme = "night"

[targets.lab]
url = "http://10.0.0.5:8000/v1"
model = "qwen2.5:7b"
engine = "vllm"
quant = "Q4_K_M"
key_env = "LAB_KEY"
ca_file = "lab.pem"
facts = { context = 8192, gpu = "L40S", share = 0.5, shared = true }

[targets.home]
url = "http://127.0.0.1:11434/v1"
key_file = "~/.home-key"

[limits]
ttft_ms = 500
decode_rate = 12.5

[keys]
quit = "ctrl+q"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, and a home of one's own, with no settings in either."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return here


def user_file() -> Path:
    import platformdirs

    path = Path(platformdirs.user_config_dir("workbench")) / FILE
    path.parent.mkdir(parents=True)
    return path


def test_a_whole_file(folder: Path) -> None:
    (folder / FILE).write_text(GOOD)
    got = load_settings()
    assert got.targets["lab"] == TargetSettings(
        url="http://10.0.0.5:8000/v1",
        model="qwen2.5:7b",
        engine="vllm",
        quant="Q4_K_M",
        key_env="LAB_KEY",
        ca_file="lab.pem",
        facts={"context": 8192, "gpu": "L40S", "share": 0.5, "shared": True},
    )
    assert got.targets["home"].key_file == "~/.home-key"
    assert (got.limits, got.theme, got.keys) == (
        *({"ttft_ms": 500.0, "decode_rate": 12.5}, "night"),
        {"quit": "ctrl+q"},
    )


def test_no_file_is_the_usual_settings(folder: Path) -> None:
    assert settings_file() is None
    assert load_settings() == Settings()
    (folder / FILE).write_text("")
    assert load_settings() == Settings()


def test_the_working_directory_comes_before_the_users_own(folder: Path) -> None:
    path = user_file()
    path.write_text('theme = "mine"')
    assert settings_file() == path
    assert load_settings().theme == "mine"
    (folder / FILE).write_text('theme = "here"')
    assert load_settings().theme == "here"
    assert load_settings(path).theme == "mine", "a file that is named is the one that is read"


def test_a_folder_of_that_name_is_no_settings(folder: Path) -> None:
    (folder / FILE).mkdir()
    assert load_settings() == Settings()


@pytest.mark.parametrize("limit", LIMITS)
def test_every_limit_of_the_command_line_can_stand_in_the_file(folder: Path, limit: str) -> None:
    (folder / FILE).write_text(f"[limits]\n{limit} = 3")
    assert load_settings().limits == {limit: 3.0}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"theme = ", "not TOML"),
        (b"theme = \xff", "not TOML"),
        (b"a = " + b"[" * 10_000, "nested too deeply"),
        (b"theme = 5", "$.theme"),
        (b"colour = 'red'", "unknown field `colour`"),
        (b"targets = 5", "$.targets"),
        (b"[targets.lab]\nmodel = 'x'", "missing required field `url`"),
        (b"[targets.lab]\nurl = 'x'\nkey = 'sk-secret'", "unknown field `key`"),
        (b"[targets.lab]\nurl = 5", ".url"),
        (b"[targets.lab]\nurl = 'x'\nfacts = { a = [1] }", ".facts"),
        (b"[limits]\nspeed = 3", "no such limit: speed; it is one of ttft_ms, ttfa_ms"),
        (b'[limits]\n"sp\\u001b[2Jeed" = 3', "no such limit"),
        (b"[limits]\nttft_ms = 'fast'", "$.limits"),
        (b"[limits]\nttft_ms = 0", "$.limits"),
        (b"[limits]\nttft_ms = -1", "$.limits"),
        (b"[limits]\nttft_ms = nan", "$.limits"),
        (b"[limits]\nttft_ms = inf", "limit ttft_ms"),
        (b"[keys]\nquit = 5", "$.keys"),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(folder: Path, text: bytes, says: str) -> None:
    (folder / FILE).write_bytes(text)
    with pytest.raises(BadInput) as caught:
        load_settings()
    line = str(caught.value)
    assert line.startswith(f"{FILE}: ")
    assert says in line
    assert line.isprintable()
    assert "sk-secret" not in line


def test_a_file_that_can_not_be_read_or_is_no_settings_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"^missing\.toml: can't be read: No such file or directory$"):
        load_settings(Path("missing.toml"))
    (folder / "folder").mkdir()
    with pytest.raises(BadInput, match=r"^folder: can't be read: Is a directory$"):
        load_settings(Path("folder"))
    monkeypatch.setattr(module, "SIZE_LIMIT", 10)
    (folder / FILE).write_text("theme = 'long enough'")
    with pytest.raises(BadInput, match="larger than a settings file can be"):
        load_settings()


# Keys


def test_a_key_comes_from_where_it_is_said_to_be(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_key("", "") == ""
    monkeypatch.setenv("LAB_KEY", " sk-one\n")
    assert read_key("LAB_KEY", "") == "sk-one"
    (folder / "key").write_text("sk-two\n")
    assert read_key("", "key") == "sk-two"
    assert read_key("LAB_KEY", "key") == "sk-one", "the environment comes first"
    home = Path("~").expanduser()
    home.mkdir()
    (home / ".key").write_text("sk-three")
    assert read_key("", "~/.key") == "sk-three"


def test_a_key_that_is_not_there_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_KEY", raising=False)
    (folder / "empty").write_text("\n")
    (folder / "binary").write_bytes(b"sk-\xff\xfe")
    (folder / "folder").mkdir()
    for key_env, key_file, says in [
        ("LAB_KEY", "", "environment variable LAB_KEY is not set"),
        ("", "missing", "the key file missing can't be read"),
        ("", "folder", "the key file folder can't be read"),
        ("", "binary", "the key file binary can't be read"),
        ("", "empty", "the key file empty is empty"),
        ("", "~nobody-of-that-name/key", "the key file ~nobody-of-that-name/key can't be read"),
    ]:
        with pytest.raises(BadInput) as caught:
            read_key(key_env, key_file)
        assert says in str(caught.value)
        assert str(caught.value).isprintable()
        assert "sk-" not in str(caught.value)
    monkeypatch.setenv("LAB_KEY", " ")
    with pytest.raises(BadInput, match="is not set"):
        read_key("LAB_KEY", "")


@pytest.mark.parametrize("key", ["sk-a\nsk-b", "sk-a\r\nX-Other: 1", "sk-a b", "sk-\x1b[2J", "sk-ключ"])
def test_what_no_header_can_hold_is_no_key_and_is_not_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    (folder / "key").write_text(key)
    monkeypatch.setenv("LAB_KEY", key)
    for given, name in ((("LAB_KEY", ""), "LAB_KEY"), (("", "key"), "key")):
        with pytest.raises(BadInput) as caught:
            read_key(*given)
        assert name in str(caught.value)
        assert "one word" in str(caught.value)
        assert "sk-" not in str(caught.value)
