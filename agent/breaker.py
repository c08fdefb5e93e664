"""The circuit breaker: when so much cannot be used, the sender has changed its format."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.batch import Batch
    from agent.source_config import BreakerConfig


@dataclass(frozen=True)
class Tripped:
    """Why reading should stop: how many of how many could not be used, by reason, and the first of them."""

    settled: int
    unusable: int
    reasons: dict[str, int]
    first: str


@dataclass(frozen=True)
class _Seen:
    settled: int
    unusable: int
    reasons: Counter[str]
    first: str


class Breaker:
    """Looks at the last `least` records, in whole batches; once it has tripped it stays so.

    A record counts when it is settled: that of a pair when its second half comes.
    """

    def __init__(self, config: BreakerConfig) -> None:
        self._config = config
        self._window: deque[_Seen] = deque()
        self._settled = 0
        self._tripped = False

    def observe(self, batch: Batch) -> Tripped | None:
        """What there is to say the first time that the share is too large; otherwise None."""
        if not batch.settled or self._tripped:
            return None
        reasons = Counter({reason.value: count for reason, count in batch.rejected.items()})
        for letter in batch.letters:
            reasons[letter.reason] += letter.items
        first = batch.letters[0].message.origin if batch.letters else ""
        self._window.append(_Seen(batch.settled, batch.unusable, reasons, first))
        self._settled += batch.settled
        while self._settled - self._window[0].settled >= self._config.least:
            self._settled -= self._window.popleft().settled
        unusable = sum(seen.unusable for seen in self._window)
        if self._settled < self._config.least or unusable < self._config.ratio * self._settled:
            return None
        self._tripped = True
        total = sum((seen.reasons for seen in self._window), Counter[str]())
        first = next((seen.first for seen in self._window if seen.first), "")
        return Tripped(self._settled, unusable, dict(total.most_common()), first)
