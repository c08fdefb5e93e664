"""Verdicts: whether the drift costs too much, how many labels would tell, and what training would bring."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent.alert_report import Realised
from agent.annotation.files import read_arrays
from agent.errors import UsageError
from agent.interval import UNKNOWN, Interval
from agent.realised import account_of
from agent.verdict import held, verdict
from detectors.contract import Outputs
from tests.agent.batch_bench import bring, truth_of, write_batch
from tests.agent.panel_bench import drawn_from, fitted

if TYPE_CHECKING:
    from pathlib import Path

    from agent.verdict_report import Answer, Verdict


def realised(low: float, high: float, labelled: int = 100, asked: int = 100) -> Realised:
    """A batch whose drop lies between these bounds."""
    drop = Interval((low + high) / 2, low, high)
    return Realised("shop", "abc", asked, labelled, drop, drop, Interval(0.1, 0.05, 0.15))


def told(
    root: Path, domain: str = "toys", *, labels: int = 300, back: int | None = None, limit: float = 0.05
) -> Verdict:
    """The verdict on a batch of a window, of which the first labels are back."""
    reference, window = fitted(3), drawn_from(domain, 1_500, seed=7)
    directory = write_batch(root, reference, window, labels=labels, estimate=Interval(0.1, 0.0, 0.2))
    bring(directory, list(truth_of(reference, window, directory).items())[:back])
    account = account_of(reference, directory)
    return verdict(reference, account, read_arrays(directory, account.batch), limit)


@pytest.mark.parametrize(
    ("low", "high", "labelled", "answer"),
    [
        (0.06, 0.10, 100, "harmful"),
        (0.01, 0.05, 100, "harmless"),
        (-0.05, -0.01, 100, "harmless"),
        (0.04, 0.08, 100, "open"),
        (0.06, 0.10, 25, "open"),
        (0.08, 0.10, 25, "harmful"),
        (0.01, 0.04, 25, "open"),
        (0.06, 0.10, 0, "open"),
    ],
)
def test_a_drop_is_judged_by_its_interval(low: float, high: float, labelled: int, answer: Answer) -> None:
    """Beyond the limit on one side it is decided; while few labels are back the interval is taken wider."""
    assert realised(low, high, labelled).answer(0.05) == answer


def test_nothing_known_decides_nothing() -> None:
    """Without numbers the verdict is open."""
    assert replace(realised(0, 1), combined=UNKNOWN).answer(0.05) == "open"


def test_looking_after_every_label_errs_rarely() -> None:
    """With a drop at the limit, a look after each of 200 labels calls it harmless in at most 6 % of runs."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(1_000):
        steps = rng.normal(size=200).cumsum() / np.arange(1, 201)
        for labelled, mean in enumerate(steps.tolist(), start=1):
            width = 1.96 / labelled**0.5
            if realised(0.05 + mean - width, 0.05 + mean + width, labelled, 200).answer(0.05) == "harmless":
                wrong += 1
                break
    assert wrong / 1_000 <= 0.06


@pytest.mark.parametrize(
    ("low", "high", "answer"), [(0.06, 0.16, True), (0.12, 0.3, None), (0.16, 0.3, False), (-0.1, 0.04, False)]
)
def test_whether_an_estimate_held(low: float, high: float, answer: object) -> None:
    """The realised drop inside held, intervals that do not touch did not, and between them nobody can tell."""
    assert held(realised(low, high)) is answer


def test_a_harmful_window(tmp_path: Path) -> None:
    """A window that lost much is harmful; the numbers fit together, and every Depth F1 has its items."""
    found = told(tmp_path)
    assert found.answer == "harmful"
    assert (found.more, found.more_reason, found.left) == (0, "", 0)
    assert found.realised.drop.estimate == pytest.approx(found.source.estimate - found.accuracy.estimate)
    assert found.combined.high - found.combined.low < found.accuracy.high - found.accuracy.low
    assert found.level == 0.95
    assert found.estimated_level == 0.9
    assert [point.percentile for point in found.depth] == [0, 25, 50, 75, 90]
    assert found.depth[0].items == 300
    for point in found.depth:
        assert point.micro.low <= point.micro.estimate <= point.micro.high
    target = found.target
    assert target is not None
    assert target.td.estimate + target.idd.estimate == pytest.approx(found.realised.drop.estimate)
    assert target.scenario == "classic"


def test_a_window_like_the_source_is_harmless(tmp_path: Path) -> None:
    """Traffic of the source, with enough labels, costs nothing that matters."""
    found = told(tmp_path, "source", labels=1_000, limit=0.1)
    assert found.answer == "harmless"


def test_too_few_labels_say_how_many_more(tmp_path: Path) -> None:
    """An open verdict says how many labels more would tell; with so many back, it is decided or nearly so."""
    found = told(tmp_path, back=40)
    assert found.answer == "open"
    assert found.more is not None
    assert 0 < found.more < 260
    decided = told(tmp_path / "more", back=min(300, 40 + 2 * found.more))
    assert decided.answer == "harmful"


def test_a_drop_at_the_limit_is_never_told(tmp_path: Path) -> None:
    """Where the drop is at the limit, or home is not known well enough, no number of labels is named."""
    found = told(tmp_path)
    never = "No number of labels would tell"
    at = told(tmp_path / "again", limit=found.realised.combined.estimate + 1e-6)
    assert (at.answer, at.more, at.more_reason) == ("open", None, f"{never}: the drop is too near to the limit")
    near = told(tmp_path / "third", limit=found.realised.combined.estimate + 0.01)
    assert near.more is None
    assert "test table" in near.more_reason


def test_a_handful_of_labels_gives_no_number(tmp_path: Path) -> None:
    """From less than 30 labels nobody can say how many would tell; a batch of less has them all at once."""
    few = told(tmp_path, back=29)
    assert (few.answer, few.more) == ("open", None)
    assert few.more_reason.startswith("Label at least 30 first")
    assert told(tmp_path / "thirty", back=30).more is not None
    small = told(tmp_path / "small", labels=25, back=5)
    assert (small.answer, small.more) == ("open", None)
    assert small.more_reason.startswith("Label at least 25 first")


def test_depth_f1_by_hand(tmp_path: Path) -> None:
    """Micro Depth F1 weighs an item by its dissimilarity and by 1 / its probability of having been asked for."""
    reference, window = fitted(3), drawn_from("window", 800, seed=7)
    directory = write_batch(tmp_path, reference, window, labels=100)
    bring(directory, truth_of(reference, window, directory).items())
    account = account_of(reference, directory)
    arrays = read_arrays(directory, account.batch)
    found = verdict(reference, account, arrays, 0.05)
    embedding = arrays.embedding.astype(np.float32)
    depths = reference.detectors["depth"].detector.score(Outputs(embedding))
    top = weight = 0.0
    for row, stratum, right in zip(account.rows, account.survey.stratum, account.survey.quality, strict=True):
        facts = account.batch.strata[stratum]
        each = max(reference.source.depths[-1] - depths[row], 0.0) * facts.items / facts.drawn
        top, weight = top + each * right, weight + each
    assert found.depth[0].micro.estimate == pytest.approx(top / weight)


def test_few_labels_give_no_target_score(tmp_path: Path) -> None:
    """With fewer than fifty labels no head can be trained, and the reason says so; all else is there."""
    found = told(tmp_path, back=20)
    assert found.target is None
    assert "at least 50 different texts" in found.target_reason
    assert math.isfinite(found.combined.estimate)


def test_one_label_and_none(tmp_path: Path) -> None:
    """One label gives a verdict without a decision; none gives an error that says so."""
    assert told(tmp_path, back=1).answer == "open"
    with pytest.raises(UsageError, match="none of its items is labelled"):
        told(tmp_path / "none", back=0)
