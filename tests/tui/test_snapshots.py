"""What the screens look like, letter for letter, at four sizes and in their states."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tui.conftest import driven
from tests.tui.script import World
from tests.tui.scripted_bench import ScriptedBench

SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]
Same = Callable[[str, str], None]


def named(name: str, size: tuple[int, int]) -> str:
    return f"{name}-{size[0]}x{size[1]}"


@pytest.mark.parametrize("size", SIZES)
async def test_live_screen_before_any_run(size: tuple[int, int], same_as_file: Same) -> None:
    async with driven(size=size) as screen:
        same_as_file(named("live-empty", size), screen.text())


@pytest.mark.parametrize("size", SIZES)
async def test_live_screen_while_running_against_a_baseline(size: tuple[int, int], same_as_file: Same) -> None:
    bench = ScriptedBench(World(failing=0.08))
    async with driven(bench, size=size) as screen:
        await screen.press("r")
        await screen.finished()
        bench.hold_at, bench.go = 9.0, type(bench.go)()
        await screen.press("right", "right", "r")
        await screen.held()
        same_as_file(named("live-running", size), screen.text())
        await screen.finished()
        same_as_file(named("live-finished", size), screen.text())


@pytest.mark.parametrize("size", SIZES)
async def test_live_screen_when_every_request_fails(size: tuple[int, int], same_as_file: Same) -> None:
    async with driven(ScriptedBench(World(failing=1.0)), size=size) as screen:
        await screen.press("r")
        await screen.finished()
        same_as_file(named("live-failed", size), screen.text())


@pytest.mark.parametrize("size", SIZES)
async def test_a_ladder_and_an_ab(size: tuple[int, int], same_as_file: Same) -> None:
    async with driven(ScriptedBench(World(failing=0.02)), size=size) as screen:
        await screen.press("r")
        await screen.finished()
        await screen.press("l")
        await screen.finished()
        same_as_file(named("ladder", size), screen.text())
        await screen.press("right", "right", "a")
        await screen.finished()
        same_as_file(named("ab", size), screen.text())


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("help", ["question_mark"]),
        ("settings", ["comma"]),
        ("presenter", ["p"]),
        ("environment", ["e"]),
        ("verdict", ["d"]),
        ("edit", ["enter"]),
        ("request", ["tab", "tab", "tab", "tab", "enter"]),
        ("jump", ["j"]),
    ],
)
async def test_screens_over_a_finished_run(
    name: str, keys: list[str], size: tuple[int, int], same_as_file: Same
) -> None:
    async with driven(size=size) as screen:
        await screen.press("r")
        await screen.finished()
        await screen.press("right", "right", "r")
        await screen.finished()
        await screen.press(*keys)
        same_as_file(named(name, size), screen.text())


async def test_in_ascii(same_as_file: Same) -> None:
    async with driven(environ={"LC_ALL": "C"}) as screen:
        await screen.press("r")
        await screen.finished()
        assert screen.text().isascii()
        same_as_file("live-ascii-80x24", screen.text())
