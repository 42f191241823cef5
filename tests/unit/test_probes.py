"""Fingerprints of servers: the tokenizer's by whoever counts, the reply's; tokenizers and weights files on this machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from made_traces import trace_of
from scripted_session import Rig, ScriptedTarget, fine

from workbench.domain.events import RequestTrace, Usage
from workbench.domain.plan import Plan, interleaved
from workbench.domain.variables import Setting
from workbench.measure.protocol import RunCell
from workbench.session import weights_file
from workbench.session.endpoint import Endpoint
from workbench.session.events import ServerView
from workbench.session.probes import QUESTION, REPLY_TOKENS, TEXTS, behaviour, tokenizer_probe
from workbench.session.tokenizer_file import FileTokenizer, Tokenizers, cached_tokenizer
from workbench.session.weights_file import identify, locate


def tokens_of(text: str) -> int:
    return len(text) // 3 + 1


def asking(count: Callable[[str], int | None]) -> Callable[[Sequence[str], int], Awaitable[list[RequestTrace]]]:
    async def ask(texts: Sequence[str], tokens: int) -> list[RequestTrace]:
        return [trace_of(index=number, usage=Usage(prompt=count(text))) for number, text in enumerate(texts)]

    return ask


async def counting(text: str) -> int | None:
    return tokens_of(text)


async def silent(text: str) -> int | None:
    return None


async def test_both_ways_of_counting_give_one_fingerprint() -> None:
    by_route = await tokenizer_probe(counting, asking(lambda text: None))
    # A chat template of 30 tokens, which the difference leaves out.
    by_usage = await tokenizer_probe(silent, asking(lambda text: tokens_of(text) + 30))
    assert by_route is not None
    assert by_usage is not None
    assert by_route[0] == by_usage[0] == [tokens_of(text * 4) - tokens_of(text) for text in TEXTS]
    assert (by_route[1], by_usage[1]) == ("the server's tokenizer route", "prompt_tokens of short requests")


@pytest.mark.parametrize("count", [lambda text: None, lambda text: 7, lambda text: None if "fox" in text else 7])
async def test_a_server_that_counts_nothing_or_nonsense_has_none(count: Callable[[str], int | None]) -> None:
    assert await tokenizer_probe(silent, asking(count)) is None


async def test_the_reply_is_a_fingerprint_when_there_is_one() -> None:
    def saying(**said: str) -> Callable[[Sequence[str], int], Awaitable[list[RequestTrace]]]:
        async def ask(texts: Sequence[str], tokens: int) -> list[RequestTrace]:
            assert (list(texts), tokens) == ([QUESTION], REPLY_TOKENS)
            return [trace_of(**said)]

        return ask

    one, same, other = [await behaviour(saying(content=text)) for text in ("2, 3, 5", "2, 3, 5", "2, 3, 7")]
    assert one == same == hashlib.sha256(b"2, 3, 5").hexdigest()[:16]
    assert other != one
    assert await behaviour(saying(content=" ")) is None
    assert await behaviour(saying(content="2", outcome="failed")) is None


def flip(varied: str, *values: object) -> Plan:
    order = interleaved(len(values), 2, 0, counterbalance=True)
    setting = Setting(model="a", prompt=("short",))
    return Plan(baseline=setting, varied=varied, values=values, rounds=2, order=order, warmup=3, requests=4)  # type: ignore[arg-type]


def probing(run: RunCell, number: int) -> RequestTrace:
    if not run.body["stream"]:
        return trace_of(index=number, usage=Usage(prompt=10 + tokens_of(run.prompts[number].text)))
    return fine(run, number)


async def test_each_server_of_a_flip_is_probed_once_before_anything_is_measured() -> None:
    rig = Rig(flip("model", "a", "b"), probing, target=ScriptedTarget(lambda setting: setting.model))
    record = await rig.run()
    probes = [run for run in rig.crew.runs if not run.body["stream"]]
    assert [run.body["model"] for run in probes] in (["a", "b"], ["b", "a"])
    assert all(
        (run.warmup, run.concurrency, run.nonce_seed, run.body["max_tokens"]) == (True, 1, "", 1) for run in probes
    )
    assert rig.crew.runs.index(probes[0]) == 1, "after the first request, which may load the model"
    assert [server["tokenizer_probe"] for server in record.environment["server"]] == [
        [tokens_of(text * 4) - tokens_of(text) for text in TEXTS]
    ] * 2
    assert [cell.requests for cell in record.cells] == [4] * 4
    assert "fingerprint" not in record.environment["server"][0]


async def test_a_plain_run_asks_for_nothing_more() -> None:
    rig = Rig(flip("concurrency", 1, 2), probing)
    await rig.run()
    assert all(run.body["stream"] for run in rig.crew.runs)


async def test_a_fingerprint_is_taken_when_asked_for() -> None:
    def script(run: RunCell, number: int) -> RequestTrace:
        if run.body["max_tokens"] == REPLY_TOKENS:
            assert (run.body["temperature"], run.prompts[0].text) == (0.0, QUESTION)
            return trace_of(index=number, content="primes")
        return probing(run, number)

    rig = Rig(flip("concurrency", 1, 2), script, fingerprint=True)
    record = await rig.run()
    (server,) = record.environment["server"]
    assert server["fingerprint"] == hashlib.sha256(b"primes").hexdigest()[:16]
    assert server["source"]["fingerprint"] == "its reply to a fixed prompt at temperature 0"


# A model's own tokenizer


def written(path: Path) -> Path:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(path))
    return path


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_the_models_own_tokenizer_is_found_in_the_cache(hub: Path) -> None:
    folder = hub / "models--org--name"
    old, new = written(folder / "snapshots/aa11/tokenizer.json"), written(folder / "snapshots/bb22/tokenizer.json")
    os.utime(old.parent, (1, 1))
    assert cached_tokenizer("org/name") == new, "the newest, where no revision is named"
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text("aa11")
    assert cached_tokenizer("org/name") == old
    found = Tokenizers().of("org/name")
    assert found is not None
    assert found.count("one two three") == 3
    assert found.sha256 == hashlib.sha256(old.read_bytes()).hexdigest()


@pytest.mark.parametrize("model", ["name", "org/other", "org/name/more", "../name", "org/..", "/", "", "a\x00/b"])
def test_only_exactly_that_repository_counts(hub: Path, model: str) -> None:
    written(hub / "models--org--name" / "snapshots/aa11/tokenizer.json")
    written(hub / "tokenizer.json")
    assert cached_tokenizer(model) is None
    assert Tokenizers().of(model) is None


def test_a_revision_that_leads_elsewhere_is_not_followed(hub: Path) -> None:
    folder = hub / "models--org--name"
    written(folder / "tokenizer.json")
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text("..")
    assert cached_tokenizer("org/name") is None


def test_a_file_that_was_given_comes_first_and_a_broken_one_counts_nothing(hub: Path, tmp_path: Path) -> None:
    given = FileTokenizer(written(tmp_path / "mine.json"))
    assert Tokenizers(given).of("org/name") is given
    broken = hub / "models--org--name/snapshots/aa11/tokenizer.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{}")
    assert Tokenizers().of("org/name") is None


# A weights file


def endpoint_of(path: str, pid: int | None) -> Endpoint:
    view = ServerView(id="s", base_url="http://127.0.0.1:1/v1")
    return Endpoint(
        base_url=view.base_url, model="m", view=view, table={"path": path}, unknown={"digest": "hash it"}, pid=pid
    )


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * 8192)
    return path


def test_a_weights_file_is_known_by_size_and_header_and_by_content_when_asked(weights: Path) -> None:
    data = weights.read_bytes()
    plain = endpoint_of(str(weights), os.getpid())
    identify(plain, content=False)
    assert plain.table["file_bytes"] == len(data)
    assert plain.table["header_sha256"] == hashlib.sha256(data[: 1 << 20]).hexdigest()
    assert "digest" not in plain.table
    assert plain.unknown == {"digest": "hash it"}
    asked = endpoint_of(str(weights), os.getpid())
    identify(asked, content=True)
    digest = hashlib.sha256(data).hexdigest()
    assert (asked.table["digest"], asked.table["weights_digest"]) == (f"sha256:{digest}", digest)
    assert asked.unknown == {}
    # It is kept: the next session has it without reading the file, until the file changes.
    kept = endpoint_of(str(weights), os.getpid())
    identify(kept, content=False)
    assert kept.table["weights_digest"] == digest
    weights.write_bytes(data[:-1] + b"x")
    os.utime(weights, ns=(1, 1))
    changed = endpoint_of(str(weights), os.getpid())
    identify(changed, content=False)
    assert "weights_digest" not in changed.table


def test_a_kept_hash_is_not_made_again(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identify(endpoint_of(str(weights), os.getpid()), content=True)
    monkeypatch.setattr(weights_file.hashlib, "file_digest", None)
    again = endpoint_of(str(weights), os.getpid())
    identify(again, content=True)
    assert "weights_digest" in again.table


def test_what_the_server_told_stands(weights: Path) -> None:
    told = endpoint_of(str(weights), os.getpid())
    told.table["digest"] = "its own"
    identify(told, content=True)
    assert told.table["digest"] == "its own"


def test_a_path_is_seen_from_the_server(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(weights.parent)
    assert locate("m.gguf", os.getpid()) is not None
    for path, pid in (
        ("m.gguf", None),
        ("", os.getpid()),
        ("other.gguf", os.getpid()),
        (".", os.getpid()),
        (str(weights), 1 << 30),
    ):
        assert locate(path, pid) is None, path


def test_one_part_of_several_is_not_the_model(weights: Path) -> None:
    part = weights.rename(weights.with_name("m-00001-of-00002.gguf"))
    found = endpoint_of(str(part), os.getpid())
    identify(found, content=True)
    assert "header_sha256" in found.table
    assert "weights_digest" not in found.table
