"""The whole program in a real terminal, driven by keys alone, with the real bench on the simulator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tui.terminal import terminal
from workbench.records.store import load

SMALL = ["--target", "simulated", "--max-tokens", "8", "--requests", "4", "--warmup", "1"]
LEFT_BEHIND = (b"\x1b[?1049l", b"\x1b[?25h")
"""What gives a terminal back: the main screen, the cursor."""


def colours(raw: bytes) -> set[bytes]:
    """The colour codes that were sent (not bold, dim, reverse or the default colours)."""
    codes = {code for codes in re.findall(rb"\x1b\[([0-9;]*)m", raw) for code in codes.split(b";")}
    return {code for code in codes if re.fullmatch(rb"3[0-8]|4[0-8]|9[0-7]|10[0-7]", code)}


@pytest.mark.parametrize(
    ("size", "environ"),
    [
        ((80, 24), {}),
        ((120, 40), {"LANG": "C.UTF-8", "COLORTERM": "truecolor"}),
        ((80, 24), {"NO_COLOR": "1"}),
        ((80, 24), {"LC_ALL": "C"}),
    ],
    ids=["80x24", "120x40", "no-colour", "ascii"],
)
def test_run_flip_run_read_compare_quit(size: tuple[int, int], environ: dict[str, str], tmp_path: Path) -> None:
    with terminal(["tui", *SMALL], str(tmp_path), size, **environ) as term:
        term.wait_for("r Run", "no baseline yet")
        term.press("r")
        term.wait_for("Pinned as the baseline", "4 ok")
        term.press("right")
        term.wait_for("one differs: fine")
        term.press("r")
        term.wait_for("complete", "one run")
        term.press("s")
        term.wait_for("2 sessions")
        term.press("m", "down", "m")
        term.wait_for("c Compare", "2 marked")
        term.press("c")
        term.wait_for("checks", "sample-size")
        term.press("\x1b[F")
        term.wait_for("capacity")
        term.press("escape")
        term.wait_for("2 sessions")
        term.press("escape")
        text = term.wait_for("one differs: fine")
        term.press("q")
        assert term.ended() == 0
        if "NO_COLOR" in environ:
            assert not colours(term.raw)
        else:
            assert colours(term.raw)
        if environ.get("LC_ALL") == "C":
            assert text.isascii()
        assert all(code in term.raw for code in LEFT_BEHIND)
        assert b"\x1b[?1003h" not in term.raw, "the mouse is left to the terminal"
    records = [load(path) for path in sorted((tmp_path / "sessions").glob("*.toml"))]
    assert [record.cells[0].variables["concurrency"] for record in records] == [1, 2]
    assert all(record.session.status == "complete" for record in records)


def test_a_dropped_connection_saves_the_session(tmp_path: Path) -> None:
    with terminal(["tui", *SMALL, "--requests", "500", "--run"], str(tmp_path)) as term:
        term.wait_for("2 ok", seconds=60)
        term.hang_up()
        assert term.ended() == 130
    (path,) = (tmp_path / "sessions").glob("*.toml")
    session = load(path).session
    assert (session.status, session.reason) == ("interrupted", "ended by SIGHUP")


def test_ctrl_c_stops_saves_then_quits(tmp_path: Path) -> None:
    with terminal(["tui", *SMALL, "--requests", "500", "--run"], str(tmp_path)) as term:
        term.wait_for("2 ok", seconds=60)
        term.press("ctrl+c")
        term.wait_for("interrupted", "saved")
        term.press("ctrl+c")
        assert term.ended() == 130
    (path,) = (tmp_path / "sessions").glob("*.toml")
    assert load(path).session.status == "interrupted"


def test_an_error_of_our_own_leaves_the_terminal_whole_and_says_one_line(tmp_path: Path) -> None:
    broken = (
        "import sys; from workbench.tui.widgets.status import Status\n"
        "def lines(self, width, height):\n"
        "    if self.bench_app.model.selected != 'concurrency': raise RuntimeError('a bug')\n"
        "    return []\n"
        "Status.lines = lines\n"
        "from workbench.cli.main import main; sys.exit(main(sys.argv[1:]))\n"
    )
    with terminal(["tui", *SMALL], str(tmp_path), program=["-c", broken], HOME=str(tmp_path)) as term:
        term.wait_for("r Run")
        term.press("up")
        term.wait_for("no baseline yet")
        term.press("r")
        assert term.ended(60) != 0
        assert all(code in term.raw for code in LEFT_BEHIND)
        text = term.text()
    assert "ended by an error of its own (RuntimeError)" in " ".join(text.split())
    assert "Traceback" not in text
    assert "a bug" in (tmp_path / ".local/state/workbench/log/screen.log").read_text()
