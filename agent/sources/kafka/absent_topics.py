"""Says that a topic is not there, and that it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


class AbsentTopics:
    """Remembers what it has said, and says each thing once."""

    def __init__(self) -> None:
        self._absent: AbstractSet[str] = frozenset()

    def tell(self, absent: AbstractSet[str]) -> None:
        """These, of the configured topics, are not in the cluster."""
        log = structlog.get_logger()
        for topic in sorted(absent - self._absent):
            log.warning("kafka_topic_missing", topic=topic, then="waiting for it: create it, or mend `topics`")
        for topic in sorted(self._absent - absent):
            log.info("kafka_topic_found", topic=topic)
        self._absent = frozenset(absent)
