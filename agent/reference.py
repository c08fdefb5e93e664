"""The reference: everything fitted on the source, frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from agent.taught import Taught
    from agent.words import Vocabulary
    from detectors.calibration import Temperature
    from detectors.contract import Detector, Head, Vector
    from detectors.drop import DropEstimator


@dataclass(frozen=True)
class EncoderIdentity:
    """Which encoder the embeddings came from, and where it was when the reference was fitted."""

    name: str
    sha256: str
    path: str


@dataclass(frozen=True)
class TaskIdentity:
    """How the task model's outputs are had, how many features come with them, and which ONNX model gives them.

    `kind` says what it decides on: "classification", the whole text, or "tokens", each of them.
    """

    outputs: str
    features: int = 0
    sha256: str = ""
    path: str = ""
    kind: str = "classification"

    @property
    def labels_tokens(self) -> bool:
        """Whether it labels tokens, so that each item brings its own, with their logits."""
        return self.kind == "tokens"


@dataclass(frozen=True)
class Domain:
    """A labelled reference domain: n rows, accuracy there, the drop against the source, and how far it shifted.

    Accuracy is the mean quality of the rows: right or wrong, or the share of a row's tokens that are right.
    `drop` = SS - ST, the source's test accuracy less the accuracy here. `shift` maps a shift metric to its value.
    `left_out` is the drop estimated here, and its bounds, as if this domain had no labels; None where none can be.
    """

    name: str
    n: int
    accuracy: float
    drop: float
    shift: Mapping[str, float]
    left_out: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Trust:
    """How far the estimates against a reference can be trusted.

    `refusal` says why there are none, and is empty where there are. `error` is half the width of the interval for
    a new domain of `items` items; `covered` is the share of `checked` errors on left-out domains that lay within
    the interval which the other domains gave.
    """

    refusal: str
    error: float = float("nan")
    items: float = float("nan")
    covered: float = float("nan")
    checked: int = 0


@dataclass(frozen=True)
class SourceFacts:
    """What is kept of the source besides the detectors.

    `depths` (m,) sorted upwards; `words` counts over the vocabulary; `sample` arrays of held-out source rows
    (embedding, logits, features, labels; where tokens are labelled, confidence (m, 2), raw and calibrated, and
    quality (m,) instead of logits and labels); `rows` and `accuracy` by split.
    """

    rows: Mapping[str, int]
    accuracy: Mapping[str, float]
    depths: Vector
    vocabulary: Vocabulary
    words: NDArray[np.int64]
    sample: Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Calibrated:
    """A fitted detector with its sorted validation scores (m,)."""

    detector: Detector
    validation_scores: Vector


@dataclass(frozen=True)
class Version:
    """An earlier version of a reference, and the episode whose labels the next one added to it."""

    id: str
    episode: str


@dataclass(frozen=True)
class Reference:
    """The frozen, fitted bundle. `unavailable` says why a detector could not be fitted.

    `home` holds the shift metrics of the source's own validation rows: what they are where nothing shifted.
    `earlier` names the versions that this one came from, the first one first; all have the same source, detectors
    and p-values. `taught` is what the estimator learnt from: held while one is fitted, read from a bundle only
    where asked for, None where items have no class.
    """

    model: str
    labels: tuple[str, ...]
    task: TaskIdentity
    encoder: EncoderIdentity
    preset: str
    primary: str
    detectors: Mapping[str, Calibrated]
    unavailable: Mapping[str, str]
    head: Head | None
    temperature: Temperature
    source: SourceFacts
    domains: tuple[Domain, ...]
    trust: Trust
    estimator: DropEstimator | None = None
    home: Mapping[str, float] = field(default_factory=dict)
    earlier: tuple[Version, ...] = ()
    taught: Taught | None = None
    id: str = ""

    @property
    def ids(self) -> frozenset[str]:
        """Its own id and those of its earlier versions, with which it shares its source and its detectors."""
        return frozenset({self.id, *(version.id for version in self.earlier)})
