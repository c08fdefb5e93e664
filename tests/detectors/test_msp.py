"""Maximum softmax probability, held against its definition."""

from __future__ import annotations

import numpy as np

from detectors.contract import Outputs, Source
from detectors.msp import MSP


def test_msp_is_the_largest_softmax_probability(source: Source) -> None:
    """The score is max exp(z_c) / sum exp(z_j), computed here in extended precision."""
    logits = np.random.default_rng(0).normal(0, 6, (50, 5))
    powers = np.exp(logits.astype(np.longdouble))
    expected = [max(row) / sum(row) for row in powers]
    scores = MSP.fit(source).score(Outputs(embedding=logits, logits=logits))
    np.testing.assert_allclose(scores, np.array(expected, np.float64), rtol=1e-13)


def test_confident_float32_items_do_not_tie(source: Source) -> None:
    """Margins at which a float32 softmax has long reached 1 still rank."""
    margins = np.array([18, 20, 25, 30], np.float32)
    logits = np.column_stack([margins, np.zeros_like(margins)])
    scores = MSP.fit(source).score(Outputs(embedding=logits, logits=logits))
    assert (np.diff(scores) > 0).all()
