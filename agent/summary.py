"""From a scored batch to panes: the one place where items become counts.

Everything is counted for all panes of a batch at once: what a batch costs hardly depends on its slices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agent.panes import DEPTH_EDGES, P_EDGES, Pane, Tally, bucket_counts, units
from agent.sample import EVERY_HASH, SIZE, Sample, id_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from agent.records import Record
    from agent.reference import Reference
    from agent.scorer import Scored

Key = tuple[str, int]


def no_ceiling(_: Key) -> np.uint64:
    """For panes that do not exist yet: any item may be among those kept."""
    return EVERY_HASH


@dataclass(frozen=True)
class Groups:
    """Which pane each of n rows belongs to: `number` (n,) of `keys`; `order` (n,) sorts the rows by pane.

    Those of pane g are order[starts[g] : starts[g + 1]].
    """

    keys: tuple[Key, ...]
    number: NDArray[np.intp]
    order: NDArray[np.intp]
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, keys: Sequence[Key]) -> Groups:
        """The panes that occur, sorted."""
        found = tuple(sorted(set(keys)))
        place = {key: number for number, key in enumerate(found)}
        number = np.fromiter((place[key] for key in keys), np.intp, len(keys))
        starts = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=len(found)))])
        return cls(found, number, np.argsort(number, kind="stable"), starts.astype(np.intp))

    def rows(self, group: int) -> NDArray[np.intp]:
        """The rows of one pane, in the order in which they came."""
        return self.order[self.starts[group] : self.starts[group + 1]]

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """(..., panes) of (..., n): the sum over each pane's rows."""
        total: NDArray[np.int64] = np.add.reduceat(values[..., self.order], self.starts[:-1], axis=-1)
        return total


@dataclass(frozen=True)
class Summary:
    """Makes panes of `length` seconds. `sample` bounds the items kept of each."""

    reference: Reference
    length: int
    sample: int = SIZE

    def panes(
        self,
        records: Sequence[Record],
        slices: Sequence[str],
        scored: Scored,
        ceiling: Callable[[Key], np.uint64] = no_ceiling,
    ) -> list[Pane]:
        """One pane for each slice and piece of event time that occurs; `slices` and `scored` match the records.

        Items whose hash is above the `ceiling` of their pane are not sampled: no merge with it would keep them.
        """
        if not records:
            return []
        groups = Groups.of([(name, self.start(record.time)) for name, record in zip(slices, records, strict=True)])
        hashes = id_hashes([record.id for record in records])
        tallies = self._tallies(groups, records, scored)
        return [
            Pane(*key, tally, self._sample(rows[hashes[rows] <= ceiling(key)], records, scored, hashes))
            for key, tally, rows in zip(
                groups.keys, tallies, map(groups.rows, range(len(groups.keys))), strict=True
            )
        ]

    def start(self, time: float) -> int:
        """Start of the pane that a moment falls into, aligned to the epoch."""
        return int(time // self.length) * self.length

    def _sample(
        self, rows: NDArray[np.intp], records: Sequence[Record], scored: Scored, hashes: NDArray[np.uint64]
    ) -> Sample:
        outputs = scored.outputs.take(rows)
        return Sample.of(
            [records[row].id for row in rows],
            outputs.embedding,
            outputs.logits,
            # A head on the embeddings has them for features: nothing to keep twice.
            None if scored.outputs.features is scored.outputs.embedding else outputs.features,
            self.sample,
            confidence=scored.confidences[rows] if outputs.logits is None else None,  # logits would give it
            hashes=hashes[rows],
        )

    def _tallies(self, groups: Groups, records: Sequence[Record], scored: Scored) -> list[Tally]:
        p, depth = np.stack(list(scored.p.values())), scored.scores["depth"]
        of_tokens = np.repeat(groups.number, np.diff(scored.tokens.starts))
        labels = len(self.reference.labels)
        columns = (
            np.diff(groups.starts).tolist(),
            groups.sums(scored.truncated.astype(np.int64)).tolist(),
            np.bincount(of_tokens * labels + scored.tokens.predicted, minlength=len(groups.keys) * labels).reshape(
                -1, labels
            ),
            bucket_counts(p, P_EDGES, groups.number, len(groups.keys)),
            groups.sums(units(p)).T,
            bucket_counts(depth[np.newaxis], DEPTH_EDGES, groups.number, len(groups.keys))[:, 0],
            *(groups.sums(units(values)).tolist() for values in (depth, scored.ranks, scored.confidence)),
            [
                self.reference.source.vocabulary.count([records[row].text for row in groups.rows(group)])
                for group in range(len(groups.keys))
            ],
        )
        return [Tally(*values) for values in zip(*columns, strict=True)]
