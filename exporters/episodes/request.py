"""One HTTP request after another to a place that the configuration names; no redirects, no proxy."""

from __future__ import annotations

import ssl
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING

from exporters.episodes.receiver import ReceiverError

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from exporters.episodes.address import Address
    from exporters.episodes.secret import TokenFile

LONGEST_ANSWER = 1 << 16
BUSY = frozenset({429, 503})
ADVICE = {
    400: "it does not accept what it is sent. Its own log says why.",
    401: "it wants a token, or refuses this one: see `token_file`; it is read again at the next try.",
    403: "the token may not do this.",
    404: "there is no such thing. See that the URL is its own, with its path prefix if it has one.",
    429: "it is asked too often.",
}


@dataclass(frozen=True)
class Door:
    """Who is asked, where, and with which token; `timeout` bounds every wait for it (seconds)."""

    name: str
    address: Address
    token: TokenFile | None
    timeout: float

    def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The answer to one request, on a connection of its own. ReceiverError if there is none, or a refusal."""
        try:
            with closing(self._connection()) as connection:
                connection.request(method, self.address.path + path, body or None, self._headers(body))
                with connection.getresponse() as answer:
                    if answer.status // 100 != 2:  # noqa: PLR2004 - success
                        raise self._refusal(answer)
                    return answer.read(LONGEST_ANSWER)
        except ReceiverError:
            raise
        except (OSError, HTTPException, ValueError) as error:  # ValueError: a host name that cannot be one
            reason = getattr(error, "strerror", None) or f"{error}"[:200] or type(error).__name__
            raise self.trouble(f"cannot be reached: {reason}") from error

    def trouble(self, problem: str) -> ReceiverError:
        """What to say of a problem with it."""
        return ReceiverError(f"{self.name} at {self.address.url} {problem}")

    def _connection(self) -> HTTPConnection:
        host, port = self.address.host, self.address.port
        if not self.address.secure:
            return HTTPConnection(host, port, timeout=self.timeout)
        return HTTPSConnection(host, port, timeout=self.timeout, context=ssl.create_default_context())

    def _headers(self, body: bytes) -> dict[str, str]:
        headers = {"Connection": "close", "Accept": "application/json"}
        if body:
            headers["Content-Type"] = "application/json"
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.current()}"
        return headers

    def _refusal(self, answer: HTTPResponse) -> ReceiverError:
        if answer.status // 100 == 3:  # noqa: PLR2004 - a redirect
            advice = "redirects are not followed. Set the URL to where it sends."
        else:
            advice = ADVICE.get(answer.status, "its own log says why.")
        wait = retry_after(answer.getheader("Retry-After")) if answer.status in BUSY else 0.0
        return ReceiverError(f"{self.name} at {self.address.url} answers {answer.status}: {advice}", wait)


def retry_after(said: str | None) -> float:
    """Seconds that a receiver asks us to wait; a date, which hardly anybody sends, counts as not asked.

    >>> [retry_after(said) for said in ("30", None, "Fri, 31 Dec 1999 23:59:59 GMT")]
    [30.0, 0.0, 0.0]
    """
    digits = (said or "").strip()
    return float(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 6 else 0.0  # noqa: PLR2004
