"""A synthetic world of labelled domains, numbers instead of texts, and the reference that a fit makes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agent.config import FitConfig
from agent.freeze import Fitted, Split, freeze
from agent.head import train_head
from agent.items import Items
from agent.labelled import Labelled
from agent.reference import EncoderIdentity, TaskIdentity
from agent.scorer import Scorer
from agent.task import HeadTask
from agent.token_outputs import TokenLogits
from detectors.contract import Outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from agent.reference import Reference
    from agent.scorer import Scored

LABELS = ("negative", "positive", "neutral")
WIDTH = 16
DOMAINS = ("hotels", "books", "phones", "toys")
SPLITS = {"train": 400, "validation": 200, "test": 400}
ROWS = 300
# How far each domain turns the directions of the classes, as a share of a right angle, and moves all its texts.
TURNS = {"source": 0.0, "hotels": 0.15, "books": 0.3, "phones": 0.45, "toys": 0.6, "window": 0.4}


@dataclass(frozen=True)
class Drawn:
    """n items of a domain: (n, WIDTH) unit embeddings, class indices (n,), texts that are all different."""

    embedding: NDArray[np.float32]
    labels: NDArray[np.intp]
    texts: list[str]

    def take(self, rows: NDArray[np.intp]) -> Drawn:
        """The chosen rows."""
        return Drawn(self.embedding[rows], self.labels[rows], [self.texts[row] for row in rows.tolist()])


def drawn_from(
    domain: str, rows: int, classes: int = 2, *, seed: int = 0, shares: Sequence[float] | None = None
) -> Drawn:
    """Items of a domain; `shares` are those of its classes, alike if not given."""
    rng = np.random.default_rng([seed, rows, *domain.encode()])
    labels = np.asarray(rng.choice(classes, rows, p=shares), np.intp)
    angle = TURNS[domain] * np.pi / 2
    direction = np.cos(angle) * np.eye(WIDTH)[:classes] + np.sin(angle) * np.eye(WIDTH)[classes : 2 * classes]
    offset = 0.8 * np.eye(WIDTH)[2 * classes + list(TURNS).index(domain)]
    embedding = direction[labels] + offset + rng.normal(0, 0.4, (rows, WIDTH))
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    words = rng.choice(["good", "bad", "film", "room", domain], (rows, 3))
    texts = [f"{' '.join(line)} {domain}{seed}x{number}" for number, line in enumerate(words.tolist())]
    return Drawn(embedding.astype(np.float32), labels, texts)


class Encoded:
    """Stands in for the encoder: every text has an embedding already."""

    def __init__(self, items: Drawn, task: Callable[[Items, NDArray[np.float32]], Outputs]) -> None:
        self._embedding = items.embedding
        self._task = task

    def run(self, items: Items, on_progress: object = None) -> tuple[Outputs, NDArray[np.bool_]]:
        """The outputs of all the items."""
        del on_progress
        return self._task(items, self._embedding), np.zeros(len(items), np.bool_)


@cache
def fitted(domains: int = 3, classes: int = 2, task: str = "classification") -> Reference:
    """The reference that a real fit makes of the source and so many domains, but for the encoder."""
    tables = {name: drawn_from("source", rows, classes, seed=rows) for name, rows in SPLITS.items()}
    tables["train"] = drawn_from("source", SPLITS["train"], classes, seed=1)
    others = {name: drawn_from(name, ROWS, classes) for name in DOMAINS[:domains]}
    head = train_head(*((tables[name].embedding, tables[name].labels) for name in ("train", "validation")))
    tokens = task == "tokens"
    config = FitConfig.model_validate(
        {
            "model": {
                "name": "world",
                "labels": LABELS[:classes],
                "outputs": "table" if tokens else "head",
                "task": task,
            },
            "encoder": "encoder",
            "source": dict.fromkeys(SPLITS, "none.csv"),
        }
    )

    def split(part: Drawn) -> Split:
        outputs = Outputs(part.embedding) if tokens else HeadTask(head).outputs(Items(part.texts), part.embedding)
        logits = TokenLogits.one_each(head.logits(part.embedding)) if tokens else None
        return Split(Labelled(Path("none.csv"), Items(part.texts, tokens=logits), part.labels), outputs)

    made = Fitted(
        source={name: split(part) for name, part in tables.items()},
        domains={name: split(part) for name, part in others.items()},
        head=None if tokens else head,
        encoder=EncoderIdentity("synthetic", "0" * 64, "encoder"),
        task=TaskIdentity("table" if tokens else "head", kind=task),
    )
    reference = freeze(config, made, lambda done, total: None)  # noqa: ARG005 - nobody watches
    return replace(reference, id="0123456789abcdef")


def outputs_of(reference: Reference, items: Drawn) -> Outputs:
    """What the reference's encoder and head give for these items."""
    assert reference.head is not None
    return HeadTask(reference.head).outputs(Items(items.texts), items.embedding)


def scored(reference: Reference, items: Drawn) -> Scored:
    """The items as a real scorer scores them."""
    inference = Encoded(items, lambda given, _: outputs_of(reference, replace(items, texts=list(given.texts))))
    return Scorer(reference, inference).score(Items(items.texts))  # type: ignore[arg-type] # see Encoded


def drop_of(reference: Reference, items: Drawn) -> float:
    """The drop on these items, known from their labels."""
    logits = outputs_of(reference, items).logits
    assert logits is not None
    return reference.source.accuracy["test"] - float((logits.argmax(axis=1) == items.labels).mean())
