"""What happens when the group hands partitions around.

kafka-python calls this on its own I/O loop, while the reading thread waits in `poll`. Nothing may be raised to it:
it would go on as if nothing had happened, and deliver records. A blocking call would stop the heartbeats.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import structlog
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import KafkaError

from agent.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agent.sources.kafka.desk import Commit, Desk
    from agent.sources.kafka.timing import Timing

# How often the listener looks whether the loop has settled.
GLANCE = 0.02


class Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is not typed
    """Settles before partitions are given up, and discards where they are gone already.

    With an eager assignor every rebalance revokes everything first. The cooperative one keeps partitions through
    it, and kafka-python 3.0 does not say that they are lost if the member is thrown out while it rejoins: records
    would be counted twice.
    """

    def __init__(self, consumer: Any, desk: Desk, timing: Timing, offsets: Callable[[Commit], Any]) -> None:  # noqa: ANN401
        self._consumer = consumer
        self._desk = desk
        self._timing = timing
        self._offsets = offsets

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Read nothing of them until the reading thread has placed them."""
        try:
            for partition in assigned:
                # Without a position kafka-python looks for one of its own.
                self._consumer.seek(partition, 0)
                self._consumer.pause(partition)
            self._desk.assign((partition.topic, partition.partition) for partition in assigned)
        except Exception as error:  # noqa: BLE001 - see the top
            self._fail("assigned", error)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Wait for the loop's checkpoint and commit it; without it the partitions count as lost."""
        del revoked  # everything: the assignor is eager
        try:
            # A poll may end before the group has rejoined. If it was new partitions that made us rejoin,
            # kafka-python 3.0.12 then forgets that it was about to, and sends no heartbeats any more: remind it.
            self._consumer._coordinator.request_rejoin()  # noqa: SLF001
            self._desk.begin_settling()
            until = time.monotonic() + self._timing.grace
            while not self._desk.settled and time.monotonic() < until:
                commit = self._desk.next_commit()
                if commit:
                    taken = await self._commit(commit)
                    self._desk.answer(commit, given=taken)
                    if not taken:
                        break
                await self._consumer._net.sleep(GLANCE)  # noqa: SLF001 - the only way to wait on its loop
            self._desk.release()
        except Exception as error:  # noqa: BLE001
            self._fail("revoked", error)

    async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        """Somebody else reads them by now."""
        try:
            structlog.get_logger().warning("kafka_partitions_lost", partitions=len(list(lost)))
            self._desk.lose()
        except Exception as error:  # noqa: BLE001
            self._fail("lost", error)

    async def _commit(self, commit: Commit) -> bool:
        try:
            # What the blocking `commit` runs on this very loop.
            await self._consumer._coordinator._commit_offsets_sync_async(  # noqa: SLF001
                self._offsets(commit), timeout_ms=self._timing.commit * 1000
            )
        except KafkaError as error:
            structlog.get_logger().warning("kafka_commit_failed", error=type(error).__name__, revoked=True)
            return False
        return True

    def _fail(self, step: str, error: Exception) -> None:
        structlog.get_logger().error("kafka_rebalance_failed", step=step, error=type(error).__name__)
        self._desk.fail(
            ServiceError(f"source.kafka: partitions could not be handed over ({step}: {type(error).__name__})")
        )
