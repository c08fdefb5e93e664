"""TT: what a head trained on the labelled target itself would reach, by cross-validation, and what that means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agent.evaluation_report import TargetScore
from agent.head import train_head
from agent.interval import Interval
from detectors.proportions import difference, normal_width, wilson
from detectors.robustness import MEANING, Scenario, Shift, scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from detectors.contract import Vector

FOLDS = 10
# A head trained on fewer different texts says nothing about what the target could give.
LEAST_TEXTS = 50
# More rows hardly change a linear head, but cost time.
MOST_TRAINING_ROWS = 4_000


def why_no_target_score(
    features: NDArray[np.floating] | None, labels: NDArray[np.intp], texts: Sequence[str], *, tokens: bool
) -> str:
    """Why no head can be cross-validated on these items, in words; empty if one can."""
    if tokens:
        return "the model labels tokens, and no features of single tokens are at hand to train on"
    if features is None:
        return "the model's features are not at hand, so no head can be trained on this table"
    different = len(set(texts))
    if different < LEAST_TEXTS:
        return f"a head needs at least {LEAST_TEXTS} different texts to learn from, and the table has {different}"
    if len(np.unique(labels)) == 1:
        return "every row has the same label, so there is nothing for a head to learn"
    return ""


def cross_validated(
    features: NDArray[np.floating],
    labels: NDArray[np.intp],
    texts: Sequence[str],
    on_progress: Callable[[int], None] | None = None,
) -> tuple[NDArray[np.bool_], int]:
    """(n,) which rows a head gets right that was trained without them, and how many rows such a head had.

    Ten folds, stratified by label; rows with the same text are in the same fold, so that no head has seen the text
    it is asked about. One fold tests, the next one chooses the strength of regularisation, the rest trains.
    Deterministic. `on_progress` hears how many folds are done.
    """
    norms = float(np.linalg.norm(features, axis=1).mean())
    unit = np.asarray(features, np.float64) / (norms or 1.0)  # the strengths suit vectors of about unit length
    folds = _folds(labels, texts)
    predicted = np.empty_like(labels)
    sizes = []
    for fold in range(FOLDS):
        test, validation = folds == fold, folds == (fold + 1) % FOLDS
        train = _capped(np.flatnonzero(~test & ~validation))
        predicted[test] = _predicted(unit, labels, (train, np.flatnonzero(validation)), unit[test])
        sizes.append(len(train))
        if on_progress:
            on_progress(fold + 1)
    return predicted == labels, min(sizes)


def _folds(labels: NDArray[np.intp], texts: Sequence[str]) -> NDArray[np.intp]:
    """(n,) each row's fold: labels spread evenly over the folds, equal texts together."""
    _, first, which = np.unique(np.array(texts, np.str_), return_index=True, return_inverse=True)
    shuffled = np.random.default_rng(0).permutation(len(first))
    by_label = shuffled[np.argsort(labels[first][shuffled], kind="stable")]
    folds = np.empty(len(first), np.intp)
    folds[by_label] = np.arange(len(first)) % FOLDS
    spread: NDArray[np.intp] = folds[which]
    return spread


def _capped(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    if len(rows) <= MOST_TRAINING_ROWS:
        return rows
    return np.sort(np.random.default_rng(0).permutation(rows)[:MOST_TRAINING_ROWS])


def _predicted(
    features: NDArray[np.float64],
    labels: NDArray[np.intp],
    rows: tuple[NDArray[np.intp], NDArray[np.intp]],
    test: NDArray[np.float64],
) -> NDArray[np.intp]:
    """The class index of each test row, from a head on the (training, validation) rows and the classes in them."""
    train, validation = rows
    present = np.unique(labels[train])
    if len(present) == 1:
        return np.full(len(test), present[0])
    known = validation[np.isin(labels[validation], present)]
    checked = known if len(known) else train
    parts = [(features[part], np.searchsorted(present, labels[part])) for part in (train, checked)]
    found: NDArray[np.intp] = present[train_head(parts[0], parts[1]).logits(test).argmax(axis=1)]
    return found


def target_score(  # noqa: PLR0913, PLR0917 - two scores, on what they were reached, and an option
    source: tuple[float, int],
    right: NDArray[np.bool_],
    quality: Vector,
    rows: int,
    trained_on: int,
    weights: Vector | None = None,
) -> TargetScore:
    """TT, TD and IDD with their intervals, and the scenario.

    `source` is SS and on how many rows; `right` (n,) what `cross_validated` gives, on `rows` training rows;
    `quality` (n,) that of the model on the same items, which was trained on `trained_on`; `weights` (n,) sum to 1
    and say for how much each item stands, if not all for the same. TT and the model's accuracy share their items,
    so TD's interval is that of paired differences. A drop whose interval holds 0 has no sign: the scenario is a
    tie.
    """
    share = np.full(len(right), 1 / len(right)) if weights is None else weights
    # As many items of equal weight would be as sure.
    n, tt, st = 1 / float(share @ share), float(share @ right), float(share @ quality)
    shift = Shift("source", "target", ss=source[0], tt=tt, st=st)
    sd = Interval(shift.sd, *difference(source, (st, n)))
    differences = right - quality
    variance = float(share @ np.square(differences - share @ differences)) * n / max(n - 1, 1)
    # Where no item differs, one more might.
    spread = max(normal_width() * (variance / n) ** 0.5, 1 / n)
    td = Interval(shift.td, shift.td - spread, shift.td + spread)
    found = scenario(*(0.0 if each.low <= 0 <= each.high else each.estimate for each in (sd, td)))
    return TargetScore(
        tt=Interval(tt, *wilson(tt, n)),
        td=td,
        idd=Interval(shift.idd, *difference(source, (tt, n))),
        scenario=found.value,
        meaning=_meaning(found, rows, trained_on),
        rows=rows,
        folds=FOLDS,
    )


def _meaning(found: Scenario, rows: int, trained_on: int) -> str:
    """The scenario in words. TT from fewer rows than the source had is a lower bound, and no more."""
    if rows >= trained_on:
        return MEANING[found]
    short = f"had only {rows:,} rows to learn from, the source model {trained_on:,}"
    if found in {Scenario.OBSERVED, Scenario.NO_CHALLENGE}:
        return (
            f"A model trained on these items alone does no better. But it {short}: "
            "whether retraining on more of them would help cannot be told yet."
        )
    return f"{MEANING[found]} A model trained on these items alone {short}: with more labels it may reach more."
