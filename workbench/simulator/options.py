"""The simulator's options: one struct, its command-line spelling, and what is refused."""

from __future__ import annotations

import argparse

import msgspec

from workbench.domain.variables import BadInput

MOST_MS = 86_400_000.0
"""The longest time that may be asked for: one day, in ms."""

MAX_MODEL_LEN = 32_768
"""Tokens of prompt and reply together that the simulated model takes."""


class SimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the simulated server does. Times in ms; `slots` 0 means no limit; `natural_tokens` None means none.

    Raises BadInput (one line) for a value out of its range.
    """

    host: str = "127.0.0.1"
    port: int = 0
    ttft_ms: float = 100.0
    itl_ms: float = 20.0
    slots: int = 0
    tokens_per_chunk: int = 1
    jitter: float = 0.0
    fail_rate: float = 0.0
    cache_speedup: float = 1.0
    natural_tokens: int | None = None
    seed: int = 0
    until_stdin_closes: bool = False

    def __post_init__(self) -> None:
        if not self.host:
            raise BadInput("--host: is empty; give an address, such as 127.0.0.1")
        _within("--port", self.port, 0, 65_535)
        _within("--ttft-ms", self.ttft_ms, 0, MOST_MS)
        _within("--itl-ms", self.itl_ms, 0, MOST_MS)
        _within("--slots", self.slots, 0, 1_000_000)
        _within("--tokens-per-chunk", self.tokens_per_chunk, 1, MAX_MODEL_LEN)
        _within("--jitter", self.jitter, 0, 1)
        _within("--fail-rate", self.fail_rate, 0, 1)
        _within("--cache-speedup", self.cache_speedup, 1, 1_000_000)
        if self.natural_tokens is not None:
            _within("--natural-tokens", self.natural_tokens, 0, MAX_MODEL_LEN)


def _within(name: str, value: float, low: float, high: float) -> None:
    # Written so that NaN is refused as well: it compares false with everything.
    if not low <= value <= high:
        raise BadInput(f"{name} {value:g}: must be from {low:g} to {high:.10g}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add every option of the simulator to a parser; `from_arguments` reads them back."""
    usual = SimOptions()

    def add(name: str, kind: type, metavar: str, meaning: str) -> None:
        default = getattr(usual, name[2:].replace("-", "_"))
        shown = "" if default is None else f" (default {default:g})" if kind is not str else f" (default {default})"
        parser.add_argument(name, type=kind, metavar=metavar, default=default, help=meaning + shown)

    add("--host", str, "ADDRESS", "address to listen on")
    add("--port", int, "N", "port to listen on; 0 lets the system pick one")
    add("--ttft-ms", float, "MS", "time from the request's last byte, or from when a slot frees, to the first chunk")
    add("--itl-ms", float, "MS", "time between chunks")
    add("--slots", int, "N", "requests served at once, the others queue; 0 for no limit")
    add("--tokens-per-chunk", int, "K", "tokens in each chunk")
    add("--jitter", float, "F", "each gap is multiplied by a number drawn from 1-F to 1+F")
    add("--fail-rate", float, "F", "share of requests answered by HTTP 500")
    add("--cache-speedup", float, "X", "a prompt whose first message was seen before has its TTFT divided by X")
    add("--natural-tokens", int, "N", "replies end by themselves (finish_reason stop) after N tokens")
    add("--seed", int, "N", "seed of jitter, failures and sampled text")
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="end when stdin closes, so that no orphan outlives a parent"
    )


def from_arguments(arguments: argparse.Namespace) -> SimOptions:
    """The options a parser of `add_arguments` read. Raises BadInput for a value out of its range."""
    return SimOptions(**{name: getattr(arguments, name) for name in SimOptions.__struct_fields__})


def to_arguments(options: SimOptions) -> list[str]:
    """The command line that gives these options; what equals the default is left out."""
    words: list[str] = []
    usual = SimOptions()
    for name in SimOptions.__struct_fields__:
        value = getattr(options, name)
        if value == getattr(usual, name):
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(str(value))
    return words
