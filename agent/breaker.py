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

    received: int
    unusable: int
    reasons: dict[str, int]
    first: str


@dataclass(frozen=True)
class _Seen:
    received: int
    unusable: int
    reasons: Counter[str]
    first: str


class Breaker:
    """Looks at the last `least` records, in whole batches; once it has tripped it stays so."""

    def __init__(self, config: BreakerConfig) -> None:
        self._config = config
        self._window: deque[_Seen] = deque()
        self._received = 0
        self._tripped = False

    def observe(self, batch: Batch) -> Tripped | None:
        """What there is to say the first time that the share is too large; otherwise None."""
        if batch.received <= 0 or self._tripped:
            return None
        reasons = Counter({reason.value: count for reason, count in batch.rejected.items()})
        for letter in batch.letters:
            reasons[letter.reason] += letter.items
        first = batch.letters[0].message.origin if batch.letters else ""
        self._window.append(_Seen(batch.received, batch.unusable, reasons, first))
        self._received += batch.received
        while self._received - self._window[0].received >= self._config.least:
            self._received -= self._window.popleft().received
        unusable = sum(seen.unusable for seen in self._window)
        if self._received < self._config.least or unusable < self._config.ratio * self._received:
            return None
        self._tripped = True
        total = sum((seen.reasons for seen in self._window), Counter[str]())
        first = next((seen.first for seen in self._window if seen.first), "")
        return Tripped(self._received, unusable, dict(total.most_common()), first)
