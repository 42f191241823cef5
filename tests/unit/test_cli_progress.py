"""Progress on stderr: a line that updates where there is a terminal, a line a cell where there is none."""

from __future__ import annotations

import io

import msgspec
import pytest
from made_records import made_cell

from workbench.cli import progress as progress_module
from workbench.cli.progress import Progress, left_text
from workbench.domain.cell import cell_figures
from workbench.domain.plan import Plan, cells
from workbench.domain.record import Record, SessionTable
from workbench.domain.variables import Setting
from workbench.session.events import (
    CellEnded,
    CellStarted,
    Event,
    Live,
    Notice,
    ServerChanged,
    ServerView,
    SessionEnded,
    SessionStarted,
)

PLAN = Plan(baseline=Setting(max_tokens=64), varied="concurrency", values=(1, 4), order=("A", "B"), requests=20)
CELLS = cells(PLAN)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def live(**changed: object) -> Live:
    usual = Live(
        cell=1,
        phase="measuring",
        elapsed_s=3.0,
        eta_s=41.0,
        sent=9,
        finished=5,
        ok=4,
        failed=1,
        in_flight=4,
        tokens_rate=241.8,
        each=60.0,
        lag_p99_ms=0.3,
        rows=[],
    )
    return msgspec.structs.replace(usual, **changed)


STORY: list[Event] = [
    SessionStarted(plan=PLAN, cells=CELLS, prompt_tokens={"short": (80, "tokenize")}),
    ServerChanged(ServerView(id="s", base_url="http://h/v1", engine="ollama", version="0.30", model="m", context=4096)),
    CellStarted(cell=CELLS[0], number=1, of=2, phase="warm-up"),
    Notice("info", "about 40 s in all"),
    Notice("progress", "loading"),
    CellStarted(cell=CELLS[0], number=1, of=2, phase="measuring", eta_s=40.0),
    live(),
    CellEnded(cell=CELLS[0], figures=cell_figures([]), table=made_cell(1, Setting())),
    Notice("warning", "slow\x1b[2J\nvery"),
    SessionEnded(record=Record(session=SessionTable(id="x")), path="s/x.toml", status="interrupted", reason="Ctrl-C"),
]


def told(stream: io.StringIO) -> str:
    progress = Progress(stream)
    for event in STORY:
        progress(event)
    assert progress.started
    return stream.getvalue()


def test_without_a_terminal_there_is_a_line_a_cell_and_nothing_that_updates() -> None:
    lines = told(io.StringIO()).split("\n")
    assert lines == [
        "2 cells: concurrency 1, 4, 20 requests each; prompt short (80 tokens), max_tokens 64",
        "ollama 0.30 at http://h/v1, m, context 4096",
        "about 40 s in all",
        "concurrency 1: 20 ok, TTFT 110 ms, each 50.0 tokens/s, all 30.2 tokens/s",
        "warning: slow␛[2J very",
        "interrupted: Ctrl-C",
        "saved: s/x.toml",
        "",
    ]


def test_a_dumb_terminal_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert "\r" not in told(Terminal())


def test_a_terminal_has_one_line_that_updates_and_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "62")
    monkeypatch.setattr(progress_module, "REPAINT_S", 0.0)
    written = told(Terminal())
    painted = [part.split("\n")[0] for part in written.split("\r\x1b[K")[1:]]
    assert "1/2 concurrency 1  warm-up  time left not known yet" in painted
    assert "1/2 concurrency 1  4 in flight  4 ok  1 FAILED  242 tokens/s" in painted
    assert all(len(part) < 62 for part in painted)
    # Whole lines are written on a cleared line, so nothing of the updating one is left on the screen.
    assert written.rstrip("\n").split("\n")[-1] == "saved: s/x.toml"


def test_repaints_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    progress = Progress(stream)
    for _ in range(500):
        progress(live())
    assert stream.getvalue().count("\r") <= 10


def test_a_terminal_that_went_away_ends_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    progress = Progress(stream)
    for event in STORY:
        progress(event)


def test_the_time_left_is_made_up_by_nobody() -> None:
    assert left_text(None) == "time left not known yet"
    assert left_text(41) == "about 41 s left"
