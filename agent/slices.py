"""A bounded number of slices: metrics have a label a slice, and traffic must not choose how many."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

UNTAGGED = "default"
OTHER = "__other__"
LONGEST = 64


class Slices:
    """The first `most` names get a slice of their own; every further one is counted under `__other__`."""

    def __init__(self, most: int, known: Iterable[str] = ()) -> None:
        self._most = most
        self._known = list(known)

    @property
    def known(self) -> tuple[str, ...]:
        """The names with a slice of their own, in the order they were first seen."""
        return tuple(self._known)

    def name(self, tag: str | None) -> str:
        """The slice of a record with this tag.

        >>> slices = Slices(1)
        >>> [slices.name(tag) for tag in ("tenant-a", "tenant-b", None)]
        ['tenant-a', '__other__', 'default']
        """
        if not tag:
            return UNTAGGED
        # A tag is shown in terminals: what is not printable, such as an escape sequence, is not shown as it came.
        short = tag[:LONGEST]
        if not short.isprintable():
            short = "".join(letter if letter.isprintable() else "?" for letter in short)
        if short not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.append(short)
        return short
