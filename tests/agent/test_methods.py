"""Every method of a reference: what it reads, what it says, and how far it was off on domains left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agent.methods import AGREEMENT, ENSEMBLE, LEAST, MEAN, PAPER, backtested, methods_of
from agent.reference import Domain, Trust
from tests.agent.panel_bench import fitted

NAN = float("nan")


def _domains(drops: list[float], **shifts: list[float]) -> list[Domain]:
    return [
        Domain(str(place), 100, 0.9 - drop, drop, {name: values[place] for name, values in shifts.items()})
        for place, drop in enumerate(drops)
    ]


def test_a_metric_that_follows_the_drop_predicts_it() -> None:
    """On a straight line every left-out error is zero, and the drop at a new value lies on the line."""
    method = methods_of(_domains([0.0, 0.1, 0.2, 0.3], pad=[0.2, 0.4, 0.6, 0.8]))["pad"]
    assert method.drop({"pad": 0.5}) == pytest.approx(0.15)
    assert method.regression.mae == pytest.approx(0, abs=1e-12)


def test_the_ensemble_reads_the_papers_metrics_alone() -> None:
    """Others get a line of their own; the order and the names of the metrics are those it was fitted with."""
    found = methods_of(_domains([0.0, 0.1, 0.3, 0.2], rca=[1, 2, 3, 4], js=[4, 3, 2, 1], conf=[0, 1, 0, 2]))
    assert list(found) == [MEAN, "conf", "rca", "js", ENSEMBLE]
    assert found[ENSEMBLE].metrics == ("conf", "rca")
    assert set(found[ENSEMBLE].metrics) <= set(PAPER)


@pytest.mark.parametrize("value", [NAN, np.inf])
def test_a_metric_that_one_domain_lacks_is_left_out(value: float) -> None:
    """A line needs the metric of every domain."""
    found = methods_of(_domains([0.0, 0.1, 0.3], pad=[0.1, 0.2, value], conf=[1, 2, 4]))
    assert list(found) == [MEAN, "conf", ENSEMBLE]


def test_without_metrics_there_is_the_mean_alone() -> None:
    """No metric, no line and no ensemble; no domain, no method."""
    assert list(methods_of(_domains([0.0, 0.1, 0.3]))) == [MEAN]
    assert methods_of([]) == {}


def test_two_domains_have_a_mean_and_no_line() -> None:
    """Any two points lie on a line, so it would say nothing; their mean drop is known."""
    found = methods_of(_domains([0.1, 0.3], pad=[0.2, 0.4]))
    assert list(found) == [MEAN]
    assert found[MEAN].drop({}) == pytest.approx(0.2)
    assert LEAST == 3


def test_nothing_is_lost_at_home() -> None:
    """Lines through far domains alone say anything of near windows; those that know the source say nothing."""
    far = _domains([0.10, 0.14, 0.12], pad=[0.90, 0.91, 0.92])
    home = {"pad": 0.0}
    alone, anchored = methods_of(far)["pad"].drop(home), methods_of(far, home)["pad"].drop(home)
    assert abs(alone) > 0.5
    assert abs(anchored) < 0.01
    assert methods_of(far, home)[MEAN].drop({}) == pytest.approx(0.12)


def test_a_missing_metric_gives_nan() -> None:
    """What a window cannot tell is not made up."""
    method = methods_of(_domains([0.0, 0.1, 0.2], js=[0.2, 0.4, 0.6]))["js"]
    assert np.isnan(method.drop({"js": NAN}))
    assert np.isnan(method.drop({}))


def test_the_backtest_lists_the_best_method_first() -> None:
    """Methods by mean error, each at most its largest; agreement's are those of the domains left out."""
    reference = fitted()
    found = backtested(reference)
    known = [each for each in found.values() if not np.isnan(each.mae)]
    assert known == sorted(known, key=lambda each: each.mae) == list(found.values())[: len(known)]
    assert all(each.mae <= each.max for each in known)
    off = [abs(domain.left_out[0] - domain.drop) for domain in reference.domains if domain.left_out]
    assert (found[AGREEMENT].mae, found[AGREEMENT].max) == pytest.approx((np.mean(off), max(off)))
    assert {MEAN, ENSEMBLE, "pad", "conf", "cot"} < found.keys()


def test_what_is_not_known_comes_last() -> None:
    """One domain has a mean without an error, and no agreement without an estimator."""
    reference = fitted()
    lone = replace(reference, domains=reference.domains[:1], estimator=None, trust=Trust("too few"))
    ((name, errors),) = backtested(lone).items()
    assert name == MEAN
    assert np.isnan([errors.mae, errors.max]).all()
    assert list(backtested(replace(lone, domains=()))) == []
