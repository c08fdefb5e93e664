"""The label-free estimate: a number with an interval where there is one, a reason where there is none."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agent.bundle import load_reference, save_reference
from agent.estimation import INSIDE, LEAST_ITEMS, NOVELTY, Counted, Estimator, ranges_of, refused, too_little
from agent.methods import AGREEMENT, ENSEMBLE, MEAN
from agent.observed import of_rows
from agent.panes import Pane
from agent.records import Record
from agent.reference import Domain
from agent.sample import SIZE
from agent.summary import Summary
from detectors.softmax import confidences
from tests.agent.panel_bench import drawn_from, drop_of, fitted, outputs_of, scored

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.reference import Reference
    from agent.report import DropEstimate
    from detectors.comparison import Observed
    from tests.agent.panel_bench import Drawn

NAN = float("nan")
COUNTED = Counted(400, {"js": 0.3, "q": 0.4, "ood_knn": 0.1})


def _observed(reference: Reference, items: Drawn) -> Observed:
    outputs = outputs_of(reference, items)
    assert outputs.logits is not None
    return of_rows(outputs, confidences(outputs.logits, reference.temperature.value))


def _window(reference: Reference, items: Drawn, panes: int = 3, size: int = SIZE) -> Pane:
    """The items as an agent keeps them: records dealt to panes, which are merged."""
    made = scored(reference, items)
    summary = Summary(reference, 60, size)
    parts = []
    for part in range(panes):
        rows = range(part, len(items.texts), panes)
        records = [Record(f"id-{row}", items.texts[row], 0.0) for row in rows]
        parts += summary.panes(records, ["all"] * len(records), made.take(list(rows)))
    return reduce(Pane.merge, parts)


def _of_window(reference: Reference, items: Drawn, size: int = SIZE) -> DropEstimate:
    pane = _window(reference, items, size=size)
    return Estimator(reference).of_window(pane.tally, pane.sample)


def _of_table(reference: Reference, items: Drawn) -> DropEstimate:
    return Estimator(reference).of_scored(scored(reference, items), items.texts)


def _says_nothing(found: DropEstimate) -> None:
    """Whoever reads any part of it is told that there is no estimate."""
    assert found.reason
    assert np.isnan([*vars(found.drop).values(), *vars(found.accuracy).values()]).all()
    assert (found.methods, found.inside_domains, found.outside) == ({}, False, ())


@pytest.mark.parametrize("domains", [2, 3, 4])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_interval_holds_the_realised_drop(domains: int, classes: int) -> None:
    """On a domain that no fit has seen, and on the source itself, the drop lies between the bounds."""
    reference = fitted(domains, classes)
    for domain in ("source", "window"):
        items = drawn_from(domain, 500, classes, seed=9)
        found = _of_table(reference, items)
        assert (found.reason, found.n, found.level) == ("", 500, 0.9)
        assert found.drop.low <= drop_of(reference, items) <= found.drop.high
        assert found.drop.low <= found.drop.estimate <= found.drop.high
        assert found.drop.high - found.drop.low < 0.3


def test_nothing_is_lost_where_nothing_shifted() -> None:
    """Fresh items of the source cost nothing, surely: drift that does not hurt must not page."""
    reference = fitted(3, 2)
    items = drawn_from("source", 800, seed=11)
    found = _of_table(reference, items)
    assert found.metrics[NOVELTY] < 0.3
    assert abs(found.drop.estimate) < 0.05
    assert found.drop.low <= drop_of(reference, items) <= found.drop.high
    assert _of_table(reference, drawn_from("window", 800, seed=11)).metrics[NOVELTY] == 1


def test_drop_and_accuracy_are_one_statement() -> None:
    """The drop is the source's accuracy less the estimated one, bound by bound, crosswise."""
    reference = fitted()
    found, source = _of_table(reference, drawn_from("window", 300)), reference.source.accuracy["test"]
    assert found.drop.estimate == pytest.approx(source - found.accuracy.estimate)
    assert found.drop.low == pytest.approx(source - found.accuracy.high)
    assert found.drop.high == pytest.approx(source - found.accuracy.low)
    assert found.methods[AGREEMENT] == (found.metrics[AGREEMENT], pytest.approx(found.drop.estimate))


def test_every_method_has_its_say() -> None:
    """A method tells its metric and its drop; those of several metrics or none have no metric to tell."""
    found = _of_table(fitted(), drawn_from("window", 300))
    assert {MEAN, ENSEMBLE, AGREEMENT, "pad", "conf", "js", "q", "atc", "cot"} <= found.methods.keys()
    for name, (metric, drop) in found.methods.items():
        assert np.isfinite(drop)
        assert np.isnan(metric) if name in {MEAN, ENSEMBLE} else metric == found.metrics[name]


def test_more_than_two_classes_do_without_optimal_transport() -> None:
    """Its (n, n) matrix and its second are not for a live window; the other methods are the same."""
    two, three = (_of_table(fitted(3, classes), drawn_from("window", 300, classes)) for classes in (2, 3))
    assert two.methods.keys() - three.methods.keys() == {"cot"}


def test_a_smaller_window_is_less_sure() -> None:
    """With fewer items than the reference domains had, sampling widens the interval."""
    reference, items = fitted(), drawn_from("window", 300)
    wide, narrow = (
        _of_table(reference, items.take(np.arange(rows))).drop for rows in (LEAST_ITEMS, len(items.labels))
    )
    assert wide.high - wide.low > narrow.high - narrow.low


@pytest.mark.parametrize(("classes", "rows"), [(2, 600), (3, 200), (2, LEAST_ITEMS)])
def test_a_table_and_a_window_of_the_same_items_agree(classes: int, rows: int) -> None:
    """However the items come, agreement differs by rounding, drop and bounds by the order of rows, counts not."""
    reference, items = fitted(3, classes), drawn_from("window", rows, classes)
    table, window = _of_table(reference, items), _of_window(reference, items)
    assert vars(table.drop) == pytest.approx(vars(window.drop), abs=0.01)
    assert vars(table.accuracy) == pytest.approx(vars(window.accuracy), abs=0.01)
    assert (table.n, table.level, table.reason) == (window.n, window.level, window.reason)
    assert table.metrics.keys() == window.metrics.keys()
    assert table.methods.keys() == window.methods.keys()
    for name in ("js", "q", "ood_knn", "conf", "conf_calib", "class_shift", "atc", AGREEMENT):
        assert table.metrics[name] == pytest.approx(window.metrics[name], abs=2e-3)
    # Folds are cut by the order of the rows, which is another one.
    for name in ("pad", "pad_star"):
        assert table.metrics[name] == pytest.approx(window.metrics[name], abs=0.15)


def test_a_sample_of_a_window_says_about_the_same() -> None:
    """Where a pane keeps 200 items of 600, the estimate is that of all to within sampling; n counts all."""
    reference, items = fitted(), drawn_from("window", 600)
    whole, part = _of_window(reference, items), _of_window(reference, items, size=200)
    assert part.n == whole.n == 600
    assert part.drop.estimate == pytest.approx(whole.drop.estimate, abs=0.04)
    assert part.drop.high - part.drop.low > whole.drop.high - whole.drop.low


def test_the_order_of_rows_matters_no_more_than_sampling() -> None:
    """A table sorted by label, and the same one turned round, give the same drop and nearly the same metrics."""
    reference, items = fitted(), drawn_from("window", 400)
    order = np.argsort(items.labels, kind="stable")
    plain, *others = (_of_table(reference, items.take(rows)) for rows in (np.arange(400), order, order[::-1]))
    for other in others:
        assert vars(other.drop) == pytest.approx(vars(plain.drop), abs=1e-6)
        assert dict(other.metrics) == pytest.approx(dict(plain.metrics), abs=0.12)


def test_the_same_items_give_the_same_estimate(plain: Callable[[object], Any]) -> None:
    """To the last bit, of a table and of a window; and what was given is left as it was."""
    reference, items = fitted(), drawn_from("window", 200)
    pane = _window(reference, items)
    before = pane.sample.embedding.copy()
    estimators = Estimator(reference), Estimator(reference)
    assert len({str(plain(each.of_window(pane.tally, pane.sample))) for each in estimators}) == 1
    assert (pane.sample.embedding == before).all()
    assert plain(_of_table(reference, items)) == plain(_of_table(reference, items))


def _damaged(name: str, value: float) -> Callable[[Observed], Observed]:
    def damage(observed: Observed) -> Observed:
        column = getattr(observed, name).copy()
        column[7] = value
        return replace(observed, **{name: column})

    return damage


def _same_class(observed: Observed) -> Observed:
    assert observed.logits is not None
    logits = observed.logits.copy()
    logits[:, 0] = logits.max() + 1
    return replace(observed, logits=logits)


def _first(rows: int) -> Callable[[Observed], Observed]:
    def first(observed: Observed) -> Observed:
        return replace(observed, **{name: value[:rows] for name, value in _columns(observed).items()})

    return first


def _repeated(observed: Observed) -> Observed:
    return replace(observed, **{name: value[np.arange(200) % 3] for name, value in _columns(observed).items()})


def _constant(observed: Observed) -> Observed:
    return replace(observed, embedding=np.full_like(observed.embedding, 0.25))


def _columns(observed: Observed) -> dict[str, Any]:
    return {name: value for name, value in vars(observed).items() if value is not None}


LOST = "of 1 of 200 items the models gave NaN or infinity"
DEGENERATE: list[tuple[Callable[[Observed], Observed], str]] = [
    (_first(0), "there are no items"),
    (_first(1), "1 items are too few, at least 30 are needed"),
    (_first(LEAST_ITEMS - 1), "29 items are too few, at least 30 are needed"),
    (_repeated, "only 3 of 200 items are different, at least 20 are needed"),
    (_constant, "only 1 of 200 items are different, at least 20 are needed"),
    (_same_class, "the model predicts 'negative' for every item, so nothing tells right from wrong predictions"),
    *(
        (_damaged(name, value), LOST)
        for name in ("embedding", "confidence", "calibrated", "logits")
        for value in (NAN, np.inf, -np.inf)
    ),
]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("degenerate", "reason"), DEGENERATE)
def test_a_degenerate_window_says_why_it_says_nothing(
    degenerate: Callable[[Observed], Observed], reason: str, classes: int
) -> None:
    """No number, no crash and no warning of numpy's, but a reason that a person understands."""
    reference = fitted(3, classes)
    observed = degenerate(_observed(reference, drawn_from("window", 200, classes)))
    found = Estimator(reference).estimate(observed, COUNTED)
    _says_nothing(found)
    assert (found.reason, found.n) == (reason, 400)
    assert found.metrics["q"] == 0.4


def test_a_class_that_is_never_predicted_is_no_obstacle() -> None:
    """With three classes of which a window shows two, there is an estimate that holds."""
    reference = fitted(3, 3)
    items = drawn_from("window", 800, 3)
    predicted = outputs_of(reference, items).logits
    assert predicted is not None
    found = items.take(np.flatnonzero(predicted.argmax(axis=1) != 2))
    estimate = _of_table(reference, found)
    assert estimate.reason == ""
    assert estimate.drop.low <= drop_of(reference, found) <= estimate.drop.high


def test_a_table_without_a_usable_row_says_so() -> None:
    """Where the models gave NaN for every row there are no items, and for some, the others are estimated."""
    reference, items = fitted(), drawn_from("window", 100)
    made = scored(reference, items)
    nothing = Estimator(reference).of_scored(replace(made, finite=np.zeros(100, np.bool_)), items.texts)
    _says_nothing(nothing)
    assert (nothing.reason, nothing.n) == ("there are no items", 0)
    assert np.isnan(list(nothing.metrics.values())).all()
    some = Estimator(reference).of_scored(replace(made, finite=np.arange(100) < 60), items.texts)
    assert vars(some.drop) == vars(_of_table(reference, items.take(np.arange(60))).drop)


def test_the_fewest_items_asked_for_are_counted_in_the_window() -> None:
    """A sample never holds more than its size; what decides is how many items there were. Never under 30."""
    reference, observed = fitted(), _observed(fitted(), drawn_from("window", 200))
    asked = Estimator(reference, least=5_000)
    few = asked.estimate(observed, replace(COUNTED, items=4_999))
    _says_nothing(few)
    assert few.reason == "4999 items are too few, at least 5000 are needed"
    assert asked.estimate(observed, replace(COUNTED, items=5_000)).reason == ""
    _says_nothing(Estimator(reference, least=1).estimate(_first(29)(observed), COUNTED))


def test_texts_without_a_word_are_outside() -> None:
    """Without words there is no word divergence: the other methods speak, and the window is outside."""
    reference = fitted()
    items = drawn_from("window", 200)
    found = _of_table(reference, replace(items, texts=["?! ..."] * 200))
    assert (found.reason, found.inside_domains, found.outside) == ("", False, ("js",))
    assert np.isnan(found.metrics["js"])
    assert np.isnan(found.methods["js"][1])
    assert np.isfinite(list(vars(found.drop).values())).all()


@pytest.mark.parametrize("domains", [0, 1])
def test_without_enough_domains_there_are_metrics_and_no_drop(domains: int) -> None:
    """Reason and metrics are told, so that a shift is seen even where its harm cannot be."""
    reference = fitted(domains)
    found = _of_table(reference, drawn_from("window", 200))
    _says_nothing(found)
    assert found.reason == reference.trust.refusal
    assert {"pad", "conf", "js", "q", "ood_knn"} <= found.metrics.keys()


def test_the_sources_own_texts_are_inside_and_strange_ones_outside() -> None:
    """Held-out source items lie within the fitted domains; what is unlike all of them does not."""
    reference = fitted(4)
    for rows in (100, 500):
        assert _of_table(reference, drawn_from("source", rows, seed=5)).outside == ()
    own = _observed(reference, drawn_from("source", 200, seed=5))
    counted = Counted(200, {"js": 0.99, "q": 0.9, "ood_knn": 1.0})
    found = Estimator(reference).estimate(own, counted)
    assert (found.inside_domains, found.outside) == (False, ("js", "q"))


def test_ranges_come_from_what_is_known() -> None:
    """A metric that no domain has gives no range; without domains there is none at all."""
    shifts = {"pad": 0.8, "conf_calib": 0.1, "js": NAN, "q": 0.2}
    ranges = ranges_of([Domain("one", 100, 0.8, 0.1, shifts)])
    assert ranges.keys() == INSIDE.keys() - {"js"}
    for name, (low, high) in ranges.items():
        assert low < min(INSIDE[name], shifts[name])
        assert max(INSIDE[name], shifts[name]) < high
    assert ranges_of([]) == {}


def test_what_lies_in_another_direction_is_outside() -> None:
    """Texts whose mean embedding is far from that of every labelled domain are told by that alone."""
    reference = fitted(3)
    items = drawn_from("window", 200)
    away = items.embedding - 2 * items.embedding.mean(axis=0)
    far = replace(items, embedding=(away / np.linalg.norm(away, axis=1, keepdims=True)).astype(np.float32))
    near, found = (_of_table(reference, each) for each in (items, far))
    assert near.metrics["nearest"] > 0.3
    assert found.metrics["nearest"] < 0
    assert ("nearest" in near.outside, "nearest" in found.outside) == (False, True)


def test_tokens_are_estimated_by_the_ensemble() -> None:
    """Items without a class have the ensemble's drop, with its left-out error, and no agreement."""
    reference = fitted(4, task="tokens")
    items = drawn_from("window", 300)
    outputs = outputs_of(fitted(4), items)
    assert outputs.logits is not None
    confidence = confidences(outputs.logits, reference.temperature.value)
    observed = of_rows(replace(outputs, logits=None, features=None), confidence)
    found = Estimator(reference).estimate(observed, COUNTED)
    assert found.reason == ""
    assert found.drop.estimate == pytest.approx(found.methods[ENSEMBLE][1])
    assert AGREEMENT not in found.methods
    assert found.drop.low <= drop_of(fitted(4), items) <= found.drop.high


def test_a_refusal_keeps_what_was_counted() -> None:
    """Other parts of the agent say no in the same form."""
    found = refused("because", COUNTED)
    _says_nothing(found)
    assert (found.n, found.metrics, too_little(_observed(fitted(), drawn_from("window", 50)))) == (
        400,
        COUNTED.metrics,
        "",
    )


@pytest.mark.parametrize(("domains", "task"), [(3, "classification"), (0, "classification"), (4, "tokens")])
def test_a_saved_reference_estimates_the_same(
    domains: int, task: str, tmp_path: Path, plain: Callable[[object], Any]
) -> None:
    """To the last bit: domains, trust, panel and every estimate; and a second saving has the same id."""
    reference = fitted(domains, task=task)
    ids = [save_reference(reference, tmp_path / name) for name in ("one", "two")]
    loaded = load_reference(tmp_path / "one")
    assert ids == [loaded.id] * 2
    for name in ("domains", "trust", "estimator"):
        assert plain(getattr(loaded, name)) == plain(getattr(reference, name))
    # Not json's NaN: other programs read these files too.
    for name in ("manifest.json", "domains.json"):
        assert "NaN" not in (tmp_path / "one" / name).read_text(encoding="utf-8")
    if task == "classification":
        items = drawn_from("window", 200)
        pane = _window(reference, items)
        before, after = (Estimator(each).of_window(pane.tally, pane.sample) for each in (reference, loaded))
        assert plain(before) == plain(after)


AGENT = """
import sys
from pathlib import Path
import numpy as np
import agent.assembly
from agent.bundle import load_reference
from agent.estimation import Counted, Estimator
from detectors.comparison import Observed
reference = load_reference(Path(sys.argv[1]))
estimator = Estimator(reference)
rng = np.random.default_rng(0)
logits = rng.normal(size=(100, 2)).astype(np.float32)
confidence = np.full(100, 0.7)
observed = Observed(rng.normal(size=(100, 16)).astype(np.float32), confidence, confidence, logits)
assert estimator.estimate(observed, Counted(100, {"js": 0.3, "q": 0.4})).reason == ""
print(sorted({name.partition(".")[0] for name in sys.modules} & {"sklearn", "scipy"}))
"""


def test_an_estimate_costs_the_agent_no_heavy_import(tmp_path: Path) -> None:
    """Neither scikit-learn nor SciPy, 90 and 70 MB, is in a process that only makes estimates."""
    save_reference(fitted(), tmp_path / "reference")
    done = subprocess.run(
        [sys.executable, "-c", AGENT, tmp_path / "reference"], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
