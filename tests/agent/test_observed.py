"""What a window or a table shows is the same numbers, however they came."""

from __future__ import annotations

import numpy as np
import pytest

from agent.observed import drawn, of_rows, of_sample, of_source
from agent.sample import SIZE, Sample
from detectors.contract import Outputs
from detectors.softmax import confidences

ROWS = 40


def _outputs(scale: float = 1.0) -> Outputs:
    rng = np.random.default_rng(0)
    return Outputs(
        scale * rng.normal(size=(ROWS, 6)).astype(np.float32),
        rng.normal(size=(ROWS, 3)),
        scale * rng.normal(size=(ROWS, 4)),
    )


@pytest.mark.parametrize("rows", [0, 1, 7, SIZE, SIZE + 1])
def test_rows_are_drawn_once_each_and_always_alike(rows: int) -> None:
    """A draw holds every row, or `most` different ones, and the next draw holds the same in the same order."""
    chosen = drawn(rows)
    assert len(chosen) == len(set(chosen.tolist())) == min(rows, SIZE)
    assert (chosen == drawn(rows)).all()


def test_a_table_sorted_by_label_is_mixed() -> None:
    """The first half of a draw holds about as many of the last rows as of the first."""
    first = drawn(1000, 500) < 500
    assert 200 < first.sum() < 300


def test_a_window_shows_what_its_rows_show() -> None:
    """A sample, a table's rows and a source's arrays give the same numbers, in the sample's order."""
    outputs, ids = _outputs(), [f"id-{row}" for row in range(ROWS)]
    assert outputs.logits is not None
    assert outputs.features is not None
    sample = Sample.of(ids, outputs.embedding, outputs.logits, outputs.features)
    order = np.array([ids.index(name) for name in sample.ids.tolist()])
    found = of_sample(sample, 2.0)
    rows = of_rows(outputs.take(order), confidences(outputs.logits, 2.0)[order])
    arrays = {
        "embedding": sample.embedding,
        "logits": sample.logits,
        "features": sample.features,
        "labels": np.zeros(ROWS),
    }
    for other in (rows, of_source(arrays, 2.0)):
        for name in ("embedding", "logits", "features"):
            assert (getattr(found, name) == getattr(other, name)).all()
        assert found.confidence == pytest.approx(other.confidence, abs=1e-6)
        assert found.calibrated == pytest.approx(other.calibrated, abs=1e-6)
    assert (found.predicted == outputs.logits.argmax(axis=1)[order]).all()


def test_features_that_are_the_embedding_are_shown_once() -> None:
    """Of a head on the embeddings there are no features beside them, in a table as in a pane."""
    plain = _outputs()
    same = Outputs(plain.embedding, plain.logits, plain.embedding)
    assert of_rows(same.take(np.arange(5)), np.ones((5, 2))).features is None


def test_of_tokens_there_are_confidences_and_no_class() -> None:
    """A sequence labeller's item shows both confidences as they were scored, and no class of its own."""
    confidence = np.stack([np.linspace(0.5, 1, ROWS), np.linspace(0.4, 0.9, ROWS)], axis=1)
    sample = Sample.of([str(row) for row in range(ROWS)], _outputs().embedding, None, confidence=confidence)
    found = of_sample(sample, 3.0)
    assert (found.logits, found.features, found.predicted) == (None, None, None)
    assert sorted(found.confidence) == pytest.approx(confidence[:, 0], abs=1e-6)
    assert sorted(found.calibrated) == pytest.approx(confidence[:, 1], abs=1e-6)
    source = of_source({"embedding": sample.embedding, "confidence": sample.confidence}, 3.0)
    assert (source.confidence == found.confidence).all()


def test_numbers_beyond_half_precision_stay_finite() -> None:
    """Embeddings and features too large for a pane's precision are cut to its ends, in a table as in a pane."""
    outputs = _outputs(scale=1e6)
    ids = [str(row) for row in range(ROWS)]
    sample = Sample.of(ids, outputs.embedding, 1e300 * np.eye(3)[np.zeros(ROWS, int)], outputs.features)
    assert of_sample(sample, 1.0).finite.all()
    assert of_rows(outputs, np.ones((ROWS, 2))).finite.all()
