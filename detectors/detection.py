"""How well a score separates in-distribution from out-of-distribution items (ood-benchmark)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import rankdata

if TYPE_CHECKING:
    from detectors.contract import Vector

Positive = Literal["id", "ood"]


def auroc(in_scores: Vector, out_scores: Vector) -> float:
    """P[an ID score > an OOD score], ties counted half (Mann-Whitney). NaN if either side is empty.

    The same whichever class is called positive.
    """
    n, m = len(in_scores), len(out_scores)
    if not n or not m:
        return float("nan")
    ranks = rankdata(np.concatenate([in_scores, out_scores]))[:n]
    return float((ranks.sum() - n * (n + 1) / 2) / (n * m))


def aupr(in_scores: Vector, out_scores: Vector, positive: Positive = "id") -> float:
    """Area under the precision-recall curve by the trapezoid rule, as the paper's code has it.

    Not average precision: with all scores tied and prevalence pi this gives (1 + pi) / 2. NaN if either side
    is empty.
    """
    if not len(in_scores) or not len(out_scores):
        return float("nan")
    hits, misses = (in_scores, out_scores) if positive == "id" else (-out_scores, -in_scores)
    thresholds = np.unique(np.concatenate([hits, misses]))[::-1]
    true = len(hits) - np.searchsorted(np.sort(hits), thresholds, side="left")
    false = len(misses) - np.searchsorted(np.sort(misses), thresholds, side="left")
    recall = np.concatenate([[0.0], true / len(hits)])
    precision = np.concatenate([[1.0], true / (true + false)])
    return float(np.trapezoid(precision, recall))


def fpr_at_95(in_scores: Vector, out_scores: Vector, positive: Positive = "id") -> float:
    """Share of the negatives scored at or above the threshold that keeps 95 % of the positives.

    The threshold is the ceil(19 n / 20)-th largest positive score. NaN if either side is empty.
    """
    if not len(in_scores) or not len(out_scores):
        return float("nan")
    hits, misses = (in_scores, out_scores) if positive == "id" else (-out_scores, -in_scores)
    kept = -(-19 * len(hits) // 20)
    threshold = np.sort(hits)[-kept]
    return float((misses >= threshold).mean())
