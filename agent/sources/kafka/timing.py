"""The clocks of the source, and how long it waits for what; all in seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Timing:
    """`grace` must stay well below `silence`: after that the group goes on without who is not back.

    `contact`: until the first broker answers, or the agent ends. `silence`: between polls (max.poll.interval).
    `grace`: for the loop to make its checkpoint before partitions are handed over. `poll`: one poll; `join`: one
    without partitions. `commit`: one commit. `look`: between looks at the ends of the logs. `ask`: one question to
    the broker. `read`: one empty read. `leave`: to leave the group and end the thread.
    """

    monotonic: Callable[[], float] = time.monotonic
    epoch: Callable[[], float] = time.time
    contact: float = 60.0
    silence: float = 300.0
    grace: float = 120.0
    poll: float = 0.1
    join: float = 0.3
    commit: float = 4.0
    look: float = 2.0
    ask: float = 3.0
    read: float = 0.2
    leave: float = 1.5
