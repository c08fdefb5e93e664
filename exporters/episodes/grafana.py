"""Grafana's annotations, through grafana-client: all that is known of it, and all that could change, is here.

Grafana has no idempotency key. A region is therefore found by a tag that names it, before anything is written:
whether it is there is asked of Grafana each time and remembered nowhere else, so that nothing can get lost.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import niquests
from grafana_client.api import GrafanaApi
from grafana_client.client import GrafanaException

from exporters.episodes.receiver import ReceiverError
from exporters.episodes.request import BUSY, retry_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporters.episodes.address import Address
    from exporters.episodes.secret import TokenFile

# Grafana splits tags at the first colon into a key and a value of at most 100 characters each and forgets what
# follows a second one; grafana-client puts them into a URL as they are.
UNSAFE = re.compile(r"[^A-Za-z0-9_.=-]")
LONGEST_TAG = 100
# The tag that vouches for a text: one that it does not fit was changed by hand.
VOUCHER = "leadline-text"
STRANGE = "answers, but not as Grafana does. See that `url` leads to Grafana itself."
ADVICE = {
    401: "it refuses the token. Write that of a service account into {token}; it is read again at the next try.",
    403: "the token may not do this. Give its service account the role Editor, or permission to read, create, "
    "write and delete annotations.",
    404: "there is no such thing. See that `url` is Grafana's own, with its sub-path if it has one, and that the "
    "dashboard exists.",
    429: "it is asked too often.",
}


@dataclass(frozen=True)
class GrafanaServer:
    """Where annotations go: to the dashboard with this uid and to this panel of it, or to all."""

    address: Address
    token: TokenFile
    dashboard: str | None = None
    panel: int | None = None
    timeout: float = 10.0


@dataclass(frozen=True)
class Region:
    """An annotation from `start` to `end`, known by the tag `key`.

    Times are epoch milliseconds; an end that is yet to come is None. `text` is what it says while it is open,
    `ending` what it adds then.
    """

    key: str
    start: int | None
    end: int | None
    tags: tuple[str, ...]
    text: str
    ending: str = ""

    @property
    def whole_text(self) -> str:
        """What it says now."""
        return f"{self.text}<br>{self.ending}" if self.ending else self.text


class GrafanaAnnotations:
    """Regions in one Grafana. Every call asks it, and ends in ReceiverError if it cannot be asked."""

    def __init__(self, server: GrafanaServer) -> None:
        self._server = server
        self._session = _Session(server)
        connect: Callable[..., Any] = GrafanaApi
        api = connect(_Token(server.token), timeout=server.timeout)
        api.client.s.close()
        api.client.s = self._session
        # As everywhere else, SSL_CERT_FILE says whom to trust; without it, niquests asks the system.
        api.client.verify = ssl.get_default_verify_paths().cafile or True
        # Its own way from a URL to this one loses a prefix without a slash at its end, and the brackets of IPv6.
        api.client.url = f"{server.address.url}/api"
        self._api = api.annotations

    def have(self, region: Region, *, old: bool = False) -> bool:
        """Have exactly this region there, once, whatever was there before; whether something had to be written.

        An `old` one is closed if it is still open, and nothing else: people may have changed or deleted it since.
        """
        found = self.found(region.key)
        if not found:
            if not old:
                self._add(region)
            return not old
        changed = (not old or _is_open(found[0])) and self._change(found[0], region)
        # An answer that came too late to be heard, or two agents at once: the oldest stays.
        for twin in found[1:]:
            self._asked(self._api.delete_annotations_by_id, twin["id"])
        return changed or len(found) > 1

    def found(self, key: str, most: int = 100) -> list[dict[str, Any]]:
        """The annotations with this tag, oldest first."""
        answer = self._asked(self._api.find_annotations, tags=[key], limit=most)
        if not isinstance(answer, list) or not all(
            isinstance(each, dict) and isinstance(each.get("id"), int) for each in answer
        ):
            raise self._trouble(STRANGE)
        tagged = [each for each in answer if key in (each.get("tags") or ())]
        return sorted(tagged, key=lambda each: int(each["id"]))

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def _add(self, region: Region) -> None:
        answer = self._asked(
            self._api.add_annotation,
            dashboard_uid=self._server.dashboard,
            panel_id=self._server.panel,
            time_from=region.start,
            time_to=region.end,
            tags=[*region.tags, region.key, _voucher(region.whole_text)],
            text=region.whole_text,
        )
        if not isinstance(answer, dict) or "id" not in answer:
            raise self._trouble(STRANGE)

    def _change(self, found: dict[str, Any], region: Region) -> bool:
        """Have it end and say as this region does, whether or not it had to change; a person's own words stay."""
        text, tags = region.whole_text, list(found["tags"])  # sent back: without, the client has all removed
        ours = (voucher := _voucher(found.get("text"))) in tags
        if ours:
            tags[tags.index(voucher)] = _voucher(text)
        if (not ours or found["text"] == text) and region.end in {None, found.get("timeEnd")}:
            return False
        self._asked(
            self._api.partial_update_annotation,
            found["id"],
            time_to=region.end,
            tags=tags,
            text=text if ours else None,
        )
        return True

    def _asked(self, ask: Callable[..., object], *positional: object, **named: object) -> object:
        try:
            return ask(*positional, **named)
        except ReceiverError:
            raise
        except ValueError as error:
            raise self._trouble(STRANGE) from error
        # Timeouts are the client's own exceptions, the rest is that of what it uses.
        except (GrafanaException, OSError) as error:
            raise self._trouble(f"cannot be reached: {_reason(error)}") from error

    def _trouble(self, problem: str) -> ReceiverError:
        return ReceiverError(f"Grafana at {self._server.address.url} {problem}")


class _Token(niquests.auth.AuthBase):
    """Shows the token as it is now."""

    def __init__(self, token: TokenFile) -> None:
        self._token = token

    def __call__(self, request: niquests.PreparedRequest) -> niquests.PreparedRequest:
        """The request, with the token."""
        assert request.headers is not None  # noqa: S101 - a prepared request has them
        request.headers["Authorization"] = f"Bearer {self._token.current()}"
        return request


class _Session(niquests.Session):
    """Goes where the configuration says, and nowhere else; an answer that is not a success is an error."""

    def __init__(self, server: GrafanaServer) -> None:
        # No upgrade to QUIC, no questions to whoever issued a certificate, no thread that keeps connections alive.
        super().__init__(
            disable_http3=True, revocation_configuration=None, keepalive_delay=None, keepalive_idle_window=None
        )
        self.trust_env = False  # no proxy and no .netrc
        self._server = server

    def request(self, *positional: Any, **named: Any) -> niquests.Response:  # noqa: ANN401 - as it is called
        """The answer, if it is one."""
        answer = super().request(*positional, **named | {"allow_redirects": False})
        status = answer.status_code or 0
        if status // 100 != 2:  # noqa: PLR2004 - success
            raise ReceiverError(
                f"Grafana at {self._server.address.url} answers {status}: {self._advice(status)}",
                retry_after(answer.headers.get("Retry-After")) if status in BUSY else 0.0,
            )
        return answer

    def _advice(self, status: int) -> str:
        if status // 100 == 3:  # noqa: PLR2004 - a redirect
            return "redirects are not followed. Set `url` to where it sends."
        advice = ADVICE.get(status, "its own log says why.")
        return advice.format(token=self._server.token.path)


def tag(name: str, value: str) -> str:
    """A tag `name:value` of characters that Grafana keeps and a URL can hold.

    >>> tag("slice", "tenant: größe & co")
    'slice:tenant__gr__e___co'
    """
    return f"{safe(name)}:{safe(value)}"


def safe(text: str) -> str:
    """The same with other characters replaced: a tag, or a part of one."""
    return UNSAFE.sub("_", text)[:LONGEST_TAG]


def _voucher(text: object) -> str:
    return tag(VOUCHER, sha256(f"{text}".encode("utf-8", "replace")).hexdigest()[:8])


def _is_open(found: dict[str, Any]) -> bool:
    """Where a region has no end yet, Grafana says that it ends where it begins."""
    return found.get("timeEnd") in {None, found.get("time")}


def _reason(error: BaseException) -> str:
    """What is at the bottom of it, without the layers above."""
    while (below := error.__cause__ or error.__context__) is not None:
        error = below
    return f"{error}"[:200] or type(error).__name__
