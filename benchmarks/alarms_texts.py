"""The texts of the alarms benchmark: two tasks, the domains of each, and changes of style that should not hurt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from workbench import columns, embedded, encoder_directory

from agent.encoder import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

SEED = 0
STYLED_ROWS = 500
WORD = re.compile(r"[a-z]{5,}")
SIGNATURE = " . sent from my phone , please excuse any typos"


@dataclass(frozen=True)
class Rows:
    """Labelled texts: (n, e) embeddings, (n,) class indices."""

    texts: Sequence[str]
    embedding: NDArray[np.float32]
    labels: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: NDArray[np.intp] | slice) -> Rows:
        """Some of the rows."""
        chosen = np.arange(len(self))[rows]
        return Rows([self.texts[row] for row in chosen], self.embedding[chosen], self.labels[chosen])


@dataclass(frozen=True)
class Task:
    """A task: its table, its classes, the domains that serve as sources, and those kept for changes.

    `shares` says what part of a source's rows teaches the head and the detectors, calibrates the p-values, and is
    the reference's test split. The rest is the stream's, and nothing that is fitted or calibrated has seen it.
    """

    table: str
    classes: tuple[str, ...]
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    shares: tuple[float, float, float]


TASKS = (
    Task(
        "sentiment",
        ("negative", "positive"),
        (
            "airline_tweets",
            "customer_reviews_cr",
            "fdu_camera",
            "fdu_kitchen",
            "imdb",
            "tweets_general",
            "womens_clothing",
        ),
        ("app_facebook", "fdu_books", "product_pros_cons", "se_stackoverflow"),
        (0.35, 0.15, 0.15),
    ),
    Task(
        "crisis_stream",
        ("off-topic", "on-topic"),
        ("2013_Alberta_Floods", "2013_Boston_Bombings", "2013_Oklahoma_Tornado"),
        ("2012_Sandy_Hurricane", "2013_West_Texas_Explosion"),
        (0.2, 0.065, 0.065),
    ),
)


def text_encoder() -> Encoder:
    """The encoder of every model here."""
    return Encoder.load(encoder_directory("int8"), device="cpu")


def domains_of(task: Task, encoder: Encoder) -> dict[str, Rows]:
    """The domains of a task by name, each in a random order that is always the same."""
    texts, labels, domains = columns(task.table, "text", "label", "domain")
    where, draw = np.array(domains), np.random.default_rng(SEED)
    everything = Rows(
        texts, embedded(texts, encoder, task.table), np.array([task.classes.index(label) for label in labels])
    )
    return {
        name: everything.take(draw.permutation(np.flatnonzero(where == name))) for name in sorted(set(domains))
    }


def styled(rows: Rows, name: str, encoder: Encoder, what: str) -> Rows:
    """The first rows written in another style; their labels are as before."""
    few = rows.take(slice(STYLED_ROWS))
    draw = np.random.default_rng(SEED)
    texts = [STYLES[name](text, draw) for text in few.texts]
    return Rows(texts, embedded(texts, encoder, f"{what}, {name}"), few.labels)


def unpunctuated(text: str, _: np.random.Generator) -> str:
    """Without punctuation."""
    return " ".join(re.sub(r"[^\w\s']", " ", text).split()) or text


def mistyped(text: str, draw: np.random.Generator) -> str:
    """In every fourth word of five letters or more, two neighbours inside change places."""

    def swapped(found: re.Match[str]) -> str:
        word = found.group()
        if draw.random() >= 0.25:
            return word
        place = int(draw.integers(1, len(word) - 2))
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]

    return WORD.sub(swapped, text)


def shortened(text: str, _: np.random.Generator) -> str:
    """The first two thirds of the words."""
    words = text.split()
    return " ".join(words[: max(2 * len(words) // 3, 3)])


def signed(text: str, _: np.random.Generator) -> str:
    """With the line that some phones put under every message."""
    return text + SIGNATURE


STYLES: Mapping[str, Callable[[str, np.random.Generator], str]] = {
    "no punctuation": unpunctuated,
    "typos": mistyped,
    "shorter": shortened,
    "signature": signed,
}
