"""Word counts over the source's own vocabulary: exactly mergeable, bounded, and holding no word of a user's."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
MOST_WORDS = 10_000
# scikit-learn's list, word for word: importing it for this would cost the agent 90 MB and its longest second.
STOP_WORDS = frozenset(
    """
    a about above across after afterwards again against all almost alone along already also although always am
    among amongst amoungst amount an and another any anyhow anyone anything anyway anywhere are around as at
    back be became because become becomes becoming been before beforehand behind being below beside besides
    between beyond bill both bottom but by call can cannot cant co con could couldnt cry de describe detail do
    done down due during each eg eight either eleven else elsewhere empty enough etc even ever every everyone
    everything everywhere except few fifteen fifty fill find fire first five for former formerly forty found
    four from front full further get give go had has hasnt have he hence her here hereafter hereby herein
    hereupon hers herself him himself his how however hundred i ie if in inc indeed interest into is it its
    itself keep last latter latterly least less ltd made many may me meanwhile might mill mine more moreover
    most mostly move much must my myself name namely neither never nevertheless next nine no nobody none noone
    nor not nothing now nowhere of off often on once one only onto or other others otherwise our ours ourselves
    out over own part per perhaps please put rather re same see seem seemed seeming seems serious several she
    should show side since sincere six sixty so some somehow someone something sometime sometimes somewhere
    still such system take ten than that the their them themselves then thence there thereafter thereby
    therefore therein thereupon these they thick thin third this those though three through throughout thru thus
    to together too top toward towards twelve twenty two un under until up upon us very via was we well were
    what whatever when whence whenever where whereafter whereas whereby wherein whereupon wherever whether which
    while whither who whoever whole whom whose why will with within without would yet you your yours yourself
    yourselves
    """.split()  # noqa: SIM905 - 318 strings would be 318 lines
)


def words(text: str) -> list[str]:
    """The lower-cased word tokens of a text, English stop words removed.

    >>> words("It's not the best film, is it?")
    ["it's", 'best', 'film']
    """
    return [word for word in WORD.findall(text.lower()) if word not in STOP_WORDS]


class Vocabulary:
    """The source's most frequent words; every other word is counted in one last place."""

    def __init__(self, known: Sequence[str]) -> None:
        self.words = tuple(known)
        # Stop words go to a place behind all others, which `count` leaves out.
        self._index = {word: position for position, word in enumerate(known)}
        self._index |= dict.fromkeys(STOP_WORDS, len(self.words) + 1)

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
        places = [self._index.get(word, other) for text in texts for word in WORD.findall(text.lower())]
        return np.bincount(np.array(places, np.intp), minlength=other + 2)[: other + 1]
