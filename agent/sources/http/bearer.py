"""The bearer token that senders must show, from a file that may change."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import structlog

from agent.errors import UsageError
from agent.sources.http.versions import version

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# A secret that must be remembered for comparison, never a file that was named by mistake.
LONGEST_FILE = 1 << 16


class Bearer:
    """The tokens of a file, one a line: while senders change over to a new one, both are in it.

    The file is looked at with every request and read again when it has changed, as secrets in Kubernetes do. One
    that cannot be used leaves the tokens as they were, and `unreadable` is told. UsageError at the start.
    """

    def __init__(self, path: Path, unreadable: Callable[[], None]) -> None:
        self._path = path
        self._unreadable = unreadable
        self._version = version(path)
        self._tokens = tokens_of(path)

    def __repr__(self) -> str:
        """Without the tokens."""
        return f"Bearer({self._path})"

    def admits(self, authorization: str) -> bool:
        """Whether this header shows one of the tokens; takes as long whatever it shows."""
        self._refresh()
        scheme, _, shown = authorization.strip().partition(" ")
        found = [hmac.compare_digest(shown.strip().encode("latin-1"), token) for token in self._tokens]
        return scheme.lower() == "bearer" and any(found)

    def _refresh(self) -> None:
        found = version(self._path)
        if found == self._version:
            return
        self._version = found
        try:
            self._tokens = tokens_of(self._path)
        except UsageError as error:
            self._unreadable()
            structlog.get_logger().warning("token_unreadable", problem=str(error), kept="the tokens before")


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
