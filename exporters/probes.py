"""What /livez and /readyz say, in words; an empty text is good news. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.report import Report

STOPPED = {
    "schema_change": "so many records could not be used that their sender must have changed its format; look at "
    "the dead letters, then mend the sender or the agent's configuration and restart the agent",
    "out_of_range": "what comes next is no longer in the topic, and `out_of_range: stop` asks a person; choose "
    "`earliest` or `latest` and restart the agent",
}


def death(report: Report, now: float, stale_after: float) -> str:
    """Why only a restart helps. Asks nothing that a restart would not mend."""
    age = now - report.heartbeat
    if not age < stale_after:  # NaN too: a heartbeat that never was
        return f"the loop has stood still for {age:.0f} s, allowed are {stale_after:g} s"
    if report.source.stuck:
        return "records wait in the source and none has been read for longer than `stuck` allows"
    return ""


def hindrance(report: Report) -> str:
    """Why no records are scored now."""
    source = report.source
    if source.stopped:
        return f"reading has stopped: {STOPPED.get(source.stopped, source.stopped)}"
    if not report.ready:
        return "the agent is starting or ending"
    if not source.assigned:
        return "the source has given it nothing to read: no partition is free, or the group is still forming"
    return ""
