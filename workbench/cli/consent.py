"""Consent before anything is sent to a server outside this machine and private networks: it may cost money."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from workbench.cli.options import RunOptions
from workbench.cli.safely import complain
from workbench.domain.plan import Plan, cells
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.session.endpoint import NoServer
from workbench.session.settings import Settings, load_settings


def agree(options: RunOptions, plan: Plan, requests_of: Callable[[Plan], dict[str, int]]) -> bool:
    """Whether a public target was agreed to: by `--yes`, or by a typed yes after the totals were told.

    False as well when no consent is needed. Raises NoServer when it is needed and not given.
    """
    if options.yes:
        return True
    address = address_of(options, load_settings(), os.environ)
    if not address or not is_public(address):
        return False
    totals = totals_text(plan, requests_of(plan))
    question = (
        f"{one_line(host_of(address))} is neither this machine nor in a private network; {totals} would be sent there"
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NoServer(f"{question}: agree with --yes")
    complain(question)
    print("Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NoServer("not agreed to: nothing was sent")
    return True


def address_of(options: RunOptions, settings: Settings, environ: Mapping[str, str]) -> str:
    """The address that will be measured, as far as it is stated: typed, named in workbench.toml, or in the environment.

    "" for what is found by looking: that is on this machine.
    """
    if options.setting.base_url:
        return options.setting.base_url
    named = settings.targets.get(options.target) or settings.targets.get(options.setting.engine)
    if named is not None:
        return named.url
    if options.target or options.setting.engine:
        return ""
    return environ.get("OPENAI_BASE_URL", "").strip()


def host_of(address: str) -> str:
    """The host of an address. Raises BadInput when it has none."""
    from workbench.environment.network import host_and_port

    try:
        return host_and_port(address)[0]
    except ValueError as error:
        raise BadInput(str(error)) from None


def is_public(address: str) -> bool:
    """Whether the address is neither this machine nor in a private network; a name that can't be resolved is."""
    from workbench.environment.network import is_private, is_this_machine

    host = host_of(address)
    return not (is_this_machine(host) or is_private(host))


def totals_text(plan: Plan, requests_of: dict[str, int]) -> str:
    """How many requests and output tokens at most, warm-up included, and which prompts."""
    planned = cells(plan, requests_of)
    prompts = ", ".join(dict.fromkeys(name for cell in planned for name in cell.setting.prompt))
    if plan.duration is not None:
        each = f"up to {plan.baseline.max_tokens} output tokens each"
        return f"requests for {plan.duration * len(planned):g} s of prompt {prompts}, {each},"
    requests = sum(cell.requests + cell.warmup for cell in planned)
    tokens = sum((cell.requests + cell.warmup) * cell.setting.max_tokens for cell in planned)
    return f"{requests} requests of prompt {prompts} for up to {tokens} output tokens"
