"""What the measuring client costs, beside the openai SDK's typed stream on the same work and the same server.

    python benchmarks/client_cost.py [ROUNDS]

64 streams at 50 tokens/s each. CPU time a token is the difference between a long and a short run of the same client, so
that starting and building are left out; both clients take turns. Exit status 1 when ours costs more than a third.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
from pathlib import Path

import psutil

from workbench.domain.cell import cell_figures
from workbench.measure.protocol import Connect, PromptText, RunCell
from workbench.session.workers import Crew
from workbench.simulator.options import SimOptions
from workbench.simulator.process import SimulatorProcess

STREAMS, SHORT, LONG, TOKENS = 64, 64, 256, 128
MOST = 1 / 3


async def ours(base_url: str, requests: int) -> tuple[float, int, float]:
    """CPU seconds of a whole worker process, its tokens, and the mean TTFT it read (ms)."""
    with tempfile.TemporaryDirectory() as folder:
        crew = Crew(Path(folder) / "worker.log")
        await crew.ensure(1)
        crew.connect(Connect(base_url=base_url))
        run = RunCell(
            cell=1,
            body={"model": "simulated", "max_tokens": TOKENS, "stream": True},
            prompts=[PromptText(name="p", text="Say something.")],
            concurrency=STREAMS,
            requests=requests,
            nonce_seed="bench",
        )
        worker = psutil.Process(crew.pids[0])
        before = worker.cpu_times()
        done = await crew.run(run, on_snapshot=lambda s: None, on_finished=lambda t: None)
        after = worker.cpu_times()
        await crew.close()
    cell = cell_figures(done.traces, concurrency=STREAMS)
    used = after.user + after.system - before.user - before.system
    return used, sum(item.chunks for item in cell.per_request), cell.stats["ttft_ms"].mean


async def typed(base_url: str, requests: int) -> tuple[float, int, float]:
    script = Path(__file__).with_name("sdk_typed_stream.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, base_url, str(STREAMS), str(requests), str(TOKENS), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    told = json.loads(out)
    return told["cpu_s"], told["chunks"], told["ttft_mean_ms"]


async def main(rounds: int) -> int:
    costs: dict[str, list[float]] = {"workbench": [], "openai typed stream": []}
    async with SimulatorProcess(SimOptions(ttft_ms=100, itl_ms=20)) as simulator:
        for _ in range(rounds):
            for name, client in (("workbench", ours), ("openai typed stream", typed)):
                short = await client(simulator.base_url, SHORT)
                long = await client(simulator.base_url, LONG)
                cost = (long[0] - short[0]) / (long[1] - short[1]) * 1e6
                costs[name].append(cost)
                print(f"{name:20} {cost:6.1f} us a token   mean TTFT {long[2]:6.1f} ms (server's: 100)", flush=True)
    own, other = (statistics.median(values) for values in costs.values())
    print(f"median: workbench {own:.0f}, openai typed stream {other:.0f} us a token; ratio {own / other:.2f}")
    return 0 if own <= MOST * other else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)))
