"""The screen under test: driven by keys, read as text, compared with files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.tui.scripted_bench import Clock, ScriptedBench
from workbench.domain.record import Record, Verdict
from workbench.tui.app import WorkbenchApp
from workbench.tui.model import LiveModel
from workbench.tui.plans import PlanDefaults

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "WORKBENCH_UPDATE_SNAPSHOTS"
SENTENCE = (
    "3.6x more tokens per second (one run each). A single request is not faster: TTFT 208 and 212 ms, no difference "
    "shown. Only concurrency differs; one run each: press a for an A/B."
)


def judged(a: Record, b: Record) -> Verdict:
    """A verdict in the domain's form; the domain's own is tested elsewhere."""
    return Verdict(sentence=SENTENCE)


class Driven:
    """A running app with its pilot and its bench."""

    def __init__(self, app: WorkbenchApp, pilot: Pilot[Any], bench: ScriptedBench) -> None:
        self.app, self.pilot, self.bench = app, pilot, bench
        self.model = app.model

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.settle()

    async def settle(self) -> None:
        """Let every message be handled, then repaint as the timer would."""
        await self.pilot.pause()
        self.app._tick()
        await self.pilot.pause()

    async def finished(self) -> None:
        """Wait for the measurement to end."""
        self.bench.go.set()
        assert self.app.measuring is not None
        await self.app.measuring.wait()
        await self.settle()

    async def held(self) -> None:
        """Wait until the bench stands at its `hold_at`."""
        await self.bench.holding.wait()
        await self.settle()

    def lines(self) -> list[str]:
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines())


@asynccontextmanager
async def driven(
    bench: ScriptedBench | None = None, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[Driven]:
    """The app on a scripted bench, in a terminal of `size`, with its clock."""
    bench = bench or ScriptedBench()
    options.setdefault("target", "")
    options.setdefault("compare", judged)
    options.setdefault("environ", {})
    options.setdefault("defaults", PlanDefaults(seed=1))
    app = WorkbenchApp(bench, model=LiveModel(bench.clock), **options)
    async with app.run_test(size=size) as pilot:
        found = Driven(app, pilot, bench)
        await app.workers.wait_for_complete([worker for worker in app.workers if worker.group == "start"])
        await found.settle()
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def same_as_file() -> Callable[[str, str], None]:
    """Compare a screen's text with its file; with WORKBENCH_UPDATE_SNAPSHOTS=1 write the file instead."""

    def compare(name: str, text: str) -> None:
        path = SNAPSHOTS / f"{name}.txt"
        if os.environ.get(UPDATE):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        assert path.exists(), f"no snapshot {path.name}: run with {UPDATE}=1 and look at what it writes"
        assert text + "\n" == path.read_text(encoding="utf-8"), f"{path.name} differs; {UPDATE}=1 takes the new one"

    return compare
