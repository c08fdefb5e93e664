"""The shifts that the drop benchmark measures: domains, a model trained on each, what it shows on the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from workbench import columns, embedded, encoder_directory, say

from agent.encoder import Encoder
from agent.head import train_head
from agent.words import Vocabulary
from detectors.calibration import fit_temperature
from detectors.comparison import Comparison, Observed
from detectors.divergence import js_divergence
from detectors.panel import LabelledDomain
from detectors.softmax import probabilities

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from detectors.contract import Head

TABLE = "sentiment"
CLASSES = ("negative", "positive")
# As many rows as the agent keeps of a window.
SAMPLE = 2_000
SEED = 0
# The metrics of the paper, and the others that a regression can be held against.
PAPER = ("pad", "pad_star", "conf", "conf_calib", "rca", "rca_star")
OTHERS = ("js", "class_shift", "atc", "doc", "cbpe", "cot", "mano")


@dataclass(frozen=True)
class Part:
    """Labelled rows of a domain in random order: (n, d) embeddings, (n,) class indices and splits, n texts."""

    embedding: NDArray[np.float32]
    labels: NDArray[np.intp]
    split: NDArray[np.str_]
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Part:
        """Some of the rows."""
        texts = np.array(self.texts, object)[rows].tolist()
        return Part(self.embedding[rows], self.labels[rows], self.split[rows], texts)

    def of(self, *splits: str) -> Part:
        """The rows of these splits."""
        return self.take(np.isin(self.split, splits))

    @property
    def sample(self) -> Part:
        """As many rows as the agent would keep."""
        return self.take(slice(SAMPLE))

    @property
    def labelled(self) -> LabelledDomain:
        """As a panel takes it."""
        return LabelledDomain(self.embedding, self.labels, len(CLASSES))


def joined(*parts: Part) -> Part:
    """The rows of all parts, one part after the other."""
    return Part(
        np.concatenate([part.embedding for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.split for part in parts]),
        [text for part in parts for text in part.texts],
    )


def mixed(first: Part, second: Part, share: float, rows: int, draw: np.random.Generator) -> Part:
    """A window in random order, this share of it from the first part and the rest from the second."""
    most = round(share * rows)
    chosen = joined(
        first.take(draw.permutation(len(first))[:most]),
        second.take(draw.permutation(len(second))[: rows - most]),
    )
    return chosen.take(draw.permutation(len(chosen)))


@dataclass(frozen=True)
class Model:
    """A head trained on a source, and what is kept of that source to compare windows with."""

    head: Head
    temperature: float
    comparison: Comparison
    vocabulary: Vocabulary
    words: NDArray[np.int64]

    @classmethod
    def trained(cls, source: Part) -> Self:
        """Trained on the train and validation splits, held out is the test split: as `leadline fit` does."""
        train, validation, test = (source.of(name) for name in ("train", "validation", "test"))
        head = train_head((train.embedding, train.labels), (validation.embedding, validation.labels))
        temperature = fit_temperature(head.logits(validation.embedding), validation.labels).value
        shown = observed(head, temperature, test.embedding)
        right = (shown.predicted == test.labels).astype(np.float64)
        vocabulary = Vocabulary.of(train.texts, ENGLISH_STOP_WORDS)
        comparison = Comparison.fit(shown, right, test.labels, temperature)
        return cls(head, temperature, comparison, vocabulary, vocabulary.count(train.texts))

    @property
    def accuracy(self) -> float:
        """On the source's own test split."""
        return self.comparison.accuracy

    def predicted(self, part: Part) -> NDArray[np.intp]:
        """(n,) class indices."""
        chosen: NDArray[np.intp] = self.head.logits(part.embedding).argmax(axis=1)
        return chosen

    def drop(self, part: Part) -> float:
        """The accuracy lost on these rows, by their labels."""
        return self.accuracy - float((self.predicted(part) == part.labels).mean())

    def metrics(self, window: Part, *, words: bool = False) -> dict[str, float]:
        """What an unlabelled window shows; `js` only where its words are asked for."""
        found = self.comparison.metrics(observed(self.head, self.temperature, window.embedding))
        if words:
            found["js"] = js_divergence(self.words, self.vocabulary.count(window.texts))
        return found


def observed(head: Head, temperature: float, embedding: NDArray[np.float32]) -> Observed:
    """What a head shows on embeddings, which are its features too."""
    logits = head.logits(embedding)
    raw, calibrated = (probabilities(logits, each).max(axis=1) for each in (1.0, temperature))
    return Observed(embedding, raw, calibrated, logits)


@dataclass(frozen=True)
class Study:
    """K domains by name, each both a source with a model and a target scored on all its rows."""

    names: tuple[str, ...]
    domains: tuple[Part, ...]
    models: tuple[Model, ...]

    def __len__(self) -> int:
        return len(self.domains)

    def others(self, *absent: int) -> list[int]:
        """All places but these."""
        return [place for place in range(len(self)) if place not in absent]

    @cached_property
    def drops(self) -> NDArray[np.float64]:
        """(K, K) realised drop of each source's model on all rows of each target."""
        return np.array([[model.drop(target) for target in self.domains] for model in self.models])

    @cached_property
    def metrics(self) -> list[list[dict[str, float]]]:
        """Of each source's model on a sample of each target; nothing on its own domain."""
        found = []
        for source, model in enumerate(self.models):
            say(f"metrics of {self.names[source]}, {source + 1} of {len(self)}")
            found.append(
                [
                    {} if target == source else model.metrics(part.sample, words=True)
                    for target, part in enumerate(self.domains)
                ]
            )
        return found


def sentiment() -> tuple[tuple[str, ...], tuple[Part, ...]]:
    """The domains by name, in alphabetical order, each in a random order of its own that is always the same."""
    texts, labels, domains, splits = columns(TABLE, "text", "label", "domain", "split")
    embedding = embedded(texts, text_encoder(), TABLE)
    kinds, where, split = np.array([CLASSES.index(label) for label in labels]), np.array(domains), np.array(splits)
    draw = np.random.default_rng(SEED)
    names = tuple(sorted(set(domains)))
    parts = []
    for name in names:
        rows = draw.permutation(np.flatnonzero(where == name))
        parts.append(Part(embedding[rows], kinds[rows], split[rows], [texts[row] for row in rows]))
    return names, tuple(parts)


def text_encoder() -> Encoder:
    """The encoder of every part of this benchmark."""
    return Encoder.load(encoder_directory("int8"), device="cpu")


def study_of(names: Iterable[str], domains: Sequence[Part]) -> Study:
    """A model trained on each of the domains."""
    say(f"training {len(domains)} heads")
    return Study(tuple(names), tuple(domains), tuple(map(Model.trained, domains)))
