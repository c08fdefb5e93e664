"""The events seen lately, so that a second delivery is told from a new event."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Seen:
    """Remembers the last `remember` identities, as 64-bit digests; 0 remembers none and finds everything new."""

    def __init__(self, remember: int) -> None:
        self.remember = remember
        # A set knows them, a queue the order in which they came. (A dictionary would do both, but finds its first
        # key ever more slowly as those before it are deleted.)
        self._known: set[int] = set()
        self._order: deque[int] = deque()
        self._added: list[int] = []
        self._replaced = False

    def __len__(self) -> int:
        return len(self._order)

    def add(self, identity: str) -> bool:
        """Remember this event; whether it is new.

        >>> seen = Seen(2)
        >>> [seen.add(name) for name in ("a", "b", "a", "c", "a")]
        [True, True, False, True, True]
        """
        if not self.remember:
            return True
        digest = int.from_bytes(blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        if digest in self._known:
            return False
        self._known.add(digest)
        self._order.append(digest)
        self._added.append(digest)
        self._forget()
        return True

    def _forget(self) -> None:
        """The oldest go beyond what is to be remembered."""
        while len(self._order) > self.remember:
            self._known.discard(self._order.popleft())

    def take_added(self) -> list[int]:
        """The digests added since the last call, oldest first; at most `remember`."""
        added = self._added[-self.remember :] if self.remember else []
        self._added = []
        return added

    def snapshot(self) -> tuple[int, ...]:
        """Every digest remembered, oldest first."""
        return tuple(self._order)

    def restore(self, digests: Iterable[int]) -> None:
        """Remember just these, oldest first: what an earlier snapshot, or the state store, held."""
        self._order = deque(dict.fromkeys(digests))
        self._known = set(self._order)
        self._forget()
        self._added = []
        self._replaced = True

    def take_replaced(self) -> bool:
        """Whether `restore` was called since this was last asked; what was added before that may be gone."""
        replaced, self._replaced = self._replaced, False
        return replaced
