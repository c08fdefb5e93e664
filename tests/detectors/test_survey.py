"""Estimates from labels of a stratified sample: unbiased, as sure as they say, and narrower with predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from detectors.contract import FitError
from detectors.proportions import wilson
from detectors.survey import LEAST_FREE, Survey

if TYPE_CHECKING:
    from collections.abc import Sequence

DRAWS = 400


@dataclass(frozen=True)
class World:
    """Strata of traffic: how often the model is right in each, its items in a window, and how many are labelled.

    `known` is how much a label-free probability knows of the single item, from 0 to 1.
    """

    right: Sequence[float]
    sizes: Sequence[int]
    labels: Sequence[int]
    known: float = 1.0

    @property
    def truth(self) -> float:
        """The accuracy on the traffic."""
        return float(np.dot(self.right, self.sizes) / np.sum(self.sizes))

    def draw(self, rng: np.random.Generator, response: float = 1.0) -> tuple[Survey, np.ndarray, float]:
        """A window and its labels: the survey, the free probability of labelled items, and its mean over all."""
        stratum = np.repeat(np.arange(len(self.sizes)), self.sizes)
        mean = np.asarray(self.right)[stratum]
        each = rng.beta(np.maximum(mean * 2, 1e-9), np.maximum((1 - mean) * 2, 1e-9))
        quality = (rng.random(len(each)) < each).astype(float)
        free = self.known * each + (1 - self.known) * rng.random(len(each))
        rows = np.concatenate(
            [
                rng.permutation(np.flatnonzero(stratum == place))[: rng.binomial(count, response)]
                for place, count in enumerate(self.labels)
            ]
        )
        return Survey(np.array(self.sizes, float), stratum[rows], quality[rows]), free[rows], float(free.mean())


@dataclass(frozen=True)
class Told:
    """Over many draws: how often each interval held the truth, their mean widths, and the mean errors."""

    covered: tuple[float, float]
    widths: tuple[float, float]
    bias: tuple[float, float]


def told(world: World, response: float = 1.0) -> Told:
    """What labels alone, and labels with predictions, come to over many draws."""
    rng = np.random.default_rng(5)
    held, widths, errors = [], [], []
    for _ in range(DRAWS):
        survey, free, mean = world.draw(rng, response)
        shares = survey.share, survey.combined(free, mean).share
        bounds = [share.interval() for share in shares]
        held.append([low <= world.truth <= high for low, high in bounds])
        widths.append([high - low for low, high in bounds])
        errors.append([share.value - world.truth for share in shares])
    return Told(*(tuple(np.mean(each, axis=0).tolist()) for each in (held, widths, errors)))


WORLDS = {
    "falling over depth": World((0.9, 0.85, 0.8, 0.7, 0.6), [400] * 5, [40] * 5),
    "few labels": World((0.9, 0.85, 0.8, 0.7, 0.6), [400] * 5, [6] * 5),
    "nearly always right": World([0.99] * 5, [400] * 5, [20] * 5),
    "nearly always wrong": World([0.02] * 5, [400] * 5, [20] * 5),
    "the least alike all asked": World((0.3, 0.9, 0.85, 0.8, 0.7), [20, 495, 495, 495, 495], [20, 30, 30, 30, 30]),
    "a small window, nearly all of it": World((0.9, 0.7), [60, 60], [55, 55]),
    "one stratum hardly labelled": World((0.7, 0.95), [1000, 1000], [15, 150]),
    "strata that are alike inside": World((1.0, 1.0, 1.0, 0.9, 0.3), [400] * 5, [40] * 5),
    "predictions that know nothing": World((0.8, 0.7), [500, 500], [60, 60], known=0.0),
}


@pytest.mark.parametrize("name", WORLDS)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    """Of 400 draws at least 93 % of the 95 % intervals hold the accuracy, with predictions and without."""
    found = told(WORLDS[name])
    assert min(found.covered) >= 0.93
    assert max(np.abs(found.bias)) < 0.01


def test_predictions_that_know_make_it_narrower_and_others_cost_nothing() -> None:
    """Good label-free probabilities save a tenth of the width or more; useless ones do not widen it."""
    good, useless = told(WORLDS["falling over depth"]), told(WORLDS["predictions that know nothing"])
    assert good.widths[1] < 0.9 * good.widths[0]
    assert useless.widths[1] <= useless.widths[0] * 1.001


def test_labels_that_are_missing_by_chance_change_nothing_but_the_width() -> None:
    """With two of five labels back the intervals hold as often, and are wider."""
    world = WORLDS["falling over depth"]
    half, whole = told(world, response=0.4), told(world)
    assert min(half.covered) >= 0.93
    assert half.widths[0] > 1.4 * whole.widths[0]
    assert max(np.abs(half.bias)) < 0.01


def test_one_stratum_is_wilson() -> None:
    """Of one stratum of a large window the interval is Wilson's, of the labels as they are."""
    right = np.repeat([1.0, 0.0], [80, 20])
    share = Survey(np.array([1e9]), np.zeros(100, int), right).share
    assert share.value == pytest.approx(0.8)
    assert share.interval() == pytest.approx(wilson(0.8, 100), abs=2e-3)


def test_all_right_is_not_certain() -> None:
    """A batch without an error leaves as much doubt as as many items drawn at random."""
    survey = Survey(np.full(5, 400.0), np.repeat(np.arange(5), 6), np.ones(30))
    assert survey.share.value == pytest.approx(1)
    assert survey.share.interval()[0] == pytest.approx(wilson(1.0, 30)[0], abs=0.01)
    assert survey.combined(np.full(30, 0.9), 0.9).share == survey.share


def test_a_whole_window_is_as_sure_as_its_items() -> None:
    """Every item labelled, what is left is the doubt that so many items leave."""
    survey = Survey(np.array([100.0, 100.0]), np.repeat([0, 1], 100), np.tile([1.0, 1.0, 1.0, 0.0], 50))
    assert survey.share.items == pytest.approx(200)


def test_unequal_weights_are_counted() -> None:
    """An item of a stratum of which little is labelled stands for more, and makes the whole less sure."""
    survey = Survey(np.array([900.0, 100.0]), np.repeat([0, 1], [10, 90]), np.tile([1.0, 0.0], 50))
    assert survey.weights.sum() == pytest.approx(1)
    assert survey.weights[0] == pytest.approx(0.09)
    assert survey.share.items < 20


def test_perfect_predictions_leave_the_doubt_of_the_window_alone() -> None:
    """Predictions that are the labels count in full, and are as good as labels of all items."""
    rng = np.random.default_rng(0)
    quality = (rng.random(100) < 0.7).astype(float)
    survey = Survey(np.array([1000.0, 1000.0]), np.repeat([0, 1], 50), quality)
    found = survey.combined(quality, 0.72)
    assert found.power == 1
    assert found.share.value == pytest.approx(0.72)
    assert found.share.items == pytest.approx(2000)


def test_strata_without_labels_go_with_their_neighbour() -> None:
    """A stratum with no label is counted with the nearest that has some, and said."""
    survey = Survey(np.array([100.0, 300.0, 100.0, 500.0]), np.array([0, 0, 3, 3]), np.array([1.0, 1.0, 0.0, 0.0]))
    assert survey.collapsed == (1, 2)
    assert survey.share.value == pytest.approx(0.4)


def test_nothing_labelled_is_nothing_known() -> None:
    """Without a label there is no share, and its interval is everything."""
    survey = Survey(np.array([10.0, 10.0]), np.zeros(0, int), np.zeros(0))
    assert np.isnan(survey.share.value)
    assert survey.share.interval() == (0.0, 1.0)
    assert np.isnan(survey.combined(np.zeros(0), 0.5).share.value)


def test_few_labels_take_no_predictions() -> None:
    """With hardly more labels than strata nothing says what predictions are worth: they do not count."""
    rows = LEAST_FREE + 1
    survey = Survey(np.array([50.0, 50.0]), np.arange(rows) % 2, np.arange(rows) % 3 / 2)
    assert survey.combined(np.arange(rows) % 3 / 2, 0.5).power == 0


@pytest.mark.parametrize(
    ("sizes", "stratum", "quality", "message"),
    [
        ([5.0], [0, 0], [1.0], "2 strata for 1 labels"),
        ([5.0], [1], [1.0], "outside 0"),
        ([1.0], [0, 0], [1.0, 1.0], "more labels than items"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    sizes: list[float], stratum: list[int], quality: list[float], message: str
) -> None:
    """Arrays of other lengths, strata that do not exist, and more labels than items are errors."""
    with pytest.raises(FitError, match=message):
        Survey(np.array(sizes), np.array(stratum), np.array(quality))
