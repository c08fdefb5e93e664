"""The configuration of sources: where records come from, what they look like, where unusable ones go."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from agent.strict import Duration, Strict

FormatName = Literal["native", "kserve", "open-inference", "huggingface", "seldon", "bentoml", "mapping"]


class PayloadConfig(Strict):
    """What the messages look like, and how a request finds its response."""

    format: FormatName = "native"
    mapping: dict[str, str] | None = Field(
        None, description="mapping only: for each native field the JSON path of its value in the message."
    )
    halves: Literal["pair", "requests", "responses"] = Field(
        "pair",
        description="pair: a request waits for its response; requests, responses: that half alone is used.",
    )
    wait: Duration = Field(60.0, le=3600, description="How long one half waits for the other.")
    waiting: int = Field(
        10_000, ge=1, le=1_000_000, description="Most halves that wait; beyond it, the oldest go."
    )
    remember: int = Field(
        100_000, ge=0, le=10_000_000, description="Ids remembered to tell a second delivery; 0 counts each one."
    )

    @model_validator(mode="after")
    def _mapped(self) -> Self:
        if (self.format == "mapping") != (self.mapping is not None):
            raise ValueError("`mapping` goes with `format: mapping`, and only with it")
        return self


class FileSourceConfig(PayloadConfig):
    """Records from a table, JSON Lines, or standard input (`-`)."""

    path: Path
    remember: int = Field(
        0, ge=0, le=10_000_000, description="As for the others; in a file no row is a second one."
    )
    rate: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Records a second; without it, as fast as they are scored."
    )
    loop: bool = Field(default=False, description="Start again at the end; record times are then arrival times.")


class TlsConfig(Strict):
    """Certificates, as PEM files. `ca` verifies the other side."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    key_password_file: Path | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` go together")
        return self


class SaslConfig(Strict):
    """How the agent says who it is. Secrets come from files, never from this one."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    username: str | None = None
    password_file: Path | None = None
    token_file: Path | None = Field(None, description="OAUTHBEARER: read anew for each connection.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        bearer = self.mechanism == "OAUTHBEARER"
        if bearer != (self.token_file is not None):
            raise ValueError("`token_file` goes with `mechanism: OAUTHBEARER`, and only with it")
        if not bearer and (self.username is None or self.password_file is None):
            raise ValueError(f"`mechanism: {self.mechanism}` needs `username` and `password_file`")
        return self


class ConnectionConfig(Strict):
    """Which Kafka cluster, and how to be let in."""

    servers: tuple[str, ...] = Field(min_length=1, description="host:port of some of the brokers.")
    tls: TlsConfig | None = None
    sasl: SaslConfig | None = None


class BreakerConfig(Strict):
    """When so many records cannot be used that the sender must have changed its format: reading stops."""

    ratio: float = Field(0.5, gt=0, le=1, description="Share of unusable records at which reading stops.")
    least: int = Field(100, ge=1, le=100_000, description="Of the last so many records.")


class KafkaSourceConfig(PayloadConfig, ConnectionConfig):
    """Records from the topics of a Kafka cluster, as a member of a consumer group."""

    topics: tuple[str, ...] = Field(min_length=1)
    group: str = Field("leadline", min_length=1)
    member: str | None = Field(None, description="Static membership: a name of its own for each replica.")
    start: Literal["earliest", "latest"] = Field("latest", description="Where a group without offsets starts.")
    out_of_range: Literal["earliest", "latest", "stop"] = Field(
        "earliest", description="Where to go on if what comes next is no longer in the topic, or the topic is new."
    )
    queue_bytes: int = Field(64 << 20, ge=1 << 16, description="Read ahead so much, then pause.")
    session: Duration = Field(45.0, ge=6, le=1800, description="Silent for so long, a member is out of its group.")
    stuck: Duration = Field(300.0, ge=1, description="Records waiting and none read for so long: /livez fails.")
    breaker: BreakerConfig | None = BreakerConfig()


class ForwardConfig(Strict):
    """A second receiver of the events, for the one logger slot that KServe has."""

    url: str = Field(pattern=r"^https?://")
    tls: TlsConfig | None = Field(None, description="https only: by default the system's authorities are trusted.")
    queue_bytes: int = Field(16 << 20, ge=1 << 16, description="Beyond it the oldest events are dropped, counted.")
    timeout: Duration = Field(5.0, le=60, description="How long the receiver may be silent.")

    @model_validator(mode="after")
    def _without_secrets(self) -> Self:
        # Any `@`, because a password may hold the letters that end a host. A check of the whole, because that of
        # the URL alone would show it.
        if "@" in self.url:
            raise ValueError(
                "no user or password goes into `url`: secrets never go into this file. A receiver that must know "
                "the agent is shown a certificate (`tls`); an @ in its path is written %40"
            )
        return self


class HttpSourceConfig(PayloadConfig):
    """Records that are posted to the agent, as CloudEvents or bare."""

    host: str = "127.0.0.1"
    port: int = Field(9109, ge=0, le=65535)
    token_file: Path | None = Field(
        None,
        description="The bearer tokens of which senders must show one, one a line; read again when it changes.",
    )
    tls: TlsConfig | None = Field(None, description="With `ca`, senders must show a certificate too.")
    most_bytes: int = Field(1 << 20, ge=1024, le=1 << 30, description="Largest body as sent.")
    most_decompressed: int = Field(4 << 20, ge=1024, le=1 << 30, description="Largest body unpacked.")
    queue_bytes: int = Field(64 << 20, ge=1 << 16, description="Beyond it senders are answered 503.")
    concurrency: int = Field(64, ge=1, le=10_000, description="Requests at once; further ones are answered 429.")
    timeout: Duration = Field(10.0, description="How long a request may take to arrive.")
    drain: Duration = Field(
        20.0,
        le=3600,
        description="How long what was answered 200 may still be scored once the agent is told to stop. Keep it "
        "under Kubernetes' terminationGracePeriodSeconds, 30 s by default.",
    )
    forward: ForwardConfig | None = None

    @model_validator(mode="after")
    def _roomy(self) -> Self:
        # The largest request may be held as sent, to be passed on, and unpacked; beside a little of its own.
        if self.queue_bytes < self.most_bytes + max(self.most_bytes, self.most_decompressed) + (1 << 12):
            raise ValueError("queue_bytes must hold the largest request: raise it, or lower `most_bytes`")
        return self


class SourceConfig(Strict):
    """Exactly one source."""

    file: FileSourceConfig | None = None
    kafka: KafkaSourceConfig | None = None
    http: HttpSourceConfig | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if [self.file, self.kafka, self.http].count(None) != len(type(self).model_fields) - 1:
            raise ValueError("name exactly one of `file`, `kafka` and `http`")
        return self

    @property
    def name(self) -> str:
        """Which one it is."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)


class DeadLettersConfig(Strict):
    """Where messages go of which nothing can be made: a file, or a topic of the source's or another cluster."""

    file: Path | None = None
    topic: str | None = None
    connection: ConnectionConfig | None = Field(None, description="topic only: by default the source's.")
    most_bytes: int = Field(1 << 30, ge=1 << 16, description="file only: larger, it is moved aside, once.")
    timeout: Duration = Field(30.0, description="Not kept within so long, the agent ends rather than lose one.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.file is None) == (self.topic is None):
            raise ValueError("name exactly one of `file` and `topic`")
        if self.connection is not None and self.topic is None:
            raise ValueError("`connection` goes with `topic`")
        return self
