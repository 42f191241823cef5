"""Exit statuses, the same for every verb."""

DONE = 0
MISSED = 1
"""Measured, but requests failed, or a stated limit or gate was missed."""
BAD_INPUT = 2
NOT_MEASURED = 3
"""No server, no model, no consent: nothing could be measured."""
INTERRUPTED = 130
"""Stopped by a signal; what was measured until then is saved."""
