"""The search of the k-th nearest bank row against a full float32 product and a partition, in one run.

    python benchmarks/knn.py                           # random clusters
    python benchmarks/knn.py --isotropic               # no structure at all
    python benchmarks/knn.py --embeddings rows.npy     # (n, e) real embeddings in random order

The last `CHECKED` rows are the queries, up to 50,000 of the others the bank. Times are the best of several
alternating repeats. `wrong` is the share of queries whose k-th cosine differs by more than float32 rounding,
`worst` the largest difference in the detector's score.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from detectors.geometry import unit_rows
from detectors.nearest import BLOCK, Nearest, full_search

if TYPE_CHECKING:
    from collections.abc import Callable

    from detectors.nearest import Single

ROWS, SIZE, CLUSTERS, CHECKED, REPEATS = 50_000, 384, 200, 3_000, 9
ROUNDING = 1e-6


def synthetic(*, isotropic: bool) -> Single:
    """Unit rows spread around the centres of clusters, with cosines like those of short texts, or evenly."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(ROWS + CHECKED, SIZE)).astype(np.float32)
    if not isotropic:
        rows += rng.normal(size=(CLUSTERS, SIZE))[rng.integers(CLUSTERS, size=len(rows))]
    return unit_rows(rows).astype(np.float32)


def best(*calls: Callable[[], object]) -> list[float]:
    """Each call's best time in seconds; the calls take turns."""
    times = np.empty((REPEATS, len(calls)))
    for repeat in times:
        for column, call in enumerate(calls):
            start = time.perf_counter()
            call()
            repeat[column] = time.perf_counter() - start
    return [float(each) for each in times.min(axis=0)]


def exact(queries: Single, bank: Single, k: int) -> Single:
    """(m,) true k-th cosines, block by block."""
    parts = [full_search(queries[at : at + BLOCK], bank, k) for at in range(0, len(queries), BLOCK)]
    return np.concatenate(parts)


def report(rows: Single) -> None:
    """Print the table for a bank and queries taken from these unit rows."""
    bank = rows[:-CHECKED][:ROWS].astype(np.float16).astype(np.float32)
    queries = rows[-CHECKED:]
    start = time.perf_counter()
    nearest = Nearest.of(bank)
    print(f"bank {bank.shape[0]} x {bank.shape[1]}, prepared in {time.perf_counter() - start:.2f} s")
    print("  k  batch  full us  ours us  ratio     wrong    worst")
    for k in (1, 50):
        apart = np.abs(exact(queries, bank, k) - nearest.kth_cosine(queries, k))
        error = f"{(apart > ROUNDING).mean():8.4%} {2 * apart.max():8.1e}"
        for batch in (1, 8, 64, 256):
            some = queries[:batch]
            full, ours = best(
                lambda some=some, k=k: full_search(some, bank, k),
                lambda some=some, k=k: nearest.kth_cosine(some, k),
            )
            times = f"{full / batch * 1e6:8.0f} {ours / batch * 1e6:8.0f} {full / ours:6.1f}"
            print(f"{k:3} {batch:6} {times}  {error}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The k-nearest search against the full product.")
    parser.add_argument("--embeddings", type=Path, help="a .npy file of (n, e) embeddings in random order")
    parser.add_argument("--isotropic", action="store_true", help="random rows without clusters")
    given = parser.parse_args()
    if given.embeddings:
        report(unit_rows(np.load(given.embeddings)).astype(np.float32))
    else:
        report(synthetic(isotropic=given.isotropic))
