"""Where a receiver is, checked once."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from agent.errors import UsageError


class Address(NamedTuple):
    """What a URL says; `path` is that of a service behind a prefix, without a slash at its end."""

    secure: bool
    host: str
    port: int | None
    path: str

    @classmethod
    def of(cls, url: str, key: str) -> Address:
        """UsageError, which names the `key` of the configuration, for a URL that cannot be one.

        >>> Address.of("http://[::1]:9093/alerts/", "urls")
        Address(secure=False, host='::1', port=9093, path='/alerts')
        """
        expected = f"{key}: expected http(s)://host[:port][/prefix]"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            # Its words would show what stands where a password may.
            raise UsageError(f"{expected}; the port is at most 65535") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
            raise UsageError(expected)
        if parts.query or parts.fragment or not (url.isascii() and url.isprintable()):
            raise UsageError(f"{expected}, in ASCII, without query or fragment")
        return cls(parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"))

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{'https' if self.secure else 'http'}://{host}{port}{self.path}"
