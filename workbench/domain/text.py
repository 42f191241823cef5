"""Text that came from a server, a file or a record is hostile: nothing of it may steer a terminal."""

from __future__ import annotations

import re

# C0 but newline and tab, DEL, C1, the Unicode line and paragraph separators, bidirectional controls and marks, and lone
# surrogates (which can't be encoded at all).
_HOSTILE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd"


def visible(text: str) -> str:
    """The text with every control character (newline and tab excepted) replaced by a visible picture of it."""
    return _HOSTILE.sub(_visible, text)


def one_line(text: str, limit: int = 0) -> str:
    """`visible` text on one line, runs of white space folded; cut to `limit` characters with an ellipsis when given."""
    line = " ".join(visible(text).split())
    if limit and len(line) > limit:
        return line[: max(limit - 1, 0)] + "\u2026"
    return line
