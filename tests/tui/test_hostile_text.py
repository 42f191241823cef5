"""Text from servers and records is shown letter for letter, in every widget, and steers nothing."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len

from tests.tui.conftest import Driven, driven
from tests.tui.script import World
from tests.tui.scripted_bench import SETTING, ScriptedBench
from workbench.domain.record import Verdict
from workbench.session.bench import FoundTarget
from workbench.session.events import MemoryView

MARKUP = "[/ [/x] [@click=app.quit]hi[/] [red]x"
ESCAPES = "\x1b]52;c;aGk=\x07 \x1b]0;title\x07 \x1b[2J \x1b[6n \x9b31m \x1b[ \x7f \x00 \u202e \ud800"
WIDE = "河水流过旧集市 🚢🌊 👩‍👩‍👧 é"
LONG = "x" * 10_000
TEXTS = {"markup": MARKUP, "escapes": ESCAPES, "wide": WIDE, "long": LONG, "lines": "a\nb\r\nc\td"}


def harmless(screen: Driven) -> None:
    """No control character in any cell, and every line exactly as wide as the screen."""
    width = screen.app.size.width
    for line in screen.lines():
        bad = [char for char in line if unicodedata.category(char) in ("Cc", "Cs") or char in "\u202e\u2028"]
        assert not bad, f"{bad!r} in {line!r}"
        assert cell_len(line) == width, line
    assert screen.app.is_running


SCREENS = (["d"], ["e"], ["question_mark"], ["p"], ["enter"], ["j"], ["tab", "tab", "tab", "tab", "enter"])


@pytest.mark.parametrize("name", TEXTS)
async def test_on_every_screen(name: str) -> None:
    text = TEXTS[name]
    setting = msgspec.structs.replace(SETTING, model=text[:200], quant=text[:100], prompt=(text[:60],))
    memory = (MemoryView(name=text[:300], kind="gpu", used_mib=1.0, total_mib=2.0),)
    bench = ScriptedBench(
        World(text=text, error=text, failing=0.3, memory=memory, tokens=40), setting=setting, hold_at=4.0
    )
    bench.environment = {"scope": text[:300], "host": {"cpu": text[:300]}, "unknown": [text[:80]], "how": {}}
    async with driven(bench, compare=lambda a, b: Verdict(sentence=text, checks={text[:20]: text[:50]})) as screen:
        harmless(screen)
        await screen.press("r")
        await screen.held()
        harmless(screen)
        await screen.finished()
        harmless(screen)
        bench.hold_at = None
        await screen.press("right", "r")
        await screen.finished()
        for keys in SCREENS:
            await screen.press(*keys)
            harmless(screen)
            await screen.press("escape")
        screen.app.say(text)
        await screen.settle()
        harmless(screen)
        await screen.press("ctrl+p")
        harmless(screen)


@pytest.mark.parametrize("name", TEXTS)
async def test_in_the_list_of_servers(name: str) -> None:
    text = TEXTS[name]
    found = [
        FoundTarget(name=text[:200], base_url="http://127.0.0.1:1/v1", engine=text[:20], models=(text, text)),
        FoundTarget(name="b", base_url="http://127.0.0.1:2/v1", trouble=text),
    ]
    async with driven(ScriptedBench(found=found), target=None) as screen:
        harmless(screen)
        await screen.press("down", "enter")
        harmless(screen)


async def test_markup_is_shown_letter_for_letter() -> None:
    bench = ScriptedBench(World(text=MARKUP + " ", error=MARKUP, tokens=12))
    async with driven(bench, size=(120, 40)) as screen:
        await screen.press("r")
        await screen.finished()
        assert MARKUP in screen.text()


async def test_a_hostile_record_in_the_list_and_opened(tmp_path: Path) -> None:
    from tests.unit.made_records import made_record
    from workbench.records.store import RecordWriter

    for text in (MARKUP, ESCAPES, WIDE, LONG):
        record = made_record()
        record.session.name = record.session.notes = record.session.command = text.replace("\ud800", "")
        RecordWriter(tmp_path, record)
    async with driven(sessions=tmp_path) as screen:
        await screen.press("s")
        await screen.app.workers.wait_for_complete()
        harmless(screen)
        for _ in range(4):
            await screen.press("enter")
            harmless(screen)
            await screen.press("escape", "n")
            harmless(screen)
            await screen.press("escape", "down")
