"""From labels of a stratified sample to the accuracy of all of it, alone and together with what needs no labels.

The sample is drawn in two steps: N items from the traffic, by chance, and of these some from each stratum to be
labelled. What is estimated is the accuracy on the traffic, of which the N are a part: so labelling all N leaves
the doubt that N items leave.

The estimate weighs each stratum's mean by the items in it (Hajek's, which is Horvitz-Thompson's with weights that
sum to what they stand for). Against plain Horvitz-Thompson it does not move with how many labels happen to be
back: an item asked for and not labelled is as if it had not been drawn, by chance within its stratum.

The interval is Wilson's on an effective number of items, not the estimate plus or minus its standard error: where
every label says right, that would be nothing at all. It counts what unequal weights cost. That the items of a
stratum are alike makes it narrower only as far as the labels there show it: three right ones of three do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from detectors.contract import FitError
from detectors.proportions import LEVEL, normal_width, wilson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from detectors.contract import Vector

# A stratum's own variance counts as its labels less one, that of all strata together as so many.
POOLING = 5.0
# With fewer labels beside one a stratum, nothing says whether predictions and labels go together.
LEAST_FREE = 10


@dataclass(frozen=True)
class Share:
    """A share of right items in [0, 1], as sure as `items` independent ones make it; NaN and 0 without any."""

    value: float
    items: float

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Its bounds."""
        return wilson(self.value, self.items, level)


@dataclass(frozen=True)
class Combined:
    """The prediction-powered share; `power` in [0, 1] is how much the predictions count (PPI++'s lambda)."""

    share: Share
    power: float


@dataclass(frozen=True)
class Survey:
    """Labels of n items out of H strata, in an order in which neighbours are alike.

    `sizes` (H,) items in each stratum; `stratum` (n,) the place of each item's; `quality` (n,) in [0, 1] whether
    the model is right on it. Strata without labels go together with the nearest that has some (`collapsed`).
    FitError where the arrays do not fit together.
    """

    sizes: Vector
    stratum: NDArray[np.integer]
    quality: Vector

    def __post_init__(self) -> None:
        if len(self.stratum) != len(self.quality):
            raise FitError(f"{len(self.stratum)} strata for {len(self.quality)} labels")
        if len(self.stratum) and not 0 <= self.stratum.min() <= self.stratum.max() < len(self.sizes):
            raise FitError(f"a label is of a stratum outside 0..{len(self.sizes) - 1}")
        if (self._counts > self.sizes).any():
            raise FitError("a stratum has more labels than items")

    def __len__(self) -> int:
        return len(self.quality)

    @property
    def _counts(self) -> NDArray[np.int64]:
        """(H,) labels of each stratum."""
        return np.bincount(self.stratum, minlength=len(self.sizes))

    @cached_property
    def collapsed(self) -> tuple[int, ...]:
        """The strata with items but without labels."""
        return tuple(np.flatnonzero((self._counts == 0) & (self.sizes > 0)).tolist())

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """(n,) the place of each item's stratum among those that have labels."""
        return np.asarray(np.searchsorted(self._labelled, self.stratum), np.intp)

    @cached_property
    def _labelled(self) -> NDArray[np.intp]:
        """The strata that have labels."""
        return np.flatnonzero(self._counts)

    @cached_property
    def _held(self) -> Vector:
        """Items of each stratum that has labels, with those of the strata it stands for."""
        held = self.sizes[self._labelled].astype(np.float64)
        for empty in self.collapsed:
            held[int(np.abs(self._labelled - empty).argmin())] += self.sizes[empty]
        return held

    @cached_property
    def weights(self) -> Vector:
        """(n,) for how much of all items each labelled one stands; they sum to 1."""
        labels = self._counts[self._labelled]
        return np.asarray((self._held / self._held.sum() / labels)[self._places], np.float64)

    @cached_property
    def share(self) -> Share:
        """The share of right items by the labels alone."""
        if not len(self):
            return Share(float("nan"), 0.0)
        value = float(np.clip(self.weights @ self.quality, 0.0, 1.0))
        return Share(value, self._spread / (self._between + self._within))

    def combined(self, free: Vector, mean: float) -> Combined:
        """The share by labels and label-free probabilities together (PPI++, Angelopoulos et al. 2023, weighted).

        `free` (n,) says without labels how probably the model is right on each labelled item, `mean` is its mean
        over all items, labelled or not. The power that minimises the variance is used; where the two have nothing
        to do with each other it is 0, and this is `share`.
        """
        spare = len(self) - len(self._labelled)
        if spare < LEAST_FREE:
            return Combined(self.share, 0.0)
        both, own, other = (
            self._moments(*pair) for pair in ((self.quality, free), (self.quality, self.quality), (free, free))
        )
        power = float(np.clip(both / other, 0.0, 1.0)) if other > 0 else 0.0
        left = (own - 2 * power * both + power**2 * other) / own if own > 0 else 1.0
        # The power was chosen on the same labels: that makes the rest look smaller than it is.
        left = min(max(left, 0.0) * spare / (spare - 1), 1.0)
        if left == 1.0:
            return Combined(self.share, 0.0)
        value = float(self.weights @ (self.quality - power * free) + power * mean)
        gain = (self._between + self._within) / (self._between + left * self._within)
        return Combined(Share(float(np.clip(value, 0.0, 1.0)), self.share.items * gain), power)

    @cached_property
    def _spread(self) -> float:
        """The variance of one item, as if one more had been right and one more wrong: never nothing."""
        share = (len(self) * float(self.weights @ self.quality) + 1) / (len(self) + 2)
        return share * (1 - share)

    @cached_property
    def _between(self) -> float:
        """The variance that the N items themselves bring."""
        return self._spread / float(self._held.sum())

    @cached_property
    def _within(self) -> float:
        """The variance that labelling only some of the N brings."""
        strata = len(self._labelled)
        labels = self._counts[self._labelled]
        right = np.bincount(self._places, self.quality, strata)
        off = self.quality - (right / labels)[self._places]
        seen = (np.bincount(self._places, off**2, strata) + POOLING * self._spread) / (labels - 1 + POOLING)
        # As if two more had been right and two more wrong (Agresti and Coull 1998): no less than may well be.
        cautious = (right + 2) / (labels + 4)
        each = self._parts * np.maximum(seen, np.minimum(cautious * (1 - cautious), self._spread))
        total = float(each.sum())
        if not total:
            return 0.0
        # A variance seen on few labels is not sure itself: Satterthwaite's degrees of freedom, and how much wider
        # Student's t is with so many (the first term of its expansion).
        freedom = total**2 / float((each**2 / (labels - 1 + POOLING)).sum())
        return total * (1 + (normal_width() ** 2 + 1) / (4 * freedom)) ** 2

    @cached_property
    def _parts(self) -> Vector:
        """What one item's variance in each stratum adds to that of the mean: W^2 (1/n - 1/N)."""
        labels = self._counts[self._labelled]
        weights = self._held / self._held.sum()
        return np.asarray(weights**2 * (1 / labels - 1 / self._held), np.float64)

    def _moments(self, first: Vector, second: Vector) -> float:
        """What labelling only some brings to the covariance of two weighted means of (n,) values.

        Each stratum's own covariance is pooled with that within all of them.
        """
        strata = len(self._labelled)
        labels = self._counts[self._labelled]
        off = [
            values - (np.bincount(self._places, values, strata) / labels)[self._places]
            for values in (first, second)
        ]
        sums = np.bincount(self._places, off[0] * off[1], strata)
        pooled = sums.sum() / (len(self) - strata)
        return float(self._parts @ ((sums + POOLING * pooled) / (labels - 1 + POOLING)))
