"""Numbers as a person says them: 212 ms, 1.21 s, 2.1x, 1.9-2.3."""

from __future__ import annotations

from workbench.domain.checks.result import KINDS

NAMES = {
    "ttft": "TTFT",
    "request_time": "request time",
    "decode_rate": "decode rate",
    "throughput": "throughput",
    "capacity": "capacity",
}
"""A kind of speed inside a sentence."""
assert tuple(NAMES) == KINDS


def number(value: float) -> str:
    """Three figures, no more than a reader can use: 0.13, 8.4, 61.2, 212, 3,112."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.2f}" if size >= 1 else f"{value:.2g}"


def milliseconds(value: float) -> str:
    """A time given in ms: "8.4 ms", "212 ms", "1.21 s", "12.1 s"."""
    if value < 10:
        return f"{value:.1f} ms"
    if value < 999.5:
        return f"{value:.0f} ms"
    seconds = value / 1000
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s" if seconds < 99.95 else f"{seconds:.0f} s"


def _decimals(ratio: float) -> int:
    return 2 if ratio < 1.5 else 1 if ratio < 9.95 else 0


def times(ratio: float) -> str:
    """A factor: "1.08x", "2.1x", "14x"."""
    return f"{ratio:.{_decimals(ratio)}f}x"


def interval(low: float, high: float) -> str:
    """An interval on a factor, both ends alike: "1.9-2.3"."""
    places = max(_decimals(low), _decimals(high)) if high < 9.95 else _decimals(high)
    if f"{low:.{places}f}" == f"{high:.{places}f}":
        places += 1
    return f"{low:.{places}f}-{high:.{places}f}"


def figure(kind: str, value: float, unit: str = "tokens") -> str:
    """A kind's figure with its unit: a time, a rate, a rung."""
    if kind in ("ttft", "request_time"):
        return milliseconds(value)
    if kind == "capacity":
        return f"{value:.0f} at once"
    return f"{number(value)} {unit}/s"


def before_now(kind: str, a: float, b: float, unit: str = "tokens") -> str:
    """ "212 ms before, 219 ms now", "60.4 tokens/s before, 61 now"."""
    now = figure(kind, b, unit) if kind in ("ttft", "request_time", "capacity") else number(b)
    return f"{figure(kind, a, unit)} before, {now} now"


def listed(parts: list[str], word: str = "and") -> str:
    """ "a", "a and b", "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def ended(text: str) -> str:
    """A sentence: first letter in upper case, one full stop at its end."""
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) or not text else text + "."
