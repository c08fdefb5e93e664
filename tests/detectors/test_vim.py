"""ViM, held against the paper's procedure by singular values."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from detectors.contract import FitError, Head, Outputs, Source
from detectors.vim import ViM, default_principal


def by_the_paper(source: Source, batch: Outputs, principal: int) -> np.ndarray:
    """Scores from the null space that the right singular vectors of the features about u leave."""
    weight, bias = source.head.weight, source.head.bias
    origin = np.linalg.lstsq(weight, -bias, rcond=1e-6)[0]  # the shortest u with W u + b = 0
    null_space = np.linalg.svd(source.train.features - origin, full_matrices=False)[2][principal:]

    def residual(outputs: Outputs) -> np.ndarray:
        return np.array([math.hypot(*(null_space @ (row - origin))) for row in outputs.features])

    alpha = source.train.logits.max(axis=1).sum() / residual(source.train).sum()
    energy = np.array([math.log(np.exp(row).sum()) for row in batch.logits])
    return energy - alpha * residual(batch)


def small_world(seed: int, rank: int = 10) -> Source:
    """60 rows of 10 features of the given rank, off the origin, and a random head of 3 classes."""
    rng = np.random.default_rng(seed)
    features = rng.normal(1, 1, (60, rank)) @ rng.normal(size=(rank, 10)) * np.geomspace(1, 0.1, 10)
    head = Head(weight=rng.normal(size=(3, 10)), bias=rng.normal(size=3))
    rows = Outputs(embedding=features, logits=head.logits(features), features=features)
    return Source(train=rows, validation=rows, head=head)


@pytest.mark.parametrize("principal", [1, 2, 4, 5, 7, 9])
def test_vim_is_energy_less_the_scaled_residual(principal: int) -> None:
    """The score is lse(z) - alpha |R^T (h - u)|, whether D is below half of the size or above."""
    source, batch = small_world(0), small_world(1).train
    fitted = ViM.fit(source, principal=principal)
    assert fitted.complement == (principal < 5)
    np.testing.assert_allclose(fitted.score(batch), by_the_paper(source, batch, principal), rtol=0, atol=1e-9)


def test_the_default_follows_the_papers_size(source: Source, outside: Outputs) -> None:
    """Without an explicit D, features of fewer than 768 dimensions keep half of them."""
    np.testing.assert_allclose(
        ViM.fit(source).score(outside), by_the_paper(source, outside, 48), rtol=1e-7, atol=1e-7
    )
    assert [default_principal(size) for size in (768, 2047, 2048)] == [512, 512, 1000]


def test_directions_are_taken_about_u_and_not_about_the_mean() -> None:
    """A far mean is itself the first direction: an item along it leaves no residual."""
    rng = np.random.default_rng(0)
    features = np.array([100.0, 0, 0, 0]) + rng.normal(0, 0.1, (50, 4))
    head = Head(weight=np.eye(2, 4), bias=np.zeros(2))
    rows = Outputs(embedding=features, logits=head.logits(features), features=features)
    fitted = ViM.fit(Source(train=rows, validation=rows, head=head), principal=1)
    direction = features.mean(axis=0)
    batch = Outputs(embedding=np.zeros((2, 1)), logits=np.zeros((2, 2)), features=np.outer([1, 2], direction))
    residual = (math.log(2) - fitted.score(batch)) / fitted.alpha
    assert (residual < 1e-3 * np.linalg.norm(direction)).all()


@pytest.mark.parametrize("principal", [4, 5, 9])
def test_vim_refuses_to_leave_nothing_outside(principal: int) -> None:
    """At D >= the rank of the features about u no residual is left to scale, and the fit is refused."""
    source = small_world(0, rank=3)  # of rank 4 about u
    ViM.fit(source, principal=3)
    for single in (np.float64, np.float32):
        rows = replace(source.train, features=source.train.features.astype(single))
        with pytest.raises(FitError, match="span all training features"):
            ViM.fit(replace(source, train=rows), principal=principal)


@pytest.mark.parametrize("principal", [-1, 0, 10, 11])
def test_vim_refuses_dimensions_that_the_features_do_not_have(principal: int) -> None:
    """D must lie strictly between 0 and the size of the features."""
    with pytest.raises(FitError, match=f"{principal} principal dimensions asked for, but the features have 10"):
        ViM.fit(small_world(0), principal=principal)


def test_rounding_of_a_softmax_head_does_not_move_the_origin(source: Source) -> None:
    """Rows of W that sum to zero, in float32 only nearly, give the same u."""
    weight, bias = source.head.weight, source.head.bias
    assert np.abs(weight.sum(axis=0)).max() < 1e-6
    rounded = replace(source, head=Head(weight=weight.astype(np.float32), bias=bias.astype(np.float32)))
    np.testing.assert_allclose(ViM.fit(rounded).origin, ViM.fit(source).origin, rtol=0, atol=1e-7)
