"""Records that are posted to the agent."""

from agent.sources.http.reach import exposed, reach
from agent.sources.http.source import HttpSource, Timing

__all__ = ["HttpSource", "Timing", "exposed", "reach"]
