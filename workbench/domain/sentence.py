"""The verdict as a person would say it: what changed; then what did not, or why to doubt it. Pure."""

from __future__ import annotations

import msgspec

from workbench.domain.checks.identity import characters_a_token
from workbench.domain.checks.load import cached_share, failure_words, log_words
from workbench.domain.checks.result import SPEEDS, CheckResult
from workbench.domain.checks.side import Pair, Side
from workbench.domain.facts import DECLARED, FROM_THE_NAME
from workbench.domain.record import KindVerdict
from workbench.domain.statistics import FASTER, FEWEST_ROUNDS, NO_DIFFERENCE, NOT_COMPARABLE, SLOWER, UNDECIDED
from workbench.domain.text import one_line
from workbench.domain.variables import show_value, value_of
from workbench.domain.verdict import Basis, taken_away
from workbench.domain.wording import NAMES, before_now, ended, interval, listed, number, times

ASK_SCREEN = "press a for an A/B"
"""How a person at the screen gets more than one run a side."""
ASK_COMMAND = "run `workbench ab` to be sure"
"""How a person at a command line does."""

MOST = 2
"""Sentences before the closing remark."""

SINGLE = ("ttft", "request_time", "decode_rate")
"""The kinds that a single request feels."""

DOUBTS_SAID = (
    "cache",
    "warm-up",
    "model-identity",
    "precision",
    "one-variable",
    "hardware",
    "software",
    "prompt",
    "concurrency",
    "answers",
    "drift",
    "client",
    "tokenizer",
    "jitter",
)
"""Doubts that belong into the sentence, weightiest first; the others are listed below it."""


class Story(msgspec.Struct, kw_only=True):
    """What the sentence is made from. `at`: the concurrency at which throughput was judged, where it isn't plain.
    `so_far`: what still held on lower rungs when the last one failed."""

    pair: Pair
    kinds: dict[str, KindVerdict]
    checks: list[CheckResult]
    basis: Basis
    rounds: int
    ask: str = ASK_COMMAND
    at: int | None = None
    so_far: str = ""

    def call(self, kind: str) -> str:
        return self.kinds[kind].call if kind in self.kinds else NOT_COMPARABLE

    def check(self, name: str) -> CheckResult | None:
        return next((check for check in self.checks if check.name == name), None)

    def unit(self, kind: str) -> str:
        return self.basis.unit if kind in ("decode_rate", "throughput") else "tokens"


def sentence(story: Story) -> str:
    """At most two sentences and a closing remark."""
    lost = _nothing_comparable(story)
    if lost:
        return " ".join(part for part in (lost, story.so_far) if part)
    lost = _not_compared(story)
    if lost and taken_away(story.checks)[_lost_kinds(story)[0]].name == "cache":
        # What looks like speed and is the cache's doing comes first; other reasons are told after what can be said.
        parts, last = [lost, *_main(story)], ""
    else:
        parts, last = _main(story), lost
    parts = [part for part in parts if part][:MOST]
    failed = any(side.failed for side in story.pair.sides)
    text = " ".join(part for part in (*parts, last, "" if last and not failed else _closing(story)) if part)
    if story.rounds < FEWEST_ROUNDS and story.ask:
        runs = "one run each" if story.rounds < 2 else f"{story.rounds} runs each"
        ask = story.ask if story.rounds < 2 else f"an interval needs {FEWEST_ROUNDS} rounds a side"
        text = f"{text.removesuffix('.')}; {runs}: {ask}"
    return text


def _first(text: str) -> str:
    return text.split("; ")[0]


def _nothing_comparable(story: Story) -> str:
    """The one reason why there is no verdict at all; "" when something can be said."""
    if any(story.call(kind) != NOT_COMPARABLE for kind in SPEEDS):
        return ""
    taken = taken_away(story.checks)
    reason = next((taken[kind] for kind in SPEEDS if kind in taken), None)
    if reason is None:
        notes = list(dict.fromkeys(f"{NAMES[kind]} {story.kinds[kind].note}" for kind in SPEEDS if kind in story.kinds))
        return ended(f"Nothing can be compared: {listed(notes[:2])}" if notes else "Nothing can be compared")
    if reason.name == "failures":
        worst = max(story.pair.sides, key=lambda side: side.failed / max(side.ok + side.failed, 1))
        others = [side for side in story.pair.sides if side is not worst]
        beside = (
            f", {others[0].failed} of {others[0].ok + others[0].failed} {story.pair.word(others[0])}" if others else ""
        )
        return (
            f"No winner: {failure_words(story.pair, worst)}{beside}. The times left are the survivors': "
            f"{log_words(worst)}. Mend that, then run again."
        )
    lead = {"precision": "Can't be attributed", "one-variable": "Can't be attributed"}.get(reason.name, "No verdict")
    return f"{ended(f'{lead}: {_first(reason.evidence)}')} {ended(_first(reason.remedy))}".strip()


def _not_compared(story: Story) -> str:
    """Which kinds a failed check took away, and why, where others are left."""
    taken = taken_away(story.checks)
    lost = _lost_kinds(story)
    if not lost:
        return ""
    reason = taken[lost[0]]
    names = listed([NAMES[kind] for kind in lost if taken[kind] is reason])
    verb = "is" if sum(taken[kind] is reason for kind in lost) == 1 else "are"
    cause = "the cache did it, " if reason.name == "cache" else ""
    return ended(f"{names} {verb} not compared: {cause}{_first(reason.evidence)}")


def _lost_kinds(story: Story) -> list[str]:
    taken = taken_away(story.checks)
    return [kind for kind in SPEEDS if kind in taken]


def _main(story: Story) -> list[str]:
    """The headline and what goes against it."""
    if story.basis.unit == "characters":
        return [_tokens_differ(story), *_headlines(story)]
    if story.pair.flipped == "cache" and FASTER in (story.call("ttft"), story.call("request_time")):
        return _cache_did_it(story)
    if story.basis.at is not None:
        return _other_length(story)
    return _headlines(story)


def _tokens_differ(story: Story) -> str:
    a, b = characters_a_token(story.pair.a), characters_a_token(story.pair.b or story.pair.a)
    assert a is not None
    assert b is not None
    return f"Tokens don't compare, {a:.1f} characters each before, {b:.1f} now, so rates are in characters."


def _headlines(story: Story) -> list[str]:
    if story.call("throughput") == FASTER and not _faster(story, SINGLE) and _parallel(story):
        return [_changed(story, "throughput"), _single_not_faster(story)]
    changed = [kind for kind in _by_size(story) if story.call(kind) in (FASTER, SLOWER)]
    if not changed:
        return [_nothing_shown(story)]
    lead = changed[0]
    against = [kind for kind in changed[1:] if story.call(kind) != story.call(lead)]
    rest = against or changed[1:]
    if rest:
        return [_changed(story, lead), _changed(story, rest[0], short=True)]
    return [_changed(story, lead), _unchanged(story, [kind for kind in _spoken(story) if kind != lead])]


def _parallel(story: Story) -> bool:
    """Whether more than one request was in flight at once on a side, so that throughput is another thing than speed."""
    return max(story.at or 1, *(side.setting.concurrency for side in story.pair.sides)) > 1


def _faster(story: Story, kinds: tuple[str, ...]) -> list[str]:
    return [kind for kind in kinds if story.call(kind) == FASTER]


def _spoken(story: Story) -> list[str]:
    """The kinds worth a word: one at a time, throughput only repeats the request's time."""
    kinds = ["ttft", "decode_rate", "request_time", "throughput"]
    if not _parallel(story) and story.call("request_time") != NOT_COMPARABLE:
        kinds.remove("throughput")
    return [kind for kind in kinds if story.call(kind) != NOT_COMPARABLE]


def _by_size(story: Story) -> list[str]:
    """Spoken kinds, the largest change first; the whole request's time only where its parts say nothing."""

    def size(kind: str) -> float:
        ratio = story.kinds[kind].ratio or 1.0
        return -max(ratio, 1 / ratio)

    kinds = _spoken(story)
    parts = {story.call(kind) for kind in ("ttft", "decode_rate")} & {FASTER, SLOWER}
    if story.call("request_time") in parts:
        kinds.remove("request_time")
    if story.pair.flipped == "concurrency" and "throughput" in kinds:
        return ["throughput", *sorted((kind for kind in kinds if kind != "throughput"), key=size)]
    return sorted(kinds, key=size)


def _factor(kind: KindVerdict) -> tuple[float, float | None, float | None]:
    """How many times better, or worse, with its interval: always above 1."""
    ratio = kind.ratio or 1.0
    gain = ratio if kind.better == "higher" else 1 / ratio
    better = kind.call == FASTER or (kind.call != SLOWER and gain >= 1)
    turn = (kind.better == "higher") == better
    if kind.low is None or kind.high is None:
        return (ratio if turn else 1 / ratio), None, None
    return (ratio, kind.low, kind.high) if turn else (1 / ratio, 1 / kind.high, 1 / kind.low)


def _sure(story: Story, low: float | None, high: float | None) -> str:
    """The interval in words. From one run a side it covers the spread between requests only, and says so."""
    if low is None or high is None:
        return ""
    return f" ({'95% interval' if story.rounds > 1 else 'over these requests'} {interval(low, high)})"


def _figures(story: Story, kind: str) -> str:
    verdict = story.kinds[kind]
    if verdict.a is None or verdict.b is None:
        return ""
    return before_now(kind, verdict.a, verdict.b, story.unit(kind))


def _where(story: Story) -> str:
    """ " at 16 at once", where more than one request is in flight."""
    at = story.at or (story.pair.b or story.pair.a).setting.concurrency
    return f" at {at} at once" if at > 1 else ""


def _changed(story: Story, kind: str, short: bool = False) -> str:
    """One kind that was called, in a sentence."""
    verdict = story.kinds[kind]
    factor, low, high = _factor(verdict)
    worse = verdict.call == SLOWER
    sure = "" if short else _sure(story, low, high)
    if kind == "throughput":
        unit = story.unit(kind)
        if worse:
            ratio, low, high = verdict.ratio or 1.0, verdict.low, verdict.high
            return f"{times(ratio)} the {unit} per second{_where(story)}{'' if short else _sure(story, low, high)}."
        return f"{times(factor)} more {unit} per second{_where(story)}{sure}."
    name = {"decode_rate": "Decode", "request_time": _one_request(story)}.get(kind, NAMES[kind])
    text = f"{name} {times(factor)} {'slower' if worse else 'faster'}{sure}: {_figures(story, kind)}."
    return text[:1].upper() + text[1:]


def _one_request(story: Story) -> str:
    at = story.basis.at
    return "one request" if at is None else f"at {number(at)} {story.basis.unit} one request"


def _single_not_faster(story: Story) -> str:
    """What the single request felt while throughput rose."""
    told = [kind for kind in SINGLE if story.call(kind) != NOT_COMPARABLE]
    if not told:
        return "What a single request felt is not known."
    slower = [kind for kind in told if story.call(kind) == SLOWER]
    if slower:
        return f"A single request is slower: {_felt(slower[0])}{_figures(story, slower[0])}."
    still = [kind for kind in told if story.call(kind) == UNDECIDED]
    if still:
        return ended(f"Whether a single request is faster is open: {_still_open(story, still[0])}")
    return f"A single request is not faster: {_felt(told[0])}{_figures(story, told[0])}."


def _felt(kind: str) -> str:
    return "" if kind == "request_time" else f"{_named(kind)} "


def _named(kind: str) -> str:
    return {"request_time": "a whole request", "decode_rate": "decode"}.get(kind, NAMES[kind])


def _still_open(story: Story, kind: str) -> str:
    """An undecided kind, and what would decide it."""
    verdict = story.kinds[kind]
    factor, low, high = _factor(verdict)
    gain = (verdict.ratio or 1.0) if verdict.better == "higher" else 1 / (verdict.ratio or 1.0)
    needed = f", about {verdict.rounds_needed} rounds would tell" if verdict.rounds_needed else ""
    name = {"request_time": _one_request(story)}.get(kind, _named(kind))
    return f"{name} undecided, {times(factor)} {'faster' if gain >= 1 else 'slower'}{_sure(story, low, high)}{needed}"


def _unchanged(story: Story, kinds: list[str]) -> str:
    """What did not change, or is open, after a headline."""
    same = [kind for kind in kinds if story.call(kind) == NO_DIFFERENCE]
    if same:
        return f"No difference shown in {_plain(same[0])}: {_figures(story, same[0])}."
    still = [kind for kind in kinds if story.call(kind) == UNDECIDED]
    return ended(_still_open(story, still[0])) if still else ""


def _plain(kind: str) -> str:
    return {"request_time": "a whole request", "decode_rate": "the decode rate"}.get(kind, NAMES[kind])


def _nothing_shown(story: Story) -> str:
    kinds = _spoken(story)
    same = [kind for kind in kinds if story.call(kind) == NO_DIFFERENCE]
    still = [kind for kind in kinds if story.call(kind) == UNDECIDED]
    parts = []
    if same:
        said = [f"{_named(kind)} {_figures(story, kind)}" for kind in same[:2]]
        parts.append(f"No difference shown: {'; '.join(said)}.")
    if still:
        parts.append(ended(_still_open(story, still[0])))
    return " ".join(parts)


def _cache_did_it(story: Story) -> list[str]:
    share = cached_share((story.pair.b or story.pair.a).cells)
    other = cached_share(story.pair.a.cells)
    share = max(filter(None, (share, other)), default=None)
    hits = f" {share:.0%} of the prompt tokens came from it, so" if share else " So"
    kind = "ttft" if story.call("ttft") == FASTER else "request_time"
    body = _changed(story, kind).removesuffix(".")
    return [f"The cache did it: {body}.", f"{hits.strip()} it helps where prompts repeat, and nowhere else."]


def _other_length(story: Story) -> list[str]:
    """Replies of unlike length: whether the reply merely got shorter, or longer, or something else changed too."""
    basis = story.basis
    assert basis.length_a is not None
    assert basis.length_b is not None
    shorter = basis.length_b < basis.length_a
    lengths = f"{number(basis.length_a)} {basis.unit} before, {number(basis.length_b)} now"
    word = "shorter" if shorter else "longer"
    call = story.call("request_time")
    gained = [kind for kind in _by_size(story) if kind != "throughput" and story.call(kind) in (FASTER, SLOWER)]
    if gained:
        return [_changed(story, gained[0]), f"The reply also got {word}: {lengths}."]
    if call == NOT_COMPARABLE:
        return [f"The reply got {word}: {lengths}.", "Its time can't be compared."]
    if call == UNDECIDED:
        return [
            f"The reply got {word}: {lengths}.",
            ended(f"{_one_request(story)}: {_still_open(story, 'request_time')}"),
        ]
    same = f"{_one_request(story)} is no {'faster' if shorter else 'slower'}: {_figures(story, 'request_time')}."
    return [f"The reply merely got {word}: {lengths}.", same[:1].upper() + same[1:]]


def _closing(story: Story) -> str:
    """The remark at the end: failures, capacity, the weightiest doubt, or that one thing alone differs."""
    pair = story.pair
    failing = [side for side in pair.sides if side.failed]
    if failing:
        total = sum(side.ok + side.failed for side in pair.sides)
        return f"{sum(side.failed for side in failing)} of {number(total)} failed: {log_words(failing[0])}."
    if story.call("capacity") in (FASTER, SLOWER):
        return f"Within the limits: {_figures(story, 'capacity')}."
    for name in DOUBTS_SAID:
        check = story.check(name)
        if check is not None and check.result == "doubt":
            remedy = f"; {_first(check.remedy)}" if check.remedy else ""
            return ended(f"Doubt: {_first(check.evidence)}{remedy}")
    if any(check.result == "fail" for check in story.checks):
        return ""
    if pair.flipped == "model":
        if _verified(pair):
            return "The model itself changed: all else was verified equal."
        return "Only model differs, as far as declared facts go."
    if pair.flipped:
        return f"Only {pair.flipped} differs."
    return "The same setting was measured twice." if pair.rerun else ""


def _verified(pair: Pair) -> bool:
    """Whether what the precision rests on was read from the servers, not declared or taken from a name."""
    for side in pair.sides:
        sources = side.server.get("source")
        for name in ("quant", "kv_cache_type", "compute_type"):
            if isinstance(sources, dict) and sources.get(name) in (DECLARED, FROM_THE_NAME):
                return False
    return True


def side_label(pair: Pair, side: Side) -> str:
    """ "concurrency 16": a side by the flipped variable; "" when nothing was flipped."""
    if not pair.flipped:
        return ""
    if pair.flipped in ("system", "body", "ignore_eos"):
        return f"{pair.flipped} ({'before' if side is pair.a else 'now'})"
    return f"{pair.flipped} {one_line(show_value(value_of(side.setting, pair.flipped)), 60)}"
