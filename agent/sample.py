"""A bottom-k sample: the k items whose ids hash lowest.

Deterministic, independent of order, and free of duplicates, so that the samples of N replicas merge into the
sample one replica would have drawn. The hash is uniform, so the sample is uniform over distinct ids.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from detectors.softmax import confidences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

SIZE = 2_000
EVERY_HASH = np.uint64(np.iinfo(np.uint64).max)


def digests(values: Sequence[bytes]) -> NDArray[np.uint64]:
    """(n,) 64-bit BLAKE2b digests, the same on every machine."""
    joined = b"".join(blake2b(value, digest_size=8).digest() for value in values)
    return np.frombuffer(joined, np.dtype("<u8")).astype(np.uint64)


def id_hashes(ids: Sequence[str]) -> NDArray[np.uint64]:
    """(n,) the hash of each id: what decides which items are kept."""
    return digests([name.encode("utf-8", "surrogatepass") for name in ids])


_HALF, _SINGLE = np.finfo(np.float16), np.finfo(np.float32)


def half(values: NDArray[np.floating]) -> NDArray[np.float16]:
    """The values in half precision, those beyond its range at its ends."""
    kept: NDArray[np.float16] = np.clip(values, _HALF.min, _HALF.max).astype(np.float16)
    return kept


def single(values: NDArray[np.floating]) -> NDArray[np.float32]:
    """The values in single precision, those beyond its range at its ends."""
    kept: NDArray[np.float32] = np.clip(values, _SINGLE.min, _SINGLE.max).astype(np.float32)
    return kept


def _row_bytes(columns: Sequence[NDArray[Any]]) -> list[bytes]:
    """What each row holds, column after column."""
    flat = [np.ascontiguousarray(column).view(np.uint8) for column in columns]
    return [row.tobytes() for row in np.concatenate(flat, axis=1)]


@dataclass(frozen=True)
class Sample:
    """m <= k items: the hash of their ids, then what estimates need of them, row by row, sorted by hash.

    `content` tells two deliveries of one id apart, so that the one kept does not depend on which came first.
    Of a classifier there are `logits` (m, C) and `confidence` is (m, 0); where tokens are labelled, `logits` is
    (m, 0) and `confidence` (m, 2), raw and calibrated.
    """

    hashes: NDArray[np.uint64]
    content: NDArray[np.uint64]
    ids: NDArray[np.str_]
    embedding: NDArray[np.float16]
    logits: NDArray[np.float32]
    features: NDArray[np.float16]
    confidence: NDArray[np.float32]
    size: int = SIZE

    @classmethod
    def of(  # noqa: PLR0913 - the columns
        cls,
        ids: Sequence[str],
        embedding: NDArray[np.floating],
        logits: NDArray[np.floating] | None,
        features: NDArray[np.floating] | None = None,
        size: int = SIZE,
        *,
        confidence: NDArray[np.floating] | None = None,
        hashes: NDArray[np.uint64] | None = None,
    ) -> Self:
        """The sample of these items.

        (n, e) embeddings, and where there are any (n, C) logits, (n, d) features, (n, 2) confidences; `hashes` are
        those of the ids, where they are known.
        """
        nothing = np.empty((len(ids), 0))
        kept = (
            half(embedding),
            single(nothing if logits is None else logits),
            half(nothing if features is None else features),
            (nothing if confidence is None else confidence).astype(np.float32),
        )
        found = id_hashes(ids) if hashes is None else hashes
        return cls(found, digests(_row_bytes(kept)), np.array(ids, np.str_), *kept, size).lowest()

    def __len__(self) -> int:
        return len(self.hashes)

    def confidences(self, temperature: float) -> NDArray[np.float64]:
        """(m, 2) the raw confidence of each item, and the one calibrated by this temperature.

        Where tokens are labelled, both as they were when the item was scored.
        """
        if self.confidence.shape[1]:
            return self.confidence.astype(np.float64)
        return confidences(self.logits, temperature)

    @property
    def ceiling(self) -> np.uint64:
        """The highest hash that an item may have to be kept when it is merged in."""
        return self.hashes[-1] if len(self) == self.size else EVERY_HASH

    def merge(self, other: Self) -> Self:
        """The sample of both sets of items together. Associative, commutative, idempotent."""
        if not (other.hashes <= self.ceiling).any():
            return self
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.columns()
        }
        return replace(self, **joined).lowest()

    def below(self, ceiling: np.uint64) -> Self:
        """The items whose hash is at most `ceiling`; itself where that is all of them."""
        kept = int(np.searchsorted(self.hashes, ceiling, side="right"))
        if kept == len(self):
            return self
        return replace(self, **{name: getattr(self, name)[:kept].copy() for name in self.columns()})

    @classmethod
    @cache
    def columns(cls) -> tuple[str, ...]:
        """The names of the arrays that hold a row an item."""
        return tuple(item.name for item in fields(cls) if item.name != "size")

    def lowest(self) -> Self:
        """The `size` rows with the lowest hashes, each id once."""
        order = np.lexsort((self.content, self.hashes))
        distinct = np.ones(len(order), np.bool_)
        hashes = self.hashes[order]
        distinct[1:] = hashes[1:] != hashes[:-1]
        rows = order[distinct][: self.size]
        return replace(self, **{name: getattr(self, name)[rows] for name in self.columns()})


def thinned(samples: Iterable[Sample]) -> list[Sample]:
    """The samples of one slice's panes, newest first, without the items that no window can show any more.

    A window that reaches back to a pane holds every newer pane too. So an item that is not among the lowest of
    its own pane and all newer ones together is in no window's sample, now or later: merges stay exact, and 36
    panes keep four times the items of one instead of 36 times.
    """
    lowest = np.empty(0, np.uint64)
    kept = []
    for sample in samples:
        lowest = np.union1d(lowest, sample.hashes)[: sample.size]
        kept.append(sample.below(lowest[-1]) if len(lowest) == sample.size else sample)
    return kept
