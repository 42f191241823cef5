"""A session in words: what was measured, on what, how, and what went wrong. Nothing hostile reaches the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from workbench.cli.layout import wrap
from workbench.domain.record import Record
from workbench.domain.text import one_line
from workbench.domain.variables import show_value

NAME_WIDTH = 12
ERRORS_SHOWN = 5
ERROR_LENGTH = 160


def item(name: str, parts: Iterable[str], width: int) -> list[str]:
    """One named line, its parts set apart by commas, wrapped under itself; nothing when there are no parts."""
    text = ", ".join(part for part in parts if part)
    return wrap(text, width, indent=" " * (NAME_WIDTH + 1), first=f"{name:<{NAME_WIDTH}} ") if text else []


def session_lines(record: Record, width: int) -> list[str]:
    """Which session, when, by which version, how it ended."""
    session = record.session
    title = one_line(session.name) or one_line(session.id)
    lines = wrap(title, width)
    version = f"workbench {session.workbench}" if session.workbench else ""
    lines += item("session", (session.id if session.name else "", _when(session.started), version), width)
    if session.status != "complete":
        lines += item("status", (f"{session.status.upper()}: {session.reason or 'no reason kept'}",), width)
    if session.status == "complete" and session.reason:
        lines += item("ended early", (session.reason,), width)
    lines += item("command", (session.command,), width)
    return lines + item("notes", (session.notes,), width)


def _when(started: str) -> str:
    """A start stamp without its fraction; as it stands when it is no RFC 3339."""
    try:
        return datetime.fromisoformat(started).strftime("%Y-%m-%d %H:%M:%S %z").strip()
    except ValueError:
        return started


def environment_lines(record: Record, width: int) -> list[str]:
    """Server, model, machine and GPUs; what was asked for and not found is counted, and listed by `--json`."""
    lines: list[str] = []
    for server in _tables(record.environment.get("server")):
        lines += item("server", _server_parts(server), width)
        lines += item("model", _model_parts(server), width)
    lines += item("host", _host_parts(_table(record.environment.get("host"))), width)
    for gpu in _tables(record.environment.get("gpu")):
        lines += item("GPU", (_text(gpu, "name"), _mib(gpu.get("memory_mib")), _text(gpu, "driver", "driver ")), width)
    lines += item("", (_text(record.environment, "scope"),), width)
    unknown = record.environment.get("unknown")
    if isinstance(unknown, list) and unknown:
        lines += item(
            "unknown", (*map(str, unknown[:6]), f"and {len(unknown) - 6} more" if len(unknown) > 6 else ""), width
        )
    return lines


def _server_parts(server: dict[str, Any]) -> list[str]:
    return [
        f"{_text(server, 'engine') or 'unknown engine'} {_text(server, 'version')}".strip(),
        _text(server, "slots", "", " slots"),
        _text(server, "context", "context ", " tokens"),
        _text(server, "kv_cache_type", "KV cache "),
        _text(server, "flash_attention", "flash attention "),
    ]


def _model_parts(server: dict[str, Any]) -> list[str]:
    parameters = server.get("parameters")
    billions = f"{parameters / 1e9:.3g} B parameters" if isinstance(parameters, int) and parameters > 0 else ""
    return [
        _text(server, "model"),
        _text(server, "quant"),
        _text(server, "format"),
        billions,
        _text(server, "digest", "digest ")[:26],
    ]


def _host_parts(host: dict[str, Any]) -> list[str]:
    cores, threads = host.get("cores"), host.get("threads")
    count = f"{cores} cores" if cores else f"{threads} threads" if threads else ""
    container, virtual = _text(host, "container"), _text(host, "virtualization")
    return [
        _text(host, "cpu"),
        count,
        _mib(host.get("memory_mib")),
        _text(host, "os"),
        f"in {container}" if container not in ("", "none") else "",
        f"on {virtual}" if virtual not in ("", "none") else "",
    ]


def _text(table: dict[str, Any], name: str, before: str = "", after: str = "") -> str:
    value = table.get(name)
    if value is None or value == "" or isinstance(value, (dict, list)):
        return ""
    return f"{before}{show_value(value)}{after}"


def _mib(value: Any) -> str:
    return f"{value / 1024:.1f} GiB" if isinstance(value, (int, float)) else ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _tables(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def plan_lines(record: Record, width: int) -> list[str]:
    """What was held still, what was varied, and how often."""
    plan, baseline = record.plan, _table(record.plan.get("baseline"))
    varied = str(plan.get("varied") or "")
    held = [
        f"{name} {show_value(value)}"
        for name, value in baseline.items()
        if name not in ("engine", "model", "quant", "base_url", "body", "prompt", varied)
        and isinstance(value, (str, int, float, bool))
        and name != "system"
    ]
    held += ["a system prompt"] if baseline.get("system") else []
    held += [f"body {name}" for name in _table(baseline.get("body"))]
    values = plan.get("values")
    lines = []
    if varied and isinstance(values, list):
        rounds = plan.get("rounds", 1)
        shown = ", ".join(show_value(value) for value in values)
        lines += item("varied", (f"{varied}: {shown}", f"{rounds} rounds" if rounds != 1 else ""), width)
    lines += item("held", held, width)
    for prompt in _tables(plan.get("prompts")):
        tokens, source = _text(prompt, "tokens", "", " tokens"), _text(prompt, "token_source", "by ")
        lines += item("prompt", (f"{_text(prompt, 'name')} {tokens} {source}".strip(),), width)
    limits = ", ".join(f"{name} {show_value(bound)}" for name, bound in _table(plan.get("limits")).items())
    return lines + item("limits", (limits,), width)


def cold_start_lines(record: Record, width: int) -> list[str]:
    """The very first request of a server, when it was cold: it is in no other figure."""
    lines: list[str] = []
    for cell in record.cells:
        ttft, total = cell.cold_start.get("ttft_ms"), cell.cold_start.get("total_ms")
        if ttft is None and total is None:
            continue
        parts = [
            f"TTFT {ttft:.0f} ms" if ttft is not None else "",
            f"{total:.0f} ms in all" if total is not None else "",
        ]
        lines += item("first request", [" ".join([cell.server, parts[0]]).strip(), parts[1], "left out above"], width)
    return lines


def error_lines(record: Record, width: int) -> list[str]:
    """What failed requests met, the most frequent first, in the server's words."""
    counts = Counter(
        one_line(str(error), ERROR_LENGTH)
        for cell in record.cells
        for error in cell.per_request.get("error", ())
        if error
    )
    lines: list[str] = []
    for error, count in counts.most_common(ERRORS_SHOWN):
        lines += wrap(error, width, indent="  ", first=f"{count} x ")
    if len(counts) > ERRORS_SHOWN:
        lines.append(f"and {len(counts) - ERRORS_SHOWN} other errors: see the session's file")
    return lines
