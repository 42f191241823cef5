"""Prometheus text: as real servers print it, and as broken ones might."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from workbench.engines.metrics_text import parse_metrics

WIRE = Path(__file__).parent.parent / "wire"


def test_captured_vllm_page() -> None:
    page = parse_metrics((WIRE / "vllm" / "metrics_under_load.txt").read_text())
    assert page.count("vllm:num_requests_running") == 4
    assert page.count("vllm:num_requests_waiting") == 2
    assert page.highest("vllm:kv_cache_usage_perc") == 0.011019283746556474
    assert page.labels("vllm:cache_config_info")["cache_dtype"] == "auto"
    reasons = {sample.labels["reason"]: sample.value for sample in page.samples("vllm:num_requests_waiting_by_reason")}
    assert reasons == {"capacity": 2.0, "deferred": 0.0}


def test_captured_llamacpp_page() -> None:
    page = parse_metrics((WIRE / "llama.cpp" / "metrics_under_load.txt").read_text())
    assert page.count("llamacpp:requests_processing") == 4
    assert page.total("llamacpp:prompt_seconds_total") == 37.4859


def test_labels_with_escapes_commas_and_braces() -> None:
    page = parse_metrics('a{x="1,2",y="say \\"}\\" \\\\ and\\nmore",} 3 1700000000000\n')
    assert page.samples("a")[0].labels == {"x": "1,2", "y": 'say "}" \\ and\nmore'}
    assert page.total("a") == 3


def test_several_engines_are_added_but_shares_are_not() -> None:
    page = parse_metrics('r{engine="0"} 3\nr{engine="1"} 4\nk{engine="0"} 0.2\nk{engine="1"} 0.9\n')
    assert page.count("r") == 7
    assert page.highest("k") == 0.9


def test_what_cannot_be_read_is_left_out() -> None:
    page = parse_metrics(
        '# HELP a b\n\na nan\nb{x="1" 3\nc\n{x="1"} 3\nd word\ne +Inf\nf 1e3 # {id="x"} 1\n\x00 7\r\ng 5\r\n'
    )
    assert "a" not in page
    assert all(name not in page for name in "bcd")
    assert page.total("e") == float("inf")
    assert page.count("e") is None
    assert page.count("f") == 1000
    assert page.count("g") == 5


def test_absent_is_absent() -> None:
    page = parse_metrics("")
    assert page.total("x") is None
    assert page.highest("x") is None
    assert page.count("x", "y") is None
    assert page.labels("x") == {}


@given(st.text(alphabet='ab{}",=\\ \n#1.e:_', max_size=80))
def test_never_raises(text: str) -> None:
    parse_metrics(text)
