"""The comparison of a window with the source, held against each metric computed on its own."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from detectors.calibration import fit_temperature
from detectors.comparison import Comparison, Observed
from detectors.contract import FitError
from detectors.label_free import AverageThreshold, cbpe, certainty, cot, doc, mano
from detectors.shift import ReverseClassifier, class_shift, confidence_drop, pad
from detectors.softmax import probabilities

CLASSED = {"rca", "rca_star", "class_shift", "atc", "mano"}
PLAIN = {"pad", "pad_star", "conf", "conf_calib", "doc", "cbpe"}


def shown(
    seed: int, rows: int, classes: int = 3, offset: float = 0.0, temperature: float = 1.0
) -> tuple[Observed, np.ndarray]:
    """What a model shows on items moved along the first axis, and their classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    features = 1.5 * np.eye(6)[labels] + rng.normal(0, 0.7, (rows, 6))
    features[:, 0] += offset
    logits = 3 * features[:, :classes]
    embedding = features @ np.random.default_rng(0).normal(size=(6, 4))
    raw, calibrated = (probabilities(logits, each).max(axis=1) for each in (1.0, temperature))
    return Observed(embedding, raw, calibrated, logits, features), labels


def compared(classes: int = 3, rows: int = 200) -> tuple[Comparison, Observed, np.ndarray, float]:
    """A fitted source, what it was fitted on, its classes and temperature."""
    first, labels = shown(1, rows, classes)
    temperature = fit_temperature(first.logits, labels).value
    source, labels = shown(1, rows, classes, temperature=temperature)
    right = (source.predicted == labels).astype(np.float64)
    return Comparison.fit(source, right, labels, temperature), source, labels, temperature


@pytest.mark.parametrize("classes", [2, 3])
def test_every_metric_is_what_its_function_gives(classes: int) -> None:
    """Each entry equals the metric computed on its own; estimates of accuracy are turned into drops."""
    comparison, source, labels, temperature = compared(classes)
    window, _ = shown(2, 150, classes, offset=1.0, temperature=temperature)
    accuracy = (source.predicted == labels).mean()
    counts = [np.bincount(part.predicted, minlength=classes) for part in (source, window)]
    reverse = ReverseClassifier.fit(source.features, labels, source.predicted, classes)
    shift = reverse.against(window.features, window.predicted)
    threshold = AverageThreshold.fit(certainty(source.logits), source.predicted == labels)
    calibrated = probabilities(window.logits, temperature)
    expected = {
        "pad": pad(source.embedding, window.embedding),
        "pad_star": pad(source.features, window.features),
        "conf": confidence_drop(source.confidence, window.confidence),
        "conf_calib": confidence_drop(source.calibrated, window.calibrated),
        "rca": shift.rca,
        "rca_star": shift.rca_star,
        "class_shift": class_shift(*counts),
        "doc": accuracy - doc(accuracy, source.confidence, window.confidence),
        "cbpe": accuracy - cbpe(calibrated.max(axis=1)),
        "atc": accuracy - threshold.accuracy(certainty(window.logits)),
        "mano": mano(window.logits, threshold=0.0) if classes == 2 else mano(window.logits),
    }
    if classes == 2:
        expected["cot"] = accuracy - cot(calibrated, np.bincount(labels, minlength=2))
    assert comparison.metrics(window) == pytest.approx(expected)
    assert comparison.accuracy == accuracy


@pytest.mark.parametrize("classes", [2, 3])
def test_the_source_against_itself_shows_no_shift(classes: int) -> None:
    """Of its own sample every shift is zero, and the threshold's drop too; calibrated drops are small."""
    comparison, source, _, _ = compared(classes)
    found = comparison.metrics(source)
    for name in ("pad", "pad_star", "conf", "conf_calib", "class_shift", "doc", "atc"):
        assert found[name] == pytest.approx(0, abs=1e-9)
    assert abs(found["cbpe"]) < 0.03
    assert abs(found.get("cot", 0.0)) < 0.03


def test_metrics_grow_with_the_shift() -> None:
    """Moving the window away from the source, most of all onto another class, raises the distances."""
    comparison, *_, temperature = compared()
    near, far = (comparison.metrics(shown(3, 300, offset=by, temperature=temperature)[0]) for by in (0.3, 3.0))
    for name in ("pad", "pad_star", "rca", "rca_star", "class_shift"):
        assert near[name] < far[name]


def test_rca_and_its_star_differ_by_a_constant() -> None:
    """For one source their difference is the same for every window."""
    comparison, *_ = compared()
    found = [comparison.metrics(shown(seed, 100, offset=seed / 4)[0]) for seed in range(4)]
    gaps = [part["rca"] - part["rca_star"] for part in found]
    assert gaps == pytest.approx([gaps[0]] * 4)


def test_without_features_the_embedding_takes_their_place() -> None:
    """Where the model reads the embedding itself PAD* is PAD."""
    _, source, labels, temperature = compared()
    window, _ = shown(4, 120, offset=0.5)
    bare = [replace(part, features=None) for part in (source, window)]
    found = Comparison.fit(bare[0], np.ones(200), labels, temperature).metrics(bare[1])
    assert found["pad_star"] == found["pad"]
    assert set(found) == PLAIN | CLASSED


def test_without_classes_the_metrics_that_need_them_are_absent() -> None:
    """Without labels of the source, or logits of either side, only distances and confidences remain."""
    comparison, source, labels, temperature = compared()
    window, _ = shown(5, 100)
    quality = np.linspace(0, 1, 200)
    unlabelled = Comparison.fit(source, quality, None, temperature)
    silent = Comparison.fit(replace(source, logits=None), quality, labels, temperature)
    assert set(unlabelled.metrics(window)) == set(silent.metrics(window)) == PLAIN
    assert set(comparison.metrics(replace(window, logits=None))) == PLAIN
    assert set(comparison.metrics(window)) == PLAIN | CLASSED
    assert unlabelled.accuracy == pytest.approx(0.5)
    assert replace(source, logits=None).predicted is None


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_small_windows_have_nan_and_no_warning(rows: int) -> None:
    """PAD of too few rows is NaN, as is everything of none; what a single row can give is a number."""
    comparison, *_ = compared()
    window, _ = shown(6, rows)
    found = comparison.metrics(window)
    assert set(found) == PLAIN | CLASSED
    assert math.isnan(found["pad"])
    assert all(math.isnan(value) for value in found.values()) == (rows == 0)
    assert math.isnan(found["conf"]) == math.isnan(found["atc"]) == (rows == 0)


def test_a_window_of_one_predicted_class_teaches_nothing() -> None:
    """Where all predictions are alike both RCAs are NaN, and the others are numbers."""
    comparison, *_ = compared()
    window, _ = shown(7, 60, offset=50.0)
    found = comparison.metrics(window)
    assert {name for name, value in found.items() if math.isnan(value)} == {"rca", "rca_star"}


def test_constant_and_repeated_items_are_no_trap() -> None:
    """A window of one item many times, or of zeros, has numbers but for the RCAs."""
    comparison, *_ = compared()
    window, _ = shown(8, 40)
    same = Observed(*(np.repeat(part[:1], 40, axis=0) for part in vars(window).values()))
    zeros = Observed(*(np.zeros_like(part) for part in vars(window).values()))
    for constant in (same, zeros):
        found = comparison.metrics(constant)
        assert {name for name, value in found.items() if math.isnan(value)} == {"rca", "rca_star"}


def test_a_comparison_is_deterministic_and_writes_to_nothing() -> None:
    """Asked twice it gives the same, and neither the window nor the source changes."""
    comparison, source, *_ = compared()
    window, _ = shown(9, 80, offset=0.2)
    copies = [part.copy() for observed in (source, window) for part in vars(observed).values()]
    assert comparison.metrics(window) == comparison.metrics(window)
    parts = [part for observed in (source, window) for part in vars(observed).values()]
    for part, copy in zip(parts, copies, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_items_are_finite_in_every_part() -> None:
    """A NaN or infinity in any array of an item marks it, and absent arrays mark none."""
    window, _ = shown(11, 8)
    window.confidence[0] = np.nan
    window.calibrated[1] = np.inf
    window.embedding[2, 3] = np.nan
    window.logits[3, 1] = -np.inf
    window.features[4, 5] = np.nan
    np.testing.assert_array_equal(window.finite, np.arange(8) > 4)
    bare = replace(window, logits=None, features=None)
    np.testing.assert_array_equal(bare.finite, np.arange(8) > 2)


@pytest.mark.parametrize("labelled", [True, False])
def test_no_source_items_no_comparison(*, labelled: bool) -> None:
    """Without held-out rows, labelled or not, there is nothing to compare with."""
    source, labels = shown(10, 0)
    with pytest.raises(FitError, match="no held-out source items"):
        Comparison.fit(source, np.empty(0), labels if labelled else None, 1.0)
    assert len(source) == 0
