"""A server's log: error lines known from the rest, counted from now on, quoted without what must not be kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.session.server_log import QUOTE, ServerLog, ServerLogs, is_error, is_out_of_memory, log_reason, scrub


@pytest.mark.parametrize(
    ("line", "error", "memory"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", True, True),
        ("ggml_backend_cuda: allocating 900 MiB on device 0: cudaMalloc failed: out of memory", True, True),
        ("llama_kv_cache_init: failed to allocate buffer for kv cache", True, True),
        ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", True, True),
        ("terminate called after throwing an instance of 'std::bad_alloc'", True, True),
        ("model requires more memory (9.1 GiB) than is available (5.0 GiB)", True, True),
        ("ERROR 02-01 10:00:00 [core.py:586] EngineCore failed to start.", True, False),
        ("RuntimeError: Engine core initialization failed", True, False),
        ("0.00.210.113 E srv  operator(): got exception", True, False),
        ("Segmentation fault (core dumped)", True, False),
        ('INFO: 127.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error', True, False),
        ("time=2026-01-01 level=ERROR source=sched.go:1 msg=x", True, False),
        ('INFO: 127.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK', False, False),
        ("0.00.210.113 I srv  update_slots: all slots are idle", False, False),
        ("finished, 0 errors, no error seen, errors: 0", False, False),
        ("kv cache memory: 120 MiB, room for 4 slots", False, False),
        ("listening on stderr; error_rate=0.0", False, False),
        ("", False, False),
    ],
)  # fmt: skip
def test_lines_of_servers(line: str, error: bool, memory: bool) -> None:
    assert (is_error(line), is_out_of_memory(line)) == (error, memory)


def test_only_what_comes_after_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "s.log"
    path.write_text("ERROR of before\n")
    log = ServerLog(path)
    assert log.table() == {"error": 0, "oom": 0}
    with path.open("a") as file:
        file.write("Traceback (most recent call last):\n  in x\nValueError: bad shape\nfine\nCUDA out of memory\n")
    assert log.table() == {"error": 3, "oom": 1, "says": "CUDA out of memory"}


def test_a_log_that_was_cut_or_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "s.log"
    path.write_text("a long line of an older day\n")
    cut, replaced = ServerLog(path), ServerLog(path)
    path.write_text("error: one\n")
    assert cut.table()["error"] == 1
    other = tmp_path / "other"
    other.write_text("error: two, in a file that is longer than the one before\n" * 3)
    other.replace(path)
    assert replaced.table()["error"] == 3
    path.unlink()
    assert replaced.table() == {"error": 0, "oom": 0}


def test_every_line_is_told_once_whichever_cell_asks(tmp_path: Path) -> None:
    path = tmp_path / "s.log"
    path.write_text("")
    logs = ServerLogs()
    first = logs.follow(path)
    assert first is not None
    path.write_text("error: in the first cell\n")
    assert first.table()["error"] == 1
    with path.open("a") as file:
        file.write("error: between two cells\n")
    second = logs.follow(path)
    assert second is not None
    assert second.table() == {"error": 1, "oom": 0, "says": "error: between two cells"}
    assert second.table() == {"error": 0, "oom": 0}
    assert logs.follow(None) is None


def test_the_cause_is_quoted_on_one_harmless_line(tmp_path: Path) -> None:
    path = tmp_path / "s.log"
    path.write_text(
        "loading 1%\rloading 99%\nfatal: first\n\x1b[31merror: the last\x1b[0m one, key=sekret-9 "
        + "x" * 999
        + "\nbye\n"
    )
    said = log_reason(path, {"sekret-9"})
    assert said.startswith("\u241b[31merror: the last")
    assert "sekret-9" not in said
    assert len(said) <= QUOTE + 20
    path.write_text("only this\n\n")
    assert log_reason(path) == "only this"
    assert log_reason(tmp_path / "none") == ""


def test_a_log_that_is_kept_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "s.log"
    line = f"args: api_key='abcdefgh1' model={Path.home()}/m.gguf\nplain s3cret-of-mine here\nnothing\n"
    path.write_text(line)
    scrub(path, {"s3cret-of-mine"})
    text = path.read_text()
    assert not any(word in text for word in ("abcdefgh1", "s3cret-of-mine", str(Path.home()) + "/"))
    assert text.endswith("nothing\n")
    assert [item.name for item in tmp_path.iterdir()] == ["s.log"]
