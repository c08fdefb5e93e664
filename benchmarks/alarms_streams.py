"""A month of traffic, drawn from pools of scored texts: the panes of a slice, and the windows asked for.

Only bucket counts are made of all items. A window's sample, words and depth ranks are made when someone wants an
estimate of it, from the same items.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from agent.panes import DEPTH_EDGES, P_EDGES, Pane, Tally
from agent.sample import SIZE, Sample, half, single

if TYPE_CHECKING:
    from alarms_models import Pool
    from numpy.typing import NDArray

PANE = 600
SHORT, LONG = 6, 36  # panes: one hour, and six
MONTH = 30 * 86_400 // PANE
# Monday; all streams begin there, in event time.
START = 1_750_032_000
# Items a pane of each slice, on average 50.
VOLUMES = (20, 35, 50, 65, 80)


@dataclass(frozen=True)
class Traffic:
    """One slice's items: `rows` (n,) of `usual` or, where `changed` (n,), of `other`.

    Pane i has those from starts[i] to starts[i + 1].
    """

    slice: str
    usual: Pool
    other: Pool
    rows: NDArray[np.intp]
    changed: NDArray[np.bool_]
    starts: NDArray[np.intp]

    @classmethod
    def drawn(
        cls, place: int, pools: tuple[Pool, Pool], shares: NDArray[np.float64], draw: np.random.Generator
    ) -> Traffic:
        """Poisson many items a pane, each of the second pool with the pane's chance in `shares`, with replacement.

        `place` says which of VOLUMES it has.
        """
        (usual, other), volume, name = pools, VOLUMES[place], f"slice-{place}"
        sizes = draw.poisson(volume, len(shares))
        changed = draw.random(sizes.sum()) < np.repeat(shares, sizes)
        rows = (draw.random(len(changed)) * np.where(changed, len(other), len(usual))).astype(np.intp)
        return cls(name, usual, other, rows, changed, np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(panes, detectors, buckets) of p-values."""
        width = len(P_EDGES)
        pane = np.repeat(np.arange(len(self)), np.diff(self.starts))
        found = []
        for usual, other in zip(self.usual.bins, self.other.bins, strict=True):
            places = pane * width + np.concatenate([usual, other])[self.places]
            found.append(np.bincount(places, minlength=len(self) * width).reshape(-1, width))
        return np.stack(found, axis=1)

    @property
    def places(self) -> NDArray[np.intp]:
        """(n,) where each item is in both pools, one after the other."""
        return self.rows + len(self.usual) * self.changed

    def p(self, detector: int) -> NDArray[np.float64]:
        """(n,) p-values by one detector."""
        return np.concatenate([self.usual.p[detector], self.other.p[detector]])[self.places]

    def items(self, start: int, end: int) -> int:
        """How many items the panes from `start` to `end` have."""
        return int(self.starts[max(end, 0)] - self.starts[max(start, 0)])

    def pane(self, number: int) -> Pane:
        """A sealed pane, with all that decisions read of it."""
        tally = counted(self.items(number, number + 1), self.counts[number])
        return Pane(self.slice, START + number * PANE, tally, NO_SAMPLE)

    def window(self, end: int, panes: int, draw: np.random.Generator) -> tuple[Tally, Sample]:
        """The window of so many panes that ends before pane `end`: what it counted, and its sample."""
        first = max(end - panes, 0)
        items = slice(int(self.starts[first]), int(self.starts[end]))
        rows, changed = self.rows[items], self.changed[items]
        usual = np.bincount(rows[~changed], minlength=len(self.usual))
        other = np.bincount(rows[changed], minlength=len(self.other))
        tally = counted(
            len(rows),
            self.counts[first:end].sum(axis=0),
            words=usual @ self.usual.words + other @ self.other.words,
            rank_sum=int(usual @ self.usual.ranks + other @ self.other.ranks),
        )
        return tally, self._sample(usual, other, draw)

    def _sample(self, usual: NDArray[np.intp], other: NDArray[np.intp], draw: np.random.Generator) -> Sample:
        """The window's sample, thinned until no text is in it twice: a repeated text would betray its domain.

        In live traffic texts are new. Of both kinds the same share is kept, so the mixture stays what it is.
        """
        sums, distinct = (np.array([of(usual), of(other)]) for of in (np.sum, np.count_nonzero))
        share = min([1.0, SIZE / max(sums.sum(), 1), *(distinct[sums > 0] / sums[sums > 0])])
        picked = [draw.permutation(np.flatnonzero(each))[: round(share * each.sum())] for each in (usual, other)]
        parts = [pool.rows_of(chosen) for pool, chosen in zip((self.usual, self.other), picked, strict=True)]
        order = draw.permutation(sum(map(len, picked)))
        embedding, logits = (np.concatenate(each)[order] for each in zip(*parts, strict=True))
        return Sample(
            hashes=np.sort(draw.integers(0, 1 << 63, len(order)).astype(np.uint64)),
            content=np.zeros(len(order), np.uint64),
            ids=np.array([""] * len(order)),
            embedding=embedding,
            logits=logits,
            features=half(np.empty((len(order), 0))),
            confidence=single(np.empty((len(order), 0))),
        )


def counted(items: int, p_counts: NDArray[np.int64], *, words: object = 0, rank_sum: int = 0) -> Tally:
    """A tally with what decisions and estimates read; the rest of it is zero."""
    return Tally(
        items=items,
        truncated=0,
        classes=ZEROS,
        p_counts=p_counts,
        p_sums=ZEROS,
        depth_counts=ZEROS,
        depth_sum=0,
        rank_sum=rank_sum,
        confidence_sum=0,
        words=np.asarray(words, np.int64),
    )


ZEROS = np.zeros(len(DEPTH_EDGES), np.int64)
NO_SAMPLE = Sample.of([], np.empty((0, 1)), np.empty((0, 2)))


def stationary(panes: int, usual: Pool, draw: np.random.Generator) -> list[Traffic]:
    """Every slice's usual traffic."""
    nothing = np.zeros(panes)
    return [Traffic.drawn(place, (usual, usual), nothing, draw) for place in range(len(VOLUMES))]
