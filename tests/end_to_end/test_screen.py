"""The whole program as a person has it: in a real terminal, by keys alone, against real servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.end_to_end.screen_pty import Screen, screen
from workbench.domain.record import Record
from workbench.records.store import load

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


def flip_run_compare_and_quit(term: Screen) -> None:
    """From the first run's end on: flip, run, read the verdict, compare the two sessions, quit."""
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
    term.press("escape")
    term.wait_for("one differs: fine", "concurrency")


@pytest.mark.parametrize("name", TERMINALS)
def test_start_run_flip_run_read_compare_quit(name: str, tmp_path: Path) -> None:
    size, environ = TERMINALS[name]
    with screen(SHORT, tmp_path, size, **environ) as term:
        flip_run_compare_and_quit(term)
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
