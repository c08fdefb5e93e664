"""A new version of a reference: the labelled window is a domain of it, and nothing else changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent.annotation.files import read_arrays
from agent.bundle import load_reference, save_reference
from agent.errors import UsageError
from agent.estimation import Estimator
from agent.new_version import Standing, new_version, worse
from agent.realised import account_of
from agent.reference import Version
from tests.agent.batch_bench import bring, truth_of, write_batch
from tests.agent.panel_bench import drawn_from, drop_of, fitted, scored

if TYPE_CHECKING:
    from pathlib import Path

    from agent.new_version import Offer
    from agent.reference import Reference


def offered(root: Path, reference: Reference, *, back: int | None = None, turned: bool = False) -> Offer:
    """The version that a labelled window makes of a reference; `turned` has every label wrong."""
    window = drawn_from("window", 1_200, seed=3)
    directory = write_batch(root, reference, window, labels=400)
    truth = truth_of(reference, window, directory)
    if turned:
        other = dict(zip(reference.labels, reversed(reference.labels), strict=True))
        truth = {name: other[label] for name, label in truth.items()}
    bring(directory, list(truth.items())[:back])
    account = account_of(reference, directory)
    return new_version(reference, account, read_arrays(directory, account.batch), lambda done, total: None)  # noqa: ARG005


def test_the_window_is_a_domain_now(tmp_path: Path) -> None:
    """The new version knows one domain more, with the accuracy of the labels, and says where it comes from."""
    old = fitted(3)
    offer = offered(tmp_path, old)
    new = offer.reference
    assert [domain.name for domain in new.domains] == [*(domain.name for domain in old.domains), "episode-abc"]
    assert new.earlier == (Version(old.id, "abc"),)
    window = new.domains[-1]
    assert window.n == 400
    assert window.drop == pytest.approx(drop_of(old, drawn_from("window", 1_200, seed=3)), abs=0.06)
    assert window.left_out is not None
    assert set(window.shift) >= set(old.domains[0].shift) - {"js"}
    assert new.estimator is not None
    assert len(new.estimator.panel.means) == 5
    assert offer.common == tuple(domain.name for domain in old.domains)
    assert len(offer.old.errors) == len(offer.new.errors) == 3


def test_source_detectors_and_p_values_stay(tmp_path: Path) -> None:
    """What describes the source is the very same in both."""
    old = fitted(3)
    new = offered(tmp_path, old).reference
    for name in ("detectors", "source", "temperature", "home", "head", "encoder", "task", "unavailable"):
        assert getattr(new, name) is getattr(old, name)


def test_it_can_be_saved_and_estimates(tmp_path: Path) -> None:
    """Written and read back, it has an id of its own and estimates windows like this one nearly right."""
    new = offered(tmp_path / "batches", fitted(3)).reference
    identity = save_reference(new, tmp_path / "new")
    read = load_reference(tmp_path / "new")
    assert (read.id, read.earlier) == (identity, (Version(fitted(3).id, "abc"),))
    window = drawn_from("window", 1_000, seed=8)
    found = Estimator(read).of_scored(scored(read, window), window.texts)
    assert found.inside_domains
    assert found.drop.estimate == pytest.approx(drop_of(read, window), abs=0.08)


def test_the_same_episode_again_takes_the_place_of_itself(tmp_path: Path) -> None:
    """More labels of an episode make its domain anew, and never a second one."""
    first = replace(offered(tmp_path / "a", fitted(3), back=100).reference, id="b" * 16)
    window = drawn_from("window", 1_200, seed=3)
    directory = write_batch(tmp_path / "b", fitted(3), window, labels=400)
    bring(directory, truth_of(fitted(3), window, directory).items())
    account = account_of(first, directory)
    second = new_version(first, account, read_arrays(directory, account.batch), lambda done, total: None).reference  # noqa: ARG005
    assert [domain.name for domain in second.domains].count("episode-abc") == 1
    assert second.domains[-1].n == 400
    assert [version.episode for version in second.earlier] == ["abc", "abc"]


def test_domains_too_few_for_an_estimate_become_enough(tmp_path: Path) -> None:
    """A reference of one domain estimates nothing; with the window as the second it does."""
    assert fitted(1).estimator is None
    offer = offered(tmp_path, fitted(1))
    assert offer.reference.estimator is not None
    assert (offer.old.errors, offer.worse) == ((), "")
    assert np.isnan(offer.error)


def test_items_asked_for_because_they_are_unlike_count_once(tmp_path: Path) -> None:
    """Of the twenty least alike, all of which are labelled, only their share teaches."""
    offer = offered(tmp_path, fitted(3))
    assert offer.rows < 400
    assert offer.rows >= 380 * 0.95


def test_a_domain_needs_labels(tmp_path: Path) -> None:
    """Forty-nine labels make no domain."""
    with pytest.raises(UsageError, match="49 labels are too few for a reference domain: at least 50"):
        offered(tmp_path, fitted(3), back=49)


def test_without_rows_to_learn_from_there_is_no_version(tmp_path: Path) -> None:
    """A reference read without what it learnt from can be added nothing to."""
    with pytest.raises(UsageError, match="keeps no labelled rows"):
        offered(tmp_path, replace(fitted(3), taught=None))


def test_labels_that_are_all_wrong_make_a_worse_version(tmp_path: Path) -> None:
    """Someone who swapped the labels gets a version that is said to be worse, with how much."""
    offer = offered(tmp_path, fitted(3), turned=True)
    assert "on the domains that both know it is off by" in offer.worse


@pytest.mark.parametrize(
    ("old", "new", "covered", "expected"),
    [
        ([0.02] * 5, [0.02] * 5, (5, 5), False),
        ([0.02] * 5, [0.03] * 5, (5, 5), True),
        ([0.02] * 5, [0.021] * 5, (5, 5), False),
        ([0.02] * 5, [0.0, 0.05, 0.01, 0.04, 0.02], (5, 5), False),
        ([0.02] * 3, [0.0, 0.12, 0.02], (3, 3), True),
        ([0.02] * 5, [0.02, 0.021, 0.02, 0.02, 0.02], (5, 4), True),
        ([0.02] * 5, [0.02, 0.01, 0.02, 0.02, 0.02], (5, 4), False),
        ([], [0.5] * 3, (0, 0), False),
    ],
)
def test_what_counts_as_worse(
    old: list[float], new: list[float], covered: tuple[int, int], expected: object
) -> None:
    """Errors that grow more than chance has it, or far, or intervals that hold less often without fewer errors."""
    assert bool(worse(Standing(tuple(old), covered[0]), Standing(tuple(new), covered[1]))) is expected
