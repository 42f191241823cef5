"""The parts that know no widget: charts, figures, characters, plans, what a tick costs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.tui.conftest import driven
from tests.tui.scripted_bench import SETTING, ScriptedBench
from workbench.domain.plan import plan_from_table, plan_table
from workbench.domain.record import KindVerdict
from workbench.domain.variables import BadInput, with_value
from workbench.tui import figures as fmt
from workbench.tui.bigdigits import big
from workbench.tui.charts import chart, nice_ceiling, reduce_to, sparkline
from workbench.tui.glyphs import ascii_wanted, plain
from workbench.tui.plans import PlanDefaults, mode_of, plan_for, requests_of_arms, steps_from
from workbench.tui.widgets.cells import interval_bar
from workbench.tui.widgets.pane import Pane, fit, right, wrap

NUMBERS = st.floats(min_value=0, max_value=1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (4.24, "4.2"), (212.4, "212"), (12345.0, "12345"), (123456.0, "123 s")]
)
def test_milliseconds(value: float | None, shown: str) -> None:
    assert fmt.milliseconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.424, "0.42"), (6.12, "6.1"), (61.24, "61.2"), (99.97, "100"), (6120.0, "6120")]
)
def test_rates(value: float | None, shown: str) -> None:
    assert fmt.rate(value) == shown


@given(NUMBERS)
def test_figures_keep_their_width(value: float) -> None:
    assert len(fmt.milliseconds(value)) <= 6
    assert len(fmt.rate(value)) <= 7


def test_clocks() -> None:
    assert [fmt.clock(value) for value in (None, 0, 41.4, 725, 3725)] == ["-", "0:00", "0:41", "12:05", "1:02:05"]


def test_a_model_that_is_a_path_goes_by_its_file() -> None:
    assert fmt.short_model("/home/me/models/x.gguf") == "x.gguf"
    assert fmt.short_model("Qwen/Qwen2.5-7B") == "Qwen/Qwen2.5-7B"
    assert fmt.middle_cut("abcdefghij", 5) == "ab…ij"


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, True),
        ({"LC_CTYPE": "de_DE.utf8", "LANG": "C"}, False),
        ({"LANG": "en_US.ISO-8859-1"}, True),
        ({"TERM": "linux", "LANG": "en_US.UTF-8"}, True),
        ({"TERM": "dumb"}, True),
    ],
)
def test_where_ascii_is_wanted(environ: dict[str, str], wanted: bool) -> None:
    assert ascii_wanted(environ) == wanted


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs", "Mn", "Me", "Cf")), max_size=60))
def test_plain_text_is_ascii_and_keeps_every_cell(text: str) -> None:
    assert plain(text).isascii()
    assert len(plain(text)) == cell_len(text)


@given(st.floats(min_value=1e-3, max_value=1e9))
def test_an_axis_ends_above_what_it_holds_and_not_far_above(value: float) -> None:
    top = nice_ceiling(value)
    assert value <= top * (1 + 1e-9)
    assert top <= 2 * value


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), max_size=80),
    st.integers(0, 60),
    st.integers(0, 20),
    st.one_of(st.none(), NUMBERS),
    st.booleans(),
    st.booleans(),
)
def test_a_chart_fills_its_area_exactly(
    points: list[tuple[float, float]], width: int, height: int, baseline: float | None, ascii_only: bool, joined: bool
) -> None:
    top = nice_ceiling(max([y for _, y in points], default=1.0))
    plot = chart(
        sorted(points),
        width,
        height,
        x_range=(0.0, 1e6),
        top=top,
        baseline=baseline,
        failures=[x for x, _ in points[:3]],
        joined=joined,
        x_labels=[(0.0, "0 s"), (1e6, "end")],
        ascii_only=ascii_only,
    )
    assert len(plot.lines) == len(plot.inks) == height
    assert all(len(line) == len(ink) == width for line, ink in zip(plot.lines, plot.inks, strict=True))
    if ascii_only:
        assert all(
            plain(line) == line or "×" in line or "─" in line or "│" in line or "┤" in line for line in plot.lines
        )


def rows_with_ink(values: list[float], top: float, height: int = 11) -> set[int]:
    plot = chart([(float(x), y) for x, y in enumerate(values)], 40, height, x_range=(0.0, 9.0), top=top)
    return {row for row, ink in enumerate(plot.inks) if "s" in ink}


def test_a_chart_is_true_to_its_axis() -> None:
    """With ten rows over the axis, 0 to 100: the top value stands on the first row, half of it on the sixth."""
    assert rows_with_ink([100.0] * 10, 100.0) == {0}
    assert rows_with_ink([50.0] * 10, 100.0) == {5}
    assert rows_with_ink([10.0] * 10, 100.0) == {9}
    assert rows_with_ink([0.0] * 10, 100.0) == {9}


def test_the_baseline_stands_where_its_value_would() -> None:
    for value in (10.0, 33.0, 50.0, 78.0, 100.0):
        plot = chart([], 40, 11, x_range=(0.0, 9.0), top=100.0, baseline=value)
        row = next(row for row, ink in enumerate(plot.inks) if "b" in ink)
        assert row in rows_with_ink([value] * 10, 100.0)
        assert "base" in plot.lines[row]


@given(st.lists(st.tuples(st.floats(0, 100), NUMBERS), min_size=1, max_size=300))
def test_reducing_keeps_every_extreme_and_two_points_a_column(points: list[tuple[float, float]]) -> None:
    reduced = reduce_to(points, 20, 0.0, 100.0)
    assert len(reduced) <= 40
    assert set(reduced) <= set(points)
    assert max(y for _, y in reduced) == max(y for _, y in points)
    assert min(y for _, y in reduced) == min(y for _, y in points)


def test_a_sparkline_keeps_its_width_and_its_peak() -> None:
    assert sparkline([1, 2, 8], 3, 8) == "▂▃█"
    assert len(sparkline(list(range(100)), 12, 99)) == 12
    assert sparkline([], 5, 1.0) == "     "
    assert sparkline([1.0], 0, 1.0) == ""


@given(st.text(max_size=40), st.integers(0, 50))
def test_fitting_gives_exactly_the_width(text: str, width: int) -> None:
    from workbench.domain.text import one_line

    clean = one_line(text)
    assert cell_len(fit(clean, width)) == width
    if width:
        assert cell_len(right(clean, width)) == width


@given(st.text(max_size=200), st.integers(2, 40))
def test_wrapping_keeps_every_character_and_the_width(text: str, width: int) -> None:
    from workbench.domain.text import one_line

    clean = one_line(text)
    lines = wrap(clean, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(clean.split())


@given(st.floats(0.05, 20), st.floats(1.0, 3.0), st.integers(3, 41), st.sampled_from(["lower", "higher"]))
def test_better_is_to_the_right(ratio: float, spread: float, width: int, better: str) -> None:
    kind = KindVerdict(better=better, ratio=ratio, low=ratio / spread, high=ratio * spread)
    drawn = interval_bar(kind, width)
    assert len(drawn) == width
    good = ratio if better == "higher" else 1 / ratio
    middle, at = width // 2, drawn.index("●")
    assert (at - middle) * math.log(good) >= 0


@given(st.floats(0, 99999), st.integers(1, 60), st.integers(1, 12))
def test_big_digits_stay_in_their_area(value: float, width: int, height: int) -> None:
    drawn = big(fmt.rate(value), width, height)
    assert len(drawn) == 1 or (len(drawn) <= height and len(drawn[0]) <= width)
    assert len({len(line) for line in drawn}) == 1


@pytest.mark.parametrize(
    ("values", "current", "step", "expected"),
    [
        ([1, 2, 4], 2, 1, 4),
        ([1, 2, 4], 4, 1, 4),
        ([1, 2, 4], 3, -1, 2),
        ([1, 2, 4], 3, 1, 4),
        ([1, 2, 4], 9, 1, 9),
        (["a", "b"], "b", 1, "a"),
        (["a", "b"], "z", 1, "a"),
        ([True, False], True, 1, False),
        ([None, 0, 1], None, 1, 0),
        ([], 5, 1, 5),
    ],
)
def test_where_a_flip_leads(values: list[object], current: object, step: int, expected: object) -> None:
    assert steps_from(values, current, step) == expected  # type: ignore[arg-type]


def test_plans_of_every_mode_survive_a_record() -> None:
    flipped = with_value(SETTING, "concurrency", 4)
    for mode in ("run", "ladder", "ab", "soak"):
        plan = plan_for(mode, flipped, SETTING, PlanDefaults(seed=3))
        assert plan_from_table(plan_table(plan)) == plan
        if mode != "soak":
            assert mode_of(plan) == mode


def test_a_stated_number_of_requests_holds_for_every_arm() -> None:
    defaults = PlanDefaults(requests=7)
    plan = plan_for("ladder", SETTING, None, defaults)
    assert plan.requests == 7
    assert requests_of_arms(plan, defaults) == {}


@pytest.mark.parametrize("changes", [{}, {"concurrency": 4, "temperature": 0.5}])
def test_an_ab_needs_exactly_one_difference(changes: dict[str, float]) -> None:
    setting = SETTING
    for name, value in changes.items():
        setting = with_value(setting, name, value)
    with pytest.raises(BadInput, match="one flipped variable"):
        plan_for("ab", setting, SETTING, PlanDefaults())
    with pytest.raises(BadInput, match="run once"):
        plan_for("ab", setting, None, PlanDefaults())


async def test_a_tick_without_news_writes_nothing_and_hidden_panes_are_left_alone() -> None:
    async with driven(ScriptedBench(hold_at=9.0)) as screen:
        await screen.press("r")
        await screen.held()
        written: list[str] = []
        for pane in screen.app.screen.query(Pane):
            name = pane.id or ""

            def refresh(*regions: object, name: str = name, **options: object) -> None:
                written.append(name)

            pane.refresh = refresh  # type: ignore[method-assign,assignment]
        screen.app._tick()
        assert written == []
        screen.model.ok += 1
        screen.model.touch()
        screen.app._tick()
        assert set(written) == {"status", "requests"}
        assert "cells" not in written
