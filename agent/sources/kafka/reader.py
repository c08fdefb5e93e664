"""The one thread that owns kafka-python's consumer. It polls for ever: a slow loop never costs the membership."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

import structlog
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import (
    CommitFailedError,
    CorruptRecordError,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    RetriableError,
    UnknownMemberIdError,
)

from agent.errors import ServiceError
from agent.messages import Message
from agent.sources.kafka.absent_topics import AbsentTopics
from agent.sources.kafka.connection import Clients, client_arguments
from agent.sources.kafka.finder import Finder
from agent.sources.kafka.listener import Listener
from agent.sources.kafka.placing import Rules
from agent.sources.kafka.salvage import UNREADABLE, Salvage
from agent.sources.kafka.trouble import trouble
from agent.sources.kafka.watchdog import Watchdog

if TYPE_CHECKING:
    from agent.source_config import KafkaSourceConfig
    from agent.sources.kafka.desk import Commit, Desk
    from agent.sources.kafka.holding import Holding
    from agent.sources.kafka.timing import Timing

# What passes: the broker is away or busy, cannot read its disk, or the group is changing. What cannot be parsed
# of its answers raises nothing (`salvage`).
PASSING = (
    CommitFailedError,
    CorruptRecordError,
    IllegalGenerationError,
    RebalanceInProgressError,
    RetriableError,
    UnknownMemberIdError,
)
MOST_AT_ONCE = 1000
MEBIBYTE = 1 << 20


class Reader:
    """Reads until it is told to stop, or fails for good and says so at the desk."""

    def __init__(self, config: KafkaSourceConfig, desk: Desk, owner: str, timing: Timing) -> None:
        self._config = config
        self._desk = desk
        self._timing = timing
        self._rules = Rules(owner, config.start, config.out_of_range)
        self._arguments = client_arguments(config)
        self._clients = Clients()
        self._thread = Thread(target=self._run, name="kafka-reader", daemon=True)
        self._topics = AbsentTopics()
        self._next_look = float("-inf")
        self._away = False
        self.watchdog = Watchdog(config.stuck)

    def start(self) -> None:
        """Begin; once."""
        if not self._thread.ident:
            self._thread.start()

    def stop(self) -> None:
        """End within seconds, wherever it is."""
        self._desk.close()
        if self._thread.ident:
            self._thread.join(2 * self._timing.leave + self._timing.poll)
            if self._thread.is_alive():
                self._clients.close()  # whatever it waits for fails now
                self._thread.join(self._timing.leave)

    def _run(self) -> None:
        try:
            consumer = self._connect()
            try:
                self._look_later()
                while not self._desk.closing:
                    self._turn(consumer)
            finally:
                consumer.close(autocommit=False, timeout_ms=self._timing.leave * 1000)
        except Exception as error:  # noqa: BLE001 - the thread's own top
            if not self._desk.closing:
                # Where it came from, but not what it says: that may be a part of a message.
                places = [f"{place.name}:{place.lineno}" for place in extract_tb(error.__traceback__)]
                structlog.get_logger().error(
                    "kafka_reading_failed", error=type(error).__name__, at=" ".join(places[-3:])
                )
                self._desk.fail(_service_error(error))
        finally:
            self._clients.close()

    def _connect(self) -> Any:  # noqa: ANN401 - kafka-python is not typed
        """A consumer in the group. ServiceError if no broker answers in time or lets us in."""
        session = int(self._config.session * 1000)
        most_bytes = max(MEBIBYTE, min(self._config.queue_bytes, 50 * MEBIBYTE))
        consumer = KafkaConsumer(
            **self._arguments,
            kafka_client=self._clients,
            client_id=f"leadline-{self._config.member or self._config.group}",
            group_id=self._config.group,
            group_instance_id=self._config.member,
            session_timeout_ms=session,
            heartbeat_interval_ms=session // 3,
            max_poll_interval_ms=int(self._timing.silence * 1000),
            enable_auto_commit=False,
            auto_offset_reset="none",  # we place every partition ourselves
            isolation_level="read_committed",
            allow_auto_create_topics=False,
            max_poll_records=MOST_AT_ONCE,
            fetch_max_bytes=most_bytes,
            max_partition_fetch_bytes=min(most_bytes, MEBIBYTE),
            request_timeout_ms=15_000,
            reconnect_backoff_max_ms=2_000,
            metadata_max_age_ms=30_000,
            bootstrap_timeout_ms=self._timing.contact * 1000,
            metrics_enabled=False,
        )
        Salvage().install(consumer)
        listener = Listener(consumer, self._desk, self._timing, self._offsets)
        consumer.subscribe(topics=list(self._config.topics), listener=listener)
        self._finder = Finder(consumer, self._clients, self._desk, self._rules, self._timing.ask)
        with suppress(KafkaTimeoutError):
            self._finder.renew()  # or the first join may find no partitions, and another must follow
        return consumer

    def _turn(self, consumer: Any) -> None:  # noqa: ANN401
        self.watchdog.turn(self._timing.monotonic())
        if commit := self._desk.next_commit():
            self._desk.answer(commit, given=self._commit(consumer, commit))
        try:
            self._finder.find()
            self._look(consumer)
            self._pause(consumer)
            self._read(consumer)
        except OffsetOutOfRangeError as error:
            self._desk.gone((spot.topic, spot.partition) for spot in error.args[0])
        except LogTruncationError as error:
            self._desk.gone((spot.topic, spot.partition) for spot in error.divergent_offsets)
        except PASSING as error:
            self._unreachable(type(error).__name__)

    def _commit(self, consumer: Any, commit: Commit) -> bool:  # noqa: ANN401
        try:
            consumer.commit(self._offsets(commit), timeout_ms=self._timing.commit * 1000)
        except PASSING as error:
            structlog.get_logger().warning("kafka_commit_failed", error=type(error).__name__)
            return False
        return True

    def _offsets(self, commit: Commit) -> dict[Any, Any]:
        """As kafka-python wants them. A topic that is gone or another one by now has no place for them."""
        still = {held.spot for held in self._desk.placed() if self._same_topic(held, missing=False)}
        return {
            TopicPartition(*spot): OffsetAndMetadata(offset, self._rules.owner, -1)
            for spot, offset in commit.offsets.items()
            if spot in still
        }

    def _same_topic(self, holding: Holding, *, missing: bool) -> bool:
        """Whether the topic is still the one we placed; `missing` is the answer if there is none of its name."""
        topic, number = holding.spot
        if number not in (self._clients.cluster.partitions_for_topic(topic) or ()):
            return missing
        found = self._clients.cluster.topic_id(topic)
        return holding.place is not None and str(found or "") == holding.place.topic_id

    def _pause(self, consumer: Any) -> None:  # noqa: ANN401
        """Have just those partitions fetched that should be: kafka-python forgets it with every rebalance."""
        placed = self._desk.placed()
        self._desk.gone(held.spot for held in placed if not self._same_topic(held, missing=True))
        wanted = self._desk.wanted()
        paused = consumer.paused()
        for spot in consumer.assignment():
            reading = (spot.topic, spot.partition) in wanted
            if reading == (spot in paused):
                (consumer.resume if reading else consumer.pause)(spot)

    def _read(self, consumer: Any) -> None:  # noqa: ANN401
        # What a group answers between two polls is asked again: while it has given us nothing, poll longer.
        wait = self._timing.poll if self._desk.assigned else self._timing.join
        _make_room(consumer)
        polled = consumer.poll(timeout_ms=int(wait * 1000))
        arrival = self._timing.epoch()
        for spot, records in polled.items():
            self.watchdog.rest()
            messages = [_message(record, arrival) for record in records]
            _tell_unreadable(spot, [record.offset for record in records if record.value is UNREADABLE])
            self._desk.put((spot.topic, spot.partition), messages, [record.offset + 1 for record in records])

    def _look(self, consumer: Any) -> None:  # noqa: ANN401
        """Now and then: where the logs end, for the lag and the watchdog, whether or not anything is read."""
        now = self._timing.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + self._timing.look
        spots = [TopicPartition(*held.spot) for held in self._desk.placed()]
        try:
            ends = consumer.end_offsets(spots, timeout_ms=self._timing.ask * 1000) if spots else {}
        except KafkaError:
            self.watchdog.rest()  # the broker is away: a restart would not bring it back
            raise
        self._reachable()
        if (absent := self._finder.absent(self._config.topics)) is not None:
            self._topics.tell(absent)
        reached = {spot: consumer.position(spot, timeout_ms=self._timing.ask * 1000) for spot in ends}

        def seen(holding: Holding) -> tuple[int, int] | None:
            spot = TopicPartition(*holding.spot)
            place = reached.get(spot)
            return None if place is None else (ends[spot], place)

        unread = self._desk.refresh(seen)
        astray = self._desk.unplaced()[0]
        if self._desk.paused or not (unread or astray):
            self.watchdog.rest()
        else:
            self.watchdog.wait(now)

    def _look_later(self) -> None:
        self._next_look = self._timing.monotonic() + self._timing.look

    def _unreachable(self, error: str) -> None:
        """Say it once."""
        if not self._away:
            structlog.get_logger().warning("kafka_unreachable", error=error, then="trying on")
        self._away = True

    def _reachable(self) -> None:
        if self._away:
            structlog.get_logger().info("kafka_reachable_again")
        self._away = False


def _make_room(consumer: Any) -> None:  # noqa: ANN401
    """Have kafka-python take up what it put aside of a partition while that was paused.

    Version 3.0.12 does so only where nothing is at hand, but keeps there what it has read to its end: unless that
    partition is paused too, the other one is never read again.
    """
    fetcher = consumer._fetcher  # noqa: SLF001 - there is no other way
    if not fetcher._next_partition_records:  # noqa: SLF001
        fetcher._next_partition_records = None  # noqa: SLF001


def _tell_unreadable(spot: Any, offsets: list[int]) -> None:  # noqa: ANN401
    if offsets:
        structlog.get_logger().warning(
            "kafka_records_unreadable",
            topic=spot.topic,
            partition=spot.partition,
            records=len(offsets),
            first=offsets[0],
            last=offsets[-1],
            then="counted, and passed over",
        )


def _message(record: Any, arrival: float) -> Message:  # noqa: ANN401 - kafka-python is not typed
    unreadable = record.value is UNREADABLE
    return Message(
        None if unreadable else record.value,
        f"{record.topic}:{record.partition}:{record.offset}",
        arrival,
        channel=record.topic,
        headers=tuple([(name, value or b"") for name, value in record.headers]),
        key=record.key,
        unreadable=unreadable,
        stamp=max(0, record.timestamp) / 1000,
    )


def _service_error(error: Exception) -> ServiceError:
    return error if isinstance(error, ServiceError) else ServiceError(f"source.kafka: {trouble(error)}")
