"""What labels that came back say of the drop: against the truth, as they come, and of batches that are broken."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent import realised as module
from agent.annotation.batch import Arrays
from agent.annotation.files import ARRAYS, BATCH, ITEMS, LABELS
from agent.errors import ArtefactError, UsageError
from agent.interval import Interval
from agent.realised import RealisedDrops, account_of, label_free
from agent.reference import Version
from detectors.proportions import difference
from tests.agent.batch_bench import bring, truth_of, write_batch
from tests.agent.panel_bench import drawn_from, drop_of, fitted, outputs_of

if TYPE_CHECKING:
    from pathlib import Path

    from agent.alert_report import Realised

ITEMS_OF_WINDOW = 1_500
ESTIMATE = Interval(0.2, 0.1, 0.3)


def batch(root: Path, labels: int = 300, episode: str = "abc", estimate: Interval | None = ESTIMATE) -> Path:
    """A batch of a window that has drifted."""
    window = drawn_from("window", ITEMS_OF_WINDOW)
    return write_batch(root, fitted(3), window, labels=labels, episode=episode, estimate=estimate)


def answers(directory: Path) -> list[tuple[str, str]]:
    """The true labels, in the order of the items."""
    return list(truth_of(fitted(3), drawn_from("window", ITEMS_OF_WINDOW), directory).items())


def read(drops: RealisedDrops, *asking: str) -> tuple[Realised, ...]:
    """What is told where nothing is complained of."""
    complaints = Complaints()
    told = drops.read(asking, complaints)
    assert complaints == {}
    return told


class Complaints(dict[str, str]):
    """What was complained of, by the name of the batch."""

    def __call__(self, path: Path, error: Exception) -> None:
        """Note it."""
        self[path.name] = str(error)


def test_the_realised_drop_is_near_the_truth(tmp_path: Path) -> None:
    """Both intervals hold the window's own drop, and the prediction-powered one is the narrower."""
    directory = batch(tmp_path)
    bring(directory, answers(directory))
    (found,) = read(RealisedDrops(fitted(3), tmp_path))
    truth = drop_of(fitted(3), drawn_from("window", ITEMS_OF_WINDOW))
    assert (found.slice, found.episode, found.asked, found.labelled) == ("shop", "abc", 300, 300)
    for drop in (found.drop, found.combined):
        assert drop.low < truth < drop.high
    assert found.combined.high - found.combined.low < found.drop.high - found.drop.low
    assert found.estimated == ESTIMATE
    assert found.error == pytest.approx(found.drop.estimate - 0.2)


def test_the_accuracy_at_home_is_not_known_exactly_either(tmp_path: Path) -> None:
    """The drop's interval is that of a difference: a source with few test rows makes it wider."""
    directory = batch(tmp_path)
    bring(directory, answers(directory))
    reference = fitted(3)
    account = account_of(reference, directory)
    share, source = account.survey.share, reference.source
    expected = difference((source.accuracy["test"], source.rows["test"]), (share.value, share.items))
    assert (account.realised.drop.low, account.realised.drop.high) == pytest.approx(expected)
    fewer = replace(reference, source=replace(source, rows={**source.rows, "test": 40}))
    wide = account_of(fewer, directory).realised.drop
    assert wide.high - wide.low > 1.5 * (expected[1] - expected[0])


def test_many_windows_have_their_truth_in_the_interval(tmp_path: Path) -> None:
    """Over windows drawn anew the intervals hold the traffic's drop about as often as they say."""
    reference = fitted(3)
    truth = drop_of(reference, drawn_from("window", 40_000, seed=99))
    held = []
    for seed in range(60):
        window = drawn_from("window", 600, seed=seed + 100)
        directory = write_batch(tmp_path, reference, window, labels=120, episode=f"e{seed}")
        bring(directory, truth_of(reference, window, directory).items())
        found = account_of(reference, directory).realised
        held.append(
            [found.drop.low <= truth <= found.drop.high, found.combined.low <= truth <= found.combined.high]
        )
    assert np.mean(held, axis=0).min() >= 0.93


def test_without_labels_only_counts_are_told(tmp_path: Path) -> None:
    """A batch of which nothing is back has its size and the estimate, and no drop."""
    batch(tmp_path, estimate=None)
    (found,) = read(RealisedDrops(fitted(3), tmp_path))
    assert (found.asked, found.labelled) == (300, 0)
    assert all(map(math.isnan, (found.drop.estimate, found.combined.low, found.estimated.high)))


def test_labels_are_followed_as_they_come(tmp_path: Path) -> None:
    """Each look tells of the labels that are there by then; the newest of an id counts."""
    directory = batch(tmp_path)
    drops, truth = RealisedDrops(fitted(3), tmp_path), answers(directory)
    assert read(drops)[0].labelled == 0
    bring(directory, truth[:50])
    first = read(drops)[0]
    bring(directory, truth[50:])
    second = read(drops)[0]
    assert (first.labelled, second.labelled) == (50, 300)
    assert second.drop.high - second.drop.low < first.drop.high - first.drop.low
    turned = {"negative": "positive", "positive": "negative"}
    bring(directory, [(name, turned[label]) for name, label in truth], time=2e9)
    third = read(drops)[0]
    assert third.labelled == 300
    home = fitted(3).source.accuracy["test"]
    right, wrong = home - second.drop.estimate, home - third.drop.estimate
    assert right + wrong == pytest.approx(1)


def test_what_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    """A second look at unchanged batches reads no file: arrays that are gone are not missed."""
    directory = batch(tmp_path)
    bring(directory, answers(directory))
    drops = RealisedDrops(fitted(3), tmp_path)
    first = read(drops)
    (directory / ARRAYS).unlink()
    bring(directory, [(answers(directory)[0][0], "positive")], time=2e9)
    assert read(drops)[0].labelled == first[0].labelled


def test_of_many_batches_the_newest_are_read_and_those_of_open_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the others nothing but their date: their items may be gone, and nothing is said of them."""
    monkeypatch.setattr(module, "MOST_BATCHES", 2)
    for number in range(5):
        path = batch(tmp_path, labels=30, episode=f"e{number}") / BATCH
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"created": number}), "utf-8")
    for name in ("e0", "e2"):
        (tmp_path / name / ITEMS).unlink()
    drops = RealisedDrops(fitted(3), tmp_path)
    assert [each.episode for each in read(drops, "e1")] == ["e4", "e3", "e1"]
    assert [each.episode for each in read(drops)] == ["e4", "e3"]


def test_a_look_takes_milliseconds(tmp_path: Path) -> None:
    """With a thousand labels that have just changed, a look takes less than 50 ms."""
    directory = batch(tmp_path, labels=1_000)
    truth = answers(directory)
    bring(directory, truth[:-3])
    drops = RealisedDrops(fitted(3), tmp_path)
    read(drops)
    took = []
    for place in (-3, -2, -1):
        bring(directory, [truth[place]])
        started = time.perf_counter()
        read(drops)
        took.append(time.perf_counter() - started)
    assert min(took) < 0.05


@pytest.mark.parametrize("name", [BATCH, ITEMS, ARRAYS, LABELS])
def test_a_broken_batch_does_not_hide_the_others(tmp_path: Path, name: str) -> None:
    """Whichever file of a batch is garbage, the batch is named with the reason and the other one is told of."""
    for episode in ("bad", "good"):
        directory = batch(tmp_path, episode=episode)
        bring(directory, answers(directory))
    (tmp_path / "bad" / name).write_bytes(b'{"no": "such"}\n')
    drops, complaints = RealisedDrops(fitted(3), tmp_path), Complaints()
    assert [each.episode for each in drops.read((), complaints)] == ["good"]
    assert list(complaints) == ["bad"]
    assert name in complaints["bad"]


def test_strata_that_are_too_small_are_damage(tmp_path: Path) -> None:
    """More items of a stratum than the batch says it has is damage, and is named."""
    directory = batch(tmp_path)
    facts = json.loads((directory / BATCH).read_text("utf-8"))
    facts["strata"][0]["items"] = 1
    (directory / BATCH).write_text(json.dumps(facts), "utf-8")
    with pytest.raises(ArtefactError, match="stratum has more items"):
        account_of(fitted(3), directory)


def test_batches_of_another_reference_are_refused_and_of_an_earlier_version_taken(tmp_path: Path) -> None:
    """Only a reference that shares the batch's source and encoder may judge its labels."""
    directory = batch(tmp_path)
    bring(directory, answers(directory))
    other = replace(fitted(3), id="f" * 16)
    with pytest.raises(UsageError, match="was drawn with the reference 0123456789abcdef"):
        account_of(other, directory)
    assert read(RealisedDrops(other, tmp_path)) == ()
    later = replace(other, earlier=(Version(fitted(3).id, "abc"),))
    assert account_of(later, directory).realised.labelled == 300


def test_no_batches_at_all(tmp_path: Path) -> None:
    """A directory that does not exist yet holds nothing, which is no failure."""
    assert read(RealisedDrops(fitted(3), tmp_path / "none")) == ()


def test_a_batch_that_was_removed_is_told_of_no_more(tmp_path: Path) -> None:
    """What is deleted by hand disappears."""
    directory = batch(tmp_path)
    drops = RealisedDrops(fitted(3), tmp_path)
    assert len(read(drops)) == 1
    directory.rename(tmp_path / ".gone")
    assert read(drops) == ()


def test_without_a_panel_confidence_speaks() -> None:
    """Without an estimator the label-free probability is the calibrated confidence; with one it is the panel's."""
    outputs = outputs_of(fitted(3), drawn_from("window", 200))
    assert outputs.logits is not None
    arrays = Arrays(outputs.embedding.astype(np.float16), outputs.logits.astype(np.float32))
    plain, panel = (label_free(reference, arrays) for reference in (fitted(1), fitted(3)))
    assert plain.min() >= 0.5
    assert panel.min() < 0.5
    assert ((panel >= 0) & (panel <= 1)).all()


def test_of_tokens_only_counts_are_told(tmp_path: Path) -> None:
    """A batch of a sequence labeller holds no predictions of tokens: its labels are counted, and no more."""
    directory = batch(tmp_path)
    facts = json.loads((directory / BATCH).read_text("utf-8"))
    facts["task"] = "tokens"
    (directory / BATCH).write_text(json.dumps(facts), "utf-8")
    bring(directory, answers(directory))
    (found,) = read(RealisedDrops(fitted(3), tmp_path))
    assert found.labelled == 300
    assert math.isnan(found.drop.estimate)
