"""Reliability bins and the expected calibration error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from detectors.reliability import expected_calibration_error, reliability_bins


def test_bins_hold_every_item_once() -> None:
    """Items fall into half-open bins, the lowest confidence into the first; empty bins are left out."""
    bins = reliability_bins(np.array([0.5, 0.55, 0.6, 1.0, 0.2]), np.array([1.0, 0, 1, 1, 0]), 0.5, bins=5)
    assert [(round(each.low, 2), each.items) for each in bins] == [(0.5, 4), (0.9, 1)]
    assert bins[0].confidence == pytest.approx((0.5 + 0.55 + 0.6 + 0.2) / 4)
    assert bins[0].accuracy == 0.5


def test_the_error_is_the_mean_gap() -> None:
    """ECE weighs each bin's gap by its items."""
    bins = reliability_bins(np.array([0.55, 0.55, 0.95, 0.95]), np.array([1.0, 1, 1, 0]), 0.5, bins=5)
    assert expected_calibration_error(bins) == pytest.approx((2 * 0.45 + 2 * 0.45) / 4)


def test_a_calibrated_model_has_almost_no_error() -> None:
    """Where items are right as often as the confidence says, ECE is sampling noise."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 50_000)
    quality = (rng.random(50_000) < confidence).astype(float)
    assert expected_calibration_error(reliability_bins(confidence, quality, 0.5)) < 0.02


def test_no_items_have_no_error() -> None:
    """Without items there are no bins, and ECE is NaN."""
    bins = reliability_bins(np.zeros(0), np.zeros(0))
    assert bins == []
    assert math.isnan(expected_calibration_error(bins))
