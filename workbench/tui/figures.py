"""Numbers and names as the screen writes them: fixed places, units in the title, absent is "-" and never 0."""

from __future__ import annotations

from workbench.domain.text import one_line

ABSENT = "-"


def milliseconds(value: float | None) -> str:
    """A latency in ms, at most six characters: 4.2, 212, 12345, 123 s."""
    if value is None:
        return ABSENT
    if value < 10:
        return f"{value:.1f}"
    if value < 99_999.5:
        return f"{value:.0f}"
    return f"{value / 1000:.0f} s"


def rate(value: float | None) -> str:
    """A rate a second with three digits that mean something: 0.42, 6.1, 61.2, 612, 6120."""
    if value is None:
        return ABSENT
    if value == 0:
        return "0"
    if value < 1:
        return f"{value:.2f}"
    if value < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}"


def count(value: int | float | None) -> str:
    """A whole number; "-" when absent."""
    return ABSENT if value is None else f"{value:.0f}"


def waited(ms: float) -> str:
    """A wait that still grows, in seconds: 0.4 s, 75 s."""
    seconds = ms / 1000
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"


def clock(seconds: float | None) -> str:
    """A duration as a clock: 0:41, 12:05, 1:02:05; "-" when absent."""
    if seconds is None:
        return ABSENT
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def gib(mib: float | None) -> str:
    """Memory in GiB from MiB, one place: 18.2."""
    return ABSENT if mib is None else f"{mib / 1024:.1f}"


def percent(share: float | None) -> str:
    """A share 0..1 as whole percent, without the sign."""
    return ABSENT if share is None else f"{100 * share:.0f}"


def ratio(value: float | None) -> str:
    """A ratio with its sign: 0.98x, 3.6x, 14x."""
    if value is None:
        return ABSENT
    return f"{value:.2f}x" if value < 2 else f"{value:.1f}x" if value < 10 else f"{value:.0f}x"


def short_model(model: str) -> str:
    """The last part of a model id that is a path; other ids as they are."""
    name = one_line(model)
    if name.startswith(("/", "~", "./", "../")) or "\\" in name or name.count("/") > 1:
        name = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    return name


def middle_cut(text: str, width: int) -> str:
    """The text cut in its middle to `width` characters, both ends kept: the start names it, the end tells it apart."""
    if len(text) <= width:
        return text
    if width <= 1:
        return text[:width]
    head = (width - 1 + 1) // 2
    tail = width - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :] if tail else ''}"
