"""What kafka-python's errors mean, in plain words and without what it was told in confidence."""

from __future__ import annotations

from kafka.errors import (
    AuthorizationError,
    FencedInstanceIdError,
    KafkaConnectionError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedCodecError,
    UnsupportedSaslMechanismError,
)

MEANINGS: tuple[tuple[type[Exception], str], ...] = (
    (SaslAuthenticationFailedError, "the broker refuses the login: check `sasl`"),
    (UnsupportedSaslMechanismError, "the broker does not offer this `sasl.mechanism`"),
    (
        UnsupportedCodecError,
        "a topic is compressed in a way that is not known here: install the agent anew, all of it",
    ),
    (AuthorizationError, "the broker does not allow this user to read these topics, or to join this group"),
    (FencedInstanceIdError, "another agent has joined the group under the same `member`"),
    # A refused login looks like this too: the broker hangs up, and kafka-python drops what it said before.
    (KafkaTimeoutError, "no broker let us in: check `servers`, `tls` and `sasl`"),
    (KafkaConnectionError, "the connection failed: check `servers` and `tls`"),
)


def trouble(error: Exception) -> str:
    """One clause of what is wrong; the name of the error where we know no more."""
    meaning = next((words for kind, words in MEANINGS if isinstance(error, kind)), "reading failed")
    return f"{meaning} ({type(error).__name__})"
