"""Server-sent events split out of raw bytes, in whatever pieces they arrive.

Lines end at CR, LF or CRLF bytes only (a CRLF may be cut between two reads); never at the Unicode separators that
`str.splitlines` would also take. Several `data:` lines make one event; comments and other fields are passed over.
"""

from __future__ import annotations

LINE_LIMIT = 16 * 1024 * 1024


class LineTooLongError(ValueError):
    """An event line passed LINE_LIMIT bytes without an end."""


class ErrorEvent(bytes):
    """The data of an event named "error": an error whatever it looks like."""


class EventSplitter:
    """Turns bytes into the data of complete events, in order.

    The data of an event named "error" comes as an ErrorEvent.
    `comments` counts comment lines (keep-alives), `lines` all non-empty lines.
    """

    __slots__ = (
        "_data",
        "_event",
        "_pending",
        "_pending_size",
        "_skip_lf",
        "_started",
        "comments",
        "lines",
    )

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._skip_lf = False
        self._started = False
        self._data: list[bytes] = []
        self._event = b""
        self.comments = 0
        self.lines = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The events completed by these bytes. Raises LineTooLongError."""
        if self._skip_lf and data:
            self._skip_lf = False
            if data[:1] == b"\n":
                data = data[1:]
        if b"\r" in data:
            # A CR ends its line at once (waiting for a possible LF would delay an event); the LF is skipped later.
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in data:
            if data:
                self._hold(data)
            return []
        if self._pending:
            self._pending.append(data)
            data = b"".join(self._pending)
            self._pending.clear()
            self._pending_size = 0
        if not self._started:
            self._started = True
            data = data.removeprefix(b"\xef\xbb\xbf")
        lines = data.split(b"\n")
        rest = lines.pop()
        if rest:
            self._hold(rest)
        return self._take(lines)

    def finish(self) -> list[bytes]:
        """The last event when the body ended without its blank line."""
        events = []
        if self._pending:
            line = b"".join(self._pending)
            self._pending.clear()
            self._pending_size = 0
            events += self._take([line if self._started else line.removeprefix(b"\xef\xbb\xbf")])
        return events + self._take([b""])

    def _hold(self, data: bytes) -> None:
        self._pending.append(data)
        self._pending_size += len(data)
        if self._pending_size > LINE_LIMIT:
            raise LineTooLongError(f"an event line is longer than {LINE_LIMIT // 2**20} MiB")

    def _take(self, lines: list[bytes]) -> list[bytes]:
        events = []
        for line in lines:
            if not line:
                if self._data:
                    data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                    events.append(ErrorEvent(data) if self._event == b"error" else data)
                    self._data.clear()
                self._event = b""
                continue
            self.lines += 1
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line.startswith(b":"):
                self.comments += 1
            elif line.startswith(b"event:"):
                self._event = line[6:].strip()
            elif line == b"data":
                self._data.append(b"")
        return events
