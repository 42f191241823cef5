"""A checked claim for people: plain text for a terminal, Markdown for a page. What others wrote is made harmless."""

from __future__ import annotations

import re
import textwrap

from workbench.domain.claim import ClaimReport, Step
from workbench.domain.claim_facts import BY_KEY, Hidden
from workbench.domain.text import one_line
from workbench.domain.wording import NAMES, times

LONGEST = 400


def claim_text(report: ClaimReport, width: int = 80) -> str:
    """The report as lines of at most `width` characters (commands are not broken: they are there to be copied)."""
    lines: list[str] = []

    def say(text: str, first: str = "", rest: str = "") -> None:
        lines.extend(
            textwrap.wrap(
                text,
                max(width, 20),
                initial_indent=first,
                subsequent_indent=rest,
                break_long_words=False,
                break_on_hyphens=False,
            )
            or [first.rstrip()]
        )

    def part(title: str) -> None:
        lines.extend(["", title])

    say(headline(report))
    say(report.sentence)
    if report.verdict:
        lines.append("")
        say(against(report))
        for kind, found in report.verdict.items():
            mark = "" if found.claimed else " (not what is claimed)"
            say(f"{NAMES[kind]}: {found.call}{mark}: {found.why or 'no figure'}", "  ", "    ")
    if report.given:
        part("Given")
        for key, value in report.given.items():
            say(f"{fact_name(key)}: {_clean(value)}", "  ", "    ")
    if report.missing:
        part(f"Missing ({len(report.missing)}), and what that could hide")
        for key in report.missing:
            said = "; ".join(hidden_words(item, report.claim.factor) for item in report.hidden[key])
            say(f"{fact_name(key)}: {said}", "  ", "    ")
    part("It could be")
    for kind, why in report.possible.items():
        say(f"{NAMES.get(kind, kind)}: {why}", "  ", "    ")
    if report.excluded:
        part("It can't be")
        for kind, why in report.excluded.items():
            say(f"{NAMES.get(kind, kind)}: {_clean(why)}", "  ", "    ")
    if report.questions:
        part("Ask its author")
        for number, question in enumerate(report.questions, start=1):
            say(question, f"  {number:>2}. ", "      ")
    part("Reproduce it")
    for step in report.reproduction:
        say(f"# {step.why}", "  ", "  # ")
        lines.append(f"  {_command(step)}")
    return "\n".join(lines)


def claim_markdown(report: ClaimReport) -> str:
    """The report as Markdown."""
    lines = [f"# {_escaped(headline(report))}", "", _escaped(report.sentence), ""]
    if report.verdict:
        lines += [f"## {_escaped(against(report))}", "", "| kind of speed | call | why |", "|---|---|---|"]
        for kind, found in report.verdict.items():
            mark = "" if found.claimed else " (not what is claimed)"
            lines.append(f"| {NAMES[kind]} | {found.call}{mark} | {_cell(found.why or 'no figure')} |")
        lines.append("")
    if report.given:
        lines += ["## Given", "", "| fact | as stated |", "|---|---|"]
        lines += [f"| {_cell(fact_name(key))} | {_cell(value)} |" for key, value in report.given.items()]
        lines.append("")
    if report.missing:
        lines += ["## Missing, and what that could hide", "", "| fact | could hide |", "|---|---|"]
        for key in report.missing:
            said = "; ".join(hidden_words(item, report.claim.factor) for item in report.hidden[key])
            lines.append(f"| {fact_name(key)} | {_cell(said)} |")
        lines.append("")
    lines += [
        "## It could be",
        "",
        *(f"- **{NAMES.get(k, k)}**: {_escaped(why)}" for k, why in report.possible.items()),
    ]
    if report.excluded:
        lines += ["", "## It can't be", ""]
        lines += [f"- **{NAMES.get(kind, kind)}**: {_escaped(why)}" for kind, why in report.excluded.items()]
    if report.questions:
        lines += ["", "## Questions to its author", ""]
        lines += [f"{number}. {_escaped(text)}" for number, text in enumerate(report.questions, start=1)]
    lines += ["", "## Reproduction", "", "```sh"]
    for step in report.reproduction:
        lines += [f"# {step.why}", _command(step)]
    return "\n".join([*lines, "```", ""])


def headline(report: ClaimReport) -> str:
    """The claim in one line: factor, metric, source."""
    claim = report.claim
    metric = "metric not stated" if claim.metric == "unknown" else NAMES.get(claim.metric, claim.metric)
    source = f", from {_clean(claim.source)}" if claim.source else ", source not stated"
    said = f': "{_clean(claim.text)}"' if claim.text else ""
    return f"Claim: {claim.factor:g}x faster ({metric}{source}){said}"


def against(report: ClaimReport) -> str:
    """The two sessions that the claim is held against, by name."""
    claim = report.claim
    names = f": {_clean(claim.baseline)} before, {_clean(claim.candidate)} after"
    return "Against the sessions" + (names if claim.baseline and claim.candidate else "")


def fact_name(key: str) -> str:
    """A fact's name for people; a key of the claim's own as it stands."""
    fact = BY_KEY.get(key)
    return fact.name if fact is not None else _clean(key)


def hidden_words(item: Hidden, factor: float) -> str:
    """What a missing fact could hide, with the size known for it, its source, and whether that alone would do."""
    text = item.what
    if item.size:
        text += f" ({item.size}; {item.source}"
        if item.times is not None and factor > 1:
            text += ": enough alone" if item.times >= factor else f": {times(item.times)} alone is not {factor:g}x"
        text += ")"
    return text


def _clean(text: str) -> str:
    return one_line(text, LONGEST)


def _command(step: Step) -> str:
    return one_line(step.command)


def _escaped(text: str) -> str:
    """Text that Markdown and HTML leave as it is."""
    safe = _clean(text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", safe)


def _cell(text: str) -> str:
    return _escaped(text)
