"""Leave-one-out panels: that they leak no label of the domain left out, and equal panels fitted without it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from detectors.contract import FitError
from detectors.label_prior import Tilts
from detectors.least_squares import Moments, predicted
from detectors.panel import LONE_STRENGTH, LabelledDomain, levelled
from detectors.panel_fit import FEW_ROWS, TEMPERATURES, PanelFit, best_temperature, losses
from detectors.softmax import probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import World

    from detectors.panel_fit import Seen


def outside_models(domains: Sequence[LabelledDomain]) -> list[list[np.ndarray | None]]:
    """Two models from elsewhere: one trained on the first domain, where it has no part, and one on none."""
    first = domains[0]
    head = Moments.of_labels(first.embedding, first.labels, first.classes).head(0.1)
    trained = [None, *(predicted(head, part.embedding) for part in domains[1:])]
    weight = np.random.default_rng(0).normal(size=(first.embedding.shape[1], first.classes))
    return [trained, [(part.embedding @ weight).argmax(axis=1) for part in domains]]


def relabelled(domain: LabelledDomain) -> LabelledDomain:
    """The same items with other labels: permuted, and a fifth of them of the first class."""
    labels = np.random.default_rng(1).permutation(domain.labels)
    labels[: len(labels) // 5] = 0
    return replace(domain, labels=labels)


def same(first: Seen, second: Seen) -> None:
    """What two panels know is the same to the bit."""
    np.testing.assert_array_equal(first.agreements, second.agreements)
    np.testing.assert_array_equal(first.target, second.target)
    for name in vars(first.panel).keys() - {"lone", "prior"}:
        np.testing.assert_array_equal(getattr(first.panel, name), getattr(second.panel, name), err_msg=name)


@pytest.mark.parametrize(("classes", "count"), [(2, 3), (2, 5), (3, 4)])
def test_no_label_of_the_domain_left_out_leaks(new_world: type[World], classes: int, count: int) -> None:
    """With its labels permuted, nothing that the panel without it knows changes by a bit; its accuracies do."""
    domains = new_world(1, classes).domains(count, rows=60)
    models = outside_models(domains)
    whole = PanelFit(domains, models)
    for place in range(count):
        other = [relabelled(part) if o == place else part for o, part in enumerate(domains)]
        changed = PanelFit(other, models)
        same(whole.without(place), changed.without(place))
        assert (whole.accuracies[:, place] != changed.accuracies[:, place]).any()


def test_the_whole_panel_reads_a_domain_by_the_others(new_world: type[World]) -> None:
    """In the whole panel a domain's labels reach its own agreement through temperatures, bias and natural only."""
    domains = new_world(2).domains(5, rows=60)
    models = outside_models(domains)
    fit, place = PanelFit(domains, models), 2
    changed = PanelFit([relabelled(part) if o == place else part for o, part in enumerate(domains)], models)
    panel, others = fit.without(None).panel, [0, 1, 3, 4]
    for each in (fit, changed):
        prior = panel.priors[others].mean(axis=0)
        posteriors = levelled(
            each._pooled(place, None, panel.temperature, prior),
            each._lone_posteriors(place, others, panel.lone_temperatures[others], prior),
            prior,
            Tilts(panel.bias, panel.natural),
        )
        expected = fit.without(None).agreements[1, place]
        assert posteriors.agreements(models[1][place])[0] == pytest.approx(expected, abs=1e-12)
    calibration = ("temperature", "lone_temperatures", "bias", "natural")
    other = changed.without(None).panel
    assert any(not np.array_equal(getattr(panel, name), getattr(other, name)) for name in calibration)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_target_is_what_the_panel_without_it_says(new_world: type[World], classes: int) -> None:
    """The agreements on a domain left out are those that its panel gives for the items, as for any window."""
    domains = new_world(3, classes).domains(4)
    models = outside_models(domains)
    fit = PanelFit(domains, models)
    for place, domain in enumerate(domains):
        seen = fit.without(place)
        posteriors = seen.panel.posteriors(domain.embedding)
        for model, row in enumerate(models):
            found = row[place]
            if found is None:
                assert np.isnan(seen.target[:, model]).all()
            else:
                np.testing.assert_allclose(seen.target[:, model], posteriors.agreements(found), atol=1e-4)


def test_leaving_a_domain_out_is_fitting_without_it(new_world: type[World]) -> None:
    """The panel that leaves a domain out equals that of a fit which never had it, and so do the agreements."""
    domains = new_world(4).domains(5)
    models = outside_models(domains)
    whole, place = PanelFit(domains, models), 3
    kept = [o for o in range(5) if o != place]
    fewer = PanelFit([domains[o] for o in kept], [[row[o] for o in kept] for row in models])
    seen, alone = whole.without(place), fewer.without(None)
    for name in ("temperature", "lone_temperatures", "bias", "natural", "means", "priors"):
        np.testing.assert_allclose(getattr(seen.panel, name), getattr(alone.panel, name), rtol=1e-6, err_msg=name)
    rows = [0, 1, *(2 + o for o in kept)]
    np.testing.assert_allclose(seen.agreements[np.ix_(rows, kept)], alone.agreements, atol=1e-6)
    assert alone.target is None


def test_who_has_no_part_has_no_agreement(new_world: type[World]) -> None:
    """NaN where a model has no predictions, on the domain left out, and for that domain's own model everywhere."""
    fit = PanelFit(domains := new_world(5).domains(4, rows=50), outside_models(domains))
    missing = np.zeros((6, 4), bool)
    missing[0, 0] = True
    missing[2:] = np.eye(4)
    np.testing.assert_array_equal(np.isnan(fit.accuracies), missing)
    np.testing.assert_array_equal(np.isnan(fit.without(None).agreements), missing)
    left = missing.copy()
    left[:, 1] = left[3] = True
    np.testing.assert_array_equal(np.isnan(fit.without(1).agreements), left)
    np.testing.assert_array_equal(
        np.isnan(fit.without(1).target).all(axis=0), [False, False, False, True, False, False]
    )


def test_own_models_are_heads_of_one_domain(new_world: type[World]) -> None:
    """The panel's own models predict and score as scikit-learn's ridge on one domain's rows does."""
    domains = new_world(6, 3).domains(3)
    fit = PanelFit(domains, [])
    for place, part in enumerate(domains):
        alpha = LONE_STRENGTH * np.square(part.embedding.astype(np.float64)).sum() / 8
        ridge = Ridge(alpha=alpha).fit(part.embedding.astype(np.float64), np.eye(3)[part.labels])
        for other, target in enumerate(domains):
            if other != place:
                said = ridge.predict(target.embedding.astype(np.float64)).argmax(axis=1)
                np.testing.assert_array_equal(fit.predictions[place][other], said)
                assert fit.accuracies[place, other] == (said == target.labels).mean()


def test_very_small_domains_count_less(new_world: type[World]) -> None:
    """Moments are scaled so that n rows count as n / (n + FEW_ROWS)."""
    world = new_world(7)
    fit = PanelFit([world.domain(rows) for rows in (5, 100, 900)], [])
    weights = fit.without(None).panel.grams[:, -1, -1]
    np.testing.assert_allclose(weights, [rows / (rows + FEW_ROWS) for rows in (5, 100, 900)], rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_losses_are_cross_entropies(seed: int) -> None:
    """The loss at each temperature is the mean -log softmax of the label; the best has the least mean loss."""
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(0, 0.3, (40, 3)), rng.integers(0, 3, 40)
    found = losses(logits, labels)
    for place in (0, 17, 59):
        share = probabilities(logits, TEMPERATURES[place])[np.arange(40), labels]
        assert found[place] == pytest.approx(-np.log(share).mean())
    other = losses(rng.normal(0, 0.3, (40, 3)), labels)
    assert best_temperature([found, other]) == TEMPERATURES[np.argmin(found + other)]


def test_extreme_logits_have_finite_losses() -> None:
    """Logits in the thousands overflow at no temperature."""
    assert np.isfinite(losses(np.array([[5000.0, -5000.0]]), np.array([1]))).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_temperatures_calibrate_the_posteriors(new_world: type[World], classes: int) -> None:
    """On most new domains the mean probability of the likeliest class is about the accuracy of choosing it."""
    world = new_world(8, classes)
    panel = PanelFit(world.domains(8, rows=200), []).without(None).panel
    gaps = []
    for _ in range(12):
        window = world.domain(200)
        posterior = panel.posteriors(window.embedding).believed
        gaps.append(posterior.max(axis=1).mean() - (posterior.argmax(axis=1) == window.labels).mean())
    assert abs(np.median(gaps)) < 0.05


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_changed_classes_are_seen(new_world: type[World], share: float) -> None:
    """On a window whose classes are 9 to 1, the posterior lies nearer to that than the domains' share does."""
    world = new_world(8)
    panel = PanelFit(world.domains(6, rows=200), []).without(None).panel
    window = world.domain(600, prior=np.array([share, 1 - share]))
    found = panel.posteriors(window.embedding)
    assert abs(found.believed[:, 0].mean() - share) < abs(panel.prior[0] - share) - 0.05
    assert abs(found.unchanged[:, 0].mean() - panel.prior[0]) < 1e-4


def degenerate(kind: str, world: World) -> list[LabelledDomain]:
    """Four domains, one of them or all not as they should be."""
    first, *others = world.domains(4, rows=40)
    same_items = np.broadcast_to(first.embedding[:1], first.embedding.shape)
    return {
        "one class": [replace(first, labels=np.zeros(40, int)), *others],
        "all of one class": [replace(part, labels=np.zeros(40, int)) for part in (first, *others)],
        "an absent class": [replace(part, classes=3) for part in (first, *others)],
        "the same item": [replace(first, embedding=same_items), *others],
        "zeros": [replace(part, embedding=np.zeros_like(part.embedding)) for part in (first, *others)],
        "duplicates": [first, first, first, first],
        "one item": [LabelledDomain(first.embedding[:1], first.labels[:1], 2), *others],
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["one class", "all of one class", "an absent class", "the same item", "zeros", "duplicates", "one item"],
)
def test_degenerate_domains_have_a_panel(new_world: type[World], kind: str) -> None:
    """Domains of one class, an absent class, equal items or one item give finite agreements and no warning."""
    domains = degenerate(kind, new_world(9))
    fit = PanelFit(domains, [])
    for place in (None, 0, 2):
        seen = fit.without(place)
        known = ~np.isnan(fit.accuracies)
        if place is not None:
            known[place] = known[:, place] = False
        assert np.isfinite(seen.agreements[known]).all()
        assert ((seen.agreements[known] >= 0) & (seen.agreements[known] <= 1)).all()
        assert np.isfinite([seen.panel.bias, seen.panel.natural, seen.panel.temperature]).all()


def test_a_domain_without_items_is_refused(new_world: type[World]) -> None:
    """A domain with no items cannot be learnt from."""
    domains = new_world(10).domains(3, rows=30)
    empty = LabelledDomain(domains[0].embedding[:0], domains[0].labels[:0], 2)
    with pytest.raises(FitError, match="no items"):
        PanelFit([*domains, empty], [])
