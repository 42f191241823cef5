"""Nothing goes to a public server unasked, and what would go there is said first."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from workbench.cli.consent import address_of, agree, is_public, totals_text
from workbench.cli.options import RunOptions, plan_of, requests_of
from workbench.domain.plan import Plan
from workbench.domain.variables import BadInput, Setting
from workbench.session.endpoint import NoServer
from workbench.session.settings import Settings, TargetSettings

PUBLIC = "https://8.8.8.8/v1"


class Typed(io.StringIO):
    """Standard input at a terminal."""

    def isatty(self) -> bool:
        return True


def wanting(base_url: str = "", **changed: object) -> RunOptions:
    return RunOptions(given=frozenset(), setting=Setting(base_url=base_url), **changed)  # type: ignore[arg-type]


def asked(options: RunOptions) -> bool:
    plan = plan_of(options, options.setting)
    return agree(options, plan, lambda plan: requests_of(options, plan))


@pytest.fixture(autouse=True)
def nothing_else_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("http://127.0.0.1:8000/v1", False),
        ("http://[::1]:8000/v1", False),
        ("http://192.168.1.7/v1", False),
        ("http://10.1.2.3/v1", False),
        (PUBLIC, True),
        ("https://[2001:4860:4860::8888]/v1", True),
        ("http://no-such-host.invalid/v1", True),
    ],
)
def test_what_is_public(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_no_address_at_all_is_told() -> None:
    with pytest.raises(BadInput, match="must look like"):
        is_public("localhost:8000")


def test_this_machine_is_never_asked_about() -> None:
    assert asked(wanting("http://127.0.0.1:1/v1")) is False
    assert asked(wanting()) is False


def test_without_a_terminal_a_public_server_needs_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(
        NoServer, match=r"8\.8\.8\.8 .* 23 requests of prompt short for up to 11776 output tokens .* --yes"
    ):
        asked(wanting(PUBLIC))
    assert asked(wanting(PUBLIC, yes=True)) is True


@pytest.mark.parametrize(("answer", "agreed"), [("yes\n", True), ("Y\n", True), ("no\n", False), ("", False)])
def test_at_a_terminal_the_answer_counts(monkeypatch: pytest.MonkeyPatch, answer: str, agreed: bool) -> None:
    monkeypatch.setattr("sys.stdin", Typed(answer))
    monkeypatch.setattr("sys.stderr", Typed())
    if agreed:
        assert asked(wanting(PUBLIC)) is True
    else:
        with pytest.raises(NoServer, match="nothing was sent"):
            asked(wanting(PUBLIC))


def test_the_address_is_the_first_that_is_stated() -> None:
    settings = Settings(targets={"box": TargetSettings(url="https://box/v1")})
    environ = {"OPENAI_BASE_URL": "https://env/v1"}
    assert address_of(wanting("https://typed/v1", target="box"), settings, environ) == "https://typed/v1"
    assert address_of(wanting(target="box"), settings, environ) == "https://box/v1"
    assert (
        address_of(RunOptions(given=frozenset(), setting=Setting(engine="box")), settings, environ) == "https://box/v1"
    )
    assert address_of(RunOptions(given=frozenset(), setting=Setting(engine="vllm")), settings, environ) == ""
    assert address_of(wanting(), settings, environ) == "https://env/v1"
    assert address_of(wanting(), settings, {}) == ""


def test_totals_count_warm_up_and_every_rung() -> None:
    ladder = Plan(
        baseline=Setting(max_tokens=100), varied="concurrency", values=(1, 4), order=("A", "B"), requests=10, warmup=3
    )
    assert totals_text(ladder, {"B": 20}) == "36 requests of prompt short for up to 3600 output tokens"
    timed = Plan(baseline=Setting(max_tokens=100), order=("A",), duration=30)
    assert "requests for 30 s" in totals_text(timed, {})
