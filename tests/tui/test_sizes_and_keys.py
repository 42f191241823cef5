"""Resizing in mid-run, themes, remapped keys, jump mode, palette, presenter mode."""

from __future__ import annotations

import pytest

from tests.tui.conftest import Driven, driven
from tests.tui.script import World
from tests.tui.scripted_bench import ScriptedBench
from workbench.tui import themes
from workbench.tui.keys import LIVE
from workbench.tui.widgets.pane import Pane

SIZES = [(80, 24), (60, 20), (59, 20), (40, 12), (200, 60), (61, 20), (120, 23), (10, 3), (1, 1), (80, 24)]


async def resize(screen: Driven, width: int, height: int) -> None:
    await screen.pilot.resize_terminal(width, height)
    await screen.settle()


async def test_resizing_in_mid_run_loses_nothing() -> None:
    bench = ScriptedBench(World(failing=0.1), hold_at=9.0)
    async with driven(bench) as screen:
        await screen.press("r")
        await screen.held()
        for width, height in SIZES:
            await resize(screen, width, height)
            lines = screen.lines()
            assert len(lines) == height
            assert all(len(line) == width for line in lines)
        assert "in flight" in screen.text()
        await screen.finished()
        assert screen.model.ok + screen.model.failed == 20


async def test_at_60x20_the_figures_that_matter_are_in_sight() -> None:
    bench = ScriptedBench(World(failing=0.3), hold_at=9.0)
    async with driven(bench, size=(60, 20)) as screen:
        await screen.press("r")
        await screen.held()
        text = screen.text()
        for word in ("TTFT ms", "p50", "tokens/s", "each", "FAILED", "x Stop", "◂ concurrency"):
            assert word in text


async def test_below_that_a_sentence_says_what_to_do() -> None:
    bench = ScriptedBench(World(failing=0.6), hold_at=9.0)
    async with driven(bench, size=(50, 10)) as screen:
        await screen.press("r")
        await screen.held()
        text = screen.text()
        assert "Workbench needs 60x20; this terminal is 50x10." in text
        assert "TTFT" in text
        assert "FAILED" in text
        assert "x stops the run" in text
        await screen.press("x")
        await screen.finished()
        assert screen.model.status == "interrupted"


@pytest.mark.parametrize("theme", themes.NAMES)
async def test_every_theme_draws_every_part(theme: str) -> None:
    async with driven(theme=theme) as screen:
        await screen.press("r")
        await screen.finished()
        screen.app.set_look(theme)
        await screen.settle()
        assert screen.app.theme == theme
        first = screen.text()
        await screen.press("comma", "down", "up", "escape")
        assert screen.app.theme == theme
        assert screen.text() == first


async def test_every_state_is_said_in_words_and_signs() -> None:
    """The same text in every theme: no meaning rests on a colour."""
    texts = set()
    for theme in themes.NAMES:
        async with driven(ScriptedBench(World(failing=0.2), hold_at=9.0), theme=theme) as screen:
            await screen.press("r")
            await screen.held()
            texts.add(screen.text())
    assert len(texts) == 1


def test_texts_can_be_read_on_their_background() -> None:
    """Contrast of the inks that carry text: 4.5 to 1 and more (WCAG AA); frames may be quiet."""
    from rich.color import Color

    def luminance(colour: Color) -> float:
        parts = [part / 255 for part in colour.get_truecolor()]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for name in themes.NAMES:
        if name == themes.TERMINAL:
            continue
        look = themes.look_of(name)
        for ink in ("text", "bright", "muted", "accent", "trouble", "base", "cursor"):
            style = getattr(look, ink)
            light, dark = sorted((luminance(style.color), luminance(style.bgcolor)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{name}: {ink}"


async def test_no_color_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with driven(ScriptedBench(World(failing=0.2)), theme="workbench-dark") as screen:
        await screen.press("r")
        await screen.finished()
        for strip in screen.app.screen._compositor.render_strips():
            for segment in strip:
                style = segment.style
                for colour in (style.color, style.bgcolor) if style else ():
                    assert colour is None or colour.is_default, segment


async def test_keys_are_remapped_and_shown_as_they_are() -> None:
    async with driven(keys={"run": "f5", "help": "f1"}) as screen:
        assert "f5 Run" in screen.text()
        await screen.press("r")
        assert screen.bench.plans == []
        await screen.press("f5")
        await screen.finished()
        assert len(screen.bench.plans) == 1
        await screen.press("f1", "end")
        await screen.press("home", "pagedown")
        assert "f5" in screen.text()


def test_every_key_has_an_id_of_its_own_and_a_tooltip() -> None:
    ids = [binding.id for binding in LIVE]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    assert all(binding.tooltip for binding in LIVE)
    keys = [binding.key for binding in LIVE]
    assert len(set(keys)) == len(keys)


async def test_jump_mode_goes_to_the_pane_of_a_letter() -> None:
    async with driven() as screen:
        await screen.press("j")
        letters = {pane.letter for pane in screen.app.screen.query(Pane) if pane.letter and pane.framed}
        assert all(f" {letter} " in screen.text() for letter in letters - {"c"})
        await screen.press("q")
        focused = screen.app.focused
        assert isinstance(focused, Pane)
        assert focused.id == "requests"
        assert not screen.app.jumping
        await screen.press("j", "escape")
        assert screen.app.focused is focused


async def test_the_palette_offers_every_action_that_works_now() -> None:
    async with driven() as screen:
        await screen.press("r")
        await screen.finished()
        live = screen.app.screen
        offered = {command.help for command in screen.app.get_system_commands(live)}
        for binding in LIVE:
            action = binding.action.split("(")[0]
            works = any(active.binding.id == binding.id and active.enabled for active in live.active_bindings.values())
            assert (binding.tooltip in offered) == works, action
        assert {f"Theme: {name}" for name in themes.NAMES} <= {
            command.title for command in screen.app.get_system_commands(live)
        }
        await screen.press("ctrl+p", *"ladder", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.settle()
        assert screen.model.mode == "ladder"


async def test_presenter_mode_hides_hosts_and_paths() -> None:
    async with driven(size=(100, 30)) as screen:
        await screen.press("r")
        await screen.finished()
        assert "sessions/" in screen.text()
        await screen.press("p")
        text = screen.text()
        assert "127.0.0.1" not in text
        assert "sessions/" not in text
        assert "█" in text
        await screen.press("right", "r")
        await screen.finished()
        assert len(screen.bench.plans) == 2
        assert "3.6x more" in screen.text()
        await screen.press("p")
        assert "requests" in screen.text()


async def test_a_soak_runs_until_stopped_in_minutes_that_are_kept() -> None:
    bench = ScriptedBench(hold_at=30.0)
    async with driven(bench, size=(120, 40)) as screen:
        await screen.press("o")
        await screen.held()
        plan = bench.plans[-1]
        assert plan.duration == 60.0
        assert plan.rounds >= 1000
        assert "left" not in screen.lines()[0]
        await screen.press("x")
        await screen.finished()
        assert screen.model.status == "interrupted"
        assert screen.model.record is not None
        assert screen.model.record.cells
