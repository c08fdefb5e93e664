"""Records from the topics of a Kafka cluster.

Delivery: the state's positions decide where to read, so with a state store every record is counted exactly once
across restarts, and across rebalances as far as the broker confirmed the commit before the partition went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from agent.batch import Batch
from agent.breaker import Breaker
from agent.sources.kafka.client_logs import route_client_logs
from agent.sources.kafka.desk import Desk
from agent.sources.kafka.reader import Reader
from agent.sources.kafka.timing import Timing
from agent.sources.portion import Portion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.intake import Intake
    from agent.report import SourceStatus
    from agent.source_config import KafkaSourceConfig


class KafkaSource:
    """Reads batches of about `size` records, of at most as many messages.

    `owner` is the id of the state that the positions are kept in. UsageError for a secret or a certificate that
    cannot be read. Nothing is connected before the first `seek`.
    """

    def __init__(
        self, config: KafkaSourceConfig, intake: Intake, size: int, owner: str, timing: Timing | None = None
    ) -> None:
        route_client_logs((*config.topics, config.group))
        self._intake = intake
        self._portion = Portion(size)
        self._timing = timing or Timing()
        self._breaker = Breaker(config.breaker) if config.breaker else None
        self._desk = Desk(config.queue_bytes)
        self._reader = Reader(config, self._desk, owner, self._timing)

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go on from these positions; the first call joins the group."""
        self._desk.seek(positions)
        self._reader.start()

    def read(self) -> Batch:
        """The next records. ServiceError once the source is broken for good."""
        taken = self._desk.take(self._portion.messages, self._timing.read)
        if taken.lost or taken.settle:
            return Batch(settle=taken.settle, lost=taken.lost)
        batch = self._intake.batch(taken.messages, taken.positions)
        self._portion.learn(len(taken.messages), batch)
        if self._breaker and (tripped := self._breaker.observe(batch)):
            self._desk.stop("schema_change")
            structlog.get_logger().error(
                "too_many_unusable_records",
                of=tripped.settled,
                unusable=tripped.unusable,
                reasons=tripped.reasons,
                first=tripped.first,
                then="reading has stopped: mend the sender or `format`, then restart the agent",
            )
        return batch

    def commit(self, positions: Mapping[str, int]) -> bool:
        """Have the broker note these positions; whether it has."""
        return self._desk.submit(positions, self._timing.commit + 1.0)

    def drain(self) -> bool:
        """Read no more: Kafka keeps it. True while counts are to be given back that are somebody else's."""
        return self._desk.drain()

    def status(self) -> SourceStatus:
        """How the source is doing."""
        return self._desk.status(stuck=self._reader.watchdog.stuck(self._timing.monotonic()))

    def close(self) -> None:
        """Leave the group, within seconds. Nothing is committed by it."""
        self._reader.stop()
