"""Evaluating with labels: how a reference's model does on a labelled table, beside its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agent.errors import UsageError
from agent.evaluation_figures import calibrations, class_scores, densities, detector_scores, dissimilar_items
from agent.evaluation_report import DepthPoint, DepthScores, Evaluation
from agent.interval import Interval
from agent.labelled import Labelled, true_classes
from agent.score_table import items_of
from agent.target_score import cross_validated, target_score, why_no_target_score
from detectors.contract import FitError
from detectors.depth_f1 import PERCENTILES, Answers, depth_f1, depth_weighted_quality, depth_weights, dissimilar
from detectors.depth_f1 import macro_f1 as macro_f1_of
from detectors.proportions import LEVEL, difference, wilson

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from agent.evaluation_report import TargetScore
    from agent.reference import Reference
    from agent.report import DropEstimate
    from agent.scorer import Scored
    from agent.tables import Table
    from detectors.contract import Vector


def labelled_items(reference: Reference, table: Table) -> Labelled:
    """The table's items with their labels, as the reference's model takes them: one row is enough.

    UsageError for a missing column, an unknown label, or a row that does not fit the model.
    """
    return Labelled(
        path=table.path,
        items=items_of(reference, table),
        labels=true_classes(table, reference.labels, tokens=reference.task.labels_tokens),
    )


def evaluate(  # noqa: PLR0913 - what is evaluated, and two options
    reference: Reference,
    labelled: Labelled,
    scored: Scored,
    ids: Sequence[str],
    *,
    estimate: DropEstimate | None = None,
    on_fold: Callable[[int], None] | None = None,
) -> Evaluation:
    """Everything that the labels say of these (n,) items, `scored`, with their ids. Deterministic.

    Whatever cannot be had of one row, one class or one text is NaN or None, with the reason. `estimate` is put
    beside the realised drop. UsageError names the first row that the task model has no numbers for.
    """
    if not scored.finite.all():
        row = int(scored.finite.argmin()) + 1
        raise UsageError(f"{labelled.path}: row {row}: the task model gives NaN or infinity")
    quality = scored.tokens.quality(labelled.labels)
    n, accuracy = len(quality), float(quality.mean())
    source = reference.source.accuracy["test"], reference.source.rows["test"]
    target, target_reason = _target(reference, labelled, scored, quality, on_fold)
    return Evaluation(
        model=reference.model,
        reference_id=reference.id,
        table=labelled.path.name,
        labels_tokens=reference.task.labels_tokens,
        n=n,
        level=LEVEL,
        accuracy=Interval(accuracy, *wilson(accuracy, n)),
        macro_f1=macro_f1_of(labelled.labels, scored.predicted, len(reference.labels)),
        source_rows=source[1],
        source_accuracy=Interval(source[0], *wilson(*source)),
        sd=Interval(source[0] - accuracy, *difference(source, (accuracy, n))),
        depth=_depth_scores(reference, labelled, scored, quality),
        target=target,
        target_reason=target_reason,
        estimate=estimate,
        calibrations=calibrations(reference, scored, quality),
        depths=densities(reference.source.depths, scored.scores["depth"]),
        detectors=detector_scores(reference, scored),
        classes=class_scores(reference.labels, labelled.labels, scored.predicted),
        dissimilar=dissimilar_items(reference, labelled, ids, scored, quality),
        unavailable=reference.unavailable,
    )


def _target(
    reference: Reference,
    labelled: Labelled,
    scored: Scored,
    quality: Vector,
    on_fold: Callable[[int], None] | None,
) -> tuple[TargetScore | None, str]:
    """What a head trained on the table itself would reach, or why that cannot be said."""
    pairs = labelled.items.pairs or [None] * len(labelled)
    texts = [f"{text}\0{pair or ''}" for text, pair in zip(labelled.items.texts, pairs, strict=True)]
    features, tokens = scored.outputs.features, reference.task.labels_tokens
    reason = why_no_target_score(features, labelled.labels, texts, tokens=tokens)
    if reason or features is None:
        return None, reason
    right, rows = cross_validated(features, labelled.labels, texts, on_fold)
    source = reference.source.accuracy["test"], reference.source.rows["test"]
    return target_score(source, right, quality, rows, reference.source.rows["train"]), ""


def _depth_scores(reference: Reference, labelled: Labelled, scored: Scored, quality: Vector) -> DepthScores:
    """Depth F1 at every lambda, against the deepest source item; NaN where no item has a weight."""
    depths, deepest = scored.scores["depth"], float(reference.source.depths[-1])
    try:
        clipped, reason = depth_weights(depths, deepest).clipped, ""
    except FitError as error:
        clipped, reason = len(depths), str(error)
    points = []
    for percentile in PERCENTILES:
        rows = dissimilar(depths, percentile)
        micro, macro = Interval(), float("nan")
        if not reason and rows.any():
            weights = depth_weights(depths[rows], deepest).values
            share = min(depth_weighted_quality(quality, depths, deepest, percentile), 1.0)
            micro = Interval(share, *wilson(share, 1 / float(weights @ weights)))
            macro = _macro(labelled, scored, rows, deepest)
        points.append(DepthPoint(percentile, micro, macro, int(rows.sum())))
    return DepthScores(tuple(points), clipped, float(scored.ranks.mean()), reason)


def _macro(labelled: Labelled, scored: Scored, rows: NDArray[np.bool_], deepest: float) -> float:
    """Macro Depth F1 of the chosen items; of a sequence labeller over their tokens, each as deep as its text."""
    tokens = np.diff(scored.tokens.starts)
    classes = scored.tokens.values.shape[1]
    answers = Answers(labelled.labels, scored.predicted, classes).take(np.repeat(rows, tokens))
    depths = np.repeat(scored.scores["depth"][rows], tokens[rows])
    return depth_f1(answers, depths, deepest).macro
