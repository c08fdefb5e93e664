"""From the labels of an annotation batch to a verdict: does drift cost too much, and would training help."""

from __future__ import annotations

from math import ceil, isnan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from agent.errors import UsageError
from agent.interval import Interval
from agent.target_score import cross_validated, target_score, why_no_target_score
from agent.verdict_report import DepthShare, Verdict
from detectors.contract import Outputs
from detectors.depth_f1 import PERCENTILES
from detectors.proportions import LEVEL, normal_width, wilson

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.alert_report import Realised
    from agent.annotation.batch import Arrays
    from agent.evaluation_report import TargetScore
    from agent.realised import Account
    from agent.reference import Reference
    from detectors.contract import Vector
    from detectors.survey import Share

# More labels than this nobody gives: the drop is too near to the limit.
MOST_LABELS = 50_000
# From fewer labels than this no sensible guess can be made of how many more would tell.
LEAST_LABELS = 30


def verdict(
    reference: Reference,
    account: Account,
    arrays: Arrays,
    max_drop: float,
    on_fold: Callable[[int], None] | None = None,
) -> Verdict:
    """Everything that the labels of a batch say, of which `arrays` hold the window's sample. Deterministic.

    UsageError where no item is labelled, or the batch's items have no class.
    """
    realised = account.realised
    if isnan(realised.drop.estimate):
        raise UsageError(f"episode {realised.episode}: none of its items is labelled, so there is no verdict")
    survey, combined, source = account.survey, account.combined, account.source
    answer = realised.answer(max_drop)
    more, more_reason = (0, "") if answer != "open" else more_labels(account, max_drop)
    depth, depth_reason = _depth_shares(reference, account, arrays)
    target, target_reason = _target(reference, account, arrays, on_fold)
    return Verdict(
        realised=realised,
        level=LEVEL,
        accuracy=_interval(survey.share),
        combined=_interval(combined.share),
        power=combined.power,
        items=combined.share.items,
        source=Interval(source[0], *wilson(*source)),
        source_rows=source[1],
        empty_strata=len(survey.collapsed),
        estimated_level=account.batch.estimate.level,
        held=held(realised),
        depth=depth,
        depth_reason=depth_reason,
        target=target,
        target_reason=target_reason,
        limit=max_drop,
        answer=answer,
        more=more,
        more_reason=more_reason,
    )


def held(realised: Realised) -> bool | None:
    """Whether the estimate's interval holds the realised drop; None where the labels' own leaves it open."""
    drop, estimated = realised.drop, realised.estimated
    if isnan(drop.estimate) or isnan(estimated.estimate):
        return None
    if drop.high < estimated.low or drop.low > estimated.high:
        return False
    return True if estimated.low <= drop.estimate <= estimated.high else None


def more_labels(account: Account, max_drop: float) -> tuple[int | None, str]:
    """How many more labels would tell on which side of `max_drop` the drop is, if it stays as it looks now.

    None, and why, where no sensible number would, or too few are there to tell.
    """
    share, (source, rows) = account.combined.share, account.source
    asked, labelled = len(account.asked), len(account.chosen)
    if labelled < (least := min(LEAST_LABELS, asked)):
        return None, f"Label at least {least} first: then it can be said how many would tell"
    smooth = (labelled * share.value + 1) / (labelled + 2)
    # The variance that one label leaves, that at home which no label takes away, and what would be small enough.
    single = labelled * smooth * (1 - smooth) / share.items
    home = source * (1 - source) / rows
    wanted = ((source - share.value - max_drop) / normal_width()) ** 2
    if single > MOST_LABELS * wanted:
        return None, "No number of labels would tell: the drop is too near to the limit"
    # While m of the batch are labelled, Realised.judged wants asked / m (single / m + home) to be small enough.
    early = (asked * home + sqrt((asked * home) ** 2 + 4 * wanted * asked * single)) / (2 * wanted)
    if early <= asked:
        return max(ceil(early) - labelled, 1), ""
    if single > MOST_LABELS * (wanted - home):
        at_home = f"the accuracy at home is known from {rows:,} rows only, a larger test table would help"
        return None, f"No number of labels would tell: {at_home}"
    return max(ceil(single / (wanted - home)) - labelled, 1), ""


def _interval(share: Share) -> Interval:
    return Interval(share.value, *share.interval())


def _depth_shares(reference: Reference, account: Account, arrays: Arrays) -> tuple[tuple[DepthShare, ...], str]:
    """Micro Depth F1 at every lambda, each labelled item also for as many as it stands for (1 / probability)."""
    embedding = arrays.embedding.astype(np.float32)
    depths = reference.detectors["depth"].detector.score(Outputs(embedding))
    own, deepest = depths[account.rows], float(reference.source.depths[-1])
    weights = account.survey.weights * np.maximum(deepest - own, 0.0)
    if not weights.any():
        return (), "the labelled items lie no less deep than the deepest item of the source"
    found = []
    for percentile in PERCENTILES:
        below = -own > np.percentile(-depths, percentile) if percentile else np.ones(len(own), np.bool_)
        found.append(
            DepthShare(percentile, _weighted(account.survey.quality[below], weights[below]), int(below.sum()))
        )
    return tuple(found), ""


def _weighted(quality: Vector, weights: Vector) -> Interval:
    total = float(weights.sum())
    if not total:
        return Interval()
    share = min(float(weights @ quality) / total, 1.0)
    return Interval(share, *wilson(share, total**2 / float(weights @ weights)))


def _target(
    reference: Reference, account: Account, arrays: Arrays, on_fold: Callable[[int], None] | None
) -> tuple[TargetScore | None, str]:
    """What a head trained on the labelled items themselves would reach, or why that cannot be said."""
    features = arrays.embedding if reference.task.outputs == "head" else arrays.features
    index = {name: place for place, name in enumerate(reference.labels)}
    labels = np.array([index.get(str(label), -1) for label in account.labels], np.intp)
    if (labels < 0).any():
        return None, "some labels are of classes that the model does not know"
    # Equal texts have equal embeddings: no head may have seen the text that it is asked about.
    texts = [row.tobytes().hex() for row in arrays.embedding[account.rows]]
    own = None if features is None else features[account.rows].astype(np.float64)
    reason = why_no_target_score(own, labels, texts, tokens=False)
    if reason or own is None:
        return None, reason.replace("the table", "the batch").replace("this table", "these items")
    right, rows = cross_validated(own, labels, texts, on_fold)
    survey, trained_on = account.survey, reference.source.rows["train"]
    return target_score(account.source, right, survey.quality, rows, trained_on, survey.weights), ""
