"""How robust a task is to its domain: source drop, target drop and what they mean (domain-robustness paper).

Everything starts from a (D, D) matrix of scores, higher = better: the row is the domain trained on, the column
the one tested on, the diagonal in-domain. NaN off the diagonal is a pair nobody measured: figures are then over
the pairs there are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, permutations
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from detectors.contract import Vector

# Differences and sums of scores that differ beyond these decimals only differ by rounding.
_DECIMALS = 9
# The paper's .05, corrected by Bonferroni for its 14 tests.
ORDERING_LEVEL = 0.05 / 14


@dataclass(frozen=True)
class Shift:
    """A source, a target, and their three scores: in-domain SS and TT, cross-domain ST."""

    source: str
    target: str
    ss: float
    tt: float
    st: float

    @property
    def sd(self) -> float:
        """Source drop SS - ST: what the one who deployed the model sees. Equals TD + IDD."""
        return self.ss - self.st

    @property
    def td(self) -> float:
        """Target drop TT - ST: what training on the target would give back."""
        return self.tt - self.st

    @property
    def idd(self) -> float:
        """In-domain difference SS - TT: how much harder the target is by itself."""
        return self.ss - self.tt


class Scenario(StrEnum):
    """What the signs of SD and TD say (section 3.3)."""

    CLASSIC = "classic"
    OBSERVED = "observed"
    UNOBSERVED = "unobserved"
    NO_CHALLENGE = "no challenge"
    TIE = "tie"


MEANING: Mapping[Scenario, str] = {
    Scenario.CLASSIC: "The model does worse than at home and worse than one trained on the target would: "
    "annotate the target, retraining should help.",
    Scenario.OBSERVED: "The target is a harder domain, on which the model already does as well as one trained "
    "there would: retraining on its labels will not bring the old number back.",
    Scenario.UNOBSERVED: "No drop shows because the target is an easier domain, yet one trained there would do "
    "better: annotate the target, retraining should help.",
    Scenario.NO_CHALLENGE: "The model does better than at home and better than one trained on the target would: "
    "nothing calls for annotation.",
    Scenario.TIE: "One of the two drops is too small to have a sign: these scores do not decide about annotation.",
}

_SIGNS = {
    (True, True): Scenario.CLASSIC,
    (True, False): Scenario.OBSERVED,
    (False, True): Scenario.UNOBSERVED,
    (False, False): Scenario.NO_CHALLENGE,
}


def scenario(sd: float, td: float, tolerance: float = 0.0) -> Scenario:
    """The scenario of a shift, a tie where either drop is within `tolerance` of 0. Drops must be finite."""
    return Scenario.TIE if min(abs(sd), abs(td)) <= tolerance else _SIGNS[sd > 0, td > 0]


def shifts(scores: NDArray[np.floating], names: Sequence[str]) -> list[Shift]:
    """Every measured shift, row by row, of domains so named.

    ValueError if the scores are not a square matrix of numbers with a whole diagonal, or the names do not fit it.
    """
    if scores.ndim != 2 or len(set(scores.shape)) != 1 or len(names) != len(scores):  # noqa: PLR2004 - a matrix
        raise ValueError(f"scores of shape {scores.shape} for {len(names)} domains: not one row and column each")
    if not np.isfinite(scores.diagonal()).all() or np.isinf(scores).any():
        raise ValueError("an in-domain score is missing, or a score is infinite")
    own, cross = scores.diagonal().tolist(), scores.tolist()
    return [
        Shift(names[s], names[t], ss=own[s], tt=own[t], st=cross[s][t])
        for s, t in np.argwhere(~np.isnan(scores)).tolist()
        if s != t
    ]


@dataclass(frozen=True)
class Robustness:
    """A task's figures, in the scores' unit (tables 1, 4, 6 and 7). NaN where there is nothing to compute from.

    `mean_ss` is the mean of the diagonal, `mean_st` that of the measured pairs, `mean_drop` their difference. Only
    if `missing`, the pairs nobody measured, is 0 is it also the mean SD and the mean TD.

    `worst_*` is the largest drop of all. `average_worst_*` is the largest of each source (a row), averaged over
    sources. `harder_*` is the mean over the shifts (rows of table 7, not of the matrix) to a harder domain,
    IDD > 0: studies that look at these alone see a large SD. `std_*` has ddof=1.

    `spearman_ss` and `spearman_tt` correlate ST with SS and TT over shifts; `r2_*` is the squared Pearson
    correlation of IDD with the drop. NaN where one side is constant.
    """

    mean_ss: float
    mean_st: float
    mean_drop: float
    missing: int
    worst_sd: float
    worst_td: float
    average_worst_sd: float
    average_worst_td: float
    harder_sd: float
    harder_td: float
    std_sd: float
    std_td: float
    spearman_ss: float
    spearman_tt: float
    r2_sd: float
    r2_td: float
    scenarios: Mapping[Scenario, int]


def robustness(scores: NDArray[np.floating], tolerance: float = 0.0) -> Robustness:
    """The figures of a (D, D) matrix; `tolerance` as in `scenario`. ValueError as `shifts`."""
    found = shifts(scores, _numbered(scores))
    ss, tt, st = np.array([(each.ss, each.tt, each.st) for each in found]).reshape(-1, 3).T
    sd, td, idd = ss - st, tt - st, ss - tt
    mean_ss, mean_st = _mean(scores.diagonal()), _mean(st)
    rows = [list(row) for _, row in groupby(found, key=attrgetter("source"))]
    seen = Counter(scenario(each.sd, each.td, tolerance) for each in found)
    return Robustness(
        mean_ss=mean_ss,
        mean_st=mean_st,
        mean_drop=mean_ss - mean_st,
        missing=len(scores) * (len(scores) - 1) - len(found),
        worst_sd=max(sd.tolist(), default=np.nan),
        worst_td=max(td.tolist(), default=np.nan),
        average_worst_sd=_mean(np.array([max(each.sd for each in row) for row in rows])),
        average_worst_td=_mean(np.array([max(each.td for each in row) for row in rows])),
        harder_sd=_mean(sd[idd > 0]),
        harder_td=_mean(td[idd > 0]),
        std_sd=float(sd.std(ddof=1)) if len(sd) > 1 else np.nan,
        std_td=float(td.std(ddof=1)) if len(td) > 1 else np.nan,
        spearman_ss=_rank_correlation(st, ss),
        spearman_tt=_rank_correlation(st, tt),
        r2_sd=_correlation(idd, sd) ** 2,
        r2_td=_correlation(idd, td) ** 2,
        scenarios={each: seen[each] for each in Scenario},
    )


@dataclass(frozen=True)
class Orderings:
    """How many shifts have each strict ordering of SS, TT and ST, and the chi-squared test of these six counts.

    `tied` shifts, two scores of which are equal, are in no count. NaN where all are tied.
    """

    counts: Mapping[str, int]
    tied: int
    statistic: float
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether p is within the paper's level."""
        return self.p_value <= ORDERING_LEVEL


def ordering_test(scores: NDArray[np.floating]) -> Orderings:
    """Chi-squared of the six orderings against uniform, df = 5 (appendix C.8). ValueError as `shifts`.

    To reproduce the paper, not to decide by: its null does not hold where no shift hurts. ST and TT are scores on
    the same test set, so both rise and fall with its difficulty, and SS seldom lies between them; and a domain's
    score comes back in many shifts, so these are not independent draws. The two tests below suffer from neither.
    """
    # Imported here: an agent that only runs would pay for scipy's statistics.
    from scipy.stats import chisquare  # noqa: PLC0415

    counts = dict.fromkeys((">".join(names) for names in permutations(("SS", "TT", "ST"))), 0)
    tied = 0
    for each in shifts(scores, _numbered(scores)):
        values = {"SS": each.ss, "TT": each.tt, "ST": each.st}
        if len(set(values.values())) < len(values):
            tied += 1
        else:
            counts[">".join(sorted(values, key=values.__getitem__, reverse=True))] += 1
    if not any(counts.values()):
        return Orderings(counts, tied, np.nan, np.nan)
    result = chisquare(list(counts.values()))
    return Orderings(counts, tied, float(result.statistic), float(result.pvalue))


def permutation_test(scores: NDArray[np.floating], repeats: int, seed: int) -> float:
    """p in (0, 1] that the mean TD is no higher than chance has it, by flipping signs; NaN without shifts.

    The null: training on the target gives nothing, so a target's TDs are as likely to have the opposite signs. The
    TDs of one target (a column) share its TT, so they flip together; flipped one by one, or by source, the shared
    term passes for evidence (a level of .05 then rejects up to a third of true nulls). Sources that differ in
    quality make this test cautious, never bold, and p cannot be much below 2^-D. `reassignment_test` is the
    sharper one where every pair was measured.
    """
    found = shifts(scores, _numbered(scores))
    if not found:
        return np.nan
    columns: Vector = np.zeros(len(scores))
    for each in found:
        columns[int(each.target)] += each.td
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), (repeats, len(columns)))
    return _share_reaching(float(columns.sum()), signs @ columns)


def reassignment_test(scores: NDArray[np.floating], repeats: int, seed: int) -> float:
    """p in (0, 1] that models do no better at home than chance has it, by dealing the domains out anew.

    The null: which model was trained on which domain has nothing to do with the scores. The statistic is the mean
    in-domain score, which rises with the mean drop; each repeat gives every target one model at random, no two the
    same. A target's difficulty and a source's quality are in every such sum, so neither counts as evidence. NaN
    for one domain, or where a pair is missing. p cannot be much below 1 / D!.
    """
    if len(shifts(scores, _numbered(scores))) < max(len(scores) * (len(scores) - 1), 1):
        return np.nan
    domains = np.arange(len(scores))
    models = np.random.default_rng(seed).permuted(np.tile(domains, (repeats, 1)), axis=1)
    return _share_reaching(float(scores.trace()), scores[models, domains].sum(axis=1))


def _share_reaching(observed: float, drawn: Vector) -> float:
    """(1 + #{drawn >= observed}) / (1 + draws); what equals it but for rounding reaches it."""
    return float((1 + (np.round(drawn - observed, _DECIMALS) >= 0).sum()) / (1 + len(drawn)))


def _numbered(scores: NDArray[np.floating]) -> list[str]:
    """Names for domains that nobody will read."""
    return [str(domain) for domain in range(len(scores))]


def _mean(values: NDArray[np.floating]) -> float:
    """The mean; NaN of nothing."""
    return float(values.mean()) if len(values) else np.nan


def _correlation(first: Vector, second: Vector) -> float:
    """Pearson's; NaN where either is constant but for rounding."""
    pair = np.round([first, second], _DECIMALS)
    if not pair.size or not np.ptp(pair, axis=1).all():
        return np.nan
    return float(np.corrcoef(pair)[0, 1])


def _rank_correlation(first: Vector, second: Vector) -> float:
    """Spearman's, ties with their mean rank; NaN where either is constant."""
    # Imported here, as in `ordering_test`.
    from scipy.stats import rankdata  # noqa: PLC0415

    return _correlation(rankdata(first), rankdata(second))
