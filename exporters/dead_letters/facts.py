"""What is known of a dead letter beside its content."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.messages import Message

# How the Kafka source names a message; what another source calls one may look the same.
POSITION = re.compile(r"([A-Za-z0-9._-]+):(\d+):(\d+)")


def arrival_of(message: Message) -> str:
    """When it arrived, as RFC 3339 in UTC.

    >>> from agent.messages import Message
    >>> arrival_of(Message(b"", "traffic:0:1", arrival=1787306400.25))
    '2026-08-21T10:00:00.250Z'
    """
    moment = datetime.fromtimestamp(message.arrival, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def position_of(message: Message) -> tuple[str, str, str] | None:
    """Topic, partition and offset of a message that came from Kafka, None for any other.

    >>> from agent.messages import Message
    >>> position_of(Message(b"", "traffic:2:1041", 0.0, channel="traffic"))
    ('traffic', '2', '1041')
    >>> position_of(Message(b"", "http:12345678:7", 0.0, channel="/events"))
    """
    match = POSITION.fullmatch(message.origin)
    if match is None or message.channel != match[1]:
        return None
    return match[1], match[2], match[3]
