"""The quick search for the k-th nearest bank row finds what the full product finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.contract import FitError, Outputs, Source
from detectors.geometry import unit_rows
from detectors.knn import KNN
from detectors.nearest import BLOCK, CROWD, SMALL, Nearest, full_search
from detectors.persistence import from_arrays, to_arrays

ROWS = 5_001  # large enough to be packed, odd so that the last row has no partner
SIZE = 48
ROUNDING = 2e-6


def isotropic(rng: np.random.Generator, rows: int, size: int = SIZE) -> np.ndarray:
    """Unit rows without any structure."""
    return unit_rows(rng.normal(size=(rows, size))).astype(np.float32)


def clustered(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Unit rows around forty centres."""
    centres = rng.normal(size=(40, SIZE))[rng.integers(40, size=rows)]
    return unit_rows(centres + 0.7 * rng.normal(size=(rows, SIZE))).astype(np.float32)


def duplicated(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Unit rows of which neighbours in the bank are equal, three at a time."""
    return np.repeat(isotropic(rng, -(-rows // 3)), 3, axis=0)[:rows]


def constant(rng: np.random.Generator, rows: int) -> np.ndarray:
    """The same unit row again and again."""
    return np.repeat(isotropic(rng, 1), rows, axis=0)


def one_sided(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Unit rows within a narrow cone, all less than 0.05 apart in cosine."""
    return unit_rows(1 + 0.15 * rng.normal(size=(rows, SIZE))).astype(np.float32)


def on_the_axes(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Unit rows with a single coordinate other than zero, and some of zeros."""
    return (np.eye(SIZE + 1, SIZE)[rng.integers(SIZE + 1, size=rows)]).astype(np.float32)


BANKS = {make.__name__: make for make in (isotropic, clustered, duplicated, constant, one_sided, on_the_axes)}


def queries_for(bank: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Bank rows, rows near them, rows opposite to them, unrelated rows and a row of zeros."""
    own = bank[rng.integers(len(bank), size=20)]
    near = unit_rows(own + 0.05 * rng.normal(size=own.shape))
    zeros = np.zeros((1, bank.shape[1]))
    return np.concatenate([own, near, -own, isotropic(rng, 20, bank.shape[1]), zeros]).astype(np.float32)


@pytest.mark.parametrize("k", [1, 2, 50, ROWS])
@pytest.mark.parametrize("kind", BANKS)
def test_the_search_equals_the_full_product(kind: str, k: int) -> None:
    """On banks of every kind the k-th cosine is that of the full product, up to float32 rounding."""
    rng = np.random.default_rng(5)
    bank = BANKS[kind](rng, ROWS)
    queries = queries_for(bank, rng)
    found = Nearest.of(bank).kth_cosine(queries, k)
    np.testing.assert_allclose(found, full_search(queries, bank, k), rtol=0, atol=ROUNDING)


def test_all_cosines_below_zero_are_searched() -> None:
    """Columns that only fill up the packed bank are no neighbours, even where every true cosine is negative."""
    bank = one_sided(np.random.default_rng(6), ROWS)
    queries = -bank[:10]
    found = Nearest.of(bank).kth_cosine(queries, 1)
    np.testing.assert_allclose(found, full_search(queries, bank, 1), rtol=0, atol=ROUNDING)
    assert (found < 0).all()


def test_the_quick_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """On ordinary rows of an encoder's width the full product is never called."""
    rng = np.random.default_rng(7)
    bank = unit_rows(rng.normal(size=(ROWS, 384))).astype(np.float32)
    nearest = Nearest.of(bank)
    expected = full_search(bank[:50], bank, 5)
    monkeypatch.setattr("detectors.nearest.full_search", None)
    np.testing.assert_allclose(nearest.kth_cosine(bank[:50], 5), expected, rtol=0, atol=ROUNDING)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(SMALL - 2, SMALL + 300), size=st.integers(1, 80))
def test_any_shape_is_searched(seed: int, rows: int, size: int) -> None:
    """Around the size where packing begins and for any width, the k-th cosine is that of the full product."""
    rng = np.random.default_rng(seed)
    bank = isotropic(rng, rows, size)
    queries, k = queries_for(bank, rng), int(rng.integers(1, 40))
    found = Nearest.of(bank).kth_cosine(queries, k)
    np.testing.assert_allclose(found, full_search(queries, bank, k), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_a_tiny_bank_is_searched(rows: int) -> None:
    """A bank of a few rows gives its nearest and its farthest row."""
    bank = isotropic(np.random.default_rng(8), rows)
    cosines = np.sort(bank @ bank.T, axis=1)
    nearest = Nearest.of(bank)
    np.testing.assert_allclose(nearest.kth_cosine(bank, 1), cosines[:, -1], rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(nearest.kth_cosine(bank, rows), cosines[:, 0], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("kind", ["clustered", "duplicated"])
def test_a_row_is_found_alike_in_any_batch(kind: str) -> None:
    """Alone, across blocks and in another order, a row gets the same k-th cosine."""
    rng = np.random.default_rng(9)
    nearest = Nearest.of(BANKS[kind](rng, ROWS))
    queries = clustered(rng, BLOCK + 40)
    order = rng.permutation(len(queries))
    whole = nearest.kth_cosine(queries, 50)
    alone = np.concatenate([nearest.kth_cosine(row[None], 50) for row in queries])
    np.testing.assert_allclose(alone, whole, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(nearest.kth_cosine(queries[order], 50), whole[order], rtol=0, atol=ROUNDING)


def test_crowded_and_sparse_rows_share_a_batch() -> None:
    """A batch in which some rows have a large part of the bank close by and others do not is right in both."""
    rng = np.random.default_rng(10)
    bank = clustered(rng, ROWS)
    bank[: ROWS // CROWD + 50] = bank[0]
    queries = np.concatenate([bank[:3], clustered(rng, 5), bank[:2]])
    found = Nearest.of(bank).kth_cosine(queries, 3)
    np.testing.assert_allclose(found, full_search(queries, bank, 3), rtol=0, atol=ROUNDING)


def test_the_detector_searches_a_large_bank() -> None:
    """Fitted on many rows, saved and loaded, scores and leave-one-out scores equal those by brute force."""
    rng = np.random.default_rng(11)
    train = Outputs(embedding=clustered(rng, 4_000))
    fitted = KNN.fit(Source(train=train, validation=train), k=10)
    loaded = from_arrays(KNN, to_arrays(fitted))
    bank, rows = fitted.bank.astype(np.float64), clustered(rng, 60)
    expected = 2 * np.sort(rows @ bank.T, axis=1)[:, -10] - 2
    np.testing.assert_allclose(loaded.score(Outputs(embedding=rows)), expected, rtol=0, atol=5e-6)
    np.fill_diagonal(others := bank @ bank.T, -np.inf)
    expected = 2 * np.sort(others, axis=1)[:, -10] - 2
    np.testing.assert_allclose(fitted.leave_one_out(), expected, rtol=0, atol=5e-6)


def test_one_row_has_no_other() -> None:
    """Leaving the only row out of a bank is refused."""
    one = Outputs(embedding=np.ones((1, 4)))
    with pytest.raises(FitError, match="no other row"):
        KNN.fit(Source(train=one, validation=one)).leave_one_out()
