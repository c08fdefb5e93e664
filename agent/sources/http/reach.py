"""What a check finds of the HTTP intake before it runs."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from agent.listener import probe
from agent.sources.http.bearer import tokens_of
from agent.sources.http.forward import Sink
from agent.sources.http.tls import client_context, server_context

if TYPE_CHECKING:
    from agent.source_config import HttpSourceConfig

WHAT = "the HTTP intake"


def exposed(config: HttpSourceConfig) -> tuple[str, ...]:
    """What is risky about where it listens, in words; nothing where only this machine can reach it."""
    if _is_local(config.host):
        return ()
    who = f"source.http.host: {config.host} can be reached from other machines, and"
    verified = config.tls is not None and config.tls.ca is not None
    token = f"{who} whoever reaches it can post: set `token_file`, or `tls` with `ca`"
    tls = f"{who} texts and tokens cross the network in the clear: set `tls`"
    return (*([] if config.token_file or verified else [token]), *([] if config.tls else [tls]))


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def reach(config: HttpSourceConfig) -> str:
    """What a check finds: files, certificates and the port, and what is risky. LeadlineError for what is wrong."""
    found = [probe(config.host, config.port, WHAT)]
    if config.tls is not None:
        server_context(config.tls)
        found.append("certificate and key belong together")
    if config.token_file is not None:
        found.append(f"tokens: {len(tokens_of(config.token_file))}")
    if config.forward is not None:
        sink = Sink.of(config.forward.url)
        if sink.secure:
            client_context(config.forward.tls)
        found.append(f"passes events on to {sink.host}")
    return ", ".join(found) + "".join(f"; warning: {warning}" for warning in exposed(config))
