"""From a window to a batch: which items, what is said of each, and what of the whole."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent.annotation.draw import Drawing, Question
from agent.annotation.texts import NoTexts
from detectors.calibration import Temperature
from detectors.contract import Outputs
from detectors.depth import depth_ranks
from detectors.softmax import probabilities
from tests.agent.annotation.annotation_bench import (
    EPISODE,
    ESTIMATE,
    NOW,
    as_tokens,
    config_of,
    ended,
    made_of,
    panes_of,
    records_of,
    texts_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from agent.records import Record
    from agent.reference import Reference
    from agent.scorer import Scored
    from agent.window_contents import EndedWindow

    Score = Callable[[Sequence[Record]], Scored]


@pytest.fixture(scope="module")
def window(reference: Reference, score: Score) -> EndedWindow:
    """Three hundred items in five panes."""
    return ended(panes_of(reference, score, records_of(300)))


def test_every_item_says_what_the_model_said_of_it(
    reference: Reference, window: EndedWindow, tmp_path: Path
) -> None:
    """Prediction and calibrated probabilities, depth and its rank are those of the item's row in the arrays."""
    reference = replace(reference, temperature=Temperature(2.0, bounded=False))
    made = made_of(reference, window, config_of(tmp_path))
    arrays = made.arrays
    assert arrays.logits is not None
    shares = probabilities(arrays.logits, 2.0)
    depths = reference.detectors["depth"].detector.score(Outputs(arrays.embedding.astype(np.float32)))
    ranks = depth_ranks(depths, reference.source.depths)
    ids = window.merged().sample.ids
    for item in made.items:
        assert item.id == ids[item.row]
        assert item.slice == "all"
        assert item.prediction == reference.labels[int(shares[item.row].argmax())]
        assert item.probabilities is not None
        assert list(item.probabilities) == list(reference.labels)
        np.testing.assert_allclose(list(item.probabilities.values()), shares[item.row], atol=1e-6)
        assert item.confidence == pytest.approx(shares[item.row].max(), abs=1e-6)
        assert item.depth == pytest.approx(depths[item.row], abs=1e-6)
        assert item.depth_rank == pytest.approx(ranks[item.row], abs=1e-6)


def test_the_whole_sample_goes_with_the_batch(reference: Reference, window: EndedWindow, tmp_path: Path) -> None:
    """All 300 rows in the sample's order; features only where the model has some of its own."""
    made, sample = made_of(reference, window, config_of(tmp_path)), window.merged().sample
    assert (made.batch.sampled, made.batch.window.items, len(made.arrays)) == (300, 300, 300)
    np.testing.assert_array_equal(made.arrays.embedding, sample.embedding)
    assert (made.arrays.features, made.arrays.confidence) == (None, None)


def test_the_least_alike_are_all_there(reference: Reference, window: EndedWindow, tmp_path: Path) -> None:
    """The configured number of lowest depth have probability 1; the others that of their stratum."""
    made = made_of(reference, window, config_of(tmp_path, dissimilar=15))
    depths = reference.detectors["depth"].detector.score(Outputs(made.arrays.embedding.astype(np.float32)))
    lowest = {item.row for item in made.items if item.dissimilar}
    assert lowest == set(np.argsort(depths)[:15].tolist())
    assert [(each.items, each.drawn) for each in made.batch.strata] == [(15, 15), *[(57, 9)] * 5]
    for item in made.items:
        stratum = made.batch.strata[item.stratum]
        assert item.inclusion_probability == pytest.approx(stratum.drawn / stratum.items)


def test_a_batch_says_what_was_asked_and_believed(
    reference: Reference, window: EndedWindow, tmp_path: Path
) -> None:
    """Episode, window, estimate, precision and the labels needed are written into it."""
    batch = made_of(reference, window, config_of(tmp_path)).batch
    assert (batch.episode, batch.slice, batch.kind) == (EPISODE, "all", "drop")
    assert (batch.model, batch.reference_id, batch.labels) == ("sentiment", reference.id, reference.labels)
    assert (batch.task, batch.created, batch.texts) == ("classification", NOW, False)
    assert (batch.window.start, batch.window.end) == (0.0, 3600.0)
    assert (batch.estimate.drop, batch.estimate.level) == (ESTIMATE.drop, 0.9)
    assert batch.estimate.inside_domains
    assert (batch.needed, batch.items, batch.short, batch.precision) == (60, 60, 0, 0.03)


def test_no_more_are_asked_for_than_allowed_or_there(
    reference: Reference, window: EndedWindow, tmp_path: Path
) -> None:
    """`most_items` and the window's sample are the ends; how many labels are lacking is told."""
    capped = made_of(reference, window, config_of(tmp_path, most_items=40), needed=500).batch
    assert (capped.items, capped.needed, capped.short) == (40, 500, 460)
    whole = made_of(reference, window, config_of(tmp_path), needed=500)
    assert (whole.batch.items, whole.batch.short) == (300, 200)
    assert {item.inclusion_probability for item in whole.items} == {1.0}


def test_the_same_episode_draws_the_same_items(reference: Reference, window: EndedWindow, tmp_path: Path) -> None:
    """Drawn again after a crash the batch is the same, in whatever order panes come; another episode's is not."""
    config = config_of(tmp_path)
    first, again = made_of(reference, window, config), made_of(reference, window, config)
    assert first.items == again.items
    turned = replace(window, panes=window.panes[::-1])
    assert made_of(reference, turned, config).items == first.items
    other = made_of(reference, window, config, episode="ffff")
    assert {item.id for item in other.items} != {item.id for item in first.items}


def test_texts_are_shown_where_they_were_kept(reference: Reference, score: Score, tmp_path: Path) -> None:
    """With the time at which each was kept; an item without one says nothing of it."""
    texts, window = texts_of(reference, score, tmp_path)
    gone = window.panes[0].sample.ids.tolist()
    texts.prune(window.panes[1:])
    made = made_of(reference, window, config_of(tmp_path), texts)
    assert made.batch.texts
    for item in made.items:
        shown = (None, None) if item.id in gone else (f"the text of {item.id}", NOW)
        assert (item.text, item.text_kept) == shown


def test_items_of_a_sequence_labeller_have_no_prediction(
    reference: Reference, window: EndedWindow, tmp_path: Path
) -> None:
    """A sample holds no logits of single tokens: only the mean confidence is known, and lies in the arrays."""
    tokens, window = as_tokens(reference, window)
    made = made_of(tokens, window, config_of(tmp_path))
    assert made.batch.task == "tokens"
    assert {(item.prediction, item.probabilities) for item in made.items} == {(None, None)}
    assert all(0.5 <= item.confidence <= 1 for item in made.items)
    assert made.arrays.logits is None
    assert made.arrays.confidence is not None
    assert made.arrays.confidence.shape == (300, 2)


def test_a_window_of_which_nothing_was_estimated_can_be_asked_about(
    reference: Reference, window: EndedWindow, tmp_path: Path
) -> None:
    """Without an estimate the batch says so, with NaN for numbers."""
    drawing = Drawing(reference, config_of(tmp_path), NoTexts())
    batch = drawing.make(Question("one", "unknown", 60, 0.03), window.merged(), None, NOW).batch
    assert batch.estimate.reason == "no estimate was made"
    assert isnan(batch.estimate.drop.low)


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_a_window_of_few_items_gives_them_all(
    reference: Reference, score: Score, tmp_path: Path, count: int
) -> None:
    """Even one item makes a batch."""
    window = ended(panes_of(reference, score, records_of(count)))
    made = made_of(reference, window, config_of(tmp_path))
    assert len(made.items) == made.batch.items == count
