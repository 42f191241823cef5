"""A session's plan again, from its record alone. Options change what they name; the rest is as it was."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from workbench.cli.measuring import Order, measure
from workbench.cli.options import RunOptions, add_run_options, run_options, sessions_folder
from workbench.domain.plan import Plan, interleaved, plan_from_table
from workbench.domain.record import Record
from workbench.domain.variables import BadInput, Setting
from workbench.records.listing import find
from workbench.records.store import load
from workbench.session.options import BUILT_IN, SIMULATED
from workbench.session.settings import load_settings

SETTING_NAMES = (
    "model",
    "quant",
    "prompt",
    "max_tokens",
    "temperature",
    "seed",
    "stop",
    "system",
    "body",
    "ignore_eos",
    "cache",
    "concurrency",
)
PLAN_NAMES = ("warmup", "requests", "rounds", "duration", "rate", "arrival", "workers", "budget")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help='a file, an id, a name, part of a file name, or "last"')
    add_run_options(parser)


def execute(namespace: argparse.Namespace) -> int:
    """Measure again. Raises BadInput, NoServer, SaveTrouble."""
    record = load(find(sessions_folder(namespace.sessions) or Path(), namespace.session))
    return measure(order_again(record, run_options(namespace)))


def order_again(record: Record, options: RunOptions) -> Order:
    """What to measure so that a record is measured again, with the options that were typed. Raises BadInput."""
    if options.varied:
        raise BadInput("a re-run varies what the record varied: to vary something else use `workbench run`")
    plan = plan_again(record, options)
    arms = requests_again(record, options)
    prompts = record.plan.get("prompts", [])
    restored = {str(item["name"]): item for item in prompts if isinstance(item, dict) and "name" in item}
    return Order(
        options=with_target(record, plan, options),
        plan=lambda setting: on_target(plan, setting),
        requests_of=lambda _: arms,
        # The very text that was sent then, unless another prompt was typed.
        restored=None if "prompt" in options.given else restored,
    )


def plan_again(record: Record, options: RunOptions) -> Plan:
    """The record's plan with the options that were typed. Raises BadInput when the record's plan can't be read."""
    plan = plan_from_table(record.plan)
    if plan.varied and plan.varied in options.given:
        raise BadInput(f"the record varied {plan.varied}: it can't be set to one value here; use `workbench run`")
    changed: dict[str, Any] = {name: getattr(options.setting, name) for name in SETTING_NAMES if name in options.given}
    if "no_stream" in options.given:
        changed["stream"] = False
    settled = msgspec.structs.replace(plan.baseline, **changed)
    again = {name: getattr(options, name) for name in PLAN_NAMES if name in options.given}
    if "rounds" in again:
        # The order is told by the rounds; a longer or shorter one is made anew in the record's own manner.
        again["order"] = _order(plan, again["rounds"])
    if "requests" in options.given:
        again["duration"] = None
    if "rate" in options.given and "arrival" not in again:
        again["arrival"] = options.arrival
    if options.limits:
        again["limits"] = {**plan.limits, **options.limits}
    if any(name in options.given for name in ("timeout_connect", "timeout_first_byte", "timeout_idle")):
        again["timeouts"] = msgspec.structs.replace(
            plan.timeouts,
            **{
                name: getattr(options.timeouts, name)
                for name in ("connect", "first_byte", "idle")
                if f"timeout_{name}" in options.given
            },
        )
    return msgspec.structs.replace(plan, baseline=settled, **again)


def _order(plan: Plan, rounds: int) -> tuple[str, ...]:
    arms = max(len(plan.values), 1)
    counterbalanced = plan.order != interleaved(arms, plan.rounds, plan.seed, counterbalance=False)
    return interleaved(arms, rounds, plan.seed, counterbalanced)


def requests_again(record: Record, options: RunOptions) -> dict[str, int]:
    """Requests of each arm as the record's plan has them; empty when they were all alike or another number was typed."""
    arms = record.plan.get("requests_of")
    if options.requests is not None or not isinstance(arms, dict):
        return {}
    return {str(arm): int(count) for arm, count in arms.items() if isinstance(count, int)}


def with_target(record: Record, plan: Plan, options: RunOptions) -> RunOptions:
    """The options with the record's server and settings, unless another server was typed."""
    setting = msgspec.structs.replace(plan.baseline, base_url="", engine="")
    target = options.target
    if any(name in options.given for name in ("base_url", "target", "engine")):
        setting = msgspec.structs.replace(setting, base_url=options.setting.base_url, engine=options.setting.engine)
    else:
        target, base_url = _target(record, plan)
        setting = msgspec.structs.replace(setting, base_url=base_url)
    return msgspec.structs.replace(
        options, setting=setting, target=target, varied=plan.varied, values=plan.values, limits=dict(plan.limits)
    )


def _target(record: Record, plan: Plan) -> tuple[str, str]:
    """The target's name when it is one that can be named again (ours, or in workbench.toml), else its address."""
    targets = record.plan.get("targets")
    first = targets[0] if isinstance(targets, list) and targets and isinstance(targets[0], dict) else {}
    name, address = str(first.get("name", "")), str(first.get("address", "")) or plan.baseline.base_url
    if name in (BUILT_IN, SIMULATED) or name in load_settings().targets:
        return name, ""
    return "", address


def on_target(plan: Plan, setting: Setting) -> Plan:
    """The plan on the server that the target settled on: its address, its names for model and quant."""
    baseline = msgspec.structs.replace(
        plan.baseline, base_url=setting.base_url, engine=setting.engine, model=setting.model, quant=setting.quant
    )
    return msgspec.structs.replace(plan, baseline=baseline)
