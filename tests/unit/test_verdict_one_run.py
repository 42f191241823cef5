"""One run a side: the throughput's interval lies around what was measured, whatever the number in flight."""

from __future__ import annotations

from workbench.domain.cell import cell_figures
from workbench.domain.compare import compare_records
from workbench.domain.events import Arrivals, RequestTrace, Usage
from workbench.domain.record import Record, SessionTable, cell_table


def side(concurrency: int) -> Record:
    """Twelve requests of about a second each, `concurrency` at a time, as a perfect server would take them."""
    traces = []
    for number in range(12):
        start = (number // concurrency) * 1_100_000_000
        stamps = [start + 100_000_000 + k * (15_000_000 + 50_000 * (number % 3)) for k in range(64)]
        traces.append(
            RequestTrace(
                index=number,
                sent_ns=start,
                end_ns=stamps[-1],
                done=True,
                finish="length",
                content="x" * 64,
                usage=Usage(prompt=70, completion=64),
                arrivals=Arrivals(at_ns=stamps, size=[1] * 64, chunks=[1] * 64, kinds=[1] * 64, server_ns=[0] * 64),
            )
        )
    setting = {"engine": "e", "model": "m", "prompt": "short", "max_tokens": 64, "concurrency": concurrency}
    setting |= {"temperature": 0.0, "cache": "unique", "stream": True}
    table = cell_table(
        cell_figures(traces, concurrency=concurrency), traces, index=1, round_=1, arm="A", variables=setting
    )
    table.warmup = 3
    return Record(
        session=SessionTable(id=f"s{concurrency}"),
        plan={"varied": "", "values": [], "order": [], "baseline": setting},
        cells=[table],
    )


def test_throughput_doubles_with_twice_as_many_at_once() -> None:
    verdict = compare_records(side(1), side(2)).kinds["throughput"]
    assert verdict.ratio is not None
    assert verdict.low is not None
    assert verdict.high is not None
    assert 1.9 < verdict.low <= verdict.ratio <= verdict.high < 2.1
    assert verdict.call == "faster"
