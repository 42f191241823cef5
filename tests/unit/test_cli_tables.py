"""What is printed of a session: figures where they belong, notes where they are needed, in the width there is."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import made_cell, made_record, made_trace

from workbench.cli.layout import Column, cell_width, cut, figures, pad, table, wrap
from workbench.cli.notes import Note, cell_notes, gathered
from workbench.cli.plots import plots
from workbench.cli.show import show_lines
from workbench.cli.summary import error_lines
from workbench.cli.tables import cells_table, verdict_lines
from workbench.domain.cell import cell_figures
from workbench.domain.record import CellTable, KindVerdict, Record, Verdict, cell_table
from workbench.domain.variables import Setting, assignment

HOSTILE = "\x1b]52;c;aGk=\x07\x9b2J[/x]\u202e\r\n"


def text_of(record: Record, width: int = 80) -> str:
    return "\n".join(cells_table(record, width))


# Layout


@pytest.mark.parametrize(
    ("text", "cells"), [("abc", 3), ("千问", 4), ("é", 1), ("e\u0301", 1), ("🙂", 2), ("", 0), ("a\u200db", 2)]
)
def test_widths_are_those_of_the_terminal(text: str, cells: int) -> None:
    assert cell_width(text) == cells
    assert cell_width(pad(text, 10)) == 10
    assert cell_width(pad(text, 10, right=True)) == 10


@given(st.text(max_size=80), st.integers(1, 60))
def test_a_cut_text_fits_and_keeps_its_ends(text: str, width: int) -> None:
    short = cut(text, width)
    assert cell_width(short) <= width
    if cell_width(text) <= width:
        assert short == text
    elif width >= 4:
        assert "…" in short


def test_a_long_model_name_keeps_what_tells_it_apart() -> None:
    assert cut("qwen2.5:7b-instruct-q4_K_M", 15) == "qwen2.5…-q4_K_M"


@given(st.text(max_size=300), st.integers(10, 60))
def test_wrapped_lines_lose_no_word(text: str, width: int) -> None:
    lines = wrap(text, width, indent="  ", first="* ")
    words = " ".join(line[2:] for line in lines).split()
    assert "".join(words) == "".join(wrap(text, 10**9)[0].split())
    for line in lines:
        assert cell_width(line) <= width or any(cell_width(word) > width - 2 for word in line.split(" "))


def test_a_path_too_long_for_a_line_is_not_torn_from_its_word() -> None:
    assert wrap("saved: /a/very/long/path.toml and more", 20, indent="  ", first="") == [
        "saved: /a/very/long/path.toml",
        "  and more",
    ]


def test_numbers_of_a_column_share_their_decimals() -> None:
    assert figures([1.5, 12.25, None, 0.5]) == ["1.50", "12.25", "-", "0.50"]
    assert figures([212.4, 1011.6]) == ["212", "1012"]
    assert figures([64.0, 50.0]) == ["64", "50"]
    assert figures([None]) == ["-"]
    assert figures([0.0]) == ["0"]
    assert figures([0.01234]) == ["0.012"]


def test_columns_give_way_by_rank() -> None:
    columns = [
        Column(heading="name", values=["x"], left=True),
        Column(heading="first", values=["1"], rank=1),
        Column(heading="second", values=["2"], rank=2),
    ]
    assert table(columns, 80)[0] == "name  first  second"
    assert table(columns, 12)[0] == "name  first"
    assert table(columns, 1) == ["name", "x"]


# The table


def test_a_ladder_has_a_row_a_rung_that_fits_eighty_columns() -> None:
    lines = cells_table(made_record((1, 2, 4)), 80)
    assert all(cell_width(line) <= 80 for line in lines)
    assert " ".join(lines[1].split()) == "concurrency ok failed flight p50 p95 max p50 p95 each all tokens"
    assert "TTFT ms" in lines[0]
    assert "tokens/s" in lines[0]
    first, second, third = (line.split() for line in lines[2:5])
    assert first[:7] == ["1", "20", "0", "0.9", "110", "118", "119"]
    assert second[:7] == ["2", "20", "0", "1.9", "210", "218", "219"]
    assert third[0] == "4"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_every_width_is_kept_and_every_row_shows_failures_and_ttft(width: int) -> None:
    record = made_record((1, 16), model="a-model-with-a-name-of-quite-some-length:70b-instruct-q4_K_M")
    record.cells[1] = made_cell(2, Setting(concurrency=16), failures=7, ttft_ms=31234)
    lines = cells_table(record, width)
    assert all(cell_width(line) <= max(width, 58) for line in lines)
    assert lines[3].split()[:3] == ["16", "13", "7"]


def test_wide_terminals_see_more() -> None:
    record = made_record((1,))
    narrow, wide = text_of(record, 80), text_of(record, 140)
    for heading in ("ok %", "/s", "/chunk"):
        assert heading in wide.split("\n")[1]
        assert heading not in narrow.split("\n")[1].replace("tokens/s", "")


def test_absent_is_a_dash_and_never_a_zero() -> None:
    record = made_record((1,))
    record.cells = [made_cell(1, Setting(), requests=3, failures=3)]
    row = cells_table(record, 80)[2].split()
    assert row[:3] == ["1", "0", "3"]
    assert set(row[4:]) <= {"-"}


def test_long_totals_are_in_seconds() -> None:
    record = made_record((1,))
    record.cells = [made_cell(1, Setting(), ttft_ms=20_000)]
    lines = cells_table(record, 80)
    assert "total s" in lines[0]
    assert "20.1" in lines[2]


def test_steady_throughput_is_marked_and_told() -> None:
    record = made_record((1,))
    cell = record.cells[0]
    assert cell.steady_throughput is not None
    assert f"{cell.steady_throughput:.1f}*" in text_of(record)
    assert "* while the number asked for was in flight" in text_of(record)
    cell.steady_share = 0.3
    assert cell.throughput is not None
    assert "*" not in text_of(record)
    assert f"{cell.throughput:.1f}" in text_of(record)


def test_a_varied_model_names_the_rows_and_rounds_are_numbered() -> None:
    record = made_record((1,))
    record.plan.update(varied="model", values=["qwen2.5:7b", "千问"])
    record.cells = [
        made_cell(1, Setting(model="qwen2.5:7b")),
        made_cell(2, Setting(model="千问"), arm="B"),
        made_cell(3, Setting(model="千问"), arm="B", round_=2, failures=1),
    ]
    text = text_of(record)
    assert re.search(r"^千问 +2 +19 +1 ", text, re.MULTILINE)
    assert "model 千问 round 2: 1 of 20 FAILED (http_503 1)" in text
    assert len({cell_width(line) for line in text.split("\n")[2:5]}) == 1


def test_no_cell_at_all_is_said() -> None:
    record = made_record((1,))
    record.cells.clear()
    assert cells_table(record, 80) == ["no cell was finished"]


# Notes


def notes(setting: Setting | None = None, limits: dict[str, float] | None = None, **cell: object) -> str:
    return lines_of(made_cell(1, setting or Setting(max_tokens=8), **cell), limits)  # type: ignore[arg-type]


def lines_of(cell: CellTable, limits: dict[str, float] | None = None) -> str:
    return "\n".join(gathered([cell], [""], lambda cell: cell_notes(cell, limits or {})))


def test_a_sound_cell_needs_no_note() -> None:
    assert notes() == ""


def test_a_small_sample_is_said_with_its_remedy() -> None:
    assert "maximum, in effect: --requests 20 or more" in notes(requests=19)
    assert "in effect" in notes(failures=1)
    assert "in effect" not in notes(requests=20)


def test_failures_come_first_with_their_classes() -> None:
    assert notes(failures=2).startswith("2 of 20 FAILED (http_503 2)")


def test_the_client_is_named_when_it_was_the_limit() -> None:
    cell = made_cell(1, Setting(max_tokens=8))
    cell.client |= {"limited": "ttft", "lag_p99_ms": 12.34}
    assert "(loop lag p99 12.3 ms): client-limited: TTFT is not to be judged" in lines_of(cell)
    cell.client |= {"limited": "all", "cpu_share": 0.93}
    assert "(93% of a core): client-limited: nothing here" in lines_of(cell)


def test_too_few_in_flight_are_told() -> None:
    assert "5 in flight at most, 16 asked for: only 5 requests" in notes(
        Setting(concurrency=16, max_tokens=8), requests=5
    )


def test_estimated_tokens_are_always_marked() -> None:
    traces = [made_trace(index, start_ms=index * 300) for index in range(20)]
    for trace in traces:
        trace.usage.completion = None
    figures_ = cell_figures(traces)
    cell = cell_table(figures_, traces, index=1, round_=1, arm="A", variables=assignment(Setting(max_tokens=8)))
    assert cell.token_source == "chunks"
    assert "tokens estimated from chunks" in lines_of(cell)


def test_lengths_that_differ_from_what_was_asked_are_told() -> None:
    assert "(8): median tokens of a reply, max_tokens 512" in notes(Setting(max_tokens=512))
    assert "(8): more output tokens counted than the 5 allowed" in notes(Setting(max_tokens=5))
    cell = made_cell(1, Setting(max_tokens=8))
    cell.finish = {"stop": 5, "length": 15}
    assert "(length 15, stop 5): how replies finished" in lines_of(cell)
    cell.finish = {"none": 20}
    assert "(none 20): how replies finished" in lines_of(cell)


def test_cache_hits_and_grouped_tokens_are_told() -> None:
    traces = [made_trace(index, start_ms=index * 300) for index in range(20)]
    for trace in traces:
        trace.usage.cached, trace.usage.completion = 64, 32
    cell = cell_table(
        cell_figures(traces), traces, index=1, round_=1, arm="A", variables=assignment(Setting(max_tokens=32))
    )
    text = lines_of(cell)
    assert "(64, 64): prompt tokens from the server's cache, median and most: TTFT is flattered" in text
    assert "(4.0): several tokens a chunk" in text


def test_limits_and_checks_are_told() -> None:
    assert "(p95 118): limit ttft_ms 100 MISSED" in notes(limits={"ttft_ms": 100})
    assert "(lowest 50): limit decode_rate 60 MISSED" in notes(limits={"decode_rate": 60})
    assert notes(limits={"ttft_ms": 500, "decode_rate": 10}) == ""
    assert "can't be told" in notes(requests=2, failures=2, limits={"ttft_ms": 100})
    cell = made_cell(1, Setting(max_tokens=8))
    cell.checks = {"jitter": "pass", "drift": "doubt: it got slower"}
    assert lines_of(cell) == "drift: doubt: it got slower"


def test_empty_replies_jitter_and_early_ends_are_told() -> None:
    cell = made_cell(1, Setting(max_tokens=8))
    cell = msgspec.structs.replace(cell, empty=2, jitter=4.2, slow_requests=1, cancelled=3, stopped="by you")
    text = lines_of(cell)
    for words in (
        "2 of 20 ok replies were empty",
        "(4.2): jitter",
        "(1): slow requests",
        "3 cancelled",
        "early: by you",
    ):
        assert words in text


def test_a_note_stands_once_with_the_rows_it_holds_for() -> None:
    cells = made_record((1, 2, 4)).cells

    def said(cell: CellTable) -> list[Note]:
        return [Note("all"), Note("each", f"{cell.id} ms"), *([Note("some")] if cell.id > 1 else [])]

    assert gathered(cells, ["one", "two", "four"], said, before="concurrency ") == [
        "all",
        "concurrency one (1 ms), two (2 ms), four (3 ms): each",
        "concurrency two, four: some",
    ]


# Verdict, errors, the whole


def made_verdict() -> Verdict:
    return Verdict(
        sentence="2.1x more tokens per second at 16 at once.",
        checks={"one-variable": "pass", "failures": "doubt: 3 failed", "client": "fail: client-limited"},
        kinds={
            "ttft": KindVerdict(
                better="lower", ratio=1.034, low=0.99, high=1.08, call="no difference shown", a=212.0, b=219.0
            ),
            "throughput": KindVerdict(better="higher", ratio=2.1, low=1.9, high=2.3, call="faster", a=58.1, b=122.0),
            "capacity": KindVerdict(better="higher", note="no limit was stated"),
        },
    )


def test_a_verdict_says_sentence_figures_and_doubts() -> None:
    text = "\n".join(verdict_lines(made_verdict(), 100))
    assert text.startswith("2.1x more tokens per second")
    assert re.search(r"TTFT +212 +219 +ms +1\.034 +0\.990 to 1\.080 +no difference shown", text)
    assert re.search(r"throughput +58 +122 +tok/s +2\.10 +1\.900 to 2\.30 +faster", text)
    assert re.search(r"capacity +- +- +- +- +not comparable", text)
    assert "? failures: doubt: 3 failed" in text
    assert "! client: fail: client-limited" in text
    assert "one-variable" not in text
    assert all(cell_width(line) <= 80 for line in verdict_lines(made_verdict(), 80))


def test_errors_are_told_most_frequent_first() -> None:
    record = made_record((1,))
    record.cells = [
        made_cell(1, Setting(), failures=1, error="truncated: cut"),
        made_cell(2, Setting(), failures=3, error=f"http_500: {HOSTILE}"),
    ]
    lines = error_lines(record, 80)
    assert lines[0].startswith("3 x http_500:")
    assert lines[1] == "1 x truncated: cut"


def test_nothing_hostile_is_printed() -> None:
    record = made_record((1, 2), model=HOSTILE)
    record.session.name = record.session.notes = record.session.command = record.session.started = HOSTILE
    record.session.status, record.session.reason, record.session.workbench = HOSTILE, HOSTILE, HOSTILE
    record.plan.update(varied="model", values=[HOSTILE, "b"], limits={HOSTILE: 1}, prompts=[{"name": HOSTILE}])
    record.plan["baseline"].update({"stop": HOSTILE, "body": {HOSTILE: 1}, HOSTILE: HOSTILE})
    record.environment = {
        "server": [{"id": "s", "engine": HOSTILE, "model": HOSTILE, "version": HOSTILE}],
        "host": {"cpu": HOSTILE},
        "gpu": [{"name": HOSTILE}],
        "scope": HOSTILE,
        "unknown": [HOSTILE],
    }
    record.cells[1] = made_cell(2, Setting(model=HOSTILE), failures=2, error=f"http_500: {HOSTILE}")
    record.cells[0].checks = {HOSTILE: HOSTILE}
    record.cells[0].stopped = HOSTILE
    record.cells[0].cold_start = {"ttft_ms": 5.0}
    record.cells[0].server = HOSTILE
    record.verdict = made_verdict()
    record.verdict.sentence = HOSTILE
    record.verdict.checks = {HOSTILE: HOSTILE}
    record.verdict.kinds[HOSTILE] = KindVerdict(better="lower", call=HOSTILE, note=HOSTILE)
    for width in (40, 80, 160):
        for line in show_lines(record, width, with_plots=True):
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", re.sub("\x1b\\[[0-9;]*m", "", line)), (
                line
            )


def test_show_says_what_how_and_on_what() -> None:
    record = made_record((1, 2, 4))
    record.cells[0].cold_start = {"ttft_ms": 4800.0, "total_ms": 6100.0}
    record.session.status, record.session.reason = "interrupted", "stopped by Ctrl-C"
    text = "\n".join(show_lines(record, 80, with_plots=False))
    for words in (
        "INTERRUPTED: stopped by Ctrl-C",
        "ollama 0.30.1",
        "qwen2.5:7b, Q4_K_M",
        "Some CPU, 7.6 GiB",
        "concurrency: 1, 2, 4",
        "max_tokens 8",
        "short 80 tokens by usage",
        "TTFT 4800 ms, 6100 ms in all, left out above",
        "software.cuda",
    ):
        assert words in text


def test_plots_show_ttft_and_the_ladder() -> None:
    ladder = plots(made_record((1, 2, 4)), 80)
    assert "TTFT, ms, by concurrency" in ladder[0]
    assert "tokens/s" in ladder[1]
    assert all(cell_width(line) <= 80 for plot in ladder for line in plot.split("\n"))
    (alone,) = plots(made_record((1,), requests=20), 60)
    assert "number of requests" in alone
    empty = made_record((1,))
    empty.cells = [made_cell(1, Setting(), requests=2, failures=2)]
    assert plots(empty, 80) == []


def test_plots_survive_requests_that_are_all_alike() -> None:
    record = made_record((1,))
    record.cells[0].per_request["ttft_ms"] = [5.0] * 20
    assert plots(record, 80)
    two = made_record((1, 2))
    for cell in two.cells:
        cell.per_request["ttft_ms"] = [5.0] * 20
    assert plots(two, 40)
