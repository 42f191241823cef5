"""The terminal belongs to the screen: whatever else writes to standard error lands in a log instead of over the panes."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

LOG_LIMIT = 1024 * 1024


def log_file() -> Path:
    """Where the screen's log is kept, in the user's log folder."""
    import platformdirs

    return Path(platformdirs.user_log_dir("workbench")) / "screen.log"


@contextlib.contextmanager
def own_terminal(log: Path) -> Iterator[None]:
    """Lead file descriptor 2 into the log while the screen runs; the screen itself keeps the terminal.

    Native libraries write to the descriptor, past everything Python could catch. Without a writable log nothing changes.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > LOG_LIMIT:
            log.unlink()
        sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        yield
        return
    kept = os.dup(2)
    before = sys.__stderr__
    handler = logging.FileHandler(log, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
    # Textual writes its frames to sys.__stderr__: it gets the terminal under a descriptor of its own.
    screen = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")
    sys.__stderr__ = screen  # type: ignore[misc]
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(kept, 2)
        sys.__stderr__ = before  # type: ignore[misc]
        logging.getLogger().removeHandler(handler)
        handler.close()
        with contextlib.suppress(OSError):
            screen.close()
        os.close(kept)
        os.close(sink)
