"""Pictures of the screen, drawn by the program itself while it measures: what the README shows.

    python -m benchmarks.pictures FOLDER [TARGET]

TARGET is "built-in" (the default: a real engine with real weights) or "simulated". Takes a few minutes.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from workbench.domain.variables import Setting
from workbench.session.live_bench import make_bench
from workbench.session.options import BUILT_IN, BenchOptions
from workbench.tui.app import WorkbenchApp
from workbench.tui.model import LiveModel
from workbench.tui.plans import PlanDefaults


async def run(app: WorkbenchApp, pilot: Pilot[Any], mode: str, pictures: dict[float, str], folder: Path) -> None:
    """Measure, saving a picture so many seconds after the first request of the plan's last cell, and at the end."""
    app.start_measuring(mode)
    measuring = app.measuring
    assert measuring is not None
    left = dict(pictures)
    while not measuring.is_finished:
        await asyncio.sleep(0.1)
        model = app.model
        if model.number == model.of and model.phase == "measuring":
            for seconds in [seconds for seconds in left if model.elapsed_s >= seconds]:
                await pilot.pause()
                app.save_screenshot(f"{left.pop(seconds)}.svg", path=str(folder))
    await pilot.pause()
    app.show_now()
    await pilot.pause()
    for name in left.values():
        app.save_screenshot(f"{name}.svg", path=str(folder))


async def main(folder: Path, target: str) -> None:
    with tempfile.TemporaryDirectory() as sessions:
        model = LiveModel()
        setting = Setting(max_tokens=48)
        bench = make_bench(BenchOptions(target=target, setting=setting, sessions=Path(sessions)), model.receive)
        app = WorkbenchApp(
            bench,
            target="",
            model=model,
            sessions=Path(sessions),
            theme="workbench-dark",
            environ={},
            defaults=PlanDefaults(requests=12, rounds=3, ladder=(1, 2, 4, 8)),
        )
        async with app.run_test(size=(100, 30)) as pilot:
            await app.workers.wait_for_complete([worker for worker in app.workers if worker.group == "start"])
            await run(app, pilot, "run", {2.0: "first-run"}, folder)
            await pilot.press("right", "right")
            await run(app, pilot, "run", {1.5: "live", 1e9: "verdict"}, folder)
            await run(app, pilot, "ab", {1e9: "ab"}, folder)
            await pilot.press("u")
            await run(app, pilot, "ladder", {1e9: "ladder"}, folder)
            await pilot.press("p")
            await pilot.pause()
            app.save_screenshot("presenter.svg", path=str(folder))
            await bench.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else BUILT_IN))
