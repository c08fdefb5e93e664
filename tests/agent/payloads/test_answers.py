"""Answers: classes, probabilities and logits are told apart, and none is made up from another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.payloads.answers import answer, named, probable, row, scored
from agent.reasons import Reason, RejectedError

LABELS = ("negative", "neutral", "positive")
NUMBERED = ("1", "0", "2")
PROBABLE = {"negative": 0.1, "neutral": 0.2, "positive": 0.7}


def entries(**scores: float) -> list[object]:
    """The scores as Hugging Face writes them."""
    return [{"label": label, "score": score} for label, score in scores.items()]


@pytest.mark.parametrize(
    ("given_answer", "fields"),
    [
        (2, {"prediction": "positive"}),
        (2.0, {"prediction": "positive"}),
        ("2", {"prediction": "positive"}),
        ("LABEL_2", {"prediction": "positive"}),
        ("positive", {"prediction": "positive"}),
        ("meh", {"prediction": "meh"}),
        ([0.1, 0.2, 0.7], {"prediction": "positive", "probabilities": PROBABLE}),
        ([0.1, 0.2, 0.7005], {"prediction": "positive", "probabilities": PROBABLE | {"positive": 0.7005}}),
        (
            [0, 1, 0],
            {"prediction": "neutral", "probabilities": {"negative": 0.0, "neutral": 1.0, "positive": 0.0}},
        ),
        ([0.1, 0.2, 0.9], {"prediction": "positive", "logits": [0.1, 0.2, 0.9]}),
        ([-1, 0, 2], {"prediction": "positive", "logits": [-1, 0, 2]}),
        ([1.0, 1.0, 1.0], {"prediction": "negative", "logits": [1.0, 1.0, 1.0]}),
        ({"2": 0.7, "0": 0.1, "1": 0.2}, {"prediction": "positive", "probabilities": PROBABLE}),
        ({"positive": 3.5, "LABEL_0": 1, "neutral": -2}, {"prediction": "positive", "logits": [1, -2, 3.5]}),
        ({"positive": 0.7, "neutral": 0.2}, {"prediction": "positive"}),
        ({"label": "positive", "score": 0.9}, {"prediction": "positive"}),
        (entries(positive=0.7, neutral=0.2, negative=0.1), {"prediction": "positive", "probabilities": PROBABLE}),
        (entries(positive=0.7, neutral=0.2), {"prediction": "positive"}),
        (entries(positive=0.9, neutral=0.8, negative=0.7), {"prediction": "positive"}),
        (entries(positive=2.5, neutral=0.5, negative=-1), {"prediction": "positive", "logits": [-1, 0.5, 2.5]}),
    ],
)
def test_answers_in_every_form(given_answer: object, fields: dict[str, object]) -> None:
    """Each form that a server answers in becomes just the fields that it says."""
    assert answer(given_answer, LABELS) == fields


def test_a_name_goes_before_an_index() -> None:
    """Where labels are numbers themselves, text is a name and a number an index."""
    assert [named("1", NUMBERED), named(1, NUMBERED)] == ["1", "0"]


@pytest.mark.parametrize("index", [3, -1, 10**18, 3.0, 1e300, "3", "LABEL_999999999"])
def test_an_index_out_of_range_is_an_unknown_class(index: object) -> None:
    """A class that the model does not have is no class."""
    with pytest.raises(RejectedError) as caught:
        named(index, LABELS)
    assert caught.value.reason is Reason.UNKNOWN_LABEL


@pytest.mark.parametrize("name", ["LABEL_9999999999", "٣", "²", "LABEL_", "", "-1", " 1"])
def test_odd_numbers_are_names(name: str) -> None:
    """What only looks like an index stays the name that it is, for the record to be rejected."""
    assert named(name, LABELS) == name


@pytest.mark.parametrize("values", [[float("nan"), 0, 0], [float("inf"), 0, 0], [-1e39, 0, 0], [10**400, 0, 0]])
def test_numbers_that_are_not_finite_name_no_class(values: list[Any]) -> None:
    """They are handed on as logits, for models that need them to be rejected by name, without a prediction."""
    assert row(values, LABELS) == {"logits": values}
    partial = {"label": "positive", "score": values[0]}
    assert scored([partial, {"label": "neutral", "score": 0.5}], LABELS) == {}


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3))
def test_nothing_is_made_up(values: list[float]) -> None:
    """Numbers come out as probabilities or as logits, never both, unchanged, and the largest names the class."""
    fields = row(values, LABELS)
    assert fields["prediction"] == LABELS[values.index(max(values))]
    assert ("probabilities" in fields) == probable(values)
    if "probabilities" in fields:
        assert fields == {
            "prediction": fields["prediction"],
            "probabilities": dict(zip(LABELS, values, strict=True)),
        }
    else:
        assert fields == {"prediction": fields["prediction"], "logits": values}
