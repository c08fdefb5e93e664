"""Dead letters in a topic of a Kafka cluster: kept once every replica in sync has acknowledged them."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer
from kafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)
from kafka.net.compat import KafkaNetClient

from agent.errors import ServiceError
from exporters.dead_letters.envelope import Envelope, whole, without_body, without_content

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent.messages import DeadLetter

TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
# The broker says what is too large for its topic. Above this (its default is 100 MiB) it would hang up instead of
# answering, and the letter would be tried for ever.
MOST_REQUEST_BYTES = 64 << 20
CLOSE_SECONDS = 5.0
# From all that came to what fits anywhere: each form is for the letters that were too large in the one before.
FORMS: tuple[Callable[[DeadLetter], Envelope], ...] = (whole, without_body, without_content)


@dataclass(frozen=True)
class Stage:
    """How far a delivery had come, in words, and what helps if it went no further."""

    trouble: str
    advice: str


CONNECTING = Stage(
    "no broker can be used",
    "See that one runs there and that it lets the agent in; its settings are `servers`, `tls` and `sasl`.",
)
FINDING = Stage(
    "the topic cannot be found",
    "Create it, correct its name in `dead_letters.topic`, or allow the agent to see it.",
)
SENDING = Stage(
    "the brokers did not confirm in time that they have them",
    "See that they are up and in sync, that the agent may write to the topic, and that it is not compacted.",
)
SHRINKING = Stage(
    "even without their content they are larger than the topic allows",
    "Raise `max.message.bytes` of the topic.",
)


class DeadLetterTopic:
    """Sends letters to `topic`. `client` is how kafka-python reaches the cluster: `bootstrap_servers`, TLS, SASL.

    It connects at the first letter. `timeout` bounds a delivery, connecting included (seconds).
    """

    def __init__(
        self,
        topic: str,
        client: Mapping[str, Any],
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topic = topic
        self._client = dict(client)
        self._timeout = timeout
        self._clock = clock
        self._producer: KafkaProducer | None = None

    def deliver(self, letters: Sequence[DeadLetter]) -> None:
        """Send the letters; returns once all are acknowledged. ServiceError otherwise: some may be there even so.

        A letter that is larger than the topic allows goes without its body, so that it cannot hold up the rest.
        """
        if not letters:
            return
        deadline = self._clock() + self._timeout
        stage = CONNECTING
        try:
            producer = self._connected()
            stage = FINDING
            producer.config["max_block_ms"] = 1000 * self._left(deadline)
            producer.partitions_for(self._topic)
            stage = SENDING
            left = letters
            for form in FORMS:
                left = self._send(producer, left, form, deadline)
            if left:
                stage = SHRINKING
                raise MessageSizeTooLargeError
        except (KafkaError, OSError, ValueError) as error:
            self.close()
            servers = self._client.get("bootstrap_servers", "")
            raise ServiceError(
                f"{len(letters)} dead letters could not be kept in the topic {self._topic} of "
                f"{servers if isinstance(servers, str) else ', '.join(servers)}: {stage.trouble} "
                f"({type(error).__name__}). {stage.advice}"
            ) from error

    def close(self) -> None:
        """Let go of the connection within seconds, whatever is still on its way."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        # close() alone would leave its thread behind: where letters wait, it gives up before it ends the thread.
        producer._sender.force_close()  # noqa: SLF001
        producer._sender.join(CLOSE_SECONDS)  # noqa: SLF001
        with suppress(KafkaError):
            producer.close(timeout=0)

    def _connected(self) -> KafkaProducer:
        if self._producer is None:
            self._producer = _producer(self._client, self._timeout)
        return self._producer

    def _send(
        self,
        producer: KafkaProducer,
        letters: Sequence[DeadLetter],
        form: Callable[[DeadLetter], Envelope],
        deadline: float,
    ) -> Sequence[DeadLetter]:
        """Send them in this form and wait; those that are too large in it come back."""
        sent, refused = [], []
        for letter in letters:
            envelope = form(letter)
            try:
                future = producer.send(self._topic, envelope.value, envelope.key, envelope.headers)
            except TOO_LARGE:
                refused.append(letter)
            else:
                sent.append((letter, future))
        for letter, future in sent:
            try:
                future.get(timeout=self._left(deadline))
            except TOO_LARGE:
                refused.append(letter)
        return refused

    def _left(self, deadline: float) -> float:
        return max(0.0, deadline - self._clock())


def _producer(client: Mapping[str, Any], timeout: float) -> KafkaProducer:
    """Connected, or its error; then nothing stays open.

    Without idempotence: with it, one message that is too large makes kafka-python 3.0.12 refuse every later one
    for the same reason. What a retry may write twice, its origin tells.
    """
    opened: list[KafkaNetClient] = []

    def remembered(**settings: object) -> KafkaNetClient:
        opened.append(KafkaNetClient(**settings))
        return opened[-1]

    milliseconds = round(1000 * timeout)
    try:
        return KafkaProducer(
            **dict(client)
            | {
                "acks": "all",
                "enable_idempotence": False,
                "max_in_flight_requests_per_connection": 1,  # so that a retry does not change the order
                "max_request_size": MOST_REQUEST_BYTES,
                "bootstrap_timeout_ms": milliseconds,
                "request_timeout_ms": milliseconds // 2,
                "delivery_timeout_ms": milliseconds,
                "kafka_client": remembered,
            }
        )
    except BaseException:
        for each in opened:
            each.close()
        raise
