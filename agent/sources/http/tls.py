"""Certificates: those the intake shows and asks for, and those of the sink that events are passed on to."""

from __future__ import annotations

import ssl
from functools import partial
from typing import TYPE_CHECKING

from agent.errors import UsageError
from agent.sources.http.answers import Event
from agent.sources.http.renewed import Renewed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.source_config import TlsConfig


def renewing(tls: TlsConfig, saw: Callable[[Event], None]) -> ssl.SSLContext:
    """As `server_context`, but every handshake shows the certificate as its files are then: they are renewed.

    `ca` stays what it was.
    """
    paths = [path for path in (tls.certificate, tls.key) if path is not None]
    event = Event.CERTIFICATE_UNREADABLE
    renewed = Renewed("certificate", paths, partial(server_context, tls), event, saw)
    context = renewed.current()

    def show(handshake: ssl.SSLObject | ssl.SSLSocket, name: str | None, asked: ssl.SSLContext) -> None:
        del name, asked
        current = renewed.current()
        if current is not context:
            handshake.context = current

    context.sni_callback = show  # called in every handshake, whether or not the client names a host
    return context


def server_context(tls: TlsConfig) -> ssl.SSLContext:
    """What the intake shows; with `ca`, senders must show a certificate of it. UsageError if a file is wrong."""
    if tls.certificate is None:
        raise UsageError("source.http.tls: `certificate` and `key` are missing: without them there is no TLS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, tls, "source.http.tls")
    if tls.ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: TlsConfig | None) -> ssl.SSLContext:
    """What is trusted and shown when events are passed on: the system's authorities, or only `ca`."""
    context = ssl.create_default_context() if tls is None or tls.ca is None else _nothing_trusted()
    if tls is not None:
        _load(context, tls, "source.http.forward.tls")
    return context


def _nothing_trusted() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, tls: TlsConfig, where: str) -> None:
    """Load the files that are named. UsageError names the key of one that cannot be used."""
    password = _password(tls.key_password_file, where)
    if tls.certificate is not None:
        try:
            # Always a password, or OpenSSL would ask for it on a terminal.
            context.load_cert_chain(tls.certificate, tls.key, password=lambda: password)
        except OSError as error:
            files = f"{tls.certificate} and {tls.key}"
            raise UsageError(f"{where}: {files} cannot be used: {_reason(error)}") from error
    if tls.ca is not None:
        try:
            context.load_verify_locations(tls.ca)
        except OSError as error:
            raise UsageError(f"{where}.ca: {tls.ca} cannot be used: {_reason(error)}") from error


def _password(path: Path | None, where: str) -> bytes:
    if path is None:
        return b""
    try:
        return path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"{where}.key_password_file: {path}: cannot be read: {error.strerror}") from error


def _reason(error: OSError) -> str:
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    return {
        "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
        "NO_CERTIFICATE_OR_CRL_FOUND": "no certificate in it",
    }.get(error.reason or "", "not PEM, or the key's password is missing or wrong")
