"""Launch profiles: placeholders filled in, what can't be launched refused in one line, nothing secret kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.domain.variables import BadInput
from workbench.session.launch_profile import LaunchSettings, shown_variables
from workbench.session.settings import load_settings

PROFILE = """
[targets.lab]
url = "http://127.0.0.1:8123/v1"
model = "m.gguf"
[targets.lab.launch]
command = ["llama-server", "-m", "{model}", "--port", "{port}", "{more}"]
env = { OLLAMA_HOST = "127.0.0.1:{port}" }
env_from = { SERVER_KEY = "LAB_KEY" }
quants = { Q4_1 = { model = "~/m4.gguf", more = [] }, Q8_0 = { model = "m8.gguf", more = ["-np", "2"] } }
"""


def profile(tmp_path: Path, text: str) -> LaunchSettings:
    file = tmp_path / "workbench.toml"
    file.write_text(text)
    launch = load_settings(file).targets["lab"].launch
    assert launch is not None
    return launch


def test_a_quant_fills_in_the_command_and_the_environment(tmp_path: Path) -> None:
    launch = profile(tmp_path, PROFILE)
    values = launch.fillings("m.gguf", 8123, "Q8_0")
    assert launch.words(values) == ["llama-server", "-m", "m8.gguf", "--port", "8123", "-np", "2"]
    assert launch.added(values) == {"OLLAMA_HOST": "127.0.0.1:8123"}
    words = launch.words(launch.fillings("m.gguf", 8123, "Q4_1"))
    assert words == ["llama-server", "-m", str(Path.home() / "m4.gguf"), "--port", "8123"]


def test_quants_are_named_as_people_spell_them(tmp_path: Path) -> None:
    launch = profile(tmp_path, PROFILE)
    assert [launch.quant_named(name) for name in ("", "q8_0", "F16")] == ["Q4_1", "Q8_0", None]
    free = LaunchSettings(command=("serve", "--quant", "{quant}"))
    assert free.quant_named("F16") == "F16"


def test_braces_that_are_no_placeholder_stay(tmp_path: Path) -> None:
    launch = LaunchSettings(command=("serve", '{"a": 1}', "--x={port}"))
    assert launch.words(launch.fillings("", 7, "")) == ["serve", '{"a": 1}', "--x=7"]


def test_keys_are_taken_from_our_environment_and_stored_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = profile(tmp_path, PROFILE)
    monkeypatch.delenv("LAB_KEY", raising=False)
    assert launch.secrets() == set()
    with pytest.raises(BadInput, match="LAB_KEY is not set"):
        launch.taken()
    monkeypatch.setenv("LAB_KEY", "s3cret-of-mine")
    assert launch.taken() == {"SERVER_KEY": "s3cret-of-mine"}
    assert launch.secrets() == {"s3cret-of-mine"}
    assert "s3cret" not in str(launch.table())
    assert launch.table()["env"] == ["OLLAMA_HOST=127.0.0.1:{port}", "SERVER_KEY (from ours)"]
    assert shown_variables({"API_KEY": "abcdef", "N": "4"}, {})[1] == "N=4"
    assert "abcdef" not in shown_variables({"API_KEY": "abcdef"}, {})[0]


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        ("command = []", "launch.command"),
        ('command = [" "]', "the program, is empty"),
        ('command = "serve --port 1"', "launch.command"),
        ('command = ["serve", "{modle}"]', "nothing is given for {modle}: there are {model}, {port}, {quant}"),
        ('command = ["serve", "{model}"]', "nothing is given for {model}: name the target's model"),
        ('command = ["serve", "x{more}"]\nquants = { Q8_0 = { more = ["a"] } }', "must be a word by itself"),
        ('command = ["serve", "{model}"]\nquants = { a = { model = "x" }, b = {} }', "nothing is given for {model}"),
        ('command = ["serve"]\nready = "health"', "is not a path"),
        ('command = ["serve"]\nready_timeout = 0', "ready_timeout"),
        ('command = ["serve"]\nready_timeout = inf', "ready_timeout"),
        ('command = ["serve"]\nstop_signal = "SIGSTOP"', "stop_signal"),
        ('command = ["serve"]\nshell = true', "unknown field `shell`"),
        ('command = ["serve"]\nquants = { a = { model = 5 } }', "quants"),
    ],
)
def test_what_can_not_be_launched_is_refused_in_one_line(tmp_path: Path, launch: str, says: str) -> None:
    file = tmp_path / "workbench.toml"
    file.write_text(f"[targets.lab]\nurl = 'http://127.0.0.1:1/v1'\n[targets.lab.launch]\n{launch}\n")
    with pytest.raises(BadInput) as caught:
        load_settings(file)
    line = str(caught.value)
    assert says in line
    assert "workbench.toml" in line
    assert len(line.splitlines()) == 1


def test_the_targets_own_quant_must_be_one_of_them(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="quants has no F16"):
        profile(tmp_path, PROFILE.replace('model = "m.gguf"', 'model = "m.gguf"\nquant = "F16"', 1))
