"""Checks on what was sent and what came back: prompt, output length, warm-up, failures, cache, concurrency, streaming."""

from __future__ import annotations

from statistics import fmean, median

from workbench.domain.checks.identity import before_now, setting_words, shown
from workbench.domain.checks.result import SPEEDS, CheckResult, Findings
from workbench.domain.checks.side import Pair, Side, ok_column
from workbench.domain.record import CellTable
from workbench.domain.statistics import fisher_exact_p, modified_z
from workbench.domain.text import one_line

SHORT_PROMPT = 50
LENGTHS_APART = 0.05
CUT = 0.8
CHARACTERS_A_TOKEN = 12.0
HIT_SHARE = 0.05
RATES_APART = 0.05
OUTLIER = 3.5
LOG = "see the server's log"


def prompt(pair: Pair) -> CheckResult:
    """The same text on both sides, read in full by the server, long enough to measure more than the start-up."""
    found = Findings("prompt")
    if pair.b is not None and "prompt" in pair.differing and pair.flipped != "prompt":
        found.doubt(setting_words(pair, "prompt"), "use one prompt for both sides")
    for side in pair.sides:
        _prompt_cut(found, pair, side)
        counted = side.median("prompt_tokens")
        if counted is not None and counted < SHORT_PROMPT:
            found.doubt(
                f"the prompt has {counted:.0f} tokens{_with(pair, side)}: that measures start-up more than prefill",
                "use a prompt of the length you mean to serve",
            )
    counts = [side.median("prompt_tokens") for side in pair.sides]
    told = ", ".join(f"{count:.0f}" for count in counts if count is not None)
    return found.result(f"{told} prompt tokens" if told else "")


def _with(pair: Pair, side: Side) -> str:
    word = pair.word(side)
    return f" {word}" if word else ""


def _prompt_cut(found: Findings, pair: Pair, side: Side) -> None:
    for name in side.setting.prompt:
        known = side.prompts.get(name, {})
        counts = [
            tokens
            for cell in side.cells
            for tokens, sent in zip(ok_column(cell, "prompt_tokens"), ok_column(cell, "prompt"), strict=False)
            if tokens is not None and sent == name
        ]
        if not counts:
            continue
        used, tokens, characters = median(counts), known.get("tokens"), known.get("characters")
        if isinstance(tokens, (int, float)) and known.get("token_source") != "usage" and used < CUT * tokens:
            found.fail(
                f"prompt cut: {shown(name)} has {tokens:.0f} tokens, the server used {used:.0f}{_with(pair, side)}",
                "give the server a larger context, or use a shorter prompt",
            )
        elif isinstance(characters, int) and used > 0 and characters / used > CHARACTERS_A_TOKEN:
            found.doubt(
                f"{characters} characters became {used:.0f} prompt tokens{_with(pair, side)}: was the prompt cut?",
                "compare with the server's context window",
            )


def output_length(pair: Pair) -> CheckResult:
    """Replies of like length; where not, `request_time` is given at equal length and throughput is doubtful."""
    found = Findings("output-length")
    if pair.b is None:
        return found.result()
    a, b = pair.a.median("output_tokens"), pair.b.median("output_tokens")
    if a is None or b is None:
        found.doubt("the output length is not known on a side", "use a server that reports usage, or --tokenizer FILE")
    elif min(a, b) <= 0 or max(a, b) / min(a, b) - 1 > LENGTHS_APART:
        evidence = f"median output {a:.0f} tokens before, {b:.0f} now"
        if pair.follows("output"):
            return found.result(f"{evidence}: it follows from what was flipped; request time is given at equal length")
        found.doubt(
            f"{evidence}: request time is given at equal length, throughput is doubtful",
            "set --max-tokens below both, or --ignore-eos where the server honours it",
        )
    return found.result(f"median output {a:.0f} and {b:.0f} tokens" if a is not None and b is not None else "")


def warm_up(pair: Pair) -> CheckResult:
    """Warm-up done, and no first request that carries the load of a model."""
    found = Findings("warm-up")
    for side in pair.sides:
        first = side.cells[0] if side.cells else None
        if first is None:
            continue
        slow = _slow_first(first)
        if slow:
            found.doubt(f"the first measured request{_with(pair, side)} took {slow}", "warm up first: --warmup 3")
        if not side.tool and first.warmup < 1:
            found.doubt(f"no warm-up request was sent{_with(pair, side)}", "use --warmup 3")
        if side.evidence("model_load"):
            found.doubt(
                f"the server loaded a model during the run{_with(pair, side)}", "raise its keep-alive, run again"
            )
    return found.result("warmed up")


def _slow_first(cell: CellTable) -> str:
    """The first request's time against the rest's, when it is an outlier at least twice their median."""
    starts = list(ok_column(cell, "started_ms"))
    for name, words in (("total_ms", "in all"), ("ttft_ms", "to its first token")):
        values = list(ok_column(cell, name))
        known = [(start, value) for start, value in zip(starts, values, strict=False) if None not in (start, value)]
        if len(known) < 3:
            continue
        in_order = [value for _, value in sorted(known)]
        rest = median(in_order[1:])
        if in_order[0] > 2 * rest and modified_z(in_order)[0] > OUTLIER:
            return f"{in_order[0] / 1000:.3g} s {words}, the others {rest / 1000:.3g} s"
    return ""


def error_words(side: Side) -> str:
    """The failures' classes, most frequent first: "http_503 12, truncated 1"."""
    errors = sorted(side.errors.items(), key=lambda item: -item[1])
    return ", ".join(f"{shown(name)} {count}" for name, count in errors[:3])


def failure_words(pair: Pair, side: Side) -> str:
    """ "12 of 40 requests failed now (http_503 12)"."""
    errors = error_words(side)
    total = side.ok + side.failed
    return f"{side.failed} of {total} requests failed{_with(pair, side)}" + (f" ({errors})" if errors else "")


def log_words(side: Side) -> str:
    """What the server's log said meanwhile, where it was followed; else that it should be looked at."""
    for found in side.evidence("server_log"):
        if isinstance(found, dict) and found.get("says"):
            return f"the server's log says: {one_line(str(found['says']), 80)}"
    return LOG


def failures(pair: Pair) -> CheckResult:
    """Failures and empty replies; no winner is called on the survivors."""
    found = Findings("failures")
    for side in pair.sides:
        tried = side.ok + side.failed
        if not tried:
            if side.cells and not side.tool:
                found.fail(f"no request ended{_with(pair, side)}", log_words(side), SPEEDS)
            continue
        if side.ok / tried < 0.5:
            remedy = f"{log_words(side)}; mend that and run again: the times left are the survivors'"
            found.fail(failure_words(pair, side), remedy, SPEEDS)
        elif side.failed:
            found.doubt(failure_words(pair, side), log_words(side))
        if side.empty:
            found.doubt(
                f"{side.empty} of {side.ok} replies were empty{_with(pair, side)}", "look at the prompt and the model"
            )
    if pair.b is not None:
        a, b = pair.a, pair.b
        tried_a, tried_b = a.ok + a.failed, b.ok + b.failed
        if tried_a and tried_b and (a.failed or b.failed):
            apart = abs(a.ok / tried_a - b.ok / tried_b)
            # One failure in 20 is 5 points, not over: the difference of two floats would say otherwise.
            if round(apart, 9) > RATES_APART or fisher_exact_p(a.ok, a.failed, b.ok, b.failed) < 0.05:
                found.fail(
                    f"the sides fail at unlike rates: {a.failed} of {tried_a} before, {b.failed} of {tried_b} now",
                    "no winner is called on the survivors: mend the failures, then run again",
                    SPEEDS,
                )
    total = sum(side.ok for side in pair.sides)
    return found.result(f"{total} of {total} requests succeeded" if total else "")


def cached_share(cells: list[CellTable]) -> float | None:
    """The share of prompt tokens that came from the server's prefix cache; None when the server doesn't tell."""
    pairs = [
        (cached, tokens)
        for cell in cells
        for cached, tokens in zip(ok_column(cell, "cached_tokens"), ok_column(cell, "prompt_tokens"), strict=False)
        if cached is not None and tokens
    ]
    return sum(each[0] for each in pairs) / sum(each[1] for each in pairs) if pairs else None


CACHE_TAKES = ("ttft", "request_time", "throughput")
"""A cached prefill shortens the first token, the whole request, and the time the server needs for all of them."""


def cache(pair: Pair) -> CheckResult:
    """Prefix-cache hits: on neither side, or on both alike and on purpose."""
    found = Findings("cache")
    if pair.flipped == "cache":
        return found.result("cache was flipped")
    shares = [cached_share(side.cells) for side in pair.sides]
    known = [share for share in shares if share is not None]
    one_sided = len(known) == 2 and abs(known[0] - known[1]) > HIT_SHARE
    if one_sided:
        found.fail(
            f"{known[0]:.0%} of the prompt tokens came from the prefix cache before, {known[1]:.0%} now",
            "use --cache unique on both sides, or warm both alike",
            CACHE_TAKES,
        )
    for side, share in zip(pair.sides, shares, strict=True):
        rungs = [each for cell in side.cells if (each := cached_share([cell])) is not None]
        if rungs and max(rungs) - min(rungs) > HIT_SHARE:
            found.fail(
                f"cache hits are uneven{_with(pair, side)}: {min(rungs):.0%} to {max(rungs):.0%} of the prompt tokens",
                "use --cache unique, or reset the server's cache between rounds",
                CACHE_TAKES,
            )
        elif not one_sided and share is not None and share > HIT_SHARE and side.setting.cache == "unique":
            found.doubt(
                f"{share:.0%} of the prompt tokens came from the prefix cache{_with(pair, side)}",
                "is the system prompt long?",
            )
        if share is None:
            fall = _ttft_fall(side)
            if fall:
                found.doubt(
                    f"TTFT fell {fall:.1f}x after the first request of each prompt{_with(pair, side)}: a warm cache?",
                    "use --cache unique",
                )
    return found.result(f"cache hits {known[0]:.0%}" if known else "the server doesn't tell its cache hits")


def _ttft_fall(side: Side) -> float | None:
    """How many times slower the first request of each prompt was than the later ones, where the prompts repeat."""
    if side.setting.cache != "warm" and not side.tool:
        return None
    first: list[float] = []
    later: list[float] = []
    seen: set[str] = set()
    for cell in side.cells:
        for name, value in zip(ok_column(cell, "prompt"), ok_column(cell, "ttft_ms"), strict=False):
            if value is not None:
                (later if name in seen else first).append(value)
                seen.add(name)
    if not first or len(later) < 3:
        return None
    fall = fmean(first) / max(median(later), 1e-9)
    return fall if fall > 3 else None


def concurrency(pair: Pair) -> CheckResult:
    """As many in flight as asked for, no more than the server has slots, and nobody else's."""
    found = Findings("concurrency")
    for side in pair.sides:
        asked = side.setting.concurrency
        slots = side.fact("slots")
        for cell in side.cells:
            if side.tool or not cell.in_flight_peak or cell.in_flight_peak >= asked:
                continue
            few = " (fewer requests than that were sent)" if cell.requests < asked else ""
            found.doubt(
                f"{cell.in_flight_peak} in flight at most{_with(pair, side)}, {asked} asked for{few}",
                "send at least as many requests as the concurrency",
            )
            break
        if isinstance(slots, int) and not isinstance(slots, bool) and asked > slots > 0:
            found.doubt(
                f"{asked} at once on {slots} slots{_with(pair, side)}: the rest queues, and its wait is in TTFT",
                "give the server more slots, or read TTFT as queueing",
            )
        if any(isinstance(value, (int, float)) and value > 0 for value in side.evidence("others_running")):
            found.doubt(f"the server ran others' requests meanwhile{_with(pair, side)}", "measure when it is idle")
        left = side.evidence("left_over")
        if left:
            found.doubt(f"{shown(left[0])}", "wait until the server is idle")
    return found.result("in flight as asked for")


def streaming(pair: Pair) -> CheckResult:
    """Both sides streamed: a reply that comes whole has no first token to time."""
    found = Findings("streaming")
    if pair.b is None or pair.flipped == "stream":
        return found.result("stream was flipped" if pair.flipped == "stream" else "")
    streamed = [_streamed(side) for side in pair.sides]
    if streamed[0] != streamed[1] and None not in streamed:
        words = ["streamed" if one else "came whole" for one in streamed]
        found.fail(f"replies {before_now(*words)}", "stream on both sides, or on neither", ("ttft", "decode_rate"))
    return found.result("alike on both sides")


def _streamed(side: Side) -> bool | None:
    """Whether the side's replies were streamed; None when there are none to tell by."""
    if not side.setting.stream:
        return False
    whole = sum(cell.decode_absent.get("not streamed", 0) for cell in side.cells)
    return whole < side.ok if side.ok else None
