"""Records as tables and back: everything returns, nothing but nan in columns stands for absent, bad ones are one line."""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import tomli_w
from hypothesis import event, given, settings
from hypothesis import strategies as st
from made_records import made_record
from made_traces import MS, steady, trace_of

from workbench.domain.cell import cell_figures
from workbench.domain.record import (
    NUMBER_COLUMNS,
    OPEN_LOOP_COLUMNS,
    TEXT_COLUMNS,
    CellTable,
    KindVerdict,
    Record,
    SessionTable,
    Verdict,
    cell_table,
    from_table,
    to_table,
)
from workbench.domain.variables import BadInput, Setting, assignment


def again(record: Record) -> Record:
    return from_table(tomllib.loads(tomli_w.dumps(to_table(record))))


def full_record() -> Record:
    """A record that has everything: failures, an empty reply, an open loop, a verdict with steps, foreign keys."""
    record = made_record()
    record.plan["limits"] = {"ttft_ms": 200.0}
    traces = [
        steady(5, prompt="short", scheduled_ns=-MS, finish="length"),
        trace_of(sent=3, end=9, tokens=0, prompt="short"),
        trace_of(sent=None, outcome="failed", error_class="refused", error="nothing there\n\x1b[2J", prompt="code"),
        trace_of((7, 1, 4), sent=5, end=8, outcome="cancelled"),
    ]
    figures = cell_figures(traces, limits={"ttft_ms": 200.0})
    cell = cell_table(figures, traces, index=4, round_=2, arm="B", variables=assignment(Setting(body={"top_k": 1})))
    cell.cold_start = {"ttft_ms": 900.5}
    cell.memory = {"gpu0": {"before": 10.0, "peak": 20.0, "source": "NVML"}}
    cell.evidence = {"swap": {"in_mib": 0.0}, "left_over": "one"}
    cell.checks = {"noise": "doubt: it is late"}
    cell.client = {"lag_p99_ms": 0.5, "limited": ""}
    cell.stopped = "stopped by the user"
    record.cells.append(cell)
    record.verdict = Verdict(
        sentence="B is 2.00x as fast.",
        a="A",
        b="B",
        checks={"order": "pass"},
        kinds={
            "ttft": KindVerdict(better="lower", ratio=0.5, low=0.4, high=0.6, call="faster", a=2.0, b=1.0),
            "capacity": KindVerdict(better="higher", note="no interval", rounds_needed=12),
        },
        steps=[{"arm": "C", "ttft": {"ratio": 0.9}}],
    )
    record.session.status, record.session.reason = "interrupted", "stopped by the user"
    record.extra = {"colour": "green", "later": {"thing": [1, 2]}}
    return record


def test_everything_comes_back() -> None:
    record = full_record()
    back = again(record)
    assert back == record
    assert back.cells[3].per_request["ttft_ms"] == [100.0, None, None, 2.0]
    assert back.cells[3].per_request["error"][2].startswith("refused: nothing there")
    assert back.verdict is not None
    assert back.verdict.kinds["capacity"].ratio is None
    assert again(back) == back


def test_whole_numbers_stay_whole_and_fractions_stay_fractions() -> None:
    table = tomllib.loads(tomli_w.dumps(to_table(full_record())))
    assert [type(value) for value in table["cells"][0]["per_request"]["chunks"][:2]] == [int, int]
    assert type(table["cells"][0]["stats"]["ttft_ms"]["min"]) is float
    assert type(table["cells"][3]["stats"]["output_tokens"]["n"]) is int


def test_a_small_record_comes_back() -> None:
    record = Record(session=SessionTable(id="x"))
    assert again(record) == record
    assert to_table(record) == {
        "schema": 1,
        "kind": "workbench-session",
        "session": msgspec.to_builtins(record.session),
        "plan": {},
        "environment": {},
        "cells": [],
    }


def test_the_verdict_stands_before_the_cells() -> None:
    text = tomli_w.dumps(to_table(full_record()))
    assert text.index("[verdict]") < text.index("[[cells]]")
    assert text.startswith('schema = 1\nkind = "workbench-session"\n')


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, f"{path}[]")
    else:
        yield path, value


def test_nan_stands_in_columns_alone_and_none_nowhere() -> None:
    record = full_record()
    cell = record.cells[0]
    cell.throughput = math.nan
    cell.stats["ttft_ms"] = msgspec.structs.replace(cell.stats["ttft_ms"])
    cell.client["lag_p99_ms"] = math.inf
    cell.memory = {"gpu0": {"peak": math.nan, "before": 1.0}}
    record.environment["host"]["load"] = -math.inf
    record.environment["nothing"] = None
    assert record.verdict is not None
    record.verdict.kinds["ttft"].high = math.inf
    table = to_table(record)
    odd = {
        path
        for path, value in leaves(table)
        if value is None or (isinstance(value, float) and not math.isfinite(value))
    }
    assert odd
    assert all(path.startswith(".cells[].per_request.") for path in odd), odd
    back = from_table(tomllib.loads(tomli_w.dumps(table)))
    assert back.cells[0].throughput is None
    assert back.cells[0].client == {key: value for key, value in cell.client.items() if key != "lag_p99_ms"}
    assert back.cells[0].memory == {"gpu0": {"before": 1.0}}
    assert back.verdict is not None
    assert back.verdict.kinds["ttft"].high is None
    assert not any(
        isinstance(value, float) and math.isnan(value)
        for item in back.cells
        for column in item.per_request.values()
        for value in column
    )


@settings(max_examples=40)
@given(
    columns=st.dictionaries(
        st.sampled_from(NUMBER_COLUMNS + OPEN_LOOP_COLUMNS),
        st.lists(st.one_of(st.none(), st.integers(0, 10**9), st.floats(0, 1e9)), max_size=6),
        max_size=4,
    ),
    words=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=4),
)
def test_columns_and_words_of_any_kind_come_back(columns: dict[str, list[Any]], words: list[str]) -> None:
    record = Record(session=SessionTable(id="x", name="".join(words), notes="\n".join(words)))
    text = dict.fromkeys(TEXT_COLUMNS, words)
    record.cells = [CellTable(id=1, round=1, arm="A", per_request={**columns, **text})]
    assert again(record) == record


def test_columns_are_one_entry_a_request_and_open_loop_adds_its_own() -> None:
    record = full_record()
    closed, opened = record.cells[0], record.cells[3]
    assert set(closed.per_request) == {*NUMBER_COLUMNS, *TEXT_COLUMNS}
    assert set(opened.per_request) == {*NUMBER_COLUMNS, *TEXT_COLUMNS, *OPEN_LOOP_COLUMNS}
    for cell in (closed, opened):
        assert {len(column) for column in cell.per_request.values()} == {cell.requests}
    assert opened.per_request["started_ms"] == [0.0, 3.0, None, 5.0]
    assert opened.per_request["outcome"] == ["ok", "ok", "failed", "cancelled"]
    assert opened.per_request["ttft_from_schedule_ms"] == [101.0, None, None, None]


# What is no record


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({}, "not a Workbench session"),
        ({"kind": "other-tool", "schema": 1}, "not a Workbench session"),
        ({"kind": ["workbench-session"], "schema": 1}, "not a Workbench session"),
        ({"kind": "workbench-session"}, "schema None can't be read"),
        ({"kind": "workbench-session", "schema": 2}, "schema 2 can't be read; this version reads schema 1"),
        ({"kind": "workbench-session", "schema": "1"}, "schema '1' can't be read"),
        ({"kind": "workbench-session", "schema": "1\n\x1b[2J"}, "schema '1\\n\\x1b[2J' can't be read"),
        ({"kind": "workbench-session", "schema": 1}, "missing required field `session`"),
        ({"kind": "workbench-session", "schema": 1, "session": {}}, "missing required field `id`"),
        ({"kind": "workbench-session", "schema": 1, "session": {"id": 7}}, "$.session.id"),
        ({"kind": "workbench-session", "schema": 1, "session": {"id": "x"}, "cells": 5}, "$.cells"),
        ({"kind": "workbench-session", "schema": 1, "session": {"id": "x"}, "verdict": {"sentence": 1}}, "$.verdict"),
        ({"kind": "workbench-session", "schema": 1, "session": {"id": "x"}, "verdict": "faster"}, "$.verdict"),
    ],
)
def test_what_is_no_record_is_one_line(table: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_table(table)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


JUNK = st.one_of(
    st.integers(-2, 2), st.just(math.nan), st.text(max_size=3), st.booleans(), st.just([]), st.just({}), st.just([[1]])
)


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_record_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    table: Any = copy.deepcopy(DAMAGED)
    spot: Any = table
    for _ in range(data.draw(st.integers(0, 4))):
        inner = [key for key in (spot if isinstance(spot, dict) else range(len(spot))) if _container(spot[key])]
        if not inner:
            break
        spot = spot[data.draw(st.sampled_from(inner))]
    if isinstance(spot, dict) and spot:
        spot[data.draw(st.sampled_from(sorted(spot)))] = data.draw(JUNK)
    elif isinstance(spot, list) and spot:
        spot[data.draw(st.integers(0, len(spot) - 1))] = data.draw(JUNK)
    try:
        from_table(table)
    except BadInput as error:
        said = str(error)
        event(said.split(" - ")[0])
    else:
        said = "read"
    assert len(said.splitlines()) == 1


DAMAGED = to_table(full_record())


def _container(value: Any) -> bool:
    return isinstance(value, (dict, list)) and bool(value)
