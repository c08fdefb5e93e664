"""What is particular to the formats of model servers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import Message
from agent.payloads import bentoml, huggingface, kserve, native, open_inference
from agent.payloads.contract import Kind, Part, Payload
from agent.payloads.formats import parts_of
from agent.payloads.items import MOST_ITEMS, TEXT_NAMES
from agent.reasons import Reason, RejectedError
from agent.records import Expected, Record, from_fields
from agent.source_config import FormatName, PayloadConfig
from tests.agent.payloads.examples import ARRIVAL, LABELS, example

if TYPE_CHECKING:
    from agent.payloads.contract import Decode

TEXTS = {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["good", "bad"]}
LOGITS = {"name": "output-0", "shape": [2, 2], "datatype": "FP32", "data": [-1.2, 0.9, 2.1, -1.7]}


def fields_of(decode: Decode, content: Any, **envelope: Any) -> list[dict[str, object]]:  # noqa: ANN401 - any JSON
    """The fields of every part."""
    return [part.fields for part in decode(Payload(content, **envelope), LABELS)]


def reason_of(decode: Decode, content: Any, **envelope: Any) -> Reason:  # noqa: ANN401 - any JSON value
    """Why the content is rejected."""
    with pytest.raises(RejectedError) as caught:
        decode(Payload(content, **envelope), LABELS)
    return caught.value.reason


def answers(*outputs: dict[str, Any]) -> list[dict[str, object]]:
    """What an Open Inference response with these outputs gives."""
    return fields_of(open_inference.decode, {"outputs": list(outputs)})


def test_the_envelope_stands_in_for_what_a_record_lacks() -> None:
    """A native record keeps its own id and time, and takes those of its event where it has none."""
    assert fields_of(native.decode, {"text": "a"}, id="7", time="t") == [{"text": "a", "id": "7", "time": "t"}]
    own = {"text": "a", "id": "8", "timestamp": 5}
    assert fields_of(native.decode, own, id="7", time="t") == [own]


def test_a_label_is_not_named_after_its_event() -> None:
    """The event of a label has an id of its own, which is not that of the record."""
    assert native.decode(Payload({"label": "positive"}, id="7"), LABELS) == [
        Part(Kind.LABEL, {"label": "positive"})
    ]


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_an_instance_may_be_an_object(name: str) -> None:
    """A text may come under any of the accepted names, with its pair beside it."""
    asked = {"instances": [{name: "a", "text_pair": "b", "lang": "en"}]}
    assert fields_of(kserve.decode, asked) == [{"text": "a", "text_pair": "b"}]


def test_a_bad_item_costs_no_other() -> None:
    """Each of many instances is accepted or rejected for itself."""
    expected = Expected("sentiment", frozenset(LABELS))
    found: list[Record | Reason] = []
    for fields in fields_of(kserve.decode, {"instances": ["a", 1, "", {"no": "text"}, [["deep"]]]}):
        try:
            found.append(from_fields(fields, expected, "test:0:0", ARRIVAL))
        except RejectedError as error:
            found.append(error.reason)
    assert isinstance(found[0], Record)
    assert found[1:] == [Reason.TEXT_NOT_STRING, Reason.EMPTY_TEXT, Reason.NO_TEXT, Reason.TEXT_NOT_STRING]


def test_a_half_is_what_its_envelope_says() -> None:
    """A response in an event that says it is a request is of no format."""
    response = {"predictions": [1]}
    assert [part.kind for part in kserve.decode(Payload(response), LABELS)] == [Kind.RESPONSE]
    for decode, content in ((kserve.decode, response), (huggingface.decode, [{"label": "positive", "score": 1}])):
        assert reason_of(decode, content, kind=Kind.REQUEST) is Reason.NOT_THIS_FORMAT


def test_many_items_are_taken_and_too_many_are_not() -> None:
    """The bound on items is the same for every format that has items."""
    texts: list[object] = ["a"] * MOST_ITEMS
    tensor = TEXTS | {"shape": [MOST_ITEMS], "data": texts}
    more = TEXTS | {"shape": [MOST_ITEMS + 1], "data": [*texts, "a"]}
    for decode, content, beyond in (
        (kserve.decode, {"instances": texts}, {"instances": [*texts, "a"]}),
        (huggingface.decode, {"inputs": texts}, {"inputs": [*texts, "a"]}),
        (open_inference.decode, {"inputs": [tensor]}, {"inputs": [more]}),
    ):
        assert len(fields_of(decode, content, id="7")) == MOST_ITEMS
        assert reason_of(decode, beyond) is Reason.TOO_MANY_ITEMS


def test_no_items_are_no_parts() -> None:
    """An empty request asks nothing, and is no error."""
    assert fields_of(kserve.decode, {"instances": []}) == []
    assert fields_of(open_inference.decode, {"inputs": [TEXTS | {"shape": [0], "data": []}]}) == []


def test_a_pair_is_named_by_the_event_that_knows_its_half_or_by_its_own_id() -> None:
    """A server makes up an id for its response; other events name each half anew."""
    content = {"id": "own", "inputs": [TEXTS | {"shape": [1], "data": ["good"]}]}
    for payload, key in (
        (Payload(content), "own"),
        (Payload(content, id="event"), "own"),
        (Payload(content, id="event", kind=Kind.REQUEST), "event"),
        (Payload(content | {"id": ""}, id="event"), "event"),
        (Payload(content | {"id": None}), None),
        (Payload(content | {"id": 42}), "42"),
        (Payload(content | {"id": "\ud800"}), "?"),
    ):
        (part,) = open_inference.decode(payload, LABELS)
        assert (part.key, part.fields.get("id")) == (key, key)


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ([2], ["good", "bad"]),
        ([2, 1], ["good", "bad"]),
        ([2, 1], [["good"], ["bad"]]),
        ([2, 1, 1], [[["good"]], [["bad"]]]),
    ],
)
def test_tensors_are_flat_or_nested(shape: list[int], data: list[object]) -> None:
    """The same texts come out however the tensor is written."""
    tensor = TEXTS | {"shape": shape, "data": data}
    assert fields_of(open_inference.decode, {"inputs": [tensor]}) == [{"text": "good"}, {"text": "bad"}]


def test_nested_logits_are_those_of_flat_ones() -> None:
    """Row-major is row by row."""
    nested = LOGITS | {"data": [[-1.2, 0.9], [2.1, -1.7]]}
    expected = [
        {"prediction": "positive", "logits": [-1.2, 0.9]},
        {"prediction": "negative", "logits": [2.1, -1.7]},
    ]
    assert answers(LOGITS) == answers(nested) == expected


def test_the_text_tensor_is_found() -> None:
    """By its name if it has one that says so, otherwise the first that holds text; `text_pair` is never it."""
    other = TEXTS | {"name": "lang", "data": ["en", "de"]}
    mask = {"name": "mask", "shape": [2], "datatype": "INT64", "data": [1, 1]}
    pair = TEXTS | {"name": "text_pair", "data": ["x", "y"]}
    named = fields_of(open_inference.decode, {"inputs": [mask, pair, other, TEXTS]})
    assert named == [{"text": "good", "text_pair": "x"}, {"text": "bad", "text_pair": "y"}]
    assert fields_of(open_inference.decode, {"inputs": [mask, other, TEXTS | {"name": "b"}]})[0] == {"text": "en"}


def test_outputs_say_it_together() -> None:
    """Logits, the class beside them, and features are one answer; other outputs are ignored."""
    classes = {"name": "class", "shape": [2], "datatype": "INT64", "data": [0, 1]}
    features = {"name": "features", "shape": [2, 3], "datatype": "FP32", "data": [1, 2, 3, 4, 5, 6]}
    other, wide = LOGITS | {"name": "attention", "data": [0, 0, 0, 0]}, features | {"name": "hidden"}
    first, second = answers(other, wide, features, LOGITS | {"name": "logits"}, classes)
    assert first == {"logits": [-1.2, 0.9], "prediction": "negative", "features": [1, 2, 3]}
    assert second == {"logits": [2.1, -1.7], "prediction": "positive", "features": [4, 5, 6]}


def test_the_name_of_an_output_tells_logits_from_probabilities() -> None:
    """Where it says nothing, the values do."""
    values = {"shape": [1, 2], "datatype": "FP64", "data": [0.4, 0.6]}
    unequal = values | {"data": [0.4, 0.7]}
    for name, tensor, field in (
        ("output-0", values, "probabilities"),
        ("output-0", unequal, "logits"),
        ("logits", values, "logits"),
        ("probabilities", unequal, "probabilities"),
    ):
        (fields,) = answers(tensor | {"name": name})
        assert fields.keys() == {"prediction", field}


def test_class_names_are_read() -> None:
    """From BYTES: the name, or the JSON that MLServer writes for Hugging Face models."""
    written = ['[{"label": "LABEL_0", "score": 0.25}, {"label": "LABEL_1", "score": 0.75}]', "negative"]
    first, second = answers(TEXTS | {"name": "output", "data": written})
    assert first == {"prediction": "positive", "probabilities": {"negative": 0.25, "positive": 0.75}}
    assert second == {"prediction": "negative"}


def test_the_version_of_the_model_is_kept_and_its_name_is_not() -> None:
    """A server's name for the model is seldom the reference's, and would have the record discarded."""
    (fields, _) = fields_of(
        open_inference.decode, {"model_name": "m", "model_version": "3", "parameters": {}, "outputs": [LOGITS]}
    )
    assert fields["model_version"] == "3"
    assert "model" not in fields


def test_an_answer_may_repeat_what_it_was_asked() -> None:
    """Then it is enough alone, for those who log responses only."""
    echoed = {"text": "a", "text_pair": "b", "prediction": "positive"}
    for item in ({"label": "positive"}, {"label": 1, "score": 0.9}):
        predictions = {"predictions": [{"text": "a", "text_pair": "b"} | item]}
        assert fields_of(kserve.decode, predictions) == [echoed]
    (first, _) = answers(TEXTS, LOGITS)
    assert first == {"text": "good", "prediction": "positive", "logits": [-1.2, 0.9]}


@pytest.mark.parametrize(
    ("inputs", "texts"),
    [
        ("a", [{"text": "a"}]),
        (["a", "b"], [{"text": "a"}, {"text": "b"}]),
        ({"text": "a", "text_pair": "b"}, [{"text": "a", "text_pair": "b"}]),
        ([{"text": "a"}, {"text": "b", "text_pair": None}], [{"text": "a"}, {"text": "b"}]),
    ],
)
def test_hugging_face_inputs(inputs: object, texts: list[dict[str, object]]) -> None:
    """One text or many, alone or in pairs."""
    assert fields_of(huggingface.decode, {"inputs": inputs, "parameters": {"top_k": 2}}) == texts


def test_hugging_face_lists_may_be_flat() -> None:
    """A flat list is the classes of one text where scores add up to 1, otherwise the best class of each text."""
    low, high = {"label": "negative", "score": 0.25}, {"label": "positive", "score": 0.75}
    sure = {"label": "negative", "score": 0.98}
    whole = {"prediction": "positive", "probabilities": {"negative": 0.25, "positive": 0.75}}
    assert fields_of(huggingface.decode, [high, low]) == fields_of(huggingface.decode, [[high, low]]) == [whole]
    assert fields_of(huggingface.decode, [high, sure]) == [{"prediction": "positive"}, {"prediction": "negative"}]
    assert (
        fields_of(huggingface.decode, [sure])
        == fields_of(huggingface.decode, sure)
        == [{"prediction": "negative"}]
    )


@pytest.mark.parametrize("kind", ["model", "pipeline"])
def test_seldons_topics_tell_the_half(kind: str) -> None:
    """By how they end, and even against what the body looks like."""
    inputs, outputs = example("seldon-inputs").message, example("seldon-outputs").message
    parts = parts_of(PayloadConfig(format="seldon"), LABELS)
    for message, ending, half in ((inputs, "inputs", Kind.REQUEST), (outputs, "outputs", Kind.RESPONSE)):
        moved = replace(message, channel=f"seldon.prod.{kind}.sentiment.{ending}")
        content: Any = {"inputs": [TEXTS], "outputs": [LOGITS], "id": "own"}
        made = parts(Payload(content), moved)
        assert [(part.kind, part.key) for part in made] == [
            (half, f"cieou5ofh5ss73fbjdu0#{place}") for place in range(2)
        ]


@pytest.mark.parametrize("form", ["seldon", "open-inference"])
def test_without_header_and_ending_the_body_tells(form: FormatName) -> None:
    """A message that has lost its headers is still an Open Inference body."""
    message = Message(b"{}", "test:0:0", 0.0, "anything")
    (first, _) = parts_of(PayloadConfig(format=form), LABELS)(Payload({"id": "7", "inputs": [TEXTS]}), message)
    assert (first.kind, first.key) == (Kind.REQUEST, "7#0")


def test_a_line_of_bentoml_without_a_request_has_no_id() -> None:
    """The word that BentoML writes for no request names nothing."""
    line = {"text": "a", "prediction": 1, "request_id": "None"}
    assert fields_of(bentoml.decode, line) == [{"text": "a", "prediction": "positive"}]


def test_bentomls_label_is_the_models_answer() -> None:
    """It is a prediction, in any form of an answer, and never the truth."""
    (fields,) = fields_of(bentoml.decode, {"text": "a", "label": {"negative": 0.25, "positive": 0.75}})
    assert fields == {
        "text": "a",
        "prediction": "positive",
        "probabilities": {"negative": 0.25, "positive": 0.75},
    }
