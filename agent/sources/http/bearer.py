"""The bearer token that senders must show, from a file that may change."""

from __future__ import annotations

import hmac
from functools import partial
from typing import TYPE_CHECKING

from agent.errors import UsageError
from agent.sources.http.answers import Event
from agent.sources.http.renewed import Renewed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# A secret that must be remembered for comparison, never a file that was named by mistake.
LONGEST_FILE = 1 << 16


class Bearer:
    """The tokens of a file, one a line: while senders change over to a new one, both are in it.

    The file is looked at with every request. UsageError at the start if it cannot be used.
    """

    def __init__(self, path: Path, saw: Callable[[Event], None]) -> None:
        self._path = path
        self._tokens = Renewed("tokens", (path,), partial(tokens_of, path), Event.TOKEN_UNREADABLE, saw)

    def __repr__(self) -> str:
        """Without the tokens."""
        return f"Bearer({self._path})"

    def admits(self, authorization: str) -> bool:
        """Whether this header shows one of the tokens; takes as long whatever it shows."""
        scheme, _, shown = authorization.strip().partition(" ")
        shown_bytes = shown.strip().encode("latin-1")
        found = [hmac.compare_digest(shown_bytes, token) for token in self._tokens.current()]
        return scheme.lower() == "bearer" and any(found)


def tokens_of(path: Path) -> tuple[bytes, ...]:
    """The tokens in a file. UsageError if there is none, or none that a header could carry."""
    try:
        with path.open("rb") as stream:
            content = stream.read(LONGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"source.http.token_file: {path}: cannot be read: {error.strerror}") from error
    tokens = tuple(line.strip() for line in content.splitlines() if line.strip())
    if not tokens:
        raise UsageError(f"source.http.token_file: {path}: is empty. Write the token into it, one a line.")
    if len(content) > LONGEST_FILE or not all(token.isascii() and len(token.split()) == 1 for token in tokens):
        raise UsageError(f"source.http.token_file: {path}: expected one token a line, without spaces, in ASCII")
    return tokens
