"""The ledger: what was received and what became of it, since the start. Its balance holds at every moment."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.panes import P_EDGES, UNIT
from agent.reasons import HARMLESS, Reason
from agent.report import Counts, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from agent.batch import Batch
    from agent.messages import DeadLetter
    from agent.panes import Pane
    from agent.scorer import Scored

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, float("inf"))
BATCH_RECORDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, float("inf"))


class Ledger:
    """Counts since the start, as frozen values that a scrape can hold on to."""

    def __init__(self, source: str, detectors: Sequence[str]) -> None:
        self._source = source
        self._detectors = tuple(detectors)
        self._received = 0
        self._processed = 0
        self._scoring = 0
        self._waiting = 0
        self._undelivered = 0
        self._labels = 0
        self._truncated = 0
        # Every reason from the start: Prometheus misses the first step of a series that appears with it.
        self._discarded: Counter[str] = Counter(dict.fromkeys((reason.value for reason in Reason), 0))
        dead = (reason.value for reason in Reason if reason not in HARMLESS)
        self._dead: Counter[str] = Counter(dict.fromkeys(dead, 0))
        self._unpaired: Counter[str] = Counter({"request": 0, "response": 0})
        self._p: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self.item_p_values: dict[tuple[str, str], Histogram] = {}
        self.encode_seconds = Histogram.empty(SECONDS)
        self.score_seconds = Histogram.empty(SECONDS)
        self.batch_records = Histogram.empty(BATCH_RECORDS)

    @property
    def counts(self) -> Counts:
        """Where every record received so far is now."""
        return Counts(
            received=MappingProxyType({self._source: self._received}),
            processed=self._processed,
            discarded=MappingProxyType(dict(self._discarded)),
            dead_lettered=MappingProxyType(dict(self._dead)),
            in_flight=self._scoring + self._waiting + self._undelivered,
            truncated=self._truncated,
            unpaired=MappingProxyType(dict(self._unpaired)),
            labels=self._labels,
        )

    def receive(self, batch: Batch) -> None:
        """A batch was read: its rejected records are settled, the others are in flight."""
        self._received += batch.received
        self._scoring += len(batch.records)
        self._waiting += batch.waiting
        self._undelivered += batch.dead
        self._labels += len(batch.labels)
        self._unpaired.update(batch.unpaired)
        self._discarded.update({reason.value: count for reason, count in batch.rejected.items()})

    def delivered(self, letters: Iterable[DeadLetter]) -> None:
        """These letters of the batch in flight are kept for good."""
        for letter in letters:
            self._undelivered -= letter.items
            self._dead[letter.reason] += letter.items

    def resume(self, waiting: int) -> None:
        """So many halves wait since before the start, or since an earlier checkpoint that is gone back to."""
        grown = waiting - self._waiting
        self._waiting = waiting
        self._received += max(0, grown)
        self._discarded[Reason.PARTITION_LOST.value] += max(0, -grown)

    def scored(self, scored: Scored, lost: Mapping[Reason, int]) -> None:
        """A batch in flight was scored; the `lost` ones of its records are settled."""
        self._scoring -= sum(lost.values())
        self._discarded.update({reason.value: count for reason, count in lost.items()})
        self.encode_seconds = self.encode_seconds.observe(scored.encode_seconds)
        self.score_seconds = self.score_seconds.observe(scored.score_seconds)
        self.batch_records = self.batch_records.observe(len(scored))

    def folded(self, panes: Iterable[Pane]) -> None:
        """Scored records are in these panes now: they are processed."""
        for pane in panes:
            self._scoring -= pane.tally.items
            self._processed += pane.tally.items
            self._truncated += pane.tally.truncated
            self._observe_p(pane)

    def _observe_p(self, pane: Pane) -> None:
        counts, sums = self._p.get(pane.slice, (0, 0))
        counts, sums = counts + pane.tally.p_counts, sums + pane.tally.p_sums
        self._p[pane.slice] = (counts, sums)
        # A new mapping, because an earlier snapshot may still be being read.
        self.item_p_values = self.item_p_values | {
            (pane.slice, name): Histogram(P_EDGES, tuple(row), total / UNIT)
            for name, row, total in zip(self._detectors, counts.tolist(), sums.tolist(), strict=True)
        }
