"""Evidence that items no longer come from the source, which may be looked at as often as one likes.

Under the null hypothesis an item's p-value is at or below alpha with a probability of at most q0. A bet on a
higher probability q1 then multiplies its stake by a likelihood ratio whose expectation is at most 1: an e-value.
The bets of successive panes multiplied, begun again whenever they have lost (Page's CUSUM), and averaged over
several alpha, several q1 and all detectors, are an e-detector (Shin, Ramdas and Rinaldo, "E-detectors", 2022):
while nothing has changed, the expected number of panes until it first reaches a threshold A is at least A, however
the panes are cut, whatever their size, and whoever looks when. Nothing has to be corrected for looking often.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from detectors.contract import Vector

# The shares of items that are counted, by p-value. Few extreme items show at 0.01, a slight shift of all at 0.2.
ALPHAS = (0.01, 0.05, 0.2)
# What is bet on: odds of such items that are this many times those of the null.
ODDS = (1.5, 3.0, 8.0)
# p-values are calibrated on finitely many rows, so that the true share at alpha is above alpha half of the time.
# With this probability, for each share, it is above q0. Much smaller than would do for the calibration alone: live
# traffic strays too, by tenant and weekday, and evidence against a q0 that is too low grows without end.
DOUBT = 1e-5
# Evidence beyond what is needed to see a shift is not kept: it would have to be outlived once the shift is over.
MARGIN = log(10)
NOTHING = float("-inf")


@dataclass(frozen=True)
class Bets:
    """What is gained or lost on an item: (D, A, K) log factors for one that is `flagged`, and one that is not.

    Over D detectors, the A shares of ALPHAS, and the K odds of ODDS.
    """

    flagged: NDArray[np.float64]
    unflagged: NDArray[np.float64]

    @classmethod
    def calibrated(cls, rows: Sequence[int]) -> Self:
        """The bets on p-values calibrated on so many rows, for each detector; none where that is no row."""
        q0 = np.array([[[most_flagged(size, alpha)] for alpha in ALPHAS] for size in rows])
        odds = np.array(ODDS) * q0 / (1 - q0)
        q1 = odds / (1 + odds)
        placed = np.array(rows)[:, np.newaxis, np.newaxis] > 0
        return cls(np.where(placed, np.log(q1 / q0), 0.0), np.where(placed, np.log((1 - q1) / (1 - q0)), 0.0))

    @property
    def count(self) -> int:
        """How many bets there are."""
        return self.flagged.size


def most_flagged(rows: int, alpha: float, doubt: float = DOUBT) -> float:
    """q0: the share of source items with p <= alpha that is exceeded with probability `doubt`.

    Of `rows` calibration scores, the k-th lowest with k = floor(alpha (rows + 1)) decides, and the share of the
    source below it is distributed as Beta(k, rows - k + 1).
    """
    # Imported here, because every command imports this module and only the agent asks (26 MB, 0.4 s).
    from scipy.special import betaincinv  # noqa: PLC0415 - see above

    rank = max(int(alpha * (rows + 1) + 1e-9), 1)
    return float(min(betaincinv(rank, max(rows - rank + 1, 1), 1 - doubt), 1 - 1e-9))


@dataclass(frozen=True)
class Evidence:
    """The state of every bet of one stream: log stakes (D, A, K), and the start of the pane each began with."""

    logs: NDArray[np.float64]
    since: NDArray[np.int64]

    @classmethod
    def none(cls, bets: Bets) -> Self:
        """Before the first pane."""
        return cls(np.full(bets.flagged.shape, NOTHING), np.zeros(bets.flagged.shape, np.int64))

    def after(self, bets: Bets, flagged: NDArray[np.integer], items: int, start: int, most: float) -> Self:
        """The evidence with one more pane, that starts at `start`.

        `flagged` (D, A) counts its items with p <= alpha, out of `items`. Stakes are cut at exp(`most`), which can
        only lower the evidence.
        """
        counts = np.asarray(flagged, np.float64)[:, :, np.newaxis]
        gain = counts * bets.flagged + (items - counts) * bets.unflagged
        afresh = self.logs <= 0
        logs = np.minimum(np.where(afresh, 0.0, self.logs) + gain, most)
        return type(self)(logs, np.where(afresh, start, self.since))

    def raised(self, log_value: float, since: int) -> Self:
        """Evidence of the same shape that is worth exp(`log_value`), from this start on."""
        return type(self)(np.full_like(self.logs, log_value), np.full_like(self.since, since))

    @property
    def log(self) -> float:
        """The natural logarithm of the e-value: the mean of all stakes."""
        top = float(self.logs.max())
        return NOTHING if top == NOTHING else top + log(float(np.exp(self.logs - top).mean()))

    @property
    def began(self) -> int:
        """The start of the pane with which the strongest bet began: when the change happened, as it seems."""
        return int(self.since.flat[int(self.logs.argmax())])


def log_threshold(panes: float, streams: int, false_alarms: float) -> float:
    """The log e-value at which a shift is seen: `streams` see at most so many false ones in `panes` panes each.

    Where there is no shift, a stream sees one once in exp(threshold) panes on average, or less often. At least
    log 20, so that a generous budget does not make a shift of noise.
    """
    return max(log(panes * max(streams, 1) / false_alarms), log(20.0))


def most_kept(threshold: float, bets: Bets) -> float:
    """Where the log stake of a bet is cut: where it alone brings the mean to the threshold, and a little above."""
    return threshold + log(bets.count) + MARGIN


def flagged_at(counts: NDArray[np.integer], edges: Sequence[float]) -> NDArray[np.int64]:
    """(D, A) how many items have p <= alpha, for each of ALPHAS, of (D, buckets) counts by upper bound."""
    places: Vector = np.array([list(edges).index(alpha) for alpha in ALPHAS])
    found: NDArray[np.int64] = np.cumsum(counts, axis=1)[:, places.astype(np.intp)]
    return found
