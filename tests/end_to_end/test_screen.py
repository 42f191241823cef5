"""The whole program as a person has it: in a real terminal, by keys alone, against real servers."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import statistics
import time
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.end_to_end.misbehaving import END, STREAM, Seen, chunked, serving
from tests.end_to_end.screen_pty import Screen, screen
from workbench.domain.record import Record
from workbench.records.store import load
from workbench.simulator.options import SimOptions
from workbench.simulator.process import SimulatorProcess

SIMULATED = ["demo", "--simulated", "--max-tokens", "16"]
SHORT = [*SIMULATED, "--requests", "4"]
LONG = [*SIMULATED, "--requests", "500", "--warmup", "1"]
TERMINALS = {
    "80x24": ((80, 24), {}),
    "120x40": ((120, 40), {"LC_ALL": "C.UTF-8", "COLORTERM": "truecolor"}),
    "no-colour": ((80, 24), {"NO_COLOR": "1"}),
    "ascii": ((80, 24), {"LC_ALL": "C"}),
}
VERDICT = re.compile(r"TTFT (?:(?!TTFT ).)*Only concurrency differs; one run each: press a for an A/B")
COLOUR = re.compile(rb"3[0-8]|4[0-8]|9[0-7]|10[0-7]")


def records(folder: Path) -> list[Record]:
    """The sessions on disk, the oldest first."""
    return [load(path) for path in sorted((folder / "sessions").glob("*.toml"))]


def only_record(folder: Path) -> Record:
    (record,) = records(folder)
    return record


def colours(raw: bytes) -> set[bytes]:
    """Codes of colours that were sent; bold, dim, reverse and the terminal's own colours are none."""
    codes = {code for codes in re.findall(rb"\x1b\[([0-9;]*)m", raw) for code in codes.split(b";")}
    return {code for code in codes if COLOUR.fullmatch(code)}


def ok_count(text: str) -> int:
    """Requests that have succeeded, from the first line."""
    found = re.search(r"(\d+) ok", text.splitlines()[0])
    return int(found[1]) if found else 0


def whole(text: str, width: int) -> bool:
    """Whether every frame stands unbroken: what begins at the left edge ends at the right one."""
    framed = [line for line in text.splitlines() if line[:1] in ("╭", "│", "╰")]
    return bool(framed) and all(len(line) == width and line[-1] in "╮│╯" for line in framed)


def back_to_the_live_screen(term: Screen) -> None:
    """One Escape, and no key before it has been taken: Escape and a key in one go are Alt and that key."""
    term.wait_for("Esc Back")
    term.press("escape")
    term.wait_until(lambda text: "Esc Back" not in text and "q Quit" in text, "live screen")


def flip_run_and_compare(term: Screen) -> None:
    """From the first run's end on: flip, run, read the verdict, compare the two sessions, go back."""
    term.wait_for("Pinned as the baseline", "4 ok", "complete", "saved", seconds=60)
    term.press("right")
    term.wait_until(lambda text: re.search(r"concurrency +1 (→|>) 2", text), "flipped concurrency")
    term.wait_for("one differs: fine")
    term.press("r")
    # "complete" of the first run goes with the start of the second.
    term.wait_until(lambda text: "complete" not in text, "start of a run")
    term.wait_for("complete", "4 ok", "saved", seconds=60)
    term.wait_until(lambda _: VERDICT.search(term.words()), "verdict")
    verdict = VERDICT.findall(term.words())[0]
    term.press("s")
    term.wait_for("2 sessions")
    term.press("m", "down", "m")
    term.wait_for("2 marked", "c Compare")
    term.press("c")
    term.wait_for("checks", "sample-size")
    term.press("end")
    # The two records on disk tell what the screen told when they were made.
    term.wait_until(lambda _: verdict in term.words(), f"verdict {verdict!r}")
    term.press("escape")
    term.wait_for("2 sessions")
    back_to_the_live_screen(term)
    term.wait_for("one differs: fine", "concurrency")


@pytest.mark.parametrize("name", TERMINALS)
def test_start_run_flip_run_read_compare_quit(name: str, tmp_path: Path) -> None:
    size, environ = TERMINALS[name]
    with screen(SHORT, tmp_path, size, **environ) as term:
        flip_run_and_compare(term)
        last = term.text()
        term.press("q")
        assert term.ended() == 0
        term.assert_given_back()
        term.assert_no_orphans()
    assert bool(colours(term.raw)) == (name != "no-colour")
    assert last.isascii() == (name == "ascii")
    first, second = records(tmp_path)
    assert [record.session.status for record in (first, second)] == ["complete", "complete"]
    assert [record.cells[-1].variables["concurrency"] for record in (first, second)] == [1, 2]
    assert all(record.cells[-1].ok == 4 and record.cells[-1].stats["ttft_ms"].p50 >= 100 for record in (first, second))


def under_way(term: Screen) -> None:
    """Two requests of a long run have ended; the worker and the server run."""
    term.wait_until(lambda text: ok_count(text) >= 2, "second request", seconds=60)
    assert {"workbench.measure.worker", "workbench.simulator"} <= term.programs()


@pytest.mark.engine
def test_the_same_on_the_built_in_engine(tmp_path: Path) -> None:
    with screen(["demo", "--requests", "4", "--max-tokens", "8", "--warmup", "1"], tmp_path) as term:
        flip_run_and_compare(term)
        assert "smollm2" in term.text()
        term.press("q")
        assert term.ended() == 0
        term.assert_given_back()
        term.assert_no_orphans()
    for record in records(tmp_path):
        assert (record.session.status, record.cells[-1].ok) == ("complete", 4)
        assert record.environment["server"][0]["engine"] == "llama.cpp"


def test_ctrl_c_stops_and_saves_a_second_one_leaves(tmp_path: Path) -> None:
    with screen(LONG, tmp_path) as term:
        under_way(term)
        term.press("ctrl+c")
        term.wait_for("interrupted", "saved", "r Run")
        saved = only_record(tmp_path)
        assert term.process.poll() is None, "the first one stops the run, not the program"
        term.press("ctrl+c")
        assert term.ended() == 130
        term.assert_given_back()
        term.assert_no_orphans()
    assert (saved.session.status, saved.session.reason) == ("interrupted", "interrupted by the user")
    assert only_record(tmp_path) == saved


def test_two_ctrl_c_at_once_save_and_leave(tmp_path: Path) -> None:
    with screen(LONG, tmp_path) as term:
        under_way(term)
        term.press("ctrl+c", "ctrl+c")
        assert term.ended() == 130
        term.assert_given_back()
        term.assert_no_orphans()
    assert only_record(tmp_path).session.status == "interrupted"


def test_q_asks_n_goes_on_y_saves_and_quits(tmp_path: Path) -> None:
    with screen(LONG, tmp_path) as term:
        under_way(term)
        term.press("q")
        term.wait_for("A run is under way", "Stop, save and quit")
        before = ok_count(term.text())
        term.press("n")
        term.wait_until(lambda text: "A run is under way" not in text and ok_count(text) > before, "run going on")
        term.press("q")
        term.wait_for("A run is under way")
        term.press("y")
        assert term.ended() == 0
        term.assert_given_back()
        term.assert_no_orphans()
    assert only_record(tmp_path).session.status == "interrupted"


def test_sigterm_saves_ends_and_gives_the_terminal_back(tmp_path: Path) -> None:
    with screen(LONG, tmp_path) as term:
        under_way(term)
        term.process.send_signal(signal.SIGTERM)
        assert term.ended() == 130
        term.assert_given_back()
        term.assert_no_orphans()
    session = only_record(tmp_path).session
    assert (session.status, session.reason) == ("interrupted", "ended by SIGTERM")


def test_a_terminal_that_goes_away_saves_and_ends(tmp_path: Path) -> None:
    with screen(LONG, tmp_path) as term:
        under_way(term)
        term.hang_up()
        assert term.ended() == 130
        term.assert_no_orphans()
    session = only_record(tmp_path).session
    assert (session.status, session.reason) == ("interrupted", "ended by SIGHUP")


def test_a_killed_screen_leaves_no_process_and_the_finished_cells(tmp_path: Path) -> None:
    with screen([*SHORT, "--warmup", "1", "--concurrency", "4,2,1"], tmp_path) as term:
        term.wait_for("cell 2 of 3", seconds=60)
        assert len(term.family()) > 1
        term.process.kill()
        term.process.wait()
        term.assert_no_orphans()
    record = only_record(tmp_path)
    assert record.session.status != "complete"
    assert [cell.ok for cell in record.cells][:1] == [4]


def test_q_before_the_server_is_there_leaves_nothing_behind(tmp_path: Path) -> None:
    with screen(LONG, tmp_path) as term:
        term.wait_for("variables")
        term.press("q")
        assert term.ended() == 0
        term.assert_given_back()
        term.assert_no_orphans()


def test_smaller_and_larger_windows_mid_run(tmp_path: Path) -> None:
    options = SimOptions(ttft_ms=40, itl_ms=4, fail_rate=0.2, seed=3)
    words = ["--concurrency", "4", "--requests", "5000", "--max-tokens", "40", "--warmup", "1", "--run"]
    with (
        SimulatorProcess(options) as simulator,
        screen(["tui", "--base-url", simulator.base_url, *words], tmp_path) as term,
    ):
        term.wait_until(lambda text: ok_count(text) >= 4 and "FAILED" in text, "failed request", seconds=60)

        term.resize(60, 20)
        text = term.wait_until(lambda text: whole(text, 60) and "x Stop" in text, "whole small screen")
        assert re.search(r"TTFT ms +\d+ p50", text)
        assert re.search(r"tokens/s +[\d.]+ each +[\d.]+ all", text)
        assert re.search(r"\d+ FAILED", text.splitlines()[0])
        ok = ok_count(text)

        term.resize(40, 10)
        text = term.wait_for("needs 60x20", "40x10", "x stops the run")
        assert re.search(r"TTFT \d+ ms, [\d.]+ tokens/s in all", term.words())
        assert re.search(r"\d+ FAILED", text)

        term.resize(120, 40)
        term.wait_until(lambda text: whole(text, 120) and "e Environment" in text, "whole large screen")
        term.resize(80, 24)
        text = term.wait_until(lambda text: whole(text, 80) and ok_count(text) > ok, "whole screen again")
        assert re.search(r"\d+ p50 ", text)
        assert "variables" in text

        term.press("x")
        term.wait_for("interrupted", "saved")
        term.press("q")
        assert term.ended() == 0
        term.assert_given_back()
        term.assert_no_orphans()
    cell = only_record(tmp_path).cells[-1]
    assert cell.failed
    assert cell.ok > ok


MARKUP = "[/ [@click=app.quit]x[/] [red]"
STEERING = "\x1b]52;c;aGFja2Vk\x07\x1b[2J\x1b[41;97;5m\u009b31m\u202e"
WIDE = "河水流过 🚢"
PAYLOADS = (b"\x1b]52", b"aGFja2Vk\x07", b"\x1b[2J", b"\x1b[41;97;5m", "\u009b".encode(), "\u202e".encode())
HOSTILE = f"{MARKUP} {STEERING} {WIDE} "
LINE = "x" * 10_000
LAST = " the end"


@asynccontextmanager
async def hostile_server() -> AsyncIterator[str]:
    """Its model's id, its replies and the body of its one error would steer a terminal that took them at their word."""

    async def reply(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.heads[-1].startswith(b"GET /v1/models "):
            writer.write(plain_reply(b"200 OK", {"object": "list", "data": [{"id": HOSTILE, "object": "model"}]}))
        elif b"/chat/completions" not in seen.heads[-1]:
            writer.write(plain_reply(b"404 Not Found", {}))
        elif sum(b"/chat/completions" in head for head in seen.heads) == 2:
            writer.write(plain_reply(b"400 Bad Request", {"error": {"message": HOSTILE}}))
        else:
            texts = [(HOSTILE, None), (LINE, None), (LAST, "stop")]
            events = [{"choices": [{"delta": {"content": text}, "finish_reason": end}]} for text, end in texts]
            writer.write(
                STREAM + b"".join(chunked(b"data: %s\n\n" % json.dumps(each).encode()) for each in events) + END
            )

    async with serving(reply) as seen:
        yield seen.base_url


def plain_reply(status: bytes, body: object) -> bytes:
    data = json.dumps(body).encode()
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(data))
    return head + data


def read_hostile_text(base_url: str, folder: Path) -> None:
    words = ["tui", "--base-url", base_url, "--requests", "4", "--warmup", "1", "--max-tokens", "16", "--run"]
    with screen(words, folder, (120, 40)) as term:
        term.wait_for("3 ok", "1 FAILED", "complete", seconds=60)
        term.wait_until(lambda text: text.count(MARKUP) >= 4, "text of model, replies and error as it was sent")
        term.press("j", "q")  # to the requests
        term.press("enter")
        shown = "␛]52;c;aGFja2Vk␇␛[2J␛[41;97;5m�31m� 河水流过"
        term.wait_for("state", f"{len(HOSTILE + LINE + LAST)} characters", MARKUP, shown)
        term.press("end")
        term.wait_for(LAST)
        back_to_the_live_screen(term)
        term.press("down", "down", "down", "enter")
        term.wait_for("FAILED", "error body", "␛]52;c;aGFja2Vk␇", "status 400")
        back_to_the_live_screen(term)
        term.press("q")
        assert term.ended() == 0
        term.assert_given_back()
        term.assert_no_orphans()
    for payload in PAYLOADS:
        assert payload not in term.raw, payload
    assert not {char for char in term.raw.decode() if unicodedata.category(char) == "Cc"} - set("\x1b\r\n\x07\t")


async def test_hostile_text_is_shown_and_steers_nothing(tmp_path: Path) -> None:
    async with hostile_server() as base_url:
        await asyncio.to_thread(read_hostile_text, base_url, tmp_path)
    assert only_record(tmp_path).cells[-1].ok == 3


@pytest.mark.timing
def test_what_the_screen_costs_with_32_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every pane in sight, 32 streams at 50 tokens/s. The bounds leave room for a busy machine; the aims are in brackets."""
    words = ["--concurrency", "32", "--requests", "2000", "--max-tokens", "120", "--warmup", "1"]
    with screen(["demo", "--simulated", *words], tmp_path, (120, 40), COLORTERM="truecolor") as term:
        frames = [term.wait_for_bytes(b"variables") - term.started]
        term.wait_until(lambda text: ok_count(text) >= 32, "first ends of 32 streams", seconds=60)
        assert term.words().count("stream") >= 10

        begun, used = time.monotonic(), term.cpu_seconds()
        written = term.read_for(8.0)
        seconds, used = time.monotonic() - begun, term.cpu_seconds() - used

        delays = []
        for _ in range(6):
            for key in ("up", "down"):
                since = len(term.raw)
                begun = time.monotonic()
                term.press(key)
                # The mark of the selected variable: nothing but a key moves it.
                delays.append(1000 * (term.wait_for_bytes("◂".encode(), since) - begun))
        term.press("x")
        term.wait_for("interrupted", "saved")
        term.press("q")
        assert term.ended() == 0
    for _ in range(2):
        with screen(["tui", "--target", "simulated", "--no-save"], tmp_path) as term:
            frames.append(term.wait_for_bytes(b"variables") - term.started)
    share, kib, delay = 100 * used / seconds, written / seconds / 1024, statistics.median(delays)
    with capsys.disabled():
        print(
            f"\n32 streams, 120x40: {share:.0f} % of a core (25), {kib:.1f} KiB/s to the terminal (20), a key's effect "
            f"after {delay:.0f} ms, at most {max(delays):.0f} (100), first frame after {min(frames):.2f} to "
            f"{max(frames):.2f} s (1.0)"
        )
    assert kib < 20
    assert share < 40
    assert delay < 400
    assert min(frames) < 2.5
