"""Class shares of unlabelled items, held against simulated worlds and the algebra of tilts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from detectors.label_prior import (
    CHANGED,
    CHANGED_SPREAD,
    Tilts,
    agreed,
    centred_log,
    from_logs,
    likeliest_prior,
    matched,
    restated,
)
from detectors.softmax import probabilities

SEEDS = st.integers(0, 2**32 - 1)
CLASSES = st.integers(2, 5)
DEVIATIONS = st.floats(0.05, 2.0)


def shares(seed: int, classes: int) -> np.ndarray:
    """(C,) random class shares, none below 2 %."""
    drawn = np.random.default_rng(seed).dirichlet(np.ones(classes))
    return 0.02 + (1 - 0.02 * classes) * drawn


def posteriors(seed: int, rows: int, classes: int, sure: float = 2.0) -> np.ndarray:
    """(n, C) random posteriors, tilted to some class."""
    rng = np.random.default_rng(seed)
    return probabilities(rng.normal(0, sure, (rows, classes)) + rng.normal(0, 0.5, classes))


def calibrated(rng: np.random.Generator, rows: int, true: np.ndarray, assumed: np.ndarray) -> np.ndarray:
    """(n, C) posteriors by Bayes' rule under `assumed` of gaussian items whose classes occur as `true`."""
    classes = len(true)
    centres = 1.5 * np.eye(classes)
    items = centres[rng.choice(classes, rows, p=true)] + rng.normal(size=(rows, classes))
    return probabilities(items @ centres.T - np.square(centres).sum(axis=1) / 2 + np.log(assumed))


@given(seed=SEEDS, classes=CLASSES)
def test_centred_logs_lead_back_to_the_shares(seed: int, classes: int) -> None:
    """Centred log-ratios sum to zero, and a softmax of them, or of them moved alike, gives the shares back."""
    prior = shares(seed, classes)
    logs = centred_log(prior)
    assert logs.sum() == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(from_logs(logs), prior, rtol=1e-12)
    np.testing.assert_allclose(from_logs(logs + 900), prior, rtol=1e-9)


def test_an_absent_class_has_a_finite_log_ratio() -> None:
    """A share of zero counts as a thousandth, in a stack of shares as alone."""
    both = np.array([[1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_allclose(centred_log(both)[0], np.array([1, -1]) * np.log(1000) / 2)
    np.testing.assert_array_equal(centred_log(both)[1], centred_log(both[1]))


@pytest.mark.parametrize(
    ("true", "assumed"),
    [
        ([0.5, 0.5], [0.5, 0.5]),
        ([0.9, 0.1], [0.5, 0.5]),
        ([0.3, 0.7], [0.8, 0.2]),
        ([0.6, 0.3, 0.1], [0.2, 0.3, 0.5]),
        ([0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]),
    ],
)
def test_the_likeliest_prior_is_the_true_one_where_posteriors_are_calibrated(
    true: list[float], assumed: list[float]
) -> None:
    """Bayes posteriors made under the wrong class shares still tell the right ones, within sampling."""
    rng = np.random.default_rng(1)
    found = likeliest_prior(calibrated(rng, 20_000, np.array(true), np.array(assumed)), np.array(assumed))
    np.testing.assert_allclose(found, true, atol=0.015)


@given(seed=SEEDS, classes=CLASSES)
def test_no_other_prior_is_likelier(seed: int, classes: int) -> None:
    """The likelihood sum log(p . q / prior) is no larger at random other shares q."""
    posterior, prior = posteriors(seed, 40, classes), shares(seed, classes)
    found = likeliest_prior(posterior, prior)
    likelihood = np.log(posterior @ (found / prior)).sum()
    for other in range(20):
        assert np.log(posterior @ (shares(other, classes) / prior)).sum() <= likelihood + 0.02


@given(seed=SEEDS, classes=CLASSES)
def test_the_likeliest_prior_is_a_fixed_point_of_bayes_rule(seed: int, classes: int) -> None:
    """Posteriors made anew under the shares found have these as their mean, but for the floor of rare ones."""
    posterior, prior = posteriors(seed, 60, classes), shares(seed, classes)
    found = likeliest_prior(posterior, prior)
    anew = posterior * found / prior
    anew /= anew.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(anew.mean(axis=0), found, atol=1.1e-3 * classes)
    assert found.sum() == pytest.approx(1)
    assert found.min() > 0.9e-3


def test_a_class_unknown_to_the_prior_stays_rare() -> None:
    """With a share of zero for a class that no posterior believes in, the others are found as without it."""
    posterior, prior = posteriors(2, 500, 2), np.array([0.4, 0.6])
    wider = likeliest_prior(np.column_stack([posterior, np.zeros(500)]), np.array([0.4, 0.6, 0.0]))
    np.testing.assert_allclose(wider[:2], likeliest_prior(posterior, prior), atol=2e-3)
    assert wider[2] == pytest.approx(1e-3, rel=0.01)


@given(seed=SEEDS, rows=st.integers(1, 5), classes=CLASSES, sure=st.sampled_from([0.1, 10.0, 300.0]))
def test_few_items_have_a_finite_prior(seed: int, rows: int, classes: int, sure: float) -> None:
    """One to five items, in doubt or sure to the last digit, give shares that sum to one."""
    found = likeliest_prior(posteriors(seed, rows, classes, sure), np.full(classes, 1 / classes))
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)


@given(seed=SEEDS, rows=st.integers(1, 200), classes=CLASSES, sure=st.floats(0.1, 8.0))
def test_matched_posteriors_have_the_prior_as_their_mean(seed: int, rows: int, classes: int, sure: float) -> None:
    """Their mean is the prior, rows sum to one, and log-ratios within a row changed by one offset a class."""
    posterior, prior = posteriors(seed, rows, classes, sure), shares(seed, classes)
    found = matched(posterior, prior)
    np.testing.assert_allclose(found.mean(axis=0), prior, atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    offsets = np.log(found) - np.log(posterior)
    offsets -= offsets[:, :1]
    np.testing.assert_allclose(offsets, np.broadcast_to(offsets[0], offsets.shape), atol=1e-6)


def test_sure_items_are_matched_too() -> None:
    """Where one item in a hundred is in doubt, scaling alone would take thousands of rounds: the mean is right."""
    logits = np.where(np.arange(2000) % 2 == 0, 14.0, -14.0)
    logits[:20] = np.linspace(-2, 2, 20)
    posterior = probabilities(np.column_stack([logits, np.zeros(2000)]))
    for prior in (np.array([0.498, 0.502]), np.array([0.3, 0.7])):
        np.testing.assert_allclose(matched(posterior, prior).mean(axis=0), prior, atol=1e-5)


@given(seed=SEEDS, classes=CLASSES)
def test_what_matches_is_left_alone(seed: int, classes: int) -> None:
    """Posteriors whose mean is the prior come back as they are; matching twice is matching once."""
    posterior = posteriors(seed, 50, classes)
    copy = posterior.copy()
    np.testing.assert_array_equal(matched(posterior, posterior.mean(axis=0)), posterior)
    once = matched(posterior, shares(seed, classes))
    np.testing.assert_array_equal(matched(once, shares(seed, classes)), once)
    np.testing.assert_array_equal(posterior, copy)


def test_matching_does_not_depend_on_the_path() -> None:
    """By way of another prior the same posteriors are reached."""
    posterior = posteriors(3, 300, 3)
    way = matched(posterior, np.array([0.1, 0.1, 0.8]))
    goal = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(matched(way, goal), matched(posterior, goal), atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 5, 300])
def test_certainty_and_absent_classes_are_no_trap(rows: int) -> None:
    """With posteriors of exactly 0 and 1 and priors of exactly 0, rows stay finite and sum to one."""
    certain = np.eye(3)[np.arange(rows) % 2]  # no item can be of class 2
    for prior in ([0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]):
        found = matched(certain, np.array(prior))
        np.testing.assert_array_equal(found, certain)


def test_a_class_no_item_can_be_leaves_its_share_to_the_others() -> None:
    """With a column of zeros the others are matched in proportion."""
    posterior = np.column_stack([posteriors(4, 100, 2), np.zeros(100)])
    found = matched(posterior, np.array([0.2, 0.6, 0.2]))
    np.testing.assert_allclose(found.mean(axis=0), [0.25, 0.75, 0], atol=1e-5)


def test_a_prior_of_zero_empties_a_class() -> None:
    """Where the prior gives a class nothing, no item in doubt is of that class."""
    found = matched(posteriors(5, 100, 3), np.array([0.5, 0.5, 0.0]))
    assert found[:, 2].mean() < 1e-5
    np.testing.assert_allclose(found.mean(axis=0), [0.5, 0.5, 0], atol=1e-5)


@given(seed=SEEDS, classes=st.integers(2, 5))
def test_what_two_tilts_agree_on(seed: int, classes: int) -> None:
    """It lies along the first, is no longer than it nor than the second, and vanishes if they contradict."""
    rng = np.random.default_rng(seed)
    first, second = (values - values.mean() for values in rng.normal(size=(2, classes)))
    found = agreed(first, second)
    lengths = [np.linalg.norm(values) for values in (found, first, second)]
    assert lengths[0] <= min(lengths[1:]) + 1e-12
    assert found @ first == pytest.approx(lengths[0] * lengths[1])
    assert bool(found.any()) == (first @ second > 0)
    np.testing.assert_allclose(agreed(-first, -second), -found)
    np.testing.assert_array_equal(agreed(first, first), first)
    assert not agreed(first, -first).any()


@given(a=st.floats(-5, 5), b=st.floats(-5, 5))
def test_two_classes_agree_on_the_shorter_tilt(a: float, b: float) -> None:
    """With two classes the order does not matter: the nearer to zero of two of a sign, or zero."""
    first, second = np.array([a, -a]), np.array([b, -b])
    expected = np.sign(a) * min(abs(a), abs(b)) if a * b > 0 else 0.0
    np.testing.assert_allclose(agreed(first, second)[0], expected, atol=1e-12)
    np.testing.assert_allclose(agreed(second, first), agreed(first, second), atol=1e-12)


def test_a_vanishing_tilt_is_no_division_by_zero() -> None:
    """A first tilt whose square underflows is kept, zero beside anything is zero."""
    tiny = np.array([1e-200, -1e-200])
    np.testing.assert_array_equal(agreed(tiny, np.array([1.0, -1.0])), tiny)
    assert not agreed(np.zeros(2), np.ones(2)).any()


@given(bias=DEVIATIONS, natural=st.floats(0, 2), seed=SEEDS, classes=CLASSES)
def test_how_much_of_a_tilt_is_believed(bias: float, natural: float, seed: int, classes: int) -> None:
    """None of none, between none and all of any, odd, and along a ray the more the longer the tilt."""
    tilts = Tilts(bias, natural)
    ray = centred_log(shares(seed, classes))
    assert not tilts.believed(np.zeros(classes)).any()
    np.testing.assert_array_equal(tilts.believed(-ray), -tilts.believed(ray))
    kept = [tilts.believed(ray * length) @ ray / (ray @ ray) for length in np.linspace(0.05, 4, 30)]
    assert kept == sorted(kept)
    assert kept[0] >= 0
    assert (np.array(kept) <= np.linspace(0.05, 4, 30)).all()


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_believed_is_the_mean_of_the_posterior(classes: int) -> None:
    """It is the mean change of the classes over simulated windows, weighted by how likely each makes the tilt."""
    bias, natural = 0.4, 0.3
    rng = np.random.default_rng(6)
    plane = np.linalg.svd(np.eye(classes) - 1 / classes)[0][:, : classes - 1]  # log-ratios sum to zero
    spread = np.where(rng.random(200_000) < CHANGED, np.hypot(natural, CHANGED_SPREAD), natural)
    changes = (rng.normal(size=(200_000, classes - 1)) * spread[:, np.newaxis]) @ plane.T
    for length in (0.3, 1.2, 2.0):
        tilt = plane[:, 0] * length
        flat = (tilt - changes) @ plane
        weight = multivariate_normal(np.zeros(classes - 1), bias**2 * np.eye(classes - 1)).pdf(flat)
        expected = weight @ changes / weight.sum()
        np.testing.assert_allclose(Tilts(bias, natural).believed(tilt), expected, atol=0.05)


def test_small_tilts_are_shrunk_and_large_ones_kept() -> None:
    """At the usual bias and no natural spread a tilt of 0.2 is nearly gone, and most of one of 3 is kept."""
    for length, low, high in ((0.2, 0.0, 0.1), (3.0, 0.85, 1.0)):
        tilt = np.array([length, -length]) / np.sqrt(2)
        assert low <= Tilts(0.4, 0.0).believed(tilt)[0] / tilt[0] <= high


@pytest.mark.parametrize("natural", [0.0, 0.5])
def test_a_head_without_bias_is_believed(natural: float) -> None:
    """With no bias, or one whose square underflows, all of a tilt is true; a little bias changes it a little."""
    tilt = np.array([0.3, -0.3])
    np.testing.assert_array_equal(Tilts(0.0, natural).believed(tilt), tilt)
    np.testing.assert_array_equal(Tilts(1e-200, natural).believed(tilt), tilt)
    np.testing.assert_allclose(Tilts(1e-6, natural).believed(tilt), tilt, rtol=1e-6)
    assert not Tilts(0.0, natural).believed(np.zeros(2)).any()


def test_restating_a_posterior_is_bayes_with_another_prior() -> None:
    """A posterior made under one prior, restated, is the one the same likelihoods give under the other."""
    likelihoods, before, after = np.array([[0.2, 0.6], [0.5, 0.1]]), np.array([0.8, 0.2]), np.array([0.3, 0.7])

    def posterior(prior: np.ndarray) -> np.ndarray:
        joint = likelihoods * prior
        return joint / joint.sum(axis=1, keepdims=True)

    np.testing.assert_allclose(restated(posterior(before), before, after), posterior(after))
