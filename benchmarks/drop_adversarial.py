"""A shift that means nothing: a tag before every source text and another before every target text (paper, 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from drop_methods import OURS, Answer, Lines, Row, predictions
from drop_study import Model, Part, Study, joined, text_encoder
from workbench import embedded, say

from detectors.drop import DropFit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agent.encoder import Encoder

# Rows of each domain: those its model is made from, by split, and those it is scored on as a target.
SOURCE_ROWS = {"train": 400, "validation": 100, "test": 300}
TARGET_ROWS = 600
SOURCE_TAG, TARGET_TAG = "<source>", "<target>"
PLAIN, TAGGED = "as they are", "tagged"


def adversarial(names: Sequence[str], domains: Sequence[Part]) -> list[Row]:
    """The same rows twice, as they are and tagged."""
    sources = [
        joined(*(part.of(name).take(slice(rows)) for name, rows in SOURCE_ROWS.items())) for part in domains
    ]
    targets = [part.take(slice(TARGET_ROWS)) for part in domains]
    encoder = text_encoder()
    rows = shifts(PLAIN, names, sources, targets)
    return rows + shifts(TAGGED, names, tagged(sources, SOURCE_TAG, encoder), tagged(targets, TARGET_TAG, encoder))


def tagged(parts: Sequence[Part], tag: str, encoder: Encoder) -> list[Part]:
    """The same rows with a tag before each text."""
    texts = [f"{tag} {text}" for part in parts for text in part.texts]
    embedding = embedded(texts, encoder, tag)
    ends = np.cumsum([len(part) for part in parts])
    return [
        Part(embedding[end - len(part) : end], part.labels, part.split, texts[end - len(part) : end])
        for end, part in zip(ends.tolist(), parts, strict=True)
    ]


def shifts(case: str, names: Sequence[str], sources: Sequence[Part], targets: Sequence[Part]) -> list[Row]:
    """Every shift from a source's rows to a target's. A reference domain plays target, so it is tagged as one."""
    say(f"{case}: training {len(names)} heads")
    study = Study(tuple(names), tuple(targets), tuple(map(Model.trained, sources)))
    rows = []
    for source, name in enumerate(names):
        say(f"{case}: {name}, {source + 1} of {len(names)}")
        rows += shifts_of(case, study, source, sources[source])
    return rows


def shifts_of(case: str, study: Study, source: int, own: Part) -> Iterator[Row]:
    """The shifts of one source: its panel knows its own rows as a source's, all others as targets'."""
    model = study.models[source]
    domains = [own if place == source else part for place, part in enumerate(study.domains)]
    predicted = predictions(model, source, range(len(domains)), domains)
    left_out = DropFit([part.labelled for part in domains], [predicted]).left_out(0)
    for target, found in enumerate(left_out):
        if found is None:
            continue
        realised = float(study.drops[source, target])
        lines = Lines.over(study, source, study.others(source, target))
        for method, answer in lines.answers(study.metrics[source][target]).items():
            yield Row(case, method, source, realised, answer)
        bounds = (found.estimate.accuracy, found.estimate.high, found.estimate.low)
        yield Row(case, OURS, source, realised, Answer(*(model.accuracy - value for value in bounds)))
