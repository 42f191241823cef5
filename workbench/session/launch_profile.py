"""Launch profiles of `workbench.toml`: the command, its environment and its readiness, and what one quant puts into them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.records.redact import redact_command, redact_text

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")

Filling = str | list[str]
"""What stands for a placeholder: text within a word, or several words in place of one."""


class LaunchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[targets.NAME.launch]`. `{model}`, `{port}`, `{quant}` in `command` and `env` are filled in, and whatever else a
    quant of `quants` names.

    `env_from`: variables of the server and the ones of ours that hold their values, which are stored nowhere. `ready`: the
    path that answers 200 once requests are taken; "" asks /health, else /v1/models. Times are seconds.
    """

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    env: dict[str, str] = {}
    env_from: dict[str, str] = {}
    cwd: str = ""
    ready: str = ""
    ready_timeout: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 300.0
    stop_signal: Literal["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGKILL"] = "SIGTERM"
    quants: dict[str, dict[str, Filling]] = {}

    @property
    def folder(self) -> str:
        """The working directory of the command; "" is ours."""
        return str(Path(self.cwd).expanduser()) if self.cwd else ""

    def quant_named(self, wanted: str) -> str | None:
        """The profile's spelling of a quant; None when it has others only. "" is the first one."""
        if not self.quants:
            return wanted
        if not wanted:
            return next(iter(self.quants))
        return next((quant for quant in self.quants if quant.casefold() == wanted.casefold()), None)

    def fillings(self, model: str, port: int, quant: str) -> dict[str, Filling]:
        """What the placeholders stand for."""
        return {"model": model, "port": str(port), "quant": quant, **self.quants.get(quant, {})}

    def words(self, fillings: Mapping[str, Filling]) -> list[str]:
        """The command. A home directory written `~/` is spelled out, as a shell would. Raises BadInput."""
        words: list[str] = []
        for word in self.command:
            whole = _PLACE.fullmatch(word)
            several = fillings.get(whole[1]) if whole else None
            filled = several if isinstance(several, list) else [_filled(word, fillings)]
            words += [str(Path(each).expanduser()) if each.startswith("~/") else each for each in filled]
        return words

    def added(self, fillings: Mapping[str, Filling]) -> dict[str, str]:
        """The variables of `env`. Raises BadInput."""
        return {name: _filled(value, fillings) for name, value in self.env.items()}

    def taken(self) -> dict[str, str]:
        """The variables of `env_from`, their values taken from our environment: secrets. Raises BadInput."""
        missing = [name for name in self.env_from.values() if name not in os.environ]
        if missing:
            raise BadInput(f"env_from: environment variable {one_line(missing[0])} is not set")
        return {name: os.environ[ours] for name, ours in self.env_from.items()}

    def secrets(self) -> set[str]:
        """Those values of `env_from` that are there now."""
        return {value for name in self.env_from.values() if (value := os.environ.get(name, ""))}

    def table(self) -> dict[str, Any]:
        """The record's form: enough to see how a server was started, without secrets."""
        table: dict[str, Any] = {"command": redact_command(self.command)}
        if self.env or self.env_from:
            table["env"] = shown_variables(self.env, self.env_from)
        if self.quants:
            table["quants"] = list(self.quants)
        return table


def shown_variables(env: Mapping[str, str], env_from: Mapping[str, str]) -> list[str]:
    """Added variables for a record: `NAME=value`, secrets and home directories gone; of `env_from` the names only."""
    return [redact_text(f"{name}={value}") for name, value in env.items()] + [
        f"{name} (from ours)" for name in env_from
    ]


def check(launch: LaunchSettings, model: str, quant: str) -> None:
    """Try every quant of a profile. Raises BadInput, one line, for one that can't be filled in."""
    if not launch.command[0].strip():
        raise BadInput("command: its first word, the program, is empty")
    for each in launch.quants or [quant]:
        fillings = launch.fillings(model, 1, each or "any")
        launch.words(fillings)
        launch.added(fillings)
    if launch.ready and not launch.ready.startswith("/"):
        raise BadInput(f"ready: {one_line(launch.ready, 60)!r} is not a path: it starts with a slash, like /health")
    if quant and launch.quant_named(quant) is None:
        raise BadInput(f"quants has no {one_line(quant, 60)}, the target's quant; it has: {listed(launch.quants)}")


def listed(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(one_line(name, 60) for name in names)


def _filled(text: str, fillings: Mapping[str, Filling]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in fillings:
            raise BadInput(f"nothing is given for {match[0]}: there are {listed([f'{{{each}}}' for each in fillings])}")
        found = fillings[name]
        if isinstance(found, list):
            raise BadInput(f"{match[0]} stands for several words, so it must be a word by itself")
        if not found and name in ("model", "quant"):
            raise BadInput(f"nothing is given for {match[0]}: name the target's {name}, or one in quants")
        return found

    return _PLACE.sub(value, text)
