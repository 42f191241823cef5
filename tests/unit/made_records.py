"""Records for tests, made from raw traces through the real figures, so that they hang together."""

from __future__ import annotations

from workbench.domain.cell import cell_figures
from workbench.domain.events import CONTENT, Arrivals, RequestTrace, Usage
from workbench.domain.plan import Plan, plan_table
from workbench.domain.record import CellTable, Record, SessionTable, cell_table
from workbench.domain.variables import Setting, assignment

MS = 1_000_000


def made_trace(
    index: int, *, start_ms: float = 0.0, ttft_ms: float = 100.0, gap_ms: float = 20.0, tokens: int = 8, error: str = ""
) -> RequestTrace:
    """A request sent at `start_ms` whose tokens come at a steady gap; with `error` ("class: message") it failed."""
    sent = int(start_ms * MS) + 1
    if error:
        name, _, message = error.partition(": ")
        return RequestTrace(
            index=index,
            prompt="short",
            sent_ns=sent,
            end_ns=sent + 5 * MS,
            outcome="failed",
            error_class=name,
            error=message,
        )
    stamps = [sent + int((ttft_ms + gap_ms * step) * MS) for step in range(tokens)]
    return RequestTrace(
        index=index,
        prompt="short",
        sent_ns=sent,
        first_byte_ns=stamps[0],
        end_ns=stamps[-1] + MS,
        arrivals=Arrivals(
            at_ns=stamps, size=[4] * tokens, chunks=[1] * tokens, kinds=[CONTENT] * tokens, server_ns=[0] * tokens
        ),
        done=True,
        finish="length",
        usage=Usage(prompt=80, completion=tokens),
        content="word" * tokens,
    )


def made_cell(
    number: int,
    setting: Setting,
    *,
    requests: int = 20,
    failures: int = 0,
    ttft_ms: float = 100.0,
    gap_ms: float = 20.0,
    tokens: int = 8,
    round_: int = 1,
    arm: str = "A",
    error: str = "http_503: busy",
) -> CellTable:
    """A cell of a closed loop in which every request takes the same time, give or take its number in ms."""
    each = ttft_ms + gap_ms * (tokens - 1)
    streams = setting.concurrency
    traces = [
        made_trace(
            index,
            start_ms=(index // streams) * (each + 25),
            ttft_ms=ttft_ms + index,
            gap_ms=gap_ms,
            tokens=tokens,
            error=error if index < failures else "",
        )
        for index in range(requests)
    ]
    figures = cell_figures(traces, concurrency=streams)
    table = cell_table(figures, traces, index=number, round_=round_, arm=arm, variables=assignment(setting))
    table.server = "s1"
    table.warmup = 3
    table.client = {"lag_p50_ms": 0.1, "lag_p99_ms": 0.4, "cpu_share": 0.1, "workers": 1, "limited": ""}
    return table


def made_record(rungs: tuple[int, ...] = (1, 2, 4), *, requests: int = 20, model: str = "qwen2.5:7b") -> Record:
    """A ladder over concurrency."""
    baseline = Setting(base_url="http://127.0.0.1:8000/v1", engine="ollama", model=model, quant="Q4_K_M", max_tokens=8)
    plan = Plan(
        baseline=baseline,
        varied="concurrency",
        values=rungs,
        requests=requests,
        order=tuple("ABCDEFGHIJ"[: len(rungs)]),
    )
    cells = [
        made_cell(
            index + 1,
            Setting(**{**_fields(baseline), "concurrency": rung}),
            requests=requests,
            arm="ABCDEFGHIJ"[index],
            ttft_ms=100.0 * rung,
        )
        for index, rung in enumerate(rungs)
    ]
    return Record(
        session=SessionTable(
            id="",
            name="evening ladder",
            started="2026-03-04T23:30:00.250+02:00",
            finished="2026-03-04T23:31:10.000+02:00",
            workbench="0.1.0",
            command="workbench run --concurrency 1,2,4",
        ),
        plan={
            **plan_table(plan),
            "prompts": [
                {"name": "short", "sha256": "0" * 64, "characters": 300, "tokens": 80, "token_source": "usage"}
            ],
        },
        environment={
            "host": {"cpu": "Some CPU", "memory_mib": 7800, "source": {"cpu": "/proc/cpuinfo", "memory_mib": "psutil"}},
            "server": [{"id": "s1", "engine": "ollama", "version": "0.30.1", "model": model, "quant": "Q4_K_M"}],
            "unknown": ["software.cuda"],
        },
        cells=cells,
    )


def _fields(setting: Setting) -> dict[str, object]:
    return {name: getattr(setting, name) for name in Setting.__struct_fields__}
