"""`--fail-on`: what it takes, and when it is missed."""

from __future__ import annotations

import pytest
from made_records import made_cell, made_record

from workbench.cli.gates import missed, parse_gate
from workbench.domain.record import KindVerdict, Record, Verdict
from workbench.domain.variables import BadInput, Setting


def judged() -> Record:
    """Two cells, the second with a failure; TTFT slower, no word on capacity."""
    record = made_record((1, 2))
    record.cells[1] = made_cell(2, Setting(concurrency=2), ttft_ms=200, failures=1)
    record.verdict = Verdict(
        sentence="s",
        kinds={
            "ttft": KindVerdict(better="lower", ratio=1.9, low=1.8, high=2.0, call="slower"),
            "throughput": KindVerdict(better="higher", call="no difference shown"),
        },
    )
    return record


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ttft_ms.p95>150", "ttft_ms.p95 is 218.1 in cell 2"),
        ("ttft_ms.p95 > 300", ""),
        ("failed>0", "failed is 1 in cell 2"),
        ("success_rate<0.95", ""),
        ("success_rate<1", "success_rate is 0.95 in cell 2"),
        ("errors.http_503>=1", "errors.http_503 is 1 in cell 2"),
        ("errors.http_500>0", ""),
        ("requests != 20", ""),
        ("ok==20", "ok is 20 in cell 1"),
        ("throughput<=0", ""),
        ("goodput<1", "goodput is absent in cell 1"),
        ("cached_tokens.max>0", "cached_tokens.max is absent in cell 1"),
        ("verdict.ttft=slower", "the verdict on ttft is: slower"),
        ("verdict.ttft='slower'", "the verdict on ttft is: slower"),
        ("verdict.ttft!=faster", "the verdict on ttft is: slower"),
        ("verdict.ttft=faster", ""),
        ("verdict.throughput=no-difference-shown", "the verdict on throughput is: no difference shown"),
        ("verdict.ttft.ratio>1.5", "verdict.ttft.ratio is 1.9"),
        ("verdict.ttft.high<1.5", ""),
        ("verdict.throughput.ratio<1", "the verdict on throughput has no ratio"),
        ("verdict.capacity=slower", "there is no verdict on capacity"),
    ],
)
def test_a_gate_is_missed_when_it_holds_or_can_not_be_cleared(text: str, why: str) -> None:
    assert missed(parse_gate(text), judged()) == why


def test_nothing_measured_clears_no_gate() -> None:
    record = judged()
    record.cells.clear()
    record.verdict = None
    assert missed(parse_gate("failed>0"), record) == "nothing was measured"
    assert missed(parse_gate("verdict.ttft=slower"), record) == "there is no verdict on ttft"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "FIGURE OP VALUE"),
        ("ttft_ms.p95", "FIGURE OP VALUE"),
        ("ttft_ms>500", "say which of ttft_ms's figures"),
        ("ttft_ms.p99>500", "say which of ttft_ms's figures"),
        ("speed>5", "no such figure: speed"),
        ("throughput.p50>5", "no such figure"),
        ("ttft_ms.p95>fast", "'fast' is not a number"),
        ("ttft_ms.p95>nan", "not a number"),
        ("errors>0", "failed>0 counts them all"),
        ("verdict.speed=slower", "no such kind of speed"),
        ("verdict.ttft=bad", "compare a verdict by"),
        ("verdict.ttft>slower", "compare a verdict by"),
        ("verdict.ttft.mean>1", r"verdict\.KIND"),
        ("verdict>1", r"verdict\.KIND"),
        ("__class__>1", "no such figure"),
    ],
)
def test_what_is_no_gate_is_one_line(text: str, line: str) -> None:
    with pytest.raises(BadInput, match=line) as caught:
        parse_gate(text)
    assert "\n" not in str(caught.value)
