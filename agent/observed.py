"""What estimates are made from: a window's sample, or a table's rows, as the model showed itself on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agent.sample import SIZE, half, single
from detectors.comparison import Observed
from detectors.softmax import confidences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from agent.sample import Sample
    from detectors.contract import Outputs

# Every table's rows are drawn alike, whatever its order: a file sorted by label must not decide a fold.
_SEED = 0


def drawn(rows: int, most: int = SIZE) -> NDArray[np.intp]:
    """At most `most` of so many rows, in random order; the same each time."""
    chosen: NDArray[np.intp] = np.random.default_rng(_SEED).permutation(rows)[:most]
    return chosen


def of_sample(sample: Sample, temperature: float) -> Observed:
    """What the sampled items of a window show; they lie in the order of their ids' hashes, so at random."""
    confidence = sample.confidences(temperature)
    return _observed(sample.embedding, confidence, sample.logits, sample.features)


def of_rows(outputs: Outputs, confidence: NDArray[np.floating]) -> Observed:
    """What n rows show, rounded as a window's sample is; `confidence` (n, 2), raw and calibrated."""
    own = outputs.features is outputs.embedding
    features = None if own or outputs.features is None else half(outputs.features)
    logits = None if outputs.logits is None else single(outputs.logits)
    return _observed(half(outputs.embedding), confidence, logits, features)


def of_source(arrays: Mapping[str, NDArray[np.generic]], temperature: float) -> Observed:
    """What the source's held-out rows show, as a reference keeps them (SourceFacts.sample)."""
    logits = _some(arrays.get("logits"))
    confidence = arrays["confidence"] if logits is None else confidences(logits, temperature)
    return _observed(arrays["embedding"], confidence, logits, arrays.get("features"))


def _observed(
    embedding: NDArray[np.generic],
    confidence: NDArray[np.generic],
    logits: NDArray[np.generic] | None,
    features: NDArray[np.generic] | None,
) -> Observed:
    raw, calibrated = np.asarray(confidence, np.float64).T
    return Observed(np.asarray(embedding, np.float32), raw, calibrated, _some(logits), _some(features))


def _some(values: NDArray[np.generic] | None) -> NDArray[np.float32] | None:
    """Numbers in single precision, None where there is no column of them."""
    return None if values is None or not values.shape[1] else np.asarray(values, np.float32)
