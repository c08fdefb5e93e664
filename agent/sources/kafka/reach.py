"""For `leadline check`: whether topics can be reached, those that are read and those of dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaAdminClient
from kafka.errors import KafkaError, NoError, UnknownTopicOrPartitionError, for_code

from agent.errors import ServiceError, UsageError
from agent.sources.kafka.client_logs import quiet
from agent.sources.kafka.connection import Clients, client_arguments
from agent.sources.kafka.trouble import trouble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.source_config import ConnectionConfig

PATIENCE = 5.0
# Who asks, and the keys under which its connection and its topics stand in the configuration.
KEYS = {
    "source.kafka": ("source.kafka", "source.kafka.topics"),
    "dead_letters": ("dead_letters.connection", "dead_letters.topic"),
}


def reach(connection: ConnectionConfig, topics: Sequence[str], where: str, patience: float = PATIENCE) -> str:
    """What was found, for a person; `where` is the part of the configuration that asks, one of `KEYS`.

    UsageError for a topic that is not there, ServiceError if nobody tells.
    """
    connection_key, topics_key = KEYS[where]
    clients = Clients()
    wait = int(patience * 1000)
    arguments = client_arguments(connection, connection_key)
    with quiet():
        try:
            admin = KafkaAdminClient(
                **arguments, kafka_client=clients, request_timeout_ms=wait, bootstrap_timeout_ms=wait
            )
            with admin:
                found = admin.describe_topics(list(topics))
        except KafkaError as error:
            raise ServiceError(f"{where}: {', '.join(connection.servers)}: {trouble(error)}") from error
        finally:
            clients.close()
    for topic in found:
        _check(f"{topics_key}: {topic['name']}", for_code(topic["error_code"]))
    counts = {topic["name"]: len(topic["partitions"]) for topic in found}
    return ", ".join(
        f"{name}: {count} {'partition' if count == 1 else 'partitions'}" for name, count in counts.items()
    )


def _check(what: str, error: type[KafkaError]) -> None:
    if error is UnknownTopicOrPartitionError:
        raise UsageError(f"{what}: no such topic, or this user may not see it")
    if error is not NoError:
        raise ServiceError(f"{what}: {trouble(error())}")
