"""One variable at a time: the pinned baseline, the current setting, and what a finished run lets one say.

It talks to the bench and changes the `LiveModel`; it knows nothing of widgets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from workbench.domain.cell import stated_throughput
from workbench.domain.plan import Plan, plan_from_table
from workbench.domain.record import CellTable, Record, Verdict
from workbench.domain.text import one_line
from workbench.domain.variables import (
    BadInput,
    Setting,
    VariableValue,
    differences,
    parse_value,
    show_value,
    value_of,
    with_value,
)
from workbench.records.atomic import SaveTrouble
from workbench.session.bench import Bench, Choice
from workbench.session.endpoint import NoServer
from workbench.session.events import Listener
from workbench.session.workers import WorkerTrouble
from workbench.tui import figures as fmt
from workbench.tui.model import CellSummary, LiveModel
from workbench.tui.plans import STEPS, PlanDefaults, plan_for, requests_of_arms, steps_from

Compare = Callable[[Record, Record], Verdict]


def compare(a: Record, b: Record) -> Verdict:
    """What changed between two records, as the domain says it. Raises BadInput when one has no finished cell."""
    from workbench.domain.compare import compare_records
    from workbench.domain.sentence import ASK_SCREEN

    return compare_records(a, b, ask=ASK_SCREEN).verdict()


def summary_of_table(cell: CellTable) -> CellSummary:
    """A stored cell in short."""
    ttft, total, decode = (cell.stats.get(name) for name in ("ttft_ms", "total_ms", "decode_rate"))
    return CellSummary(
        label="",
        arm=cell.arm,
        round=cell.round,
        ok=cell.ok,
        failed=cell.failed,
        cancelled=cell.cancelled,
        n=ttft.n if ttft else 0,
        ttft_p50=ttft.p50 if ttft else None,
        ttft_p95=ttft.p95 if ttft else None,
        ttft_max=ttft.max if ttft else None,
        total_p50=total.p50 if total else None,
        each=decode.p50 if decode else None,
        throughput=stated_throughput(cell),
        in_flight_peak=cell.in_flight_peak,
        errors=dict(cell.errors),
    )


class ScreenBench(Bench, Protocol):
    """What the screen asks of a bench besides: its own number of requests for each side, and the facts it has found."""

    environment: dict[str, Any]

    async def measure(
        self,
        plan: Plan,
        listener: Listener,
        *,
        name: str = "",
        notes: str = "",
        requests_of: dict[str, int] | None = None,
    ) -> Record:
        """As `Bench.measure`; `requests_of` gives an arm its own number of requests."""


class Experiment:
    """What is held still, what is flipped, and the run under way. `compare` judges two records."""

    def __init__(
        self,
        bench: ScreenBench,
        model: LiveModel,
        defaults: PlanDefaults,
        compare: Compare = compare,
    ) -> None:
        self._bench = bench
        self.model = model
        self.defaults = defaults
        self._compare = compare
        self.baseline_record: Record | None = None
        self._last: tuple[Setting, Record] | None = None
        self._flipped: list[str] = []

    async def connect(self, name: str) -> None:
        """Use the named target. Raises BadInput or NoServer."""
        model = self.model
        model.server = await self._bench.connect(name)
        model.setting = self._bench.start_setting()
        model.baseline = model.baseline_cell = self.baseline_record = self._last = None
        self._flipped.clear()
        model.touch()

    async def choices(self, variable: str) -> list[Choice]:
        """Values of a variable: the target's own list, else the usual steps; empty when it is only typed."""
        setting = self._setting()
        found = await self._bench.choices(variable, setting)
        return found or [Choice(value=value) for value in STEPS.get(variable, ())]

    def _setting(self) -> Setting:
        if self.model.setting is None:
            raise BadInput("no server yet: press t to choose one")
        return self.model.setting

    async def flip(self, variable: str, step: int) -> None:
        """Move a variable one choice on. Raises BadInput when there is nothing to flip to."""
        setting = self._setting()
        values = [choice.value for choice in await self.choices(variable)]
        if not values:
            raise BadInput(f"{variable} has no list here: press Enter to type a value")
        current = value_of(setting, variable)
        new = steps_from(values, current, step)
        if new == current:
            word = "only" if len(set(values)) == 1 else "last" if step > 0 else "first"
            raise BadInput(f"{variable} {show_value(current)} is the {word} choice here; Enter types another")
        self.set_value(variable, new)

    def type_value(self, variable: str, text: str) -> None:
        """Set a variable from what was typed. Raises BadInput."""
        self.set_value(variable, parse_value(variable, text))

    def set_value(self, variable: str, value: VariableValue) -> None:
        model = self.model
        model.setting = with_value(self._setting(), variable, value)
        model.last_changed = variable
        if variable in self._flipped:
            self._flipped.remove(variable)
        self._flipped.append(variable)
        self._settle()

    def _settle(self) -> None:
        """After a flip: old words go, a second difference is named."""
        model = self.model
        model.alert = model.hint = ""
        differing = model.differing
        if len(differing) > 1:
            model.alert = (
                f"{len(differing)} differ: {', '.join(differing)}. One at a time: "
                f"u undoes {self._undoable()}, b makes this the baseline."
            )
        elif differing and not model.running:
            name = differing[0]
            assert model.baseline is not None
            a, b = show_value(value_of(model.baseline, name)), show_value(value_of(self._setting(), name))
            model.hint = (
                f"{name} {one_line(a, 30)} to {one_line(b, 30)}: r runs it against the baseline, a runs an A/B."
            )
        model.touch("variables", "verdict", "status")

    def _undoable(self) -> str:
        differing = self.model.differing
        return next((name for name in reversed(self._flipped) if name in differing), differing[-1] if differing else "")

    def undo(self) -> None:
        """Put back the variable that was flipped last. Raises BadInput when nothing differs."""
        model = self.model
        name = self._undoable()
        if model.baseline is None or not name:
            raise BadInput("nothing differs from the baseline")
        setting = self._setting()
        if name in ("system", "ignore_eos", "body"):
            raise BadInput(f"{name} was set at the start; it can't be undone here")
        model.setting = with_value(setting, name, value_of(model.baseline, name))
        self._settle()

    def rebase(self) -> None:
        """Make the current setting the new baseline: with its own record when it is what ran last, else the next run's."""
        model = self.model
        setting = self._setting()
        model.baseline = setting
        self._flipped.clear()
        if self._last is not None and not differences(self._last[0], setting):
            self._pin(*self._last)
        else:
            self.baseline_record = model.baseline_cell = None
        self._settle()
        model.sentence = ""
        known = self.baseline_record is not None
        model.hint = "This is the baseline now." if known else "This is the baseline now: r measures it."
        model.touch()

    def _pin(self, setting: Setting, record: Record) -> None:
        self.model.baseline = setting
        self.baseline_record = record
        self.model.baseline_cell = summary_of_table(record.cells[-1])

    def plan(self, mode: str) -> Plan:
        """The mode's plan for the current setting. Raises BadInput with the way out."""
        setting = self._setting()
        differing = self.model.differing
        if mode == "run" and len(differing) > 1:
            self._settle()
            raise BadInput(self.model.alert)
        return plan_for(mode, setting, self.model.baseline, self.defaults)

    async def measure(self, mode: str, given: Plan | None = None) -> None:
        """Run a mode's plan (or one given, from a record) and say what came of it. Never raises for what a user meets."""
        model = self.model
        try:
            plan = given if given is not None else self.plan(mode)
        except BadInput as trouble:
            model.alert = str(trouble)
            model.touch("verdict")
            return
        setting = plan.baseline
        model.replay = False
        model.begin(mode)
        try:
            requests_of = requests_of_arms(plan, self.defaults) if given is None else {}
            record = await self._bench.measure(plan, model.receive, requests_of=requests_of)
        except (BadInput, NoServer, WorkerTrouble, SaveTrouble) as trouble:
            model.alert = one_line(str(trouble))
            return
        finally:
            model.running = model.stopping = False
            model.phase = ""
            model.touch()
        await self._conclude(mode, setting, record)

    async def _conclude(self, mode: str, setting: Setting, record: Record) -> None:
        model = self.model
        if mode != "run" or record.session.status != "complete" or not record.cells:
            if record.verdict is not None:
                model.sentence = record.verdict.sentence
            elif mode == "ladder":
                model.sentence = "Ladder done: the table has every rung."
            model.touch("verdict")
            return
        self._last = (setting, record)
        cell = record.cells[-1]
        if self.baseline_record is None:
            if not cell.ok:
                model.sentence = (
                    f"None of {cell.requests} requests succeeded: no baseline yet. See a FAILED row (Enter)."
                )
            else:
                self._pin(setting, record)
                model.sentence = _first_sentence(summary_of_table(cell))
                model.hint = "Pinned as the baseline. Flip one variable with ← → and press r."
        else:
            try:
                model.verdict = await asyncio.to_thread(self._compare, self.baseline_record, record)
                model.sentence = model.verdict.sentence
            except BadInput as trouble:
                model.alert = str(trouble)
        model.touch()

    def adopt(self, record: Record) -> Plan:
        """Take a record's plan over, to be measured again; a single run's record becomes the baseline it is compared with.

        Raises BadInput when the plan can't be read.
        """
        plan = plan_from_table(record.plan)
        self._flipped.clear()
        self.model.setting = plan.baseline
        if not plan.varied and record.cells and record.cells[-1].ok:
            self._pin(plan.baseline, record)
        else:
            self.model.baseline = self.model.baseline_cell = self.baseline_record = None
        self._settle()
        return plan

    def stop(self, reason: str = "stopped by the user") -> None:
        """Stop the run under way; what is finished is kept and saved."""
        if self.model.running and not self.model.stopping:
            self.model.stopping = True
            self.model.touch("status")
            self._bench.stop(reason)


def _first_sentence(cell: CellSummary) -> str:
    """A single run in words."""
    tail, word = cell.tail
    parts = []
    if cell.ttft_p50 is not None:
        parts.append(f"TTFT {fmt.milliseconds(cell.ttft_p50)} ms ({word} {fmt.milliseconds(tail)})")
    if cell.each is not None:
        parts.append(f"{fmt.rate(cell.each)} tokens/s each")
    if cell.throughput is not None:
        parts.append(f"{fmt.rate(cell.throughput)} in all")
    asked = cell.ok + cell.failed
    failed = f" {cell.failed} of {asked} FAILED." if cell.failed else ""
    return f"{', '.join(parts) or 'No output seen'}, from {cell.ok} requests.{failed}"
