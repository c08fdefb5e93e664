"""What people and Label Studio are given."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from agent.annotation.formats import json_lines, label_studio, labelling_config

if TYPE_CHECKING:
    from agent.annotation.draw import Made

LABELS = ("negative", "a\"b<c>&'d", "line\nend\ttab\r", "x]]>")


def _tasks(made: Made) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(label_studio(made.batch, made.items))
    return found


def test_a_line_has_its_fixed_keys(made: Made) -> None:
    """One object an item; what is not known of an item is left out."""
    lines = [json.loads(line) for line in json_lines(made.items).splitlines()]
    assert [line["id"] for line in lines] == [item.id for item in made.items]
    assert set(lines[0]) == {
        "id", "slice", "row", "stratum", "inclusion_probability", "dissimilar",
        "prediction", "probabilities", "confidence", "depth", "depth_rank", "text", "text_kept",
    }  # fmt: skip
    bare = replace(made.items[0], text=None, text_kept=None, prediction=None, probabilities=None)
    assert not {"text", "prediction", "probabilities"} & set(json.loads(json_lines([bare])))


def test_a_task_shows_the_text_and_the_models_prediction(made: Made) -> None:
    """With its score, in the result format that the labelling configuration asks for."""
    task, item = _tasks(made)[0], made.items[0]
    assert task["data"]["text"] == item.text
    assert task["data"]["id"] == task["data"]["leadline_id"] == item.id
    (prediction,) = task["predictions"]
    assert prediction["score"] == item.confidence
    assert prediction["model_version"] == f"{made.batch.model} {made.batch.reference_id}"
    (result,) = prediction["result"]
    assert result["value"] == {"choices": [item.prediction]}
    view = ET.fromstring(labelling_config(made.batch, pairs=False))  # noqa: S314 - our own
    (choices,) = view.findall("Choices")
    assert (choices.get("name"), choices.get("toName")) == (result["from_name"], result["to_name"])
    assert result["type"] == "choices"
    assert [text.get("name") for text in view.findall("Text")] == [result["to_name"]]


def test_every_field_that_the_configuration_shows_is_in_every_task(made: Made) -> None:
    """Label Studio refuses tasks that lack one: a text that was not kept has a note, a missing pair is empty."""
    items = [replace(made.items[0], text_pair="its pair"), made.items[1].without_text()]
    tasks = json.loads(label_studio(made.batch, items))
    view = ET.fromstring(labelling_config(made.batch, pairs=True))  # noqa: S314 - our own
    shown = [(text.get("value") or "").removeprefix("$") for text in view.findall("Text")]
    assert shown == ["text", "text_pair"]
    assert all(set(shown) <= set(task["data"]) for task in tasks)
    assert tasks[0]["data"]["text_pair"] == "its pair"
    assert tasks[1]["data"]["text"] == f"(the text was not kept: look it up by its id, {items[1].id})"


def test_hostile_labels_come_back_from_the_configuration(made: Made) -> None:
    """Quotes, angle brackets and line ends in a label break nothing, and are read as they were."""
    batch = replace(made.batch, labels=LABELS)
    for task, element in (("classification", "Choice"), ("tokens", "Label")):
        told = labelling_config(replace(batch, task=task), pairs=False)
        view = ET.fromstring(told)  # noqa: S314 - our own
        assert tuple(each.get("value") for each in view.iter(element)) == LABELS


def test_tasks_of_a_sequence_labeller_have_no_predictions(made: Made) -> None:
    """No logits of single tokens are kept, so nothing is foretold."""
    items = [replace(item, prediction=None, probabilities=None) for item in made.items]
    tasks = json.loads(label_studio(replace(made.batch, task="tokens"), items))
    assert not any("predictions" in task for task in tasks)
