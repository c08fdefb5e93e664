"""Word counts over the source's own vocabulary: exactly mergeable, bounded, and holding no word of a user's."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from sklearn.feature_extraction.text import (  # type: ignore[import-untyped] # ships no types
    ENGLISH_STOP_WORDS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
MOST_WORDS = 10_000


def words(text: str) -> list[str]:
    """The lower-cased word tokens of a text, English stop words removed.

    >>> words("It's not the best film, is it?")
    ["it's", 'best', 'film']
    """
    return [word for word in WORD.findall(text.lower()) if word not in ENGLISH_STOP_WORDS]


class Vocabulary:
    """The source's most frequent words; every other word is counted in one last place."""

    def __init__(self, known: Sequence[str]) -> None:
        self.words = tuple(known)
        self._index = {word: position for position, word in enumerate(known)}

    @classmethod
    def of(cls, texts: Iterable[str], most: int = MOST_WORDS) -> Vocabulary:
        """The `most` frequent words of these texts, ties in alphabetical order."""
        counts = Counter(word for text in texts for word in words(text))
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls([word for word, _ in ranked[:most]])

    def __len__(self) -> int:
        return len(self.words) + 1

    def count(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """(len(self),) counts: a place for each known word, and the last for all the others."""
        other = len(self.words)
        places = [self._index.get(word, other) for text in texts for word in words(text)]
        return np.bincount(np.array(places, np.intp), minlength=other + 1)
