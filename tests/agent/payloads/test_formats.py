"""The contract of every payload format, on the examples of docs/payloads, and the examples on the docs."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, get_args

import pytest
import yaml

from agent.payloads.contract import Kind, Payload
from agent.payloads.envelope import opened
from agent.payloads.formats import FORMATS, format_of, parts_of
from agent.payloads.mapping import NATIVE
from agent.reasons import RejectedError
from agent.records import Expected, from_fields
from agent.source_config import FormatName, PayloadConfig, SourceConfig
from tests.agent.payloads.examples import ARRIVAL, EXAMPLES, FOLDER, LABELS, Example, decoded, formats_used

if TYPE_CHECKING:
    from agent.payloads.formats import Format

FORMS = formats_used()
PAGE = (FOLDER.parent / "RECORDS.md").read_text(encoding="utf-8")

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
each_format = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


def test_every_name_of_the_configuration_has_a_row() -> None:
    """The table and the configuration know the same formats, and a row knows its own name."""
    assert tuple(FORMATS) == get_args(FormatName)
    assert all(name == row.name and row.description for name, row in FORMATS.items())


@each_format
def test_every_format_has_an_example(form: Format) -> None:
    """No row without a message that shows it."""
    assert any(example.config.format == form.name for example in EXAMPLES)


@each_example
def test_an_example_gives_its_parts(example: Example) -> None:
    """Each message is decoded to just what the file beside it says."""
    assert decoded(example.message, format_of(example.config)) == example.parts


@each_example
def test_the_reader_gives_the_same_parts(example: Example) -> None:
    """What the intake is given makes the same of a payload as its format does."""
    parts = parts_of(example.config, LABELS)
    made = [parts(payload, example.message) for payload in opened(example.message) if isinstance(payload, Payload)]
    assert [part for each in made for part in each] == example.parts


@each_example
def test_decoding_is_pure(example: Example) -> None:
    """The content stays as it was, and the same content gives the same parts again."""
    form = format_of(example.config)
    for payload in opened(example.message):
        assert isinstance(payload, Payload)
        before = copy.deepcopy(payload)
        first = form.parts(payload, example.message, LABELS)
        assert payload == before
        assert list(form.parts(payload, example.message, LABELS)) == list(first)


@each_example
def test_parts_are_native(example: Example) -> None:
    """Every field is one of a native record, ids go with keys, and only labels lack both text and answer."""
    for part in example.parts:
        assert part.fields.keys() <= set(NATIVE)
        assert part.key is None or part.fields["id"] == part.key
        assert part.kind is Kind.LABEL or part.fields.keys() & {"text", "prediction", "logits"}


@each_example
def test_examples_make_records(example: Example) -> None:
    """What is a whole inference, or a request, is a record that the agent takes."""
    expected = Expected("sentiment", frozenset(LABELS))
    for part in example.parts:
        if part.kind in {Kind.RECORD, Kind.REQUEST}:
            assert from_fields(part.fields, expected, example.message.origin, ARRIVAL).text == part.fields["text"]


@pytest.mark.parametrize(
    ("request_name", "response_name"),
    [
        ("kserve-request", "kserve-response"),
        ("kserve-request", "kserve-probabilities"),
        ("open-inference-request", "open-inference-response"),
        ("huggingface-request", "huggingface-response"),
        ("seldon-inputs", "seldon-outputs"),
    ],
)
def test_halves_have_the_same_keys(request_name: str, response_name: str) -> None:
    """A request and its response are matched item by item."""
    keys = [
        [(part.kind, part.key) for part in example.parts]
        for example in EXAMPLES
        if example.name in {request_name, response_name}
    ]
    assert [key for _, key in keys[0]] == [key for _, key in keys[1]]
    assert {kind for half in keys for kind, _ in half} == {Kind.REQUEST, Kind.RESPONSE}


@each_format
def test_every_format_refuses_what_is_none_of_it(form: Format) -> None:
    """A number is of no format."""
    with pytest.raises(RejectedError):
        form.decode(Payload(7), LABELS)


@each_format
def test_the_docs_show_every_format(form: Format) -> None:
    """docs/RECORDS.md has a section for each, with its configuration and an example."""
    section = PAGE.split(f"### `{form.name}`", 1)[1].split("\n### ", 1)[0]
    assert f"format: {form.name}" in section
    assert "```http" in section


def test_the_docs_show_the_examples_as_they_are() -> None:
    """Every message in docs/RECORDS.md is a file of the folder, and every file of it is shown or linked there."""
    files = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.http")}
    blocks = re.findall(r"```http\n(.*?)```", PAGE, flags=re.DOTALL)
    assert [block for block in blocks if block not in files.values()] == []
    hidden = [name for name, text in files.items() if text not in blocks and f"payloads/{name})" not in PAGE]
    assert hidden == []


def test_a_format_is_chosen_by_its_name() -> None:
    """Without a mapping, the configured format is the row of the table itself."""
    assert format_of(PayloadConfig(format="seldon")) is FORMATS["seldon"]


def test_the_configurations_of_the_docs_are_valid() -> None:
    """Every source in docs/RECORDS.md can be copied; the mapping there is that of its example."""
    blocks = re.findall(r"```yaml\n(source:\n.*?)```", PAGE, flags=re.DOTALL)
    contents = [yaml.safe_load(block)["source"] for block in blocks]
    sources = [SourceConfig.model_validate(content) for content in contents]
    mappings = [source.http.mapping for source in sources if source.http]
    assert mappings == [example.config.mapping for example in EXAMPLES if example.config.mapping]
