"""Word counts: tokens, a bounded vocabulary, one place for all the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.words import Vocabulary, words

# A sigma is lower-cased by its neighbours; these must not reach over the end of a text.
TEXTS = st.lists(st.text("abc 'dß_1Σ\n", max_size=20), max_size=8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's the BEST film!", ["it's", "the", "best", "film"]),
        ("snake_case 3.5 stars", ["snake", "case", "3", "5", "stars"]),
        ("Größe, Übung; 映画", ["größe", "übung", "映画"]),
        ("'quoted' don't'", ["quoted", "don't"]),
        (" \t\n…—🙂", []),
        ("", []),
    ],
)
def test_words_are_lower_cased_runs_of_letters_and_digits(text: str, expected: list[str]) -> None:
    """Punctuation goes, an apostrophe inside a word stays."""
    assert words(text) == expected


def test_the_vocabulary_holds_the_most_frequent_words() -> None:
    """No more words than asked for, the most frequent first, ties in alphabetical order."""
    vocabulary = Vocabulary.of(["film film film", "zebra plot", "plot apple"], most=3)
    assert vocabulary.words == ("film", "plot", "apple")
    assert len(vocabulary) == 4


def test_unknown_words_share_the_last_place() -> None:
    """A word that the source did not use is counted, but not kept."""
    vocabulary = Vocabulary(["film", "plot"])
    assert vocabulary.count(["film plot film", "secret words here"]).tolist() == [2, 1, 3]


def test_nothing_counts_as_zeros() -> None:
    """No texts, or texts without words, give zero at every place."""
    vocabulary = Vocabulary(["film"])
    assert vocabulary.count([]).tolist() == vocabulary.count(["", "..."]).tolist() == [0, 0]


def test_an_ignored_word_counts_nowhere() -> None:
    """A stop word is neither in the vocabulary nor among the other words."""
    vocabulary = Vocabulary.of(["the film", "the plot"], ignored={"the"})
    assert vocabulary.words == ("film", "plot")
    assert vocabulary.count(["the film the zebra"]).tolist() == [1, 0, 1]


@given(TEXTS, TEXTS)
def test_counts_add_up(left: list[str], right: list[str]) -> None:
    """The counts of two parts add up to those of the whole, and to the number of words."""
    vocabulary = Vocabulary(["a", "abc", "b"])
    whole = vocabulary.count(left + right)
    np.testing.assert_array_equal(whole, vocabulary.count(left) + vocabulary.count(right))
    assert whole.sum() == sum(len(words(text)) for text in left + right)
