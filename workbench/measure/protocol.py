"""Messages between the session's control and a worker process: one JSON object a line.

The worker gets a `Connect` first, then one `RunCell` at a time, `Stop` to end a running cell early. End of its input
ends it. It answers with `Ready`, `Snapshot`s (latest wins, at most a few a second), one `Finished` a request, one
`CellDone`. Writing never blocks the worker's loop: an unsent snapshot is replaced, finished requests queue.
"""

from __future__ import annotations

from typing import Any

import msgspec

from workbench.domain.cell import ClientFitness
from workbench.domain.events import RequestTrace
from workbench.domain.plan import Timeouts


class Connect(msgspec.Struct, tag=True, kw_only=True):
    """Where to send. `key` is used for the Authorization header only and never written anywhere."""

    base_url: str
    key: str = ""
    ca_file: str = ""
    timeouts: Timeouts = Timeouts()


class PromptText(msgspec.Struct, kw_only=True):
    """A prompt's name and the text that is sent (the unique prefix comes before it)."""

    name: str
    text: str


class RunCell(msgspec.Struct, tag=True, kw_only=True):
    """One burst of requests against one server.

    `body` is the request but its messages (model, max_tokens, temperature, stream, ...). `share` and `shares`: this
    worker sends request numbers share, share + shares, ... of the cell's. `concurrency` is this worker's own share.
    `nonce_seed` seeds the unique prefixes; "" sends the prompts as they are (warm cache). `start_at_ns`: the common
    start (perf_counter_ns) for several workers; 0 starts when ready. `rate`: open loop, requests a second over all
    workers. `keep_text`: keep the replies' full text.
    """

    cell: int
    body: dict[str, Any]
    prompts: list[PromptText]
    system: str = ""
    concurrency: int = 1
    requests: int | None = None
    duration: float | None = None
    arrival: str = "closed"
    rate: float | None = None
    schedule_seed: int = 0
    nonce_seed: str = ""
    share: int = 0
    shares: int = 1
    start_at_ns: int = 0
    warmup: bool = False
    include_usage: bool = True


class Stop(msgspec.Struct, tag=True):
    """End the running cell now: what is in flight is closed and counted as cancelled."""


class Ready(msgspec.Struct, tag=True):
    """The worker has imported what it needs; `clock_ns` is its clock then."""

    pid: int
    clock_ns: int


class Row(msgspec.Struct, kw_only=True):
    """A request in flight as the screen shows it. Milliseconds; `tail` is the end of its text."""

    index: int
    state: str
    wait_ms: float
    ttft_ms: float | None = None
    chunks: int = 0
    rate: float | None = None
    tail: str = ""


class Snapshot(msgspec.Struct, tag=True, kw_only=True):
    """The cell as it stands. `chunks` output chunks so far; `chunk_rate` over the last second."""

    cell: int
    at_ns: int
    sent: int
    finished: int
    in_flight: int
    chunks: int
    chunk_rate: float
    lag_p99_ms: float
    rows: list[Row]


class Finished(msgspec.Struct, tag=True, kw_only=True):
    """A request has ended in exactly one outcome."""

    cell: int
    trace: RequestTrace


class CellDone(msgspec.Struct, tag=True, kw_only=True):
    """The cell is over: every request it started has been reported.

    `end_ns`: the end of the stated duration, if there was one. `trouble`: why the cell could not be run at all.
    """

    cell: int
    fitness: ClientFitness
    requests: int
    duration_end_ns: int | None = None
    stopped: bool = False
    trouble: str = ""


class Crashed(msgspec.Struct, tag=True):
    """The worker met an error of its own; the traceback is in its log."""

    message: str


ToWorker = Connect | RunCell | Stop
FromWorker = Ready | Snapshot | Finished | CellDone | Crashed

encode = msgspec.json.Encoder().encode
decode_to_worker = msgspec.json.Decoder(ToWorker).decode
decode_from_worker = msgspec.json.Decoder(FromWorker).decode
