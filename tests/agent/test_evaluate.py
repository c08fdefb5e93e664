"""Evaluating with labels: every number against a plain recomputation, and tables with next to nothing in them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_recall_fscore_support  # type: ignore[import-untyped] # no types

from agent.errors import UsageError
from agent.evaluate import evaluate
from agent.evaluation_figures import densities, ood_threshold
from agent.items import Items
from agent.labelled import Labelled
from agent.scorer import Scored, scores_of
from agent.target_score import cross_validated, target_score
from agent.token_outputs import TokenLogits
from detectors.calibration import OOD_P_VALUE, p_values
from detectors.contract import Outputs, logits_of
from detectors.depth import depth_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from agent.evaluation_report import Evaluation
    from agent.reference import Reference

SS, TEST_ROWS = 0.9, 250


@pytest.fixture(scope="module")
def home(reference: Reference) -> Reference:
    """The synthetic reference, with what is known of its source's splits."""
    source = replace(
        reference.source, rows={"train": 200, "test": TEST_ROWS}, accuracy={"train": 0.95, "test": SS}
    )
    return replace(reference, source=source)


def outputs(rows: int, seed: int = 0) -> Outputs:
    """Embeddings that are the features, and logits that know nothing of them."""
    rng = np.random.default_rng(seed)
    embedding = (rng.normal(size=(rows, 5)) + np.array([1.5, 0.5, 0, 0, 0])).astype(np.float32)
    return Outputs(embedding, rng.normal(size=(rows, 2)), embedding)


def scored_of(reference: Reference, given: Outputs, tokens: TokenLogits | None = None) -> Scored:
    """The outputs scored as the agent would."""
    scores, p = scores_of(reference, given)
    logits = tokens or TokenLogits.one_each(logits_of(given))
    return Scored(
        outputs=given,
        finite=np.ones(len(given), np.bool_),
        truncated=np.zeros(len(given), np.bool_),
        tokens=logits,
        confidence=logits.confidence(2.0),
        raw_confidence=logits.confidence(),
        scores=scores,
        p=p,
        ranks=depth_ranks(scores["depth"], reference.source.depths),
        encode_seconds=0.0,
        score_seconds=0.0,
    )


def evaluated(
    reference: Reference,
    given: Outputs,
    labels: NDArray[np.intp],
    texts: list[str] | None = None,
    **changes: Any,  # noqa: ANN401 - fields of the scored items
) -> Evaluation:
    """The evaluation of these outputs, whose texts are all different unless given."""
    named = texts or [f"text {row}" for row in range(len(given))]
    labelled = Labelled(Path("table.csv"), Items(named), labels)
    scored = replace(scored_of(reference, given), **changes)
    return evaluate(reference, labelled, scored, [f"id-{row}" for row in range(len(named))])


def learnable(given: Outputs) -> NDArray[np.intp]:
    """Labels that a head on the features can learn, and the logits know nothing of."""
    return np.asarray(given.embedding[:, 2] > 0, np.intp)


@pytest.fixture(scope="module")
def given() -> Outputs:
    """300 items."""
    return outputs(300)


@pytest.fixture(scope="module")
def found(home: Reference, given: Outputs) -> Evaluation:
    """Their evaluation."""
    return evaluated(home, given, learnable(given))


def test_the_plain_scores(found: Evaluation, given: Outputs) -> None:
    """Accuracy, macro-F1 and SD are what scikit-learn and a subtraction give."""
    labels, predicted = learnable(given), logits_of(given).argmax(axis=1)
    assert found.n == 300
    assert found.accuracy.estimate == pytest.approx((labels == predicted).mean())
    assert found.macro_f1 == pytest.approx(f1_score(labels, predicted, average="macro"))
    assert found.sd.estimate == pytest.approx(SS - found.accuracy.estimate)
    assert found.source_rows == TEST_ROWS
    for interval in (found.accuracy, found.source_accuracy, found.sd):
        assert interval.low < interval.estimate < interval.high


def test_depth_f1_by_hand(found: Evaluation, home: Reference, given: Outputs) -> None:
    """Micro and macro Depth F1 at each lambda, the clipped items and Q equal loops over the definition."""
    labels, predicted = learnable(given), logits_of(given).argmax(axis=1)
    depths, source = scores_of(home, given)[0]["depth"], home.source.depths
    for point in found.depth.points:
        bound = np.percentile(2 - depths, point.percentile)
        kept = [row for row in range(300) if point.percentile == 0 or 2 - depths[row] > bound]
        weight = {row: max(source.max() - depths[row], 0.0) for row in kept}
        right = sum(weight[row] for row in kept if labels[row] == predicted[row])
        assert point.items == len(kept)
        assert point.micro.estimate == pytest.approx(right / sum(weight.values()))
        assert point.micro.low < point.micro.estimate < point.micro.high
        weights = [weight[row] for row in kept]
        assert point.macro == pytest.approx(
            f1_score(labels[kept], predicted[kept], average="macro", sample_weight=weights)
        )
    assert found.depth.clipped == (depths > source.max()).sum()
    pairs = (source[:, np.newaxis] < depths) + (source[:, np.newaxis] == depths) / 2
    assert found.depth.q == pytest.approx(pairs.mean())


def test_classes_are_scikit_learns(found: Evaluation, given: Outputs) -> None:
    """Precision, recall and F1 of each class are scikit-learn's; each is taken for the other by mistake."""
    labels, predicted = learnable(given), logits_of(given).argmax(axis=1)
    expected = np.transpose(precision_recall_fscore_support(labels, predicted)).tolist()
    assert [(c.precision, c.recall, c.f1, c.items) for c in found.classes] == [
        pytest.approx(tuple(row)) for row in expected
    ]
    assert [each.confused_with for each in found.classes] == ["positive", "negative"]


def test_a_learnable_target_asks_for_retraining(found: Evaluation) -> None:
    """Labels that a head can learn give a high TT; the drops add up, and the scenario is the classic one."""
    target = found.target
    assert target is not None
    assert target.tt.estimate > 0.85
    assert target.td.estimate == pytest.approx(target.tt.estimate - found.accuracy.estimate)
    assert target.td.estimate + target.idd.estimate == pytest.approx(found.sd.estimate)
    assert (target.scenario, found.target_reason) == ("classic", "")
    assert target.td.low > 0


def test_the_same_table_gives_the_same_evaluation(found: Evaluation, home: Reference, given: Outputs) -> None:
    """Nothing is left to chance: cross-validation included."""
    assert evaluated(home, given, learnable(given)) == found


def test_no_head_is_asked_about_a_text_it_has_seen() -> None:
    """With labels that are chance but the same for the same text, duplicates do not help a head."""
    labels = np.tile(np.random.default_rng(1).integers(0, 2, 100), 3)
    features = np.tile(np.random.default_rng(2).normal(size=(100, 80)), (3, 1))
    right, rows = cross_validated(features, labels, [f"text {row % 100}" for row in range(300)])
    assert right.mean() < 0.65
    assert rows == 240


def test_a_class_with_one_item_is_no_trouble(home: Reference, given: Outputs) -> None:
    """A class that only one fold holds cannot be learnt by the head asked about it, and counts as wrong."""
    labels = np.zeros(300, np.intp)
    labels[7] = 1
    target = evaluated(home, given, labels).target
    assert target is not None
    assert target.tt.estimate == pytest.approx(299 / 300)


@pytest.mark.parametrize(
    ("rows", "changes", "reason"),
    [
        (1, {}, "at least 50 different texts to learn from, and the table has 1"),
        (49, {}, "and the table has 49"),
        (60, {"texts": ["same"] * 60}, "and the table has 1"),
        (60, {"labels": np.zeros(60, np.intp)}, "every row has the same label"),
        (60, {"features": None}, "the model's features are not at hand"),
    ],
)
def test_tables_that_no_head_can_learn_from(
    home: Reference, rows: int, changes: dict[str, Any], reason: str
) -> None:
    """One row, few rows, one text, one class, no features: no TT, a reason, and every other number."""
    given = outputs(rows)
    if "features" in changes:
        given = Outputs(given.embedding, given.logits)
    found = evaluated(home, given, changes.get("labels", learnable(given)), changes.get("texts"))
    assert found.target is None
    assert reason in found.target_reason
    assert math.isfinite(found.accuracy.estimate + found.sd.low + found.macro_f1 + found.depth.q)
    assert len(found.dissimilar) == min(10, rows)


def test_an_emptied_lambda_is_nan(home: Reference) -> None:
    """Of a single item nothing is left beyond lambda 0, and NaN says so."""
    points = evaluated(home, outputs(1), np.zeros(1, np.intp)).depth.points
    assert [point.items for point in points] == [1, 0, 0, 0, 0]
    assert [math.isnan(point.micro.estimate) for point in points] == [False, True, True, True, True]


def test_items_deeper_than_all_of_the_source_have_no_depth_f1(home: Reference) -> None:
    """Where no item has a weight, Depth F1 is NaN with the reason, and all items are clipped."""
    mean: Any = home.detectors["depth"].detector
    embedding = np.tile(mean.mean, (3, 1))
    found = evaluated(home, Outputs(embedding, np.eye(3, 2)), np.zeros(3, np.intp))
    assert found.depth.clipped == 3
    assert "weights sum to 0" in found.depth.reason
    assert all(math.isnan(point.micro.estimate) for point in found.depth.points)


def test_a_row_without_numbers_is_named(home: Reference) -> None:
    """A row that the task model has no numbers for ends it, by its number."""
    with pytest.raises(UsageError, match=r"table\.csv: row 2: the task model gives NaN"):
        evaluated(home, outputs(3), np.zeros(3, np.intp), finite=np.array([True, False, True]))


def test_a_sequence_labeller(home: Reference) -> None:
    """Accuracy is the mean share of right tokens, macro-F1 is over tokens, and there is no TT."""
    tokens = TokenLogits.of([np.eye(2)[[0, 1, 1]], np.eye(2)[[0]]])
    labels = np.array([0, 1, 0, 1])
    tagger = replace(home, task=replace(home.task, outputs="table", kind="tokens"))
    given = outputs(2)
    scored = scored_of(home, given, tokens)
    labelled = Labelled(Path("table.jsonl"), Items(["a b c", "d"], tokens=tokens), labels)
    found = evaluate(tagger, labelled, scored, ["1", "2"])
    assert found.accuracy.estimate == pytest.approx((2 / 3 + 0) / 2)
    assert found.macro_f1 == pytest.approx(f1_score(labels, [0, 1, 1, 0], average="macro"))
    assert "labels tokens" in found.target_reason
    weight = home.source.depths.max() - scored.scores["depth"]
    assert found.depth.points[0].micro.estimate == pytest.approx(weight @ [2 / 3, 0] / weight.sum())
    assert found.depth.points[0].macro == pytest.approx(
        f1_score(labels, [0, 1, 1, 0], average="macro", sample_weight=weight[[0, 0, 0, 1]])
    )
    assert {item.id: item.prediction for item in found.dissimilar}["1"] == "negative positive positive"


def test_the_least_alike_items(found: Evaluation, home: Reference, given: Outputs) -> None:
    """The ten of least depth come first to last, with what the model said of each."""
    depths = scores_of(home, given)[0]["depth"]
    assert [item.id for item in found.dissimilar] == [f"id-{row}" for row in np.argsort(depths)[:10]]
    for item in found.dissimilar:
        assert (item.label == item.prediction) == (item.quality == 1)


def test_long_texts_are_cut(home: Reference) -> None:
    """A long text is shown on one line of at most 200 letters."""
    (item,) = evaluated(home, outputs(1), np.zeros(1, np.intp), ["line\n" * 500]).dissimilar
    assert len(item.text) <= 200
    assert item.text.startswith("line line ")
    assert item.text.endswith("…")


@pytest.mark.parametrize("size", [5, 18, 19, 39, 99, 150])
def test_the_threshold_is_where_items_are_flagged(size: int) -> None:
    """Exactly the scores below the threshold have p <= 0.05; without one, none has."""
    rng = np.random.default_rng(size)
    validation, scores = np.sort(rng.normal(size=size)), rng.normal(size=500) * 2
    flagged = p_values(scores, validation) <= OOD_P_VALUE
    threshold = ood_threshold(validation)
    assert (flagged == (scores < threshold)).all()
    assert math.isnan(threshold) == (size < 19)


def test_histograms_hold_every_value_even_the_wild_ones() -> None:
    """Both sides sum to 1 over common edges, also of a single value."""
    wild = densities(np.arange(100.0), np.array([1e9, 5.0]))
    assert (sum(wild.source), sum(wild.target)) == (pytest.approx(1), pytest.approx(1))
    same = densities(np.full(4, 2.0), np.full(1, 2.0))
    assert max(same.source) == max(same.target) == 1
    assert len(same.edges) == len(same.source) + 1


@pytest.mark.parametrize(
    ("tt", "st", "scenario"), [(0.9, 0.7, "classic"), (0.6, 0.7, "observed"), (0.705, 0.7, "tie")]
)
def test_scenarios(tt: float, st: float, scenario: str) -> None:
    """Drops beyond chance give their scenario, a drop within it a tie."""
    right, quality = (np.arange(1000) < 1000 * share for share in (tt, st))
    rng = np.random.default_rng(0)
    found = target_score((0.9, 1000), rng.permutation(right), rng.permutation(quality).astype(float), 800, 800)
    assert found.scenario == scenario


def test_a_weak_head_proves_nothing() -> None:
    """That a head with few rows does no better is no reason to give up on retraining, and the words say so."""
    right, quality = np.arange(100) % 2 == 0, (np.arange(100) % 4 != 0).astype(float)
    found = target_score((0.95, 1000), right, quality, 80, 1500)
    assert found.scenario == "observed"
    assert "cannot be told yet" in found.meaning
    assert "had only 80 rows to learn from, the source model 1,500" in found.meaning
