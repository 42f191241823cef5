"""What must never reach a record, a log or the screen: keys, passwords, URL user info and queries, home directories.

The shapes of secrets are known to `workbench.environment.redact`; this module adds the secrets of the session itself
(the keys in use), which a server may echo in an error body whatever their shape.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from workbench.environment.redact import GONE, hide_home, redact_command
from workbench.environment.redact import redact_text as redact_shapes

__all__ = ["GONE", "Scrubber", "hide_home", "redact_command", "redact_text", "redact_url"]

PLACEHOLDERS = frozenset(
    {"", "ollama", "empty", "none", "null", "dummy", "test", "key", "lm-studio", "lmstudio", "not-needed", "no-key"}
)
"""Keys that everybody sends to servers that want none. They are no secrets, and hiding them would garble plain words."""

SHORTEST_SECRET = 4


def redact_url(url: str) -> str:
    """The URL without user info, query and fragment; "" when it can't be read as a URL at all."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return ""


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the given secrets (plain, URL-quoted or in base64) and without anything shaped like one."""
    return redact_shapes(Scrubber(secrets).text(text))


class Scrubber:
    """Takes the secrets in use out of text and of whole tables; nothing else is touched."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            bare = secret.strip()
            if bare.lower() not in PLACEHOLDERS and len(bare) >= SHORTEST_SECRET:
                encoded = base64.b64encode(bare.encode("utf-8", "surrogatepass")).decode()
                forms |= {bare, quote(bare, safe="", errors="replace"), encoded}
        # The longest first: one secret may be the beginning of another.
        self._forms = sorted(forms, key=len, reverse=True)

    def text(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, GONE)
        return text

    def __call__(self, value: Any) -> Any:
        """Plain values (tables, arrays, strings) with every string scrubbed; keys are ours and stay."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self(item) for item in value]
        return value
