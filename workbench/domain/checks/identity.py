"""Checks on what is compared: one variable, the model, its precision, its tokenizer, the sampling."""

from __future__ import annotations

from typing import Any

from workbench.domain.checks.result import CheckResult, Findings
from workbench.domain.checks.side import Pair, Side, quant_key, same_quant
from workbench.domain.text import one_line
from workbench.domain.variables import show_value, value_of

ONE_SERVER = "one server for both sides"
SAMPLING = ("temperature", "seed", "stop", "max_tokens", "ignore_eos")
TOKENS_ALIKE = 0.01
TOKENS_APART = 0.05
TEMPLATE_TOKENS = 24
PARAMETERS_APART = 0.02


def shown(value: Any) -> str:
    """A fact of a server or a record in one short, harmless line."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return one_line(" ".join(str(item) for item in value), 60)
    return one_line(str(value), 40)


def before_now(a: Any, b: Any) -> str:
    """ "X before, Y now", with "unknown" for what is absent."""
    return f"{'unknown' if a is None else shown(a)} before, {'unknown' if b is None else shown(b)} now"


def setting_words(pair: Pair, name: str) -> str:
    """One variable of both sides in words."""
    b = pair.b or pair.a
    if name in ("system", "body", "ignore_eos"):
        return name
    values = [one_line(show_value(value_of(side.setting, name)), 40) for side in (pair.a, b)]
    return f"{name} ({values[0]} before, {values[1]} now)"


def one_variable(pair: Pair) -> CheckResult:
    """Exactly one controlled variable differs; none may when the same setting was measured again on purpose."""
    found = Findings("one-variable")
    b = pair.b
    if b is None:
        return found.result()
    if len(pair.differing) > 1:
        what = ", ".join(setting_words(pair, name) for name in pair.differing)
        found.fail(
            f"{len(pair.differing)} variables differ: {what}",
            "undo all but one, or make the current setting the baseline",
        )
    elif not pair.differing and not pair.rerun:
        found.doubt(
            "no variable differs, and the plans do: nothing was flipped", "compare runs that differ in one variable"
        )
    unstated = sorted(name for name in SAMPLING[:1] + SAMPLING[3:4] if name not in pair.a.known & b.known)
    if unstated:
        tool = pair.a.tool or b.tool
        found.doubt(f"{' and '.join(unstated)} not stated by {shown(tool)}", "look them up in the command that was run")
    same = "the same setting twice" if not pair.differing else f"only {pair.flipped} differs"
    return found.result(same)


def model_identity(pair: Pair) -> CheckResult:
    """The same weights on both sides, by digest; a behaviour fingerprint can support that and never refute it."""
    found = Findings("model-identity")
    if pair.b is None or pair.one_server:
        return found.result(ONE_SERVER if pair.b is not None else "")
    if "model" in pair.differing:
        return found.result("the model was flipped")
    a, b = _digests(pair)
    counts = pair.facts("parameters")
    if _apart(*counts) > PARAMETERS_APART:
        found.fail(f"the number of parameters differs: {before_now(*counts)}", "serve the same model on both sides")
        return found.result()
    if a is not None and a == b:
        return found.result("the weights' digest is the same")
    first, second = pair.facts("fingerprint")
    if first is not None and first == second:
        return found.result("the same reply to a fixed prompt at temperature 0: very likely the same weights")
    if pair.follows("digest"):
        if None not in counts or pair.flipped == "quant":
            return found.result(f"the same model by its {'size' if None not in counts else 'name'}")
    elif a is not None and b is not None:
        found.fail(
            f"the weights' digest differs though neither model, quant nor engine was flipped: {before_now(a, b)}",
            "pull the same weights on both sides, or compare them as two models",
        )
        return found.result()
    if first is not None and second is not None:
        found.doubt("the replies to a fixed prompt at temperature 0 differ, which proves nothing alone")
    found.doubt(
        "that both sides serve the same weights is not verified",
        "compare the hash of the weights files, or name it: --declare digest=...",
    )
    return found.result()


def _digests(pair: Pair) -> tuple[Any, Any]:
    for name in ("weights_digest", "digest"):
        a, b = pair.facts(name)
        if a is not None and b is not None:
            return a, b
    return pair.facts("digest")


def _apart(a: Any, b: Any) -> float:
    """How far two counts are apart, as a share of the smaller; 0 for what is no number."""
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)) or min(a, b) <= 0:
        return 0.0
    return max(a, b) / min(a, b) - 1


def precision(pair: Pair) -> CheckResult:
    """Quantization, weight format, KV-cache type and compute type: an engine's gain may be the quantization's."""
    found = Findings("precision")
    if pair.b is None or pair.one_server:
        return found.result(ONE_SERVER if pair.b is not None else "")
    quants = tuple(side.setting.quant or None for side in (pair.a, pair.b))
    unknown = []
    if pair.flipped != "quant":
        _one_precision(found, pair, "quantization", *quants)
        if not all(quants):
            unknown.append("quantization")
        if not pair.follows("format"):
            a, b = pair.facts("format")
            if a is not None and b is not None and str(a).casefold() != str(b).casefold():
                found.fail(f"the weight format changed: {before_now(a, b)}", "serve the same file on both sides")
    for name, words in (("kv_cache_type", "KV-cache type"), ("compute_type", "compute type")):
        a, b = pair.facts(name)
        if a is not None and b is not None and pair.flipped == "quant":
            if not same_quant(a, b):
                found.doubt(f"the {words} differs too: {before_now(a, b)}", "start both sides with the same one")
            continue
        _one_precision(found, pair, words, a, b)
        if not (quant_key(a or "") and quant_key(b or "")):
            unknown.append(words)
    if unknown:
        found.doubt(f"{', '.join(unknown)} unknown on a side", "name it with --declare, see `workbench doctor`")
    return found.result("quant was flipped" if pair.flipped == "quant" else "the same precision on both sides")


def _one_precision(found: Findings, pair: Pair, words: str, a: Any, b: Any) -> None:
    first, second = quant_key(a or ""), quant_key(b or "")
    if not first or not second or first == second:
        return
    if {first, second} == {"f16", "bf16"}:
        found.doubt(
            f"the {words} differs in kind, not in width: {before_now(a, b)}", "use one of the two on both sides"
        )
        return
    cause = f"with the {pair.flipped}" if pair.flipped else "as well"
    if not pair.flipped and "engine" in pair.differing:
        cause = "with the engine"
    gain = "an engine's gain may be the quantization's: " if "engine" in pair.differing else ""
    found.fail(
        f"the {words} changed {cause}: {before_now(a, b)}",
        f"{gain}run both sides on one {words}",
    )


def tokenizers_differ(pair: Pair) -> bool | None:
    """Whether one text becomes different numbers of tokens on the two sides; None when that can't be told.

    By the counts of the fixed probe texts or the tokenizer file's hash where both sides have them; else by what the
    servers counted for the same prompt texts: equal counts speak for one tokenizer, a chat template shifts them by a few
    tokens, another tokenizer by a share.
    """
    if pair.b is None or pair.one_server:
        return False
    for name in ("tokenizer_probe", "tokenizer_sha256"):
        a, b = pair.facts(name)
        if a is not None and b is not None:
            return bool(a != b)
    a, b = _prompt_tokens(pair.a), _prompt_tokens(pair.b)
    if "prompt" in pair.differing or "system" in pair.differing or a is None or b is None:
        return None
    if _apart(a, b) <= TOKENS_ALIKE:
        return False
    return True if _apart(a, b) > TOKENS_APART and abs(a - b) > TEMPLATE_TOKENS else None


def _prompt_tokens(side: Side) -> float | None:
    return side.median("prompt_tokens")


def tokenizer(pair: Pair) -> CheckResult:
    """One text, one number of tokens; where not, rates are judged on characters."""
    found = Findings("tokenizer")
    if pair.b is None or pair.one_server:
        return found.result(ONE_SERVER if pair.b is not None else "")
    differ = tokenizers_differ(pair)
    words = _characters_a_token(pair)
    if differ:
        evidence = f"the same text becomes different numbers of tokens{words}: rates are judged on characters"
        if pair.follows("tokenizer"):
            return found.result(evidence)
        found.doubt(evidence, "read characters/s beside tokens/s")
    elif differ is None:
        found.doubt(f"whether both sides split text alike is not known{words}", "compare characters/s beside tokens/s")
    return found.result("the same texts have the same counts on both sides")


def characters_a_token(side: Side) -> float | None:
    """Characters of output a token, over the side's ok requests that have both."""
    pairs = [
        (characters, tokens)
        for cell in side.cells
        for characters, tokens, outcome in zip(
            cell.per_request.get("characters", []),
            cell.per_request.get("output_tokens", []),
            cell.per_request.get("outcome", []),
            strict=False,
        )
        if characters and tokens and outcome == "ok"
    ]
    return sum(each[0] for each in pairs) / sum(each[1] for each in pairs) if pairs else None


def _characters_a_token(pair: Pair) -> str:
    a, b = characters_a_token(pair.a), characters_a_token(pair.b or pair.a)
    return "" if a is None or b is None else f" ({a:.2f} characters a token before, {b:.2f} now)"


def sampling(pair: Pair) -> CheckResult:
    """Temperature, seed, stop words and max_tokens as set; a difference that wasn't the flip spoils the comparison."""
    found = Findings("sampling")
    if pair.b is None:
        return found.result()
    for name in SAMPLING:
        if name in pair.differing and name != pair.flipped:
            found.fail(setting_words(pair, name), f"set {name} alike on both sides")
    return found.result(f"{pair.flipped} was flipped" if pair.flipped in SAMPLING else "set alike on both sides")
