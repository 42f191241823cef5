"""A claimed speed-up checked: what is given, what is missing, what it could be, what to ask, how to reproduce it. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

import msgspec

from workbench.domain.checks.result import KINDS
from workbench.domain.claim_facts import BY_KEY, FACTS, Hidden
from workbench.domain.claim_verdict import KindOfClaim, judge_claim, summary
from workbench.domain.compare import Comparison
from workbench.domain.variables import BadInput

CONDITIONS = "other conditions"
"""Not a kind of speed: a shorter reply, another prompt, a smaller model. The claim's factor may be just that."""

METRICS: dict[str, tuple[str, ...]] = {
    **{kind: (kind,) for kind in KINDS},
    "unknown": KINDS,
    "": KINDS,
    "speed": KINDS,
    "latency": ("ttft", "request_time"),
    "first_token": ("ttft",),
    "time_to_first_token": ("ttft",),
    "total_time": ("request_time",),
    "response_time": ("request_time",),
    "e2e": ("request_time",),
    "tokens/s": ("decode_rate", "throughput"),
    "tokens_per_second": ("decode_rate", "throughput"),
    "tps": ("decode_rate", "throughput"),
    "requests/s": ("throughput",),
    "requests_per_second": ("throughput",),
    "qps": ("throughput",),
    "tpot": ("decode_rate",),
    "concurrent_users": ("capacity",),
}
"""A metric as claims name it -> the kinds of speed it can mean."""

WHY_POSSIBLE = {
    "ttft": "the first token may come sooner: a faster prefill, less queueing, or a cached prompt",
    "request_time": "a whole request may end sooner, at equal output length",
    "decode_rate": "tokens may follow each other faster within one reply",
    "throughput": "the service may produce more in all by serving requests together, with no single one faster",
    "capacity": "it may bear more requests at once within the same limits",
    CONDITIONS: "a shorter reply, another prompt, a smaller or coarser model: the conditions changed, not the speed",
}


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim as it was read. `given`: the conditions it states. `baseline`, `candidate`: sessions to hold it against."""

    factor: float
    metric: str = "unknown"
    source: str = ""
    given: dict[str, str] = {}
    text: str = ""
    baseline: str = ""
    candidate: str = ""


class Step(msgspec.Struct, frozen=True):
    """One command of the reproduction plan, and what it is for."""

    command: str
    why: str


class ClaimReport(msgspec.Struct, kw_only=True):
    """What can be said of a claim. `given` by the facts' keys (others under their own); `missing` keys in order;
    `possible` kind -> why; `excluded` kind -> why not; `hidden` missing key -> what it could hide."""

    claim: Claim
    given: dict[str, str]
    missing: list[str]
    possible: dict[str, str]
    excluded: dict[str, str]
    hidden: dict[str, tuple[Hidden, ...]]
    questions: list[str]
    reproduction: list[Step]
    verdict: dict[str, KindOfClaim]
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """The form of `claim --json`."""
        return {
            "claim": msgspec.to_builtins(self.claim),
            "given": self.given,
            "missing": self.missing,
            "possible_kinds": list(self.possible),
            "why": self.possible,
            "excluded_kinds": self.excluded,
            "could_hide": {
                key: [{**msgspec.to_builtins(item), "enough_alone": _enough(item, self.claim.factor)} for item in items]
                for key, items in self.hidden.items()
            },
            "questions": self.questions,
            "reproduction": [step.command for step in self.reproduction],
            "reproduction_why": [step.why for step in self.reproduction],
            "verdict": {kind: msgspec.to_builtins(found) for kind, found in self.verdict.items()},
            "sentence": self.sentence,
        }


def _enough(item: Hidden, factor: float) -> bool | None:
    return None if item.times is None else item.times >= factor


def parse_factor(text: str) -> float:
    """The factor of "14", "14x", "14 times", "14倍" or "1400%" (of the old speed). Raises BadInput."""
    match = re.fullmatch(r"\s*(\d+(?:[.,]\d+)?)\s*(x|×|times|倍|%)?\s*", text, re.IGNORECASE)
    value = float(match.group(1).replace(",", ".")) if match else 0.0
    if match and match.group(2) == "%":
        value /= 100
    if not 0 < value < 1e6:
        raise BadInput(f"--factor {text!r}: write how many times faster, like 14 or 1.5x")
    return value


def parse_given(items: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` items as a table. Raises BadInput."""
    table: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise BadInput(f"--given {item!r}: write KEY=VALUE, like --given gpu='A100 80G'")
        table[key.strip()] = value.strip()
    return table


def make_claim(
    factor: float,
    metric: str = "unknown",
    source: str = "",
    given: dict[str, str] | None = None,
    text: str = "",
    baseline: str = "",
    candidate: str = "",
) -> Claim:
    """A claim with its metric in one spelling. Raises BadInput for a metric that means nothing here."""
    spelled = re.sub(r"[\s-]+", "_", metric.strip().casefold())
    if spelled not in METRICS:
        raise BadInput(f"--metric {metric!r}: it is unknown, or one of {', '.join(name for name in METRICS if name)}")
    return Claim(
        factor=factor,
        metric=spelled or "unknown",
        source=source,
        given=given or {},
        text=text,
        baseline=baseline,
        candidate=candidate,
    )


def claim_from_toml(table: dict[str, Any]) -> Claim:
    """A claim from a parsed TOML file: factor, metric, source, text, baseline, candidate, and a table `given`, at the top
    or under `[claim]`. Raises BadInput."""
    inner = table.get("claim", table)
    if not isinstance(inner, dict):
        raise BadInput("claim: it must be a table with factor, metric, source, given")
    known = ("factor", "metric", "source", "text", "given", "baseline", "candidate")
    unknown = sorted(set(inner) - set(known))
    if unknown:
        raise BadInput(f"claim: no such key: {unknown[0]!r}; it is one of {', '.join(known)}")
    factor = inner.get("factor")
    if factor is None:
        raise BadInput("claim: factor is missing: how many times faster it is said to be")
    given = inner.get("given", {})
    if not isinstance(given, dict):
        raise BadInput("claim: given must be a table, like [given] gpu = 'A100 80G'")
    texts = {name: inner.get(name, "") for name in ("metric", "source", "text", "baseline", "candidate")}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise BadInput(f"claim: {name} must be a text")
    return make_claim(parse_factor(str(factor)), given={str(key): str(value) for key, value in given.items()}, **texts)


def check_claim(claim: Claim, comparison: Comparison | None = None) -> ClaimReport:
    """Everything that can be said of a claim; with a comparison of two sessions also whether they bear it out."""
    given: dict[str, str] = {}
    for key, value in claim.given.items():
        fact = BY_KEY.get(re.sub(r"[\s-]+", "_", key.strip().casefold()))
        name = fact.key if fact else key
        given[name] = f"{given[name]}; {value}" if name in given else value
    missing = [fact.key for fact in FACTS if fact.key not in given]
    possible, excluded = _kinds(claim, given)
    stated = METRICS[claim.metric]
    verdict = judge_claim(claim.factor, stated, comparison) if comparison is not None else {}
    return ClaimReport(
        claim=claim,
        given=given,
        missing=missing,
        possible=possible,
        excluded=excluded,
        hidden={fact.key: fact.hides for fact in FACTS if fact.key in missing},
        questions=_questions(claim, missing),
        reproduction=_reproduction(claim, given, list(possible)),
        verdict=verdict,
        sentence=summary(claim.factor, stated, len(missing), len(FACTS), list(possible), verdict),
    )


def _kinds(claim: Claim, given: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Which kinds of speed-up the claim can be, and which it can't, by what it states."""
    possible: dict[str, str] = {}
    excluded: dict[str, str] = {}
    stated = METRICS[claim.metric]
    alone = _number(given.get("concurrency", "")) == 1
    whole = given.get("streaming", "").strip().casefold() in ("no", "off", "false", "none")
    for kind in KINDS:
        if kind not in stated:
            excluded[kind] = f"the claim names {claim.metric}"
        elif alone and kind in ("throughput", "capacity"):
            excluded[kind] = "measured at a concurrency of 1: there it is only the single request's speed again"
        elif whole and kind in ("ttft", "decode_rate"):
            excluded[kind] = "replies were not streamed, so no first token and no decode rate was seen"
        else:
            possible[kind] = WHY_POSSIBLE[kind]
    silent = [name for name in ("output_tokens", "prompt_tokens", "precision", "model") if name not in given]
    if silent:
        names = ", ".join(BY_KEY[name].name for name in silent)
        possible[CONDITIONS] = f"{WHY_POSSIBLE[CONDITIONS]} (not stated: {names})"
    else:
        excluded[CONDITIONS] = "model, precision, prompt and output length are stated"
    return possible, excluded


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text.strip()) else None


def _questions(claim: Claim, missing: list[str]) -> list[str]:
    questions = []
    if len(METRICS[claim.metric]) > 1:
        questions.append(
            f"What became {claim.factor:g}x: the time to the first token, one request's time, one reply's tokens per "
            "second, the whole service's tokens per second, or how many requests it bears?"
        )
    if not claim.source:
        questions.append("Where was it first published? A repost loses the conditions.")
    return questions + [BY_KEY[key].question for key in missing]


_CHANGE = re.compile(r"^(.+?)\s*(?:->|→|=>|\bto\b|\bvs\.?\b)\s*(.+)$", re.IGNORECASE)
_VARIABLES = {"engine": "engine", "model": "model", "precision": "quant"}


def _flip(given: dict[str, str]) -> tuple[str, str, str]:
    """(variable, old, new) of the claim: from a given like "engine = vLLM 0.6 -> 0.7", else placeholders."""
    for key, variable in _VARIABLES.items():
        match = _CHANGE.match(given.get(key, ""))
        if match:
            old, new = (part.strip().replace(",", " ") for part in match.groups())
            return variable, old, new
    return "engine", "OLD", "NEW"


def _reproduction(claim: Claim, given: dict[str, str], possible: list[str]) -> list[Step]:
    """The commands that would show whether the claim's direction holds, single request first."""
    variable, old, new = _flip(given)
    prompt_tokens = _number(given.get("prompt_tokens", ""))
    prompt = "short" if prompt_tokens is not None and prompt_tokens < 500 else "document"
    max_tokens = _number(given.get("output_tokens", "")) or 512
    held = f"--prompt {prompt} --max-tokens {max_tokens} --temperature 0"
    flip = shlex.quote(f"{variable}={old},{new}")
    option = {"engine": "--engine", "model": "--model", "quant": "--quant"}[variable]
    sides = [f"{option} {shlex.quote(value)}" for value in (old, new)]
    steps = [
        Step(
            f"workbench ab --vary {flip} --concurrency 1 {held} --warmup 3 --rounds 6",
            "one request at a time, in turns: does a single request get faster?"
            + (" (the two sides are targets of workbench.toml)" if variable == "engine" else ""),
        )
    ]
    if {"throughput", "capacity"} & set(possible):
        top = _number(given.get("concurrency", ""))
        rungs = "1,4,8,16,32" if top is None or top in (1, 4, 8, 16, 32) else f"1,4,8,16,32,{top}"
        steps += [
            Step(f"workbench run {side} --concurrency {rungs} {held} --rounds 3 --name claim-{name}", why)
            for side, name, why in zip(
                sides, ("old", "new"), ("the old side over a ladder", "the new side over the same ladder"), strict=True
            )
        ]
        steps.append(
            Step("workbench compare claim-old claim-new", "single-request speed, throughput and capacity, apart")
        )
        steps.append(
            Step(
                f"workbench claim --factor {claim.factor:g} --metric {claim.metric} "
                "--baseline claim-old --candidate claim-new",
                "the claim against both ladders",
            )
        )
    steps.append(
        Step(
            f"workbench ab --vary cache=unique,warm {sides[1]} --concurrency 1 {held}",
            "how much a warm prefix cache alone would give",
        )
    )
    if variable != "model":
        steps.append(
            Step(
                f"workbench ab --vary {flip} --model SMALLER --concurrency 1 {held} --rounds 6",
                "without the claim's hardware: a smaller model of the same family, to see whether the direction holds",
            )
        )
    return steps
