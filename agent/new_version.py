"""A new version of a reference: a labelled window becomes a reference domain, and the estimator is fitted anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from agent.backtest import with_estimator
from agent.errors import UsageError
from agent.estimation import Counted, Estimator, comparison_of
from agent.labelled import LEAST_ROWS
from agent.observed import drawn, of_rows
from agent.reference import Domain, Version
from agent.scorer import scores_of
from agent.taught import MOST_ROWS, TaughtRows
from detectors.contract import Outputs, logits_of
from detectors.depth import depth_ranks
from detectors.softmax import confidences

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from agent.annotation.batch import Arrays
    from agent.realised import Account
    from agent.reference import Reference
    from detectors.comparison import Observed

# A version is worse if its error on the old domains grew by more than chance has it and by more than SOME (a
# fraction), or by more than MUCH, whatever chance may do with few domains.
SOME, MUCH, CHANCE = 0.0025, 0.02, 0.05
# Strata of which so much smaller a share is labelled keep their weight in the domain no longer.
LEAST_SHARE = 0.5


@dataclass(frozen=True)
class Standing:
    """How a version does on some domains, each left out: how far off it is (fractions), drops in their interval.

    No errors where the version estimates nothing.
    """

    errors: tuple[float, ...]
    covered: int

    @classmethod
    def of(cls, reference: Reference, names: Sequence[str]) -> Standing:
        """A version's, on the domains so named, in this order."""
        known = {domain.name: domain for domain in reference.domains}
        told = [(known[name].left_out, known[name].drop) for name in names]
        errors = tuple(abs(found[0] - drop) for found, drop in told if found is not None)
        return cls(errors, sum(found[1] <= drop <= found[2] for found, drop in told if found is not None))

    @property
    def mae(self) -> float:
        """The mean error, NaN without any."""
        return float(np.mean(self.errors)) if self.errors else float("nan")

    @property
    def max(self) -> float:
        """The largest error, NaN without any."""
        return max(self.errors, default=float("nan"))


@dataclass(frozen=True)
class Offer:
    """A new version, beside the old: both on the `common` domains, which have the same labels in both.

    `domain` is what the labelled window is called there, `rows` how many labelled rows the estimator learnt from
    it. `error` is how far the old version's estimate is off on that window (estimated less realised), NaN where it
    has none; `worse` says why the new one is worse, empty where it is not.
    """

    reference: Reference
    domain: str
    rows: int
    common: tuple[str, ...]
    old: Standing
    new: Standing
    error: float
    worse: str


def new_version(
    reference: Reference, account: Account, arrays: Arrays, on_progress: Callable[[int, int], None]
) -> Offer:
    """The version that a labelled batch makes of a reference read by `load_taught`. Deterministic.

    Source, detectors and p-values stay; the regressions, the panel and the intervals are fitted with the window as
    one more domain, in the place of what an earlier import of the same episode made. UsageError where there are
    too few labels to make a domain, or the reference has nothing to learn from.
    """
    taught = reference.taught
    if taught is None:
        raise UsageError("the reference keeps no labelled rows, so nothing can be added: run `leadline fit` again")
    domain, rows = _domain(reference, account, arrays), _taught(reference, account, arrays)
    others = tuple(each for each in reference.domains if each.name != domain.name)
    kept = {each.name: taught.domains[each.name] for each in others}
    fitted = with_estimator(
        replace(
            reference,
            domains=(*others, domain),
            taught=replace(taught, domains=kept | {domain.name: rows}),
            earlier=(*reference.earlier, Version(reference.id, account.batch.episode)),
            estimator=None,
            id="",
        ),
        on_progress,
    )
    common = tuple(each.name for each in others)
    old, new = Standing.of(reference, common), Standing.of(fitted, common)
    estimated = Estimator(reference).estimate(*_window(reference, account, arrays)).drop.estimate
    return Offer(fitted, domain.name, len(rows), common, old, new, estimated - domain.drop, worse(old, new))


def worse(old: Standing, new: Standing) -> str:
    """Why the new version is worse on the domains that both know; empty where it is not."""
    if not old.errors:
        return ""
    grown = np.subtract(new.errors, old.errors) if new.errors else np.full(len(old.errors), np.inf)
    mean = float(grown.mean())
    if mean > MUCH or (mean > SOME and _chance(grown) < CHANCE):
        return (
            f"on the domains that both know it is off by {100 * new.mae:.1f} points on average, "
            f"the old one by {100 * old.mae:.1f}"
        )
    if new.covered < old.covered and mean > 0:
        return (
            f"its intervals hold the drop of {new.covered} of the {len(new.errors)} domains that both know, "
            f"those of the old one of {old.covered}, and its errors are no smaller"
        )
    return ""


def _chance(grown: NDArray[np.float64]) -> float:
    """How likely errors that do not grow seem to grow so much (Student's paired test, one-sided)."""
    # Imported here: an agent that only runs would pay for scipy's statistics.
    from scipy.stats import t  # noqa: PLC0415

    spread = float(grown.std(ddof=1)) if len(grown) > 1 else float("nan")
    if not spread > 0:
        return 0.0 if spread == 0 else 1.0
    return float(t.sf(grown.mean() / (spread / len(grown) ** 0.5), len(grown) - 1))


def _domain(reference: Reference, account: Account, arrays: Arrays) -> Domain:
    """The window as a reference domain: its accuracy by the labels, its shift by the whole sample."""
    labelled = len(account.chosen)
    if labelled < LEAST_ROWS:
        raise UsageError(f"{labelled} labels are too few for a reference domain: at least {LEAST_ROWS} are needed")
    observed, counted = _window(reference, account, arrays)
    accuracy = account.survey.share.value
    return Domain(
        name=f"episode-{account.batch.episode}",
        n=labelled,
        accuracy=accuracy,
        drop=account.source[0] - accuracy,
        shift=comparison_of(reference).metrics(observed) | dict(counted.metrics) | _words(account),
    )


def _words(account: Account) -> dict[str, float]:
    """How far the window's words are from the source's, as was counted when the batch was drawn."""
    known = account.batch.estimate.metrics
    return {"js": known["js"]} if "js" in known else {}


def _outputs(reference: Reference, arrays: Arrays) -> Outputs:
    """The whole sample as the scorer saw it. UsageError where the items have no class."""
    if arrays.logits is None:
        raise UsageError("the model labels tokens: label whole texts, add them under `domains` and fit again")
    embedding = arrays.embedding.astype(np.float32)
    own = embedding if reference.task.outputs == "head" else None
    features = own if arrays.features is None else arrays.features.astype(np.float32)
    return Outputs(embedding, arrays.logits, features)


def _window(reference: Reference, account: Account, arrays: Arrays) -> tuple[Observed, Counted]:
    """What the window's sample shows, and what was counted in it; but for its words, which no batch has."""
    outputs = _outputs(reference, arrays)
    scores, p = scores_of(reference, outputs)
    ranks = depth_ranks(scores["depth"], reference.source.depths)
    observed = of_rows(outputs, confidences(logits_of(outputs), reference.temperature.value))
    return observed, replace(Counted.of_items(reference, p, ranks, []), items=account.batch.window.items)


def _taught(reference: Reference, account: Account, arrays: Arrays) -> TaughtRows:
    """The labelled rows, thinned to what an even draw from the window would have given."""
    index = {name: place for place, name in enumerate(reference.labels)}
    classes = np.array([index.get(str(label), -1) for label in account.labels], np.intp)
    even = np.flatnonzero(_even(account) & (classes >= 0))
    chosen = even[drawn(len(even), MOST_ROWS)]
    outputs = _outputs(reference, arrays).take(account.rows[chosen])
    return TaughtRows.of(outputs, classes[chosen], np.arange(len(chosen)))


def _even(account: Account) -> NDArray[np.bool_]:
    """(m,) which labelled items to learn from, so that no part of the window counts for more than its share.

    The items least like the source are all asked for: as they are, they would make the domain look harder. A
    stratum of which hardly any label came back keeps those it has, and counts for less.
    """
    stratum, sizes = account.survey.stratum, account.survey.sizes
    labels = np.bincount(stratum, minlength=len(sizes))
    shares = labels[labels > 0] / sizes[labels > 0]
    share = max(float(shares.min()), LEAST_SHARE * len(stratum) / float(sizes.sum()))
    kept = np.zeros(len(stratum), np.bool_)
    for place in np.flatnonzero(labels).tolist():
        own = np.flatnonzero(stratum == place)
        most = max(round(share * float(sizes[place])), 1)
        kept[own[drawn(len(own), most)]] = True
    return kept
