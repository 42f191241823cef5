"""The two sides of a comparison as the checks see them: one arm's setting, cells and server, read from a record.

Nothing here raises on a partial record; what is not there is None or empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median
from typing import Any

import msgspec

from workbench.domain.plan import arm_settings, plan_from_table
from workbench.domain.record import CellTable, Record
from workbench.domain.variables import CONTROLLED, BadInput, Setting, differences, from_assignment, show_value, value_of

FOLLOWERS: dict[str, frozenset[str]] = {
    "engine": frozenset({"version", "flags", "slots", "context", "format", "digest", "size", "flash_attention"}),
    "model": frozenset({"digest", "tokenizer", "size", "output", "parameters", "context_trained", "prompt_tokens"}),
    "quant": frozenset({"digest", "size", "fingerprint", "output", "bits", "flags"}),
    "max_tokens": frozenset({"output"}),
    "temperature": frozenset({"output"}),
    "stop": frozenset({"output"}),
    "seed": frozenset({"output"}),
    "ignore_eos": frozenset({"output"}),
    "prompt": frozenset({"output", "prompt_tokens"}),
    "system": frozenset({"output", "prompt_tokens"}),
    "body": frozenset({"output"}),
    "cache": frozenset({"cached_tokens"}),
    "stream": frozenset({"ttft"}),
    "concurrency": frozenset(),
}
"""Observed facts that may differ because they follow from the variable that was flipped."""


class Side(msgspec.Struct, kw_only=True):
    """One arm of a record, or a whole record of one arm.

    `setting` has engine and quant as the server reports them, where it does. `known` names the variables the record
    states (an imported result states few). `tool` is the other tool's name for an imported result, else "".
    """

    name: str
    setting: Setting
    cells: list[CellTable]
    server: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    prompts: dict[str, dict[str, Any]] = {}
    answers: list[dict[str, Any]] = []
    limits: dict[str, float] = {}
    known: frozenset[str] = frozenset(CONTROLLED)
    tool: str = ""

    @property
    def ok(self) -> int:
        return sum(cell.ok for cell in self.cells)

    @property
    def failed(self) -> int:
        return sum(cell.failed for cell in self.cells)

    @property
    def empty(self) -> int:
        return sum(cell.empty for cell in self.cells)

    @property
    def errors(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for cell in self.cells:
            for name, count in cell.errors.items():
                total[name] = total.get(name, 0) + count
        return total

    def fact(self, name: str) -> Any:
        """A fact of the side's server; None when unknown."""
        value = self.server.get(name)
        return None if value in ("", [], {}) else value

    def column(self, name: str) -> list[float]:
        """A per-request figure over the ok requests of every cell, in the order of sending, absent ones left out."""
        return [value for cell in self.cells for value in ok_column(cell, name) if value is not None]

    def median(self, name: str) -> float | None:
        """The median of a figure over all ok requests; where there are no requests, of the cells' medians."""
        values = self.column(name) or [value for cell in self.cells if (value := cell_p50(cell, name)) is not None]
        return median(values) if values else None

    def evidence(self, name: str) -> list[Any]:
        """What the cells' evidence holds under a name, absent ones left out; lists are joined, each entry once."""
        found: list[Any] = []
        for cell in self.cells:
            value = cell.evidence.get(name)
            for item in value if isinstance(value, list) else [value]:
                if item is not None and item not in found:
                    found.append(item)
        return found


class Pair(msgspec.Struct, kw_only=True):
    """Two sides to compare, or one side alone (`b` None).

    `flipped` is the one variable that was changed on purpose, "" when there is none or more than one; `differing` are all
    controlled variables that differ. `one_server`: both sides ran on one server, so what is unknown of it is shared.
    `rerun`: the same setting was measured twice on purpose. `one_record`: both sides come from one session.
    """

    a: Side
    b: Side | None = None
    flipped: str = ""
    differing: tuple[str, ...] = ()
    one_server: bool = True
    one_record: bool = True
    rerun: bool = False

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.a,) if self.b is None else (self.a, self.b)

    def follows(self, fact: str) -> bool:
        """Whether a difference in this fact follows from a variable that differs."""
        return any(fact in FOLLOWERS.get(name, frozenset()) for name in self.differing)

    def facts(self, name: str) -> tuple[Any, Any]:
        """A server fact of both sides (the same one twice for one side alone)."""
        return self.a.fact(name), (self.b or self.a).fact(name)

    def word(self, side: Side) -> str:
        """How a sentence refers to a side: "with VALUE" of the flipped variable, else before and now; "" for one side."""
        if self.b is None:
            return ""
        if self.flipped:
            return f"with {self.flipped} {show_value(value_of(side.setting, self.flipped))}"
        return "before" if side is self.a else "now"


def ok_column(cell: CellTable, name: str) -> Iterator[Any]:
    """A cell's column over its ok requests, absent entries as None; nothing when the record holds no such column."""
    values, outcomes = cell.per_request.get(name, []), cell.per_request.get("outcome", [])
    return (value for value, outcome in zip(values, outcomes, strict=False) if outcome == "ok")


def cell_p50(cell: CellTable, name: str) -> float | None:
    """A cell's median of a figure; an imported summary may know it without knowing the other statistics."""
    stats = cell.stats.get(name)
    if stats is not None:
        return stats.p50
    summary = cell.evidence.get("summary")
    known = summary.get(name) if isinstance(summary, dict) else None
    value = known.get("p50") if isinstance(known, dict) else None
    return float(value) if isinstance(value, (int, float)) else None


def sides_of(record: Record) -> dict[str, Side]:
    """The sides of a record by arm, in the order of the arms' names; arms without a finished cell are left out."""
    arms: dict[str, list[CellTable]] = {}
    for cell in record.cells:
        arms.setdefault(cell.arm or "A", []).append(cell)
    settings = _planned(record)
    imported = record.extra.get("imported")
    tool = str(imported.get("tool", "")) if isinstance(imported, dict) else ""
    servers = record.environment.get("server", [])
    tables = [table for table in servers if isinstance(table, dict)] if isinstance(servers, list) else []
    answers = record.extra.get("answers")
    prompts = record.plan.get("prompts")
    result = {}
    for arm in sorted(arms, key=lambda name: (len(name), name)):
        cells = sorted(arms[arm], key=lambda cell: (cell.round, cell.id))
        server = next((table for table in tables if table.get("id") == cells[0].server), None)
        if server is None:
            server = tables[0] if len(tables) == 1 else {}
        setting = _setting_of(cells[0], settings.get(arm))
        result[arm] = Side(
            name=arm,
            setting=_as_reported(setting, server),
            cells=cells,
            server=server,
            environment=record.environment,
            prompts={str(item.get("name")): item for item in prompts if isinstance(item, dict)}
            if isinstance(prompts, list)
            else {},
            answers=[item for item in answers if isinstance(item, dict) and item.get("arm", arm) == arm]
            if isinstance(answers, list)
            else [],
            limits=_limits(record),
            known=_stated(cells[0], server) if tool else frozenset(CONTROLLED),
            tool=tool,
        )
    return result


def _stated(cell: CellTable, server: dict[str, Any]) -> frozenset[str]:
    """The variables that an imported result states, in its settings or by its server's facts."""
    return frozenset(cell.variables) | {name for name in ("engine", "model", "quant") if server.get(name)}


def _limits(record: Record) -> dict[str, float]:
    limits = record.plan.get("limits")
    return dict(limits) if isinstance(limits, dict) else {}


def _planned(record: Record) -> dict[str, Setting]:
    """The settings the plan gives its arms; none when the plan can't be read."""
    try:
        return arm_settings(plan_from_table(record.plan))
    except (BadInput, TypeError, ValueError, AttributeError):
        return {}


def _setting_of(cell: CellTable, planned: Setting | None) -> Setting:
    base = planned or Setting()
    if not cell.variables:
        return base
    try:
        return from_assignment(cell.variables, base.base_url)
    except (BadInput, TypeError, ValueError):
        return base


def _as_reported(setting: Setting, server: dict[str, Any]) -> Setting:
    """The setting with what the server says of itself in place of what was asked for or left open."""
    told = {
        "engine": server.get("engine") or setting.engine,
        "quant": server.get("quant") or setting.quant,
        "model": setting.model or server.get("model") or "",
        "base_url": setting.base_url or server.get("base_url") or "",
    }
    return msgspec.structs.replace(setting, **{name: str(value) for name, value in told.items()})


def pair_in(record: Record, arm_a: str, arm_b: str, sides: dict[str, Side] | None = None) -> Pair:
    """Two arms of one record. Raises KeyError when one has no finished cell."""
    found = sides if sides is not None else sides_of(record)
    a, b = found[arm_a], found[arm_b]
    varied = str(record.plan.get("varied") or "")
    names = differing(a, b)
    # Two targets of one engine are told apart by their names only: the plan knows that the engine was flipped.
    if varied and varied not in names and _values_differ(record, arm_a, arm_b):
        names = (varied, *names)
    return Pair(
        a=a,
        b=b,
        flipped=varied if varied in names else (names[0] if len(names) == 1 else ""),
        differing=names,
        one_server=bool(a.server or b.server) and a.server is b.server,
        rerun=not names,
    )


def _values_differ(record: Record, arm_a: str, arm_b: str) -> bool:
    settings = _planned(record)
    return arm_a in settings and arm_b in settings and settings[arm_a] != settings[arm_b]


def pair_of(a: Side, b: Side, rerun: bool = False) -> Pair:
    """Sides of two records. `rerun`: their plans are the same."""
    names = differing(a, b)
    return Pair(
        a=a,
        b=b,
        flipped=names[0] if len(names) == 1 else "",
        differing=names,
        one_server=_same_server(a, b),
        one_record=False,
        rerun=rerun and not names,
    )


def _same_server(a: Side, b: Side) -> bool:
    """One address, one model, and no fact that differs: as far as can be told, one server."""
    if not a.server or not b.server or a.setting.base_url != b.setting.base_url or a.setting.model != b.setting.model:
        return False
    ignored = ("id", "name", "source", "memory", "gpu_memory", "loaded")
    return bool(a.setting.base_url) and all(
        a.server.get(name) == b.server.get(name) for name in {*a.server, *b.server} - set(ignored)
    )


def differing(a: Side, b: Side) -> tuple[str, ...]:
    """The controlled variables in which two sides differ.

    Addresses never count: a model's tag or path that follows from another engine or quantization is one. What a side
    doesn't state is unknown, which is not a difference.
    """
    names = []
    raw = differences(a.setting, b.setting)
    elsewhere = a.setting.base_url != b.setting.base_url or "engine" in raw or "quant" in raw
    for name in raw:
        if (a.tool or b.tool) and not (name in a.known and name in b.known):
            continue
        if name == "engine" and not _engines_differ(a, b):
            continue
        if name == "quant" and (
            not a.setting.quant or not b.setting.quant or same_quant(a.setting.quant, b.setting.quant)
        ):
            continue
        if name == "model" and _one_model(a, b, elsewhere):
            continue
        if name == "prompt" and _same_texts(a, b):
            continue
        names.append(name)
    if "prompt" not in names and a.setting.prompt == b.setting.prompt and _same_texts(a, b) is False:
        names.insert(0, "prompt")
    return tuple(names)


def _one_model(a: Side, b: Side, elsewhere: bool) -> bool:
    """Whether two model ids are but two addresses. On one server in one quantization two ids are two models, unless the
    server gives both one digest."""
    if not a.setting.model or not b.setting.model:
        return True
    digest = a.fact("digest")
    if digest is not None and digest == b.fact("digest"):
        return True
    return elsewhere and same_model(a.setting.model, b.setting.model)


def _engines_differ(a: Side, b: Side) -> bool:
    return bool(a.setting.engine and b.setting.engine) and a.setting.engine.casefold() != b.setting.engine.casefold()


def _same_texts(a: Side, b: Side) -> bool | None:
    """Whether both sides were sent the same prompt texts, by their hashes; None when a hash is not known."""
    hashes = []
    for side in (a, b):
        found = [side.prompts.get(name, {}).get("sha256") for name in side.setting.prompt]
        if not found or not all(found):
            return None
        hashes.append(found)
    return hashes[0] == hashes[1]


_TYPE_NAMES = {"fp16": "f16", "float16": "f16", "half": "f16", "bfloat16": "bf16", "fp32": "f32", "float32": "f32"}


def quant_key(quant: Any) -> str:
    """A quantization's or number type's name in one spelling: "Q4_K - Medium" and "q4_k_m" are one; "auto" says nothing."""
    text = str(quant).casefold().replace(" - medium", "_m").replace(" - small", "_s").replace(" - large", "_l")
    text = re.sub(r"[-_ .]+", "", text)
    return "" if text == "auto" else _TYPE_NAMES.get(text, text)


def same_quant(a: Any, b: Any) -> bool:
    """Whether two spellings mean one quantization or number type."""
    return quant_key(a) == quant_key(b)


_QUANT_PART = re.compile(
    r"(?<![a-z0-9])(ud[-_])?(i?q[1-8](_[a-z0-9]{1,3}){0,3}|awq|gptq|fp8|int[48]|bf16|fp?16|fp?32|mxfp4|nvfp4)(?![a-z0-9])"
)


_MARKS = frozenset({"instruct", "chat", "it", "hf", "gguf", "mlx", "latest"})


def same_model(a: str, b: str) -> bool:
    """Whether two model ids may name one model: equal but for folder, file ending, quantization, and marks that some
    registries add ("qwen2.5:7b" and "Qwen/Qwen2.5-7B-Instruct")."""
    return bool(_model_key(a)) and _model_key(a) == _model_key(b)


def _model_key(name: str) -> tuple[str, ...]:
    text = name.casefold().replace("\\", "/").rstrip("/").rpartition("/")[2]
    text = re.sub(r"(-\d{5}-of-\d{5})?\.(gguf|safetensors|bin)$", "", text)
    return tuple(word for word in re.split(r"[^a-z0-9]+", _QUANT_PART.sub("", text)) if word and word not in _MARKS)
