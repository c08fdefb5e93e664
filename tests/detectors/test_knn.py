"""The k-th nearest neighbour, held against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from detectors.contract import FitError, Outputs, Source
from detectors.knn import KNN

# The search compares in float32.
ROUNDING = 5e-6


def units(rows: np.ndarray) -> np.ndarray:
    """Rows divided by their length, one by one."""
    return np.array([row / np.sqrt((row * row).sum()) for row in rows])


def kth(cosines: list[float], k: int) -> float:
    """The score that the k-th largest cosine gives."""
    return 2 * sorted(cosines, reverse=True)[k - 1] - 2


@pytest.mark.parametrize("k", [1, 7, 50])
def test_knn_is_minus_the_squared_distance_to_the_kth_neighbour(source: Source, inside: Outputs, k: int) -> None:
    """The score is 2 s - 2, s the k-th largest cosine to the bank as float16 keeps it."""
    bank = units(source.train.embedding).astype(np.float16).astype(np.float64)
    expected = [kth([float(query @ row) for row in bank], k) for query in units(inside.embedding)]
    np.testing.assert_allclose(KNN.fit(source, k=k).score(inside), expected, rtol=0, atol=ROUNDING)


def test_float16_moves_a_score_by_less_than_two_thousandths(source: Source, inside: Outputs) -> None:
    """Against the unrounded training rows a cosine moves by less than 1e-3."""
    bank = units(source.train.embedding)
    expected = [-sorted(((query - bank) ** 2).sum(axis=1))[49] for query in units(inside.embedding)]
    np.testing.assert_allclose(KNN.fit(source).score(inside), expected, rtol=0, atol=2e-3)


@pytest.mark.parametrize("k", [1, 7, 239, 1000])
def test_a_bank_row_is_scored_without_itself(source: Source, k: int) -> None:
    """Leaving one out compares each bank row with the others only, and clamps k to their number."""
    bank = units(source.train.embedding).astype(np.float16).astype(np.float64)
    expected = [
        kth([float(row @ other) for j, other in enumerate(bank) if j != i], min(k, len(bank) - 1))
        for i, row in enumerate(bank)
    ]
    np.testing.assert_allclose(KNN.fit(source, k=k).leave_one_out(), expected, rtol=0, atol=ROUNDING)


def test_a_bank_row_with_twins_is_scored_without_itself(source: Source) -> None:
    """Where float16 ranks a near twin before the row itself, the score is still within float16's rounding."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(1, 8)), 30, axis=0) + rng.normal(0, 1e-3, (30, 8))
    fitted = KNN.fit(replace(source, train=Outputs(embedding=rows)), k=1)
    bank = units(rows).astype(np.float16).astype(np.float64)
    expected = [
        kth([float(row @ other) for j, other in enumerate(bank) if j != i], 1) for i, row in enumerate(bank)
    ]
    np.testing.assert_allclose(fitted.leave_one_out(), expected, rtol=0, atol=2e-3)


def test_k_is_clamped_to_the_bank(source: Source, inside: Outputs) -> None:
    """With more neighbours asked for than there are, the farthest one counts."""
    few = replace(source, train=source.train.take(slice(5)))
    assert KNN.fit(few).k == 5
    np.testing.assert_array_equal(KNN.fit(few).score(inside), KNN.fit(few, k=5).score(inside))


def test_a_large_source_is_sampled_the_same_way_each_time(source: Source) -> None:
    """A bank larger than `most_rows` keeps that many different training rows, always the same."""
    whole, first, second = (KNN.fit(source, most_rows=rows) for rows in (10_000, 100, 100))
    np.testing.assert_array_equal(first.bank, second.bank)
    assert first.bank.shape == (100, 16)
    kept = {row.tobytes() for row in np.ascontiguousarray(first.bank)}
    assert len(kept) == 100
    assert kept <= {row.tobytes() for row in np.ascontiguousarray(whole.bank)}


def test_a_zero_row_is_a_right_angle_from_everything(source: Source) -> None:
    """An embedding of zeros has cosine 0 with every bank row, hence score -2."""
    zeros = Outputs(embedding=np.zeros((2, 16)))
    np.testing.assert_array_equal(KNN.fit(source).score(zeros), [-2.0, -2.0])


def test_a_bank_of_one_row_has_nothing_to_leave_in(source: Source) -> None:
    """Leaving the only row out is refused."""
    with pytest.raises(FitError, match="one row"):
        KNN.fit(replace(source, train=source.train.take(slice(1)))).leave_one_out()
