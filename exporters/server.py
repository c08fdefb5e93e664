"""The HTTP server of the pages, in a thread beside the loop."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent.listener import Listener, plain
from exporters.pages import Pages
from exporters.prometheus import registry_of
from exporters.status.batches import Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.listener import Address
    from agent.report import Report

STALE_AFTER = 60.0
# How long a scrape under way may take to end once the agent stops (seconds).
GRACE = 1


@contextmanager
def serving(  # noqa: PLR0913 - what most callers leave out
    latest: Callable[[], Report],
    host: str,
    port: int,
    *,
    stale_after: float = STALE_AFTER,
    clock: Callable[[], float] = time.time,
    shown: Shown | None = None,
) -> Iterator[Address]:
    """Serve the newest Report until the block ends; port 0 takes a free one. ServiceError if it cannot listen.

    `latest` is called from the server's thread, and so is what is `shown` beside the Report.
    /livez fails once the heartbeat is `stale_after` seconds old.
    """
    pages = Pages(latest, registry_of(latest), stale_after, clock, shown or Shown())
    listener = Listener(host, port, "metrics")
    listener.start(plain(pages.app(), GRACE))
    try:
        yield listener.address
    finally:
        listener.close()
