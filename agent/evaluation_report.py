"""The Evaluation: everything that is said of a model on one labelled table, frozen. Exporters read it.

Ratios are fractions. A number that cannot be had is NaN, and the field beside it says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.interval import Interval
    from agent.report import DropEstimate


@dataclass(frozen=True)
class DepthPoint:
    """Depth F1 over the items more dissimilar than the `percentile`-th (lambda), NaN where no item is left.

    `micro` weighs each item's quality by how dissimilar it is, with its interval; `macro` is over classes.
    """

    percentile: int
    micro: Interval
    macro: float
    items: int


@dataclass(frozen=True)
class DepthScores:
    """Depth F1 by lambda, upwards. `clipped` items lie deeper than all of the source and so weigh nothing.

    `q` is the chance that a source item lies no deeper than an item of this table: 0.5 where they lie alike,
    towards 0 as the table becomes dissimilar. `reason` says why Depth F1 is NaN, and is empty where it is not.
    """

    points: tuple[DepthPoint, ...]
    clipped: int
    q: float
    reason: str


@dataclass(frozen=True)
class TargetScore:
    """What a model trained on this table itself would reach (TT), and what that says (domain robustness).

    `td` = TT - accuracy, what such training would give back; `idd` = SS - TT, how much harder the table is by
    itself. `meaning` says the scenario in words. `rows` is how many rows each of the
    cross-validated heads was trained on, `folds` how many heads.
    """

    tt: Interval
    td: Interval
    idd: Interval
    scenario: str
    meaning: str
    rows: int
    folds: int


@dataclass(frozen=True)
class CalibrationBin:
    """`items` whose mean confidence is `confidence`, and how many of them the model got right: the truth."""

    items: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """Whether the confidence called `name` means what it says; `ece` is how far it is off on average."""

    name: str
    ece: float
    bins: tuple[CalibrationBin, ...]


@dataclass(frozen=True)
class Densities:
    """Two histograms over common edges: the share of source and of target values in each bin.

    `source` and `target` hold one share fewer than there are `edges` and sum to 1: what lies outside the edges is
    in the outermost bins.
    """

    edges: tuple[float, ...]
    source: tuple[float, ...]
    target: tuple[float, ...]


@dataclass(frozen=True)
class DetectorScores:
    """One detector's scores, and the share of items that it calls out of distribution: those below `threshold`.

    `threshold` is NaN where the detector has too few validation scores to call any item that.
    """

    name: str
    primary: bool
    ood_ratio: float
    threshold: float
    densities: Densities


@dataclass(frozen=True)
class ClassScores:
    """One class: its true `items` (of a sequence labeller: tokens), how often it was `predicted`, and how well.

    `confused_with` is the class that its items are most often taken for by mistake, empty if none.
    """

    label: str
    items: int
    predicted: int
    recall: float
    precision: float
    f1: float
    confused_with: str


@dataclass(frozen=True)
class DissimilarItem:
    """One of the items least like the source; the text may be cut. `quality` is 1 where the model is right."""

    id: str
    text: str
    label: str
    prediction: str
    confidence: float
    depth: float
    quality: float


@dataclass(frozen=True)
class Evaluation:
    """A model on a labelled table of n items, beside the source it was trained on.

    `accuracy` and `source_accuracy` (SS, on `source_rows` held-out rows) are mean qualities, `sd` = SS - accuracy,
    each with the interval at `level`. `target` is None where no such score can be had: `target_reason` says why.
    `estimate` is the drop as estimated without the labels, None where nobody asked. `unavailable` maps a detector
    that could not be fitted to the reason.
    """

    model: str
    reference_id: str
    table: str
    labels_tokens: bool
    n: int
    level: float
    accuracy: Interval
    macro_f1: float
    source_rows: int
    source_accuracy: Interval
    sd: Interval
    depth: DepthScores
    target: TargetScore | None
    target_reason: str
    estimate: DropEstimate | None
    calibrations: tuple[Calibration, ...]
    depths: Densities
    detectors: tuple[DetectorScores, ...]
    classes: tuple[ClassScores, ...]
    dissimilar: tuple[DissimilarItem, ...]
    unavailable: Mapping[str, str]
