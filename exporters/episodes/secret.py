"""A bearer token in a file, read each time it is needed: it may be changed while the agent runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from agent.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

# A token, never a file that was named by mistake.
LONGEST_FILE = 1 << 16


class TokenFile:
    """The token in `path`; `key` is what names it in the configuration. UsageError if it cannot be used at first.

    Later, a file that cannot be used leaves the token as it was.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self._key = key
        self._token = self._read()

    def __repr__(self) -> str:
        """Without the token."""
        return f"TokenFile({self.path})"

    def current(self) -> str:
        """The token as it is now, or as it was when it could be read last."""
        try:
            self._token = self._read()
        except UsageError as error:
            structlog.get_logger().warning("token_unreadable", problem=str(error), kept="the token before")
        return self._token

    def _read(self) -> str:
        try:
            with self.path.open("rb") as stream:
                token = stream.read(LONGEST_FILE + 1).strip()
        except OSError as error:
            raise UsageError(f"{self._key}: {self.path}: cannot be read: {error.strerror}") from error
        if not token:
            raise UsageError(f"{self._key}: {self.path}: is empty. Write the token into it.")
        if len(token) > LONGEST_FILE or not all(0x21 <= byte <= 0x7E for byte in token):  # noqa: PLR2004 - ASCII
            raise UsageError(f"{self._key}: {self.path}: expected one token, in ASCII, without spaces")
        return token.decode("ascii")
