"""The Verdict: what the labels of one annotation batch decide, frozen. Ratios are fractions, NaN is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.alert_report import Answer, Realised
    from agent.evaluation_report import TargetScore
    from agent.interval import Interval


@dataclass(frozen=True)
class DepthShare:
    """Micro Depth F1 over the labelled `items` less alike than the `percentile`-th of the window's sample."""

    percentile: int
    micro: Interval
    items: int


@dataclass(frozen=True)
class Verdict:
    """What labels say of the window that an annotation batch was drawn from.

    `accuracy` is by the labels alone and `combined` by labels and predictions together, which count with `power`;
    `source` is the model's accuracy at home; all with the interval at `level`. `items` is how many labels of a
    plain random draw would be as sure. `empty_strata` had no label and were taken together with a neighbour.

    `held` is whether the interval of the estimate, at `estimated_level`, holds the realised drop; None where the
    labels do not tell, or nothing had been estimated. `target` is None where no such score can be had:
    `target_reason` says why, as `depth_reason` does where no item has a weight in Depth F1.

    `answer` is whether the drift costs more than `limit`; where that is open `more` labels would tell, None if no
    sensible number would or too few are back to say, and `more_reason` says which, as a sentence.
    """

    realised: Realised
    level: float
    accuracy: Interval
    combined: Interval
    power: float
    items: float
    source: Interval
    source_rows: int
    empty_strata: int
    estimated_level: float
    held: bool | None
    depth: tuple[DepthShare, ...]
    depth_reason: str
    target: TargetScore | None
    target_reason: str
    limit: float
    answer: Answer
    more: int | None
    more_reason: str

    @property
    def left(self) -> int:
        """How many items of the batch are not labelled yet."""
        return self.realised.asked - self.realised.labelled
