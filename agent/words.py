"""Word counts over the source's own vocabulary: exactly mergeable, bounded, and holding no word of a user's."""

from __future__ import annotations

import re
from collections import Counter
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
MOST_WORDS = 10_000


def words(text: str) -> list[str]:
    """The lower-cased word tokens of a text.

    >>> words("It's not the best film, is it?")
    ["it's", 'not', 'the', 'best', 'film', 'is', 'it']
    """
    return WORD.findall(text.lower())


class Vocabulary:
    """The source's most frequent words; the `ignored` ones, stop words, count nowhere, all others in one place."""

    def __init__(self, known: Sequence[str], ignored: Collection[str] = ()) -> None:
        self.words = tuple(known)
        self.ignored = tuple(sorted(ignored))
        self._index = {word: position for position, word in enumerate(known)}
        # Stop words go to a place behind all others, which `count` leaves out.
        self._index |= dict.fromkeys(self.ignored, len(self.words) + 1)

    @classmethod
    def of(cls, texts: Iterable[str], ignored: Collection[str] = (), most: int = MOST_WORDS) -> Vocabulary:
        """The `most` frequent words of these texts that are not ignored, ties in alphabetical order."""
        counts = Counter(word for text in texts for word in words(text) if word not in ignored)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls([word for word, _ in ranked[:most]], ignored)

    def __len__(self) -> int:
        return len(self.words) + 1

    def count(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """(len(self),) counts: a place for each known word, and the last for all the others."""
        other = len(self.words)
        # As one text: no word reaches over the end of a line.
        places = map(self._index.get, words("\n".join(texts)), repeat(other))
        return np.bincount(np.fromiter(places, np.intp), minlength=other + 2)[: other + 1]
