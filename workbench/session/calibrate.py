"""The instrument check: the same worker against a simulator that keeps time to its own clock.

What the client adds is read against the simulator's own stamps, so that the simulator's lateness is not ours: a chunk's
stamp is taken just before it is written, a request's when its last byte was read.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from workbench.domain.cell import in_flight, percentile
from workbench.domain.events import RequestTrace
from workbench.measure.protocol import Connect, PromptText, RunCell
from workbench.session.workers import Crew, WorkerTrouble
from workbench.simulator.options import SimOptions
from workbench.simulator.process import SimulatorProcess

STREAMS = (1, 16, 64)
TTFT_MS = 100.0
ITL_MS = 20.0
TOKENS = 50


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What the client added at one number of streams, in ms: median and 99th percentile.

    `ttft`: the TTFT read, less the server's own time from reading the request to sending the first token. `gap`: the
    time between two arrivals, less the time between their sends. `cpu_us` a token.
    """

    streams: int
    n: int
    failed: int
    in_flight_peak: int
    ttft_p50_ms: float
    ttft_p99_ms: float
    gap_p50_ms: float
    gap_p99_ms: float
    lag_p50_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    cpu_us: float

    def table(self) -> dict[str, Any]:
        """Plain values, rounded to a microsecond, for a record."""
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in msgspec.to_builtins(self).items()
        }


async def calibrate(
    log: Path,
    streams: tuple[int, ...] = STREAMS,
    on_step: Callable[[Added], None] = lambda added: None,
) -> list[Added]:
    """Run the check. Raises WorkerTrouble, or RuntimeError when the simulator does not start."""
    crew = Crew(log)
    results = []
    try:
        async with SimulatorProcess(SimOptions(ttft_ms=TTFT_MS, itl_ms=ITL_MS)) as simulator:
            await crew.ensure(1)
            crew.connect(Connect(base_url=simulator.base_url))
            for count in streams:
                results.append(await _at(crew, count))
                on_step(results[-1])
    finally:
        await crew.close()
    return results


async def _at(crew: Crew, streams: int) -> Added:
    run = RunCell(
        cell=streams,
        body={"model": "simulated", "max_tokens": TOKENS, "temperature": 0, "stream": True},
        prompts=[PromptText(name="calibration", text="How long is a moment?")],
        concurrency=streams,
        requests=max(5, streams),
        nonce_seed=f"calibration {streams}",
    )
    done = await crew.run(run, on_snapshot=lambda snapshots: None, on_finished=lambda trace: None)
    if done.trouble:
        raise WorkerTrouble(done.trouble)
    ok = [trace for trace in done.traces if trace.outcome == "ok"]
    ttft = sorted(error for trace in ok if (error := ttft_error_ms(trace)) is not None)
    gaps = sorted(error for trace in ok for error in gap_errors_ms(trace))
    if not ttft or not gaps:
        raise WorkerTrouble(f"no request of {streams} came back whole from the simulator")
    chunks = sum(sum(trace.arrivals.chunks) for trace in done.traces)
    stamps = [trace.sent_ns for trace in ok if trace.sent_ns] + [trace.end_ns for trace in ok if trace.end_ns]
    wall_s = (max(stamps) - min(stamps)) / 1e9
    return Added(
        streams=streams,
        n=len(ok),
        failed=len(done.traces) - len(ok),
        in_flight_peak=in_flight(done.traces)[0],
        ttft_p50_ms=percentile(ttft, 0.5),
        ttft_p99_ms=percentile(ttft, 0.99),
        gap_p50_ms=percentile(gaps, 0.5),
        gap_p99_ms=percentile(gaps, 0.99),
        lag_p50_ms=done.fitness.lag_p50_ms,
        lag_p99_ms=done.fitness.lag_p99_ms,
        lag_max_ms=done.fitness.lag_max_ms,
        cpu_us=done.fitness.cpu_share * wall_s * 1e6 / chunks,
    )


def ttft_error_ms(trace: RequestTrace) -> float | None:
    """The TTFT read, less the server's own (its read of the request to its send of the first token)."""
    received = trace.server_says.get("received_ns")
    arrivals = trace.arrivals
    if received is None or not arrivals.at_ns or not arrivals.server_ns[0] or trace.sent_ns is None:
        return None
    return ((arrivals.at_ns[0] - trace.sent_ns) - (arrivals.server_ns[0] - int(received))) / 1e6


def gap_errors_ms(trace: RequestTrace) -> list[float]:
    """How far each gap between arrivals was from the gap between its sends (absolute)."""
    pairs = list(zip(trace.arrivals.at_ns, trace.arrivals.server_ns, strict=True))
    return [abs((b[0] - a[0]) - (b[1] - a[1])) / 1e6 for a, b in pairwise(pairs) if a[1] and b[1]]
