"""What the figures on the screen are, with their formulas: the answer to `?` on a pane."""

from __future__ import annotations

TOPICS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "variables": (
        "The variables",
        (
            ("rule", "One may differ from the pinned baseline. Everything else is held still, or nothing can be said."),
            ("baseline", "The first finished run. Its value stands before the arrow, the current one after it."),
            ("engine", "The server or target measured. Its address is not a variable."),
            ("quant", "The weights' quantization of the same model."),
            ("max_tokens", "The most tokens a reply may have; always sent, or replies would not be comparable."),
            ("concurrency", "Requests in flight at once; a new one starts when one ends (closed loop)."),
            ("cache", "unique: every prompt starts with its own prefix, so no cached prefix helps. warm: as it is."),
            ("stream", "off: one answer at the end; then there is no TTFT and no decode rate to measure."),
        ),
    ),
    "ttft_ms": (
        "Time to first token",
        (
            (
                "TTFT",
                "From the moment the request's last byte was handed to the socket, to the first chunk that carries "
                "generated output of any kind. A role-only or empty chunk is not output. Milliseconds.",
            ),
            ("p50", "The median over ok requests; while running, those still streaming count with theirs."),
            (
                "p95",
                "Rank (n-1) x 0.95, interpolated. From fewer than 20 requests the maximum is shown, as that is what "
                "it would be.",
            ),
            (
                "chart",
                "One dot a request at the time its first token was seen; a cross on the axis is a failed request.",
            ),
            ("base", "The baseline's median."),
        ),
    ),
    "throughput": (
        "Token rates",
        (
            (
                "each",
                "Decode rate of a stream: (output tokens - tokens of the first arrival) / (last arrival - first "
                "arrival). While running: tokens of the last second / streams in flight.",
            ),
            (
                "all",
                "Output tokens of all requests a second: of the window in which as many were in flight as asked for, "
                "where it holds half the tokens, else from the first send to the last output. While running: of the "
                "last second. This is what the chart draws.",
            ),
            ("note", "More at once can raise `all` while a single request is no faster: the two are judged apart."),
        ),
    ),
    "memory": (
        "Memory",
        (
            (
                "used, total",
                "As the GPU's driver tells for the whole device; GiB. Without a GPU the system's, named so.",
            ),
            ("peak", "The highest reading since the session began; read several times a second."),
            ("KV cache", "The share of the server's KV cache in use, where the server tells."),
            ("ours only", "No process but the server's and ours holds memory there; else what others hold."),
            (
                "flat line",
                "Some servers reserve a pool at their start: device memory then says nothing about the load.",
            ),
        ),
    ),
    "requests": (
        "The requests",
        (
            ("waiting", "Sent, nothing generated yet: the wait so far grows in the TTFT column."),
            ("stream", "Tokens are arriving; tok counts output chunks until the server has told the tokens."),
            ("ok", "Ended as it should; its finish reason comes before the text."),
            ("FAILED", "Counted in every success rate, never in a latency. Enter shows what the server said."),
            ("cancelled", "Still running when the run was stopped: neither ok nor failed."),
            ("warm-up", "Sent before measuring, in no figure."),
            ("tok/s", "Decode rate: (tokens - those of the first arrival) / (last - first arrival)."),
        ),
    ),
    "cells": (
        "Cells: a ladder, a sweep, an A/B",
        (
            ("cell", "One setting in one round."),
            ("tail", "p95 of TTFT, or the maximum from fewer than 20 requests."),
            ("ratio", "B / A of the round figures. For TTFT and request time below 1 is better, for rates above 1."),
            ("95 %", "The interval of the ratio over the rounds, paired by their order; it narrows as rounds come in."),
            ("rounds", "A and B in turns (ABBA), so that a drift of the machine falls on both sides."),
        ),
    ),
    "verdict": (
        "The verdict",
        (
            ("faster, slower", "The whole interval is on one side of 1 and the ratio is beyond the threshold (5 %)."),
            ("no difference shown", "The interval lies close around 1."),
            ("undecided", "Neither: more rounds are needed; where it can be told, how many."),
            ("not comparable", "A check failed: the two sides differ in more than what was flipped."),
            ("one run each", "A bootstrap over requests with a threshold of 20 %. For more, press a: an A/B."),
            ("kinds", "TTFT, request time, decode rate, throughput and capacity are judged apart."),
        ),
    ),
}
