"""Finds out where assigned partitions are to be read from: asks the broker, applies the rule, seeks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import structlog
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError

from agent.sources.kafka.placing import Committed, Found, Partition, place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.sources.kafka.connection import Clients
    from agent.sources.kafka.desk import Desk
    from agent.sources.kafka.holding import Holding
    from agent.sources.kafka.placing import Placement, Rules

# How often it looks whether the broker has answered.
GLANCE = 0.01


class Finder:
    """Used from the reading thread. `ask` is how long each question may take, in seconds."""

    def __init__(self, consumer: Any, clients: Clients, desk: Desk, rules: Rules, ask: float) -> None:  # noqa: ANN401
        self._consumer = consumer
        self._clients = clients
        self._desk = desk
        self._rules = rules
        self._ask = ask

    def find(self) -> None:
        """Place every partition that has no place. KafkaError if the broker does not answer: call again."""
        astray, stored, seek = self._desk.unplaced()
        if not astray:
            return
        self.renew()
        cluster = self._clients.cluster
        there = [held for held in astray if held.spot[1] in (cluster.partitions_for_topic(held.spot[0]) or ())]
        for holding, found in self._ask_for(there):
            topic, number = holding.spot
            partition = Partition(topic, str(cluster.topic_id(topic) or ""), number)
            placement = place(partition, stored, found, self._rules)
            if placement.offset is not None:
                self._consumer.seek(TopicPartition(topic, number), placement.offset)
            if self._desk.place(holding, partition, placement, seek):
                self._tell(partition, placement, found)

    def absent(self, topics: Iterable[str]) -> set[str] | None:
        """Those that the cluster does not have; None if it does not say. KafkaTimeoutError without any answer."""
        told = not self._lacking(topics) or self.renew()
        return self._lacking(topics) if told else None

    def _lacking(self, topics: Iterable[str]) -> set[str]:
        cluster = self._clients.cluster
        # One that we may not see ends the reading; kafka-python raises it.
        return {topic for topic in topics if cluster.partitions_for_topic(topic) is None} - set(
            cluster.unauthorized_topics
        )

    def renew(self) -> bool:
        """Learn of the topics anew: one may have been deleted since. Whether the cluster has told.

        KafkaTimeoutError if there is no answer in time.
        """
        answer = self._clients.cluster.request_update()
        until = time.monotonic() + self._ask
        while not answer.is_done:
            if time.monotonic() > until or self._desk.closing:
                raise KafkaTimeoutError("no answer about topics")
            time.sleep(GLANCE)
        # With a single topic, that there is none counts as a failure.
        return answer.exception is None or isinstance(answer.exception, UnknownTopicOrPartitionError)

    def _ask_for(self, holdings: list[Holding]) -> list[tuple[Holding, Found]]:
        spots = [TopicPartition(*held.spot) for held in holdings]
        if not spots:
            return []
        wait = self._ask * 1000
        first = self._consumer.beginning_offsets(spots, timeout_ms=wait)
        end = self._consumer.end_offsets(spots, timeout_ms=wait)
        found = []
        for spot, holding in zip(spots, holdings, strict=True):
            noted = self._consumer.committed(spot, metadata=True, timeout_ms=wait)
            committed = Committed(noted.offset, noted.metadata or "") if noted else None
            found.append((holding, Found(first[spot], end[spot], committed, holding.gone)))
        return found

    def _tell(self, partition: Partition, placement: Placement, found: Found) -> None:
        log = structlog.get_logger()
        log.info("kafka_partition_placed", partition=partition.key, offset=placement.offset)
        for event in placement.events:
            log.warning(
                "kafka_partition_moved",
                why=event,
                partition=partition.key,
                wanted=placement.wanted,
                first=found.first,
                end=found.end,
                committed=found.committed.offset if found.committed else None,
                going_on_at="nowhere" if placement.offset is None else placement.offset,
            )
