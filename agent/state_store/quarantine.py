"""Where a state goes that cannot be used: beside its place, kept for a person to look at."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from agent.errors import UsageError
from agent.state_store.faults import Fault
from agent.state_store.files import BESIDE, beside, cut_short

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agent.state_store.faults import UnusableError

# Older ones are deleted: an agent that is started again and again must not fill the disk.
KEEP = 3
MEANS = (
    "the history of the windows is lost; reading goes on from what the broker has committed, or from the file's "
    "beginning"
)


class Quarantine:
    """Puts states aside that cannot be used, and counts them by reason."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts = Counter({fault.value: 0 for fault in Fault})

    @property
    def counts(self) -> Mapping[str, int]:
        """How many states were put aside, by reason."""
        return MappingProxyType(dict(self._counts))

    def take(self, error: UnusableError, now: float) -> Path:
        """Move the state with what belongs to it to `<path>.quarantine-<UTC time>-<reason>`, and say so loudly.

        No connection to it may be open. UsageError if it cannot be moved.
        """
        try:
            fault = self._fault(error)
            place = self._place(now, fault)
            # The database first: should this be cut off here, a log without a database is put aside at the next
            # start, while a database without its log would look like an older state.
            for suffix in ("", *BESIDE):
                if beside(self._path, suffix).exists():
                    beside(self._path, suffix).rename(beside(place, suffix))
            self._prune(place.name)
        except OSError as failed:
            problem = f"{error.what}, and it cannot be put aside: {failed.strerror or failed}"
            raise UsageError(f"state.path: {self._path}: {problem}") from failed
        self._counts[fault.value] += 1
        structlog.get_logger().error(
            "state put aside, a new one is begun",
            reason=fault.value,
            found=error.what,
            path=str(self._path),
            moved_to=str(place),
            means=MEANS,
        )
        return place

    def _fault(self, error: UnusableError) -> Fault:
        if error.fault is Fault.CORRUPT and self._path.exists():
            return cut_short(self._path)
        return error.fault

    def _place(self, now: float, fault: Fault) -> Path:
        moment = datetime.fromtimestamp(now, UTC)
        while True:
            place = beside(self._path, f".quarantine-{moment:%Y%m%dT%H%M%S.%fZ}-{fault}")
            if not any(beside(place, suffix).exists() for suffix in ("", *BESIDE)):
                return place
            moment += timedelta(microseconds=1)

    def _prune(self, just_taken: str) -> None:
        """Delete all but this one and the newest others: the clock may have been set back since."""
        start = f"{self._path.name}.quarantine-"
        names = {path.name for path in self._path.parent.iterdir() if path.name.startswith(start)}
        # A log may have been put aside without its database.
        others = sorted({_without_suffix(name) for name in names} - {just_taken})
        for base in others[: 1 - KEEP]:
            for suffix in ("", *BESIDE):
                self._path.with_name(base + suffix).unlink(missing_ok=True)


def _without_suffix(name: str) -> str:
    for suffix in BESIDE:
        name = name.removesuffix(suffix)
    return name
