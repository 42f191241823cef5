"""What the screen costs: processor time and bytes to the terminal while 32 streams run at 50 tokens a second each, the
time to the first frame, and a live chart drawn by hand against one drawn by plotext.

    python -m benchmarks.screen [SIZE ...]        for example 80x24 120x40

The screen runs in a real pty in a process of its own; a made-up session is played to it in real time.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

SECONDS = 12.0
STREAMS = 32
RATE = 50.0
SIZES = ("80x24", "120x40", "200x60")


def child(report: Path) -> None:
    """The screen, with events made beforehand so that making them costs nothing while it is measured."""
    import asyncio
    import resource

    from tests.tui import script
    from tests.tui.scripted_bench import SETTING, ScriptedBench
    from workbench.domain.plan import Plan
    from workbench.domain.record import Record
    from workbench.domain.variables import with_value
    from workbench.session.events import Listener, SessionEnded
    from workbench.tui.app import WorkbenchApp

    world = script.World(rate=RATE * (1 + 0.05 * (STREAMS - 1)), slots=STREAMS, tokens=400, failing=0.01)

    class Played(ScriptedBench):
        """Plays events made beforehand, in real time, and measures what the process uses meanwhile."""

        def __init__(self) -> None:
            super().__init__(world, setting=with_value(SETTING, "concurrency", STREAMS))
            plan = Plan(baseline=self.setting, requests=4 * STREAMS, warmup=1)
            self.made = list(script.events(plan, world))
            self.told: dict[str, float] = {}

        async def measure(
            self,
            plan: Plan,
            listener: Listener,
            *,
            name: str = "",
            notes: str = "",
            requests_of: dict[str, int] | None = None,
        ) -> Record:
            begun = time.perf_counter()
            used = resource.getrusage(resource.RUSAGE_SELF)
            for at, event in self.made:
                if at > SECONDS:
                    break
                ahead = at - (time.perf_counter() - begun)
                if ahead > 0:
                    await asyncio.sleep(ahead)
                listener(event)
            now = resource.getrusage(resource.RUSAGE_SELF)
            spent = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
            elapsed = time.perf_counter() - begun
            self.told = {"cpu": spent / elapsed, "elapsed": elapsed, "rss_mib": now.ru_maxrss / 1024}
            end = self.made[-1][1]
            assert isinstance(end, SessionEnded)
            app.exit(0)
            return end.record

    bench = Played()
    app = WorkbenchApp(bench, target="", run_at_once=True)
    app.run()
    report.write_text(json.dumps(bench.told))


def in_pty(arguments: list[str], size: str) -> tuple[subprocess.Popen[bytes], int]:
    """A process in a pty of this size, and the pty's other end."""
    columns, lines = map(int, size.split("x"))
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"},
        start_new_session=True,
    )
    os.close(slave)
    return process, master


def measure(size: str, report: Path) -> dict[str, float]:
    """Run the screen in a pty of this size; its share of a core and its bytes a second."""
    report.unlink(missing_ok=True)
    process, master = in_pty(["benchmarks.screen", "--child", str(report)], size)
    written: list[tuple[float, int]] = []
    while True:
        ready, _, _ = select.select([master], [], [], 0.5)
        if ready:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            written.append((time.perf_counter(), len(data)))
        elif process.poll() is not None:
            break
    process.wait()
    os.close(master)
    told: dict[str, float] = json.loads(report.read_text())
    end = written[-1][0]
    # The last seconds of the run, without the first frame and the last.
    steady = sum(count for at, count in written if end - 10 < at < end - 1)
    return {**told, "bytes_s": steady / 9}


def first_frame() -> float:
    """Seconds from the command to the panes."""
    started = time.perf_counter()
    process, master = in_pty(["workbench", "tui", "--target", "simulated", "--no-save"], "80x24")
    seen = b""
    while b"variables" not in seen:
        seen += os.read(master, 65536)
    found = time.perf_counter() - started
    os.kill(process.pid, signal.SIGTERM)
    while process.poll() is None:
        if select.select([master], [], [], 0.1)[0]:
            try:
                os.read(master, 65536)
            except OSError:
                break
    process.wait()
    os.close(master)
    return found


def charts() -> None:
    """Milliseconds to draw one live chart."""
    import random

    import plotext

    from workbench.tui.charts import chart

    draw = random.Random(1)
    print("one chart, ms              by hand   plotext")
    for width, height in ((22, 5), (38, 10), (72, 16)):
        points = [(float(x), 100 + 300 * draw.random()) for x in range(2 * width)]
        begun = time.process_time()
        for _ in range(40):
            chart(points, width, height, x_range=(0.0, float(2 * width)), top=400.0, baseline=210.0)
        ours = (time.process_time() - begun) / 40 * 1000
        begun = time.process_time()
        for _ in range(40):
            plotext.clear_figure()
            plotext.theme("clear")
            plotext.plotsize(width, height)
            plotext.ylim(0, 400)
            plotext.plot([0, 2 * width], [210, 210], marker="┈")
            plotext.plot([x for x, _ in points], [y for _, y in points], marker="braille")
            plotext.build()
        theirs = (time.process_time() - begun) / 40 * 1000
        print(f"  {width:3} x {height:2}, {len(points):3} points {ours:10.2f} {theirs:9.2f}")


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]))
        return
    report = Path(os.environ.get("TMPDIR", "/tmp")) / f"workbench-screen-{os.getpid()}.json"
    print(f"{STREAMS} streams at {RATE:.0f} tokens/s, every pane in sight")
    print("size      share of a core   KiB/s   memory MiB")
    for size in sys.argv[1:] or SIZES:
        found = measure(size, report)
        print(f"{size:9} {100 * found['cpu']:13.1f} % {found['bytes_s'] / 1024:7.1f} {found['rss_mib']:12.0f}")
    report.unlink(missing_ok=True)
    print("command to first frame, s:", " ".join(f"{first_frame():.2f}" for _ in range(5)))
    charts()


if __name__ == "__main__":
    main()
