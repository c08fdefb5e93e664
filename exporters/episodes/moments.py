"""Times that a calendar has: receivers of episodes take no others."""

from __future__ import annotations

# The year 9999, the last that a timestamp can name, and that Grafana's databases can hold.
LAST_SECOND = 253_402_300_799.0


def dated(seconds: float) -> float:
    """The nearest time (epoch seconds) that can be told.

    >>> dated(1767226000.0), dated(-7.0), dated(float("inf"))
    (1767226000.0, 1.0, 253402300799.0)
    """
    return min(max(seconds, 1.0), LAST_SECOND)
