"""What an estimator learnt from lies in the bundle, is read only where asked for, and makes the same estimator."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agent.backtest import with_estimator
from agent.bundle import TAUGHT, load_reference, load_taught, save_reference
from agent.errors import ArtefactError
from agent.reference import Version
from agent.taught import Taught, TaughtRows
from detectors.contract import Outputs
from tests.agent.panel_bench import DOMAINS, ROWS, drawn_from, fitted, outputs_of

if TYPE_CHECKING:
    from pathlib import Path

    from agent.reference import Reference


def refitted(reference: Reference) -> Reference:
    """The reference with an estimator fitted anew on what it keeps."""
    return with_estimator(replace(reference, estimator=None), lambda done, total: None)  # noqa: ARG005


def same(one: Reference, other: Reference) -> None:
    """Fail unless both estimate alike, bit by bit."""
    assert one.estimator is not None
    assert other.estimator is not None
    for field in fields(one.estimator.panel):
        pair: list[Any] = [getattr(each.estimator.panel, field.name) for each in (one, other) if each.estimator]
        assert np.array_equal(*pair), field.name
    assert replace(one.estimator, panel=other.estimator.panel) == other.estimator
    assert one.trust == other.trust
    assert [each.left_out for each in one.domains] == [each.left_out for each in other.domains]


def test_a_fit_and_a_refit_are_the_same(tmp_path: Path) -> None:
    """What a bundle keeps makes exactly the estimator of the fit: nothing is added, nothing changes."""
    save_reference(fitted(3), tmp_path / "reference")
    again = load_taught(tmp_path / "reference")
    same(refitted(again), fitted(3))
    same(again, fitted(3))


def test_a_domain_added_later_is_as_if_it_had_been_there(tmp_path: Path) -> None:
    """With the third domain added to a reference of two, the estimator is that of a fit on three."""
    save_reference(fitted(2), tmp_path / "reference")
    two, three = load_taught(tmp_path / "reference"), fitted(3)
    assert two.taught is not None
    assert three.taught is not None
    name = DOMAINS[2]
    grown = replace(two.taught, domains={**two.taught.domains, name: three.taught.domains[name]})
    same(refitted(replace(two, domains=three.domains, taught=grown)), three)


def test_an_agent_does_not_read_it(tmp_path: Path) -> None:
    """`load_reference` gives a reference without the rows: an agent's memory does not hold them."""
    save_reference(fitted(2), tmp_path / "reference")
    assert load_reference(tmp_path / "reference").taught is None
    taught = load_taught(tmp_path / "reference").taught
    assert taught is not None
    assert list(taught.domains) == list(DOMAINS[:2])
    assert len(taught.domains["hotels"]) == ROWS
    assert taught.source.embedding.dtype == np.float16


def test_earlier_versions_and_the_id(tmp_path: Path) -> None:
    """Earlier versions come back in order, and are part of what the id stands for."""
    earlier = (Version("a" * 16, "one"), Version("b" * 16, "two"))
    ids = [
        save_reference(reference, tmp_path / name)
        for name, reference in (("plain", fitted(2)), ("later", replace(fitted(2), earlier=earlier)))
    ]
    later = load_reference(tmp_path / "later")
    assert later.earlier == earlier
    assert later.ids == {ids[1], "a" * 16, "b" * 16}
    assert ids[0] != ids[1]


def test_rows_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """A bundle whose domains and rows differ is not complete, and says to fit again."""
    taught = fitted(2).taught
    assert taught is not None
    fewer = Taught(taught.source, {"hotels": taught.domains["hotels"]})
    save_reference(replace(fitted(2), taught=fewer), tmp_path / "reference")
    assert load_reference(tmp_path / "reference").estimator is not None
    with pytest.raises(ArtefactError, match="is not complete"):
        load_taught(tmp_path / "reference")


def test_a_sequence_labeller_keeps_none(tmp_path: Path) -> None:
    """Where items have no class there is nothing to learn from by item, and no such file."""
    save_reference(fitted(3, task="tokens"), tmp_path / "reference")
    assert not (tmp_path / "reference" / TAUGHT).exists()
    assert load_taught(tmp_path / "reference").taught is None


def test_rows_are_taken_in_the_order_asked_for() -> None:
    """Rows teach in their given order, with the class that the model predicts."""
    items = drawn_from("window", 10)
    outputs = outputs_of(fitted(2), items)
    rows = TaughtRows.of(outputs, items.labels, np.array([7, 2]))
    assert rows.labels.tolist() == items.labels[[7, 2]].tolist()
    assert outputs.logits is not None
    assert rows.predicted.tolist() == outputs.logits[[7, 2]].argmax(axis=1).tolist()
    with pytest.raises(ValueError, match="one class an item"):
        TaughtRows.of(Outputs(items.embedding), items.labels, np.array([0]))


def test_columns_of_unequal_length_are_refused() -> None:
    """A domain with a row too few in one column cannot be made."""
    rows = TaughtRows(np.zeros((2, 3), np.float16), np.zeros(2, np.int32), np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="a row"):
        Taught(rows, {})
