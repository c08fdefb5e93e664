"""Labelled synthetic worlds: one with an unknown topic that every detector sees, and those of many domains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from sklearn.linear_model import LogisticRegression

from detectors.contract import Head, Outputs, Source
from detectors.panel import LabelledDomain

# The machines that run these tests are shared: a slow example is no failure.
settings.register_profile("leadline", deadline=None, max_examples=60)
settings.load_profile("leadline")

CLASSES = 4
UNITS_PER_CLASS = 20
SIZE = 96  # twice the D of the baran2023 preset and more, so that the presets cover both forms of ViM
EMBEDDING = 16


def known(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embedding, non-negative features and labels of topics the model was trained on."""
    labels = np.arange(rows) % CLASSES
    signature = np.kron(np.eye(CLASSES), np.ones(UNITS_PER_CLASS))
    features = np.zeros((rows, SIZE))
    features[:, : signature.shape[1]] = signature[labels] * rng.uniform(0.7, 1.3, (rows, 1))
    features = np.maximum(features + rng.normal(0, 0.15, features.shape), 0)
    embedding = rng.normal(0, 0.15, (rows, EMBEDDING))
    embedding[:, 0] += 1  # what all known topics have in common
    embedding[np.arange(rows), 1 + labels] += 0.5
    return embedding, features, labels


def unknown(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Embedding and features of a topic that stirs each class a little and the units of no class a lot."""
    features = np.full((rows, SIZE), 0.2)
    features[:, CLASSES * UNITS_PER_CLASS :] = 0.8
    features = np.maximum(features + rng.normal(0, 0.15, features.shape), 0)
    embedding = rng.normal(0, 0.15, (rows, EMBEDDING))
    embedding[:, -1] += 1
    return embedding, features


class World:
    """Domains whose classes lie along directions that they share for the most part, unit embeddings of size 8."""

    def __init__(self, seed: int, classes: int = 2) -> None:
        self._rng = np.random.default_rng(seed)
        self._centres = self._rng.normal(0, 0.9, (classes, 8))

    def domain(self, rows: int = 120, prior: np.ndarray | None = None) -> LabelledDomain:
        """A new domain, its classes as often as `prior` says or about alike."""
        rng, (classes, width) = self._rng, self._centres.shape
        share = np.exp(rng.normal(0, 0.3, classes))
        labels = rng.choice(classes, rows, p=share / share.sum() if prior is None else prior)
        centres = self._centres + rng.normal(0, 0.3, (classes, width))
        items = centres[labels] + rng.normal(0, 0.3, width) + 0.5 + rng.normal(size=(rows, width))
        unit = items / np.linalg.norm(items, axis=1, keepdims=True)
        return LabelledDomain(unit.astype(np.float32), labels, classes)

    def domains(self, count: int, rows: int = 120) -> list[LabelledDomain]:
        """So many new domains."""
        return [self.domain(rows) for _ in range(count)]


@pytest.fixture(scope="session")
def new_world() -> type[World]:
    """Makes worlds by seed and number of classes."""
    return World


@pytest.fixture(scope="session")
def source() -> Source:
    """240 training rows, 160 validation rows and a head trained on the former."""
    rng = np.random.default_rng(1)
    embedding, features, labels = known(rng, 400)
    trained = LogisticRegression(C=1.0).fit(features[:240], labels[:240])
    head = Head(weight=trained.coef_, bias=trained.intercept_)
    both = Outputs(embedding=embedding, logits=head.logits(features), features=features)
    return Source(train=both.take(slice(240)), validation=both.take(slice(240, 400)), head=head)


@pytest.fixture(scope="session")
def inside(source: Source) -> Outputs:
    """60 new items of the known topics."""
    embedding, features, _ = known(np.random.default_rng(2), 60)
    return Outputs(embedding=embedding, logits=source.head.logits(features), features=features)


@pytest.fixture(scope="session")
def outside(source: Source) -> Outputs:
    """50 items of the unknown topic."""
    embedding, features = unknown(np.random.default_rng(3), 50)
    return Outputs(embedding=embedding, logits=source.head.logits(features), features=features)
