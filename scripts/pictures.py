"""The README's pictures: the real screen on the simulator, driven by keys, saved as SVG by the program itself.

make pictures
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

from workbench.domain.variables import Setting
from workbench.session.live_bench import make_bench
from workbench.session.options import SIMULATED, BenchOptions
from workbench.tui.app import WorkbenchApp
from workbench.tui.plans import PlanDefaults

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
LONGEST_S = 180.0


async def until(app: WorkbenchApp, true: Callable[[], bool]) -> None:
    """Wait for something to become true of the running app."""
    async with asyncio.timeout(LONGEST_S):
        while not true():  # noqa: ASYNC110  (the screen publishes no event to wait for)
            await asyncio.sleep(0.1)


async def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        options = BenchOptions(setting=Setting(max_tokens=64), target=SIMULATED, command="workbench demo --simulated")
        bench = make_bench(options)
        app = WorkbenchApp(bench, target="", defaults=PlanDefaults(), sessions=options.sessions, run_at_once=True)
        async with app.run_test(size=(100, 30)) as pilot:
            await until(app, lambda: app.model.status == "complete" and not app.model.running)
            await pilot.press("right", "right")
            await pilot.pause()
            await pilot.press("r")
            await until(app, lambda: app.model.running)
            await asyncio.sleep(4)
            app.save_screenshot("flip.svg", str(FOLDER))
            await until(app, lambda: not app.model.running)
            await asyncio.sleep(0.5)
            app.save_screenshot("verdict.svg", str(FOLDER))
            await pilot.press("l")
            await until(app, lambda: app.model.running)
            await until(app, lambda: not app.model.running)
            await asyncio.sleep(0.5)
            app.save_screenshot("ladder.svg", str(FOLDER))
        await bench.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
