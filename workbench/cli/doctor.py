"""What is known of this machine and of the way to a server, each fact with its source; what is missing and how to get it."""

from __future__ import annotations

import argparse
from typing import Any

from workbench.cli.layout import terminal_width, wrap
from workbench.cli.safely import json_text, say
from workbench.cli.status import DONE
from workbench.domain.text import one_line, visible
from workbench.domain.variables import BadInput, show_value
from workbench.environment.snapshot import take

NAME_WIDTH = 22


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base-url", metavar="URL", help="look at the way to this server too; nothing is sent to it")
    parser.add_argument("--json", action="store_true", help="print the facts as JSON")


def execute(namespace: argparse.Namespace) -> int:
    """Look and tell. Raises BadInput when the URL is none."""
    try:
        tables = take(namespace.base_url or None).tables()
    except ValueError as error:
        raise BadInput(f"--base-url: {error}") from None
    if namespace.json:
        say(json_text(tables))
        return DONE
    for line in doctor_lines(tables, terminal_width()):
        say(line)
    return DONE


def doctor_lines(tables: dict[str, Any], width: int) -> list[str]:
    """Every fact with its source, a group at a time, then what is unknown with the way to learn it."""
    lines: list[str] = []
    for title in ("host", "software", "network"):
        lines += _group(title, tables.get(title) or {}, width)
    for device in tables.get("gpu") or ():
        lines += _group(f"GPU {show_value(device.get('index'))}", device, width)
    how: dict[str, str] = tables.get("how") or {}
    if how:
        lines += ["", "unknown"]
        for name, way in how.items():
            lines += wrap(
                way or "not told", width, indent=" " * (NAME_WIDTH + 3), first=f"  {one_line(name):<{NAME_WIDTH}} "
            )
    return [*lines[1:], "", *wrap(str(tables.get("scope", "")), width)]


def _group(title: str, facts: dict[str, Any], width: int) -> list[str]:
    sources = facts.get("source") or {}
    lines: list[str] = []
    for name, value in facts.items():
        if name == "source":
            continue
        text = ", ".join(map(str, value)) if isinstance(value, list) else show_value(value)
        source = f"   [{visible(str(sources[name]))}]" if name in sources else ""
        lines += wrap(
            f"{text}{source}", width, indent=" " * (NAME_WIDTH + 3), first=f"  {one_line(name):<{NAME_WIDTH}} "
        )
    return ["", title, *lines] if lines else []
