"""Texts to rows of token ids: bounded, flagged where cut, grouped into batches."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from agent.errors import ArtefactError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

MAX_CHARS = 16_384  # far beyond any encoder's tokens, so that a 1 MB text costs what a page costs
DEFAULT_MAX_TOKENS = 512  # what BERT and its kin take; for a tokenizer that states no limit


@dataclass(frozen=True)
class Limits:
    """How large a batch may grow: texts, and tokens with the padding counted."""

    items: int
    tokens: int
    equal_lengths: bool = False  # a batch holds texts of one length only: no padding at all


@dataclass(frozen=True)
class Tokens:
    """Tokenised texts, one row each: ids, segment (0 text, 1 pair), and whether anything was cut off."""

    ids: list[NDArray[np.int64]]
    segments: list[NDArray[np.int64]]
    truncated: NDArray[np.bool_]
    pad: int

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,) number of tokens."""
        return np.array([len(row) for row in self.ids], dtype=np.int64)

    def feed(self, rows: NDArray[np.intp]) -> dict[str, NDArray[np.int64]]:
        """The model inputs of these rows, padded on the right to the longest of them."""
        lengths = np.array([len(self.ids[row]) for row in rows])
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        ids, segments = np.full_like(mask, self.pad), np.zeros_like(mask)
        filled = mask.astype(bool)
        ids[filled] = np.concatenate([self.ids[row] for row in rows])
        segments[filled] = np.concatenate([self.segments[row] for row in rows])
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}


class TextTokenizer:
    """A ``tokenizer.json``, limited to ``max_tokens`` or else to its own limit. Pure once built; safe to share."""

    def __init__(self, data: bytes, name: str, max_tokens: int | None = None) -> None:
        # One thread: tokenising is 3 % of encoding, and a pool of its own would take cores the caller
        # did not give, and warn at a fork. Whoever sets the variable has the last word.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            self._tokenizer = Tokenizer.from_buffer(data)
        except Exception as error:  # tokenizers raises nothing narrower
            raise ArtefactError(f"{name} is not a tokenizer file: damaged, or of a newer format") from error
        padding, truncation = self._tokenizer.padding, self._tokenizer.truncation
        own = int(truncation["max_length"]) if truncation else DEFAULT_MAX_TOKENS
        self.max_tokens = max_tokens or own
        self._pad = int(padding["pad_id"]) if padding else self._tokenizer.token_to_id("[PAD]") or 0
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.max_tokens)

    def encode(self, texts: Sequence[str], pairs: Sequence[str | None] | None = None) -> Tokens:
        """Tokenise; truncated where characters or tokens were cut, of the text or of its pair."""
        partners = pairs if pairs is not None else [None] * len(texts)
        found = self._tokenizer.encode_batch_fast([_bounded(*item) for item in zip(texts, partners, strict=True)])
        cut = [_too_long(text) or _too_long(pair or "") for text, pair in zip(texts, partners, strict=True)]
        return Tokens(
            # A tokenizer without special tokens gives an empty text no token: it gets one of padding.
            ids=[np.array(row.ids or [self._pad], dtype=np.int64) for row in found],
            segments=[np.array(row.type_ids or [0], dtype=np.int64) for row in found],
            truncated=np.array([bool(row.overflowing) for row in found], dtype=np.bool_)
            | np.array(cut, dtype=np.bool_),
            pad=self._pad,
        )


def batches(lengths: NDArray[np.int64], limits: Limits) -> Iterator[NDArray[np.intp]]:
    """Row numbers, batch by batch, short texts first; every row once, and neighbours of like length.

    >>> [list(map(int, b)) for b in batches(np.array([9, 2, 2, 8]), Limits(items=8, tokens=10))]
    [[1, 2], [3], [0]]
    """
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and _fits(lengths[order[[start, stop]]], stop - start + 1, limits):
            stop += 1
        yield order[start:stop]
        start = stop


def _fits(ends: NDArray[np.int64], items: int, limits: Limits) -> bool:
    shortest, longest = ends
    equal = shortest == longest or not limits.equal_lengths
    return bool(equal and items <= limits.items and items * longest <= limits.tokens)


def _bounded(text: str, pair: str | None) -> str | tuple[str, str]:
    return _clean(text) if pair is None else (_clean(text), _clean(pair))


def _clean(text: str) -> str:
    # JSON can carry half a surrogate pair, which is no text and would stop the tokenizer.
    return text[:MAX_CHARS].encode("utf-8", "replace").decode("utf-8")


def _too_long(text: str) -> bool:
    return len(text) > MAX_CHARS
