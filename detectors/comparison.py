"""The source's held-out sample, ready to be compared with windows: every shift metric two samples can give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from detectors.contract import FitError
from detectors.label_free import AverageThreshold, cbpe, certainty, cot, doc, mano
from detectors.shift import ReverseClassifier, class_shift, confidence_drop, pad
from detectors.softmax import probabilities

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from detectors.contract import Matrix, Vector

# MaNo's truncated form is not monotone for two classes: there the softmax is used throughout.
_TWO = 2
_SOFTMAX_ONLY = 0.0


@dataclass(frozen=True)
class Observed:
    """What the model showed on n items, labels apart.

    `embedding` (n, e); `confidence` and `calibrated` (n,), the probability of what was predicted before and after
    temperature scaling; `logits` (n, C) and `features` (n, d), None where an item has none.
    """

    embedding: Matrix
    confidence: Vector
    calibrated: Vector
    logits: Matrix | None = None
    features: Matrix | None = None

    def __len__(self) -> int:
        return len(self.embedding)

    @property
    def finite(self) -> NDArray[np.bool_]:
        """(n,) whether every number of the item is finite."""
        rows: NDArray[np.bool_] = np.isfinite(self.confidence) & np.isfinite(self.calibrated)
        for part in (self.embedding, self.logits, self.features):
            if part is not None:
                rows &= np.isfinite(part).all(axis=1)
        return rows

    @property
    def predicted(self) -> NDArray[np.intp] | None:
        """(n,) predicted classes, None without logits."""
        if self.logits is None:
            return None
        chosen: NDArray[np.intp] = self.logits.argmax(axis=1)
        return chosen


@dataclass(frozen=True)
class Classified:
    """The parts of a comparison that need a class for every item."""

    counts: NDArray[np.int64]
    labels: NDArray[np.int64]
    threshold: AverageThreshold
    reverse: ReverseClassifier
    temperature: float


@dataclass(frozen=True)
class Comparison:
    """A held-out source sample with its `accuracy`; every method is deterministic given the two samples.

    Rows of both sides must be in random order: PAD and RCA take the first ones.
    """

    source: Observed
    accuracy: float
    classified: Classified | None

    @classmethod
    def fit(
        cls, source: Observed, quality: Vector, labels: NDArray[np.integer] | None, temperature: float
    ) -> Self:
        """From what held-out source items showed, their quality (n,) in [0, 1] and, if any, their classes.

        FitError without rows.
        """
        if not len(source):
            raise FitError("no held-out source items to compare windows with")
        classified = None
        predicted = source.predicted
        if predicted is not None and labels is not None and source.logits is not None:
            classes = source.logits.shape[1]
            classified = Classified(
                counts=np.bincount(predicted, minlength=classes),
                labels=np.bincount(labels, minlength=classes),
                threshold=AverageThreshold.fit(certainty(source.logits), predicted == labels),
                reverse=ReverseClassifier.fit(_features(source), labels, predicted, classes),
                temperature=temperature,
            )
        return cls(source, float(np.mean(quality)), classified)

    def metrics(self, window: Observed) -> dict[str, float]:
        """Every metric by name; each grows with the drop but `mano`, which falls.

        pad, pad_star, conf, conf_calib, rca, rca_star and class_shift are shifts; atc, doc, cbpe and cot are drops
        that their authors' estimators give directly, as the source's accuracy less the estimated one. `cot` is for
        two classes only: for more, each window would take a second and an (n, n) matrix.

        NaN where one cannot be had from so few items. rca, rca_star, class_shift, atc, cot and mano are absent
        where the source has no classes or the window no logits.
        """
        features = _features(window)
        distance = pad(self.source.embedding, window.embedding)
        own = self.source.features is None and window.features is None
        found = {
            "pad": distance,
            "pad_star": distance if own else pad(_features(self.source), features),
            "conf": confidence_drop(self.source.confidence, window.confidence),
            "conf_calib": confidence_drop(self.source.calibrated, window.calibrated),
            "doc": self.accuracy - doc(self.accuracy, self.source.confidence, window.confidence),
            "cbpe": self.accuracy - cbpe(window.calibrated),
        }
        return found | self._classified(window, features)

    def _classified(self, window: Observed, features: Matrix) -> dict[str, float]:
        parts, predicted = self.classified, window.predicted
        if parts is None or predicted is None or window.logits is None:
            return {}
        reverse = parts.reverse.against(features, predicted)
        classes = window.logits.shape[1]
        found = {
            "rca": reverse.rca,
            "rca_star": reverse.rca_star,
            "class_shift": class_shift(parts.counts, np.bincount(predicted, minlength=classes)),
            "atc": self.accuracy - parts.threshold.accuracy(certainty(window.logits)),
            "mano": mano(window.logits, **({"threshold": _SOFTMAX_ONLY} if classes == _TWO else {})),
        }
        if classes == _TWO:
            found["cot"] = self.accuracy - cot(probabilities(window.logits, parts.temperature), parts.labels)
        return found


def _features(observed: Observed) -> Matrix:
    """The task model's features, or the embedding where it gives none or reads the embedding itself."""
    return observed.embedding if observed.features is None else observed.features
