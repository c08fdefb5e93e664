"""Looking for garbage less often: a stream makes hundreds of small objects a record, and hardly ever a cycle."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Python looks through new objects after every 700 of them, and through those that wait in a queue again and again.
THRESHOLDS = (50_000, 20, 100)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Within, what exists already is never looked through, and new objects seldom are. For a whole process."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
