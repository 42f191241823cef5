"""What a check says: pass, doubt or fail, with its evidence, its remedy, and the kinds of speed a fail takes away."""

from __future__ import annotations

from typing import Literal

import msgspec

KINDS = ("ttft", "request_time", "decode_rate", "throughput", "capacity")
"""The kinds of speed, each judged apart; none is ever reported as another."""

SPEEDS = KINDS[:4]
"""The kinds that are times or rates. Capacity counts rungs, and a rung with failures is no trouble but its answer."""

Result = Literal["pass", "doubt", "fail"]
_RANK = {"pass": 0, "doubt": 1, "fail": 2}


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """One check's outcome. `takes` names the kinds of speed that can't be judged; it is empty unless the check failed."""

    name: str
    result: Result
    evidence: str = ""
    remedy: str = ""
    takes: tuple[str, ...] = ()

    def stored(self) -> str:
        """The record's form: "pass", "doubt: evidence; remedy" or "fail: evidence; remedy"."""
        text = "; ".join(part for part in (self.evidence, self.remedy) if part)
        return self.result if self.result == "pass" or not text else f"{self.result}: {text}"

    def table(self) -> dict[str, str]:
        """The form for programs."""
        return {"name": self.name, "result": self.result, "evidence": self.evidence, "remedy": self.remedy}


class Findings:
    """Collects what a check found and gives one result: the worst finding leads, the others of its rank follow it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: list[CheckResult] = []

    def doubt(self, evidence: str, remedy: str = "") -> None:
        self._found.append(CheckResult(name=self._name, result="doubt", evidence=evidence, remedy=remedy))

    def fail(self, evidence: str, remedy: str = "", takes: tuple[str, ...] = KINDS) -> None:
        self._found.append(CheckResult(name=self._name, result="fail", evidence=evidence, remedy=remedy, takes=takes))

    def result(self, otherwise: str = "") -> CheckResult:
        """The check's result; a pass with the evidence `otherwise` when nothing was found."""
        if not self._found:
            return CheckResult(name=self._name, result="pass", evidence=otherwise)
        worst = max(_RANK[item.result] for item in self._found)
        leading = [item for item in self._found if _RANK[item.result] == worst]
        following = [item for item in self._found if _RANK[item.result] < worst]
        return CheckResult(
            name=self._name,
            result=leading[0].result,
            evidence="; ".join(item.evidence for item in leading + following),
            remedy="; ".join(dict.fromkeys(item.remedy for item in leading + following if item.remedy)),
            takes=tuple(kind for kind in KINDS if any(kind in item.takes for item in leading)),
        )
