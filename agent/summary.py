"""From a scored batch to panes: the one place where items become counts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from agent.panes import DEPTH_EDGES, P_EDGES, UNIT, Pane, Tally, bucket_counts, fixed
from agent.sample import SIZE, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from agent.records import Record
    from agent.reference import Reference
    from agent.scorer import Scored


@dataclass(frozen=True)
class Summary:
    """Makes panes of `length` seconds. `sample` bounds the items kept of each."""

    reference: Reference
    length: int
    sample: int = SIZE

    def panes(self, records: Sequence[Record], slices: Sequence[str], scored: Scored) -> list[Pane]:
        """One pane for each slice and piece of event time that occurs; `slices` and `scored` match the records."""
        keys = [(name, self.start(record.time)) for name, record in zip(slices, records, strict=True)]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return [
            self._pane(key, np.fromiter(rows, np.intp), records, scored)
            for key, rows in groupby(order, key=keys.__getitem__)
        ]

    def start(self, time: float) -> int:
        """Start of the pane that a moment falls into, aligned to the epoch."""
        return int(time // self.length) * self.length

    def _pane(
        self, key: tuple[str, int], rows: NDArray[np.intp], records: Sequence[Record], scored: Scored
    ) -> Pane:
        outputs = scored.outputs.take(rows)
        sample = Sample.of(
            [records[row].id for row in rows],
            outputs.embedding,
            outputs.logits,
            # A head on the embeddings has them for features: nothing to keep twice.
            None if scored.outputs.features is scored.outputs.embedding else outputs.features,
            self.sample,
            confidence=scored.confidences[rows] if outputs.logits is None else None,  # logits would give it
        )
        return Pane(*key, self._tally(rows, [records[row].text for row in rows], scored), sample)

    def _tally(self, rows: NDArray[np.intp], texts: Sequence[str], scored: Scored) -> Tally:
        p = np.stack([values[rows] for values in scored.p.values()])
        depth = scored.scores["depth"][rows]
        return Tally(
            items=len(rows),
            truncated=int(scored.truncated[rows].sum()),
            classes=np.bincount(scored.tokens.take(rows).predicted, minlength=len(self.reference.labels)),
            p_counts=bucket_counts(p, P_EDGES),
            p_sums=np.rint(p * UNIT).astype(np.int64).sum(axis=1),
            depth_counts=bucket_counts(depth, DEPTH_EDGES),
            depth_sum=fixed(depth),
            rank_sum=fixed(scored.ranks[rows]),
            confidence_sum=fixed(scored.confidence[rows]),
            words=self.reference.source.vocabulary.count(texts),
        )
