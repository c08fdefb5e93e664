"""Fixtures that several packages' tests share."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.downloads import cache_directory
from agent.encoder import fetch, files, graph, int8, int8_sentences, minilm, pooling
from agent.errors import ServiceError
from tests.kafka_broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.encoder.fetch import Precision

CONVERTERS = (fetch, files, graph, int8, int8_sentences, minilm, pooling)


@pytest.fixture(scope="session")
def encoder_fp32() -> Path:
    """The directory of all-MiniLM-L6-v2 in fp32."""
    return _fetched("fp32")


@pytest.fixture(scope="session")
def encoder_int8() -> Path:
    """The directory of all-MiniLM-L6-v2 in int8."""
    return _fetched("int8")


@pytest.fixture(scope="session")
def evaluation_texts() -> Path:
    """The directory of the evaluation texts, for tests marked `data`."""
    directory = Path(os.environ.get("LEADLINE_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not directory.is_dir():
        pytest.skip("the evaluation texts are absent: set LEADLINE_DATA to the directory that holds them")
    return directory


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for every test that does not hurt it."""
    yield from _served(Broker(tmp_path_factory.mktemp("kafka")))


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that also listens with SASL and TLS, for every test that does not hurt it."""
    yield from _served(Broker(tmp_path_factory.mktemp("secure-kafka"), secure=True))


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own: it may be killed, paused and started again."""
    yield from _served(Broker(tmp_path / "kafka"))


def _served(broker: Broker) -> Iterator[Broker]:
    """Skips where Java, Maven or the network is missing, or fails where they are required."""
    try:
        broker.start()
    except ServiceError as error:
        if os.environ.get("LEADLINE_REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(f"no Kafka broker: {error}")
    yield broker
    broker.stop()


def _fetched(precision: Precision) -> Path:
    """Kept in the cache for later runs, until a module that makes it changes."""
    sources = b"".join(Path(module.__file__ or "").read_bytes() for module in CONVERTERS)
    key = hashlib.sha256(sources).hexdigest()[:12]
    out = cache_directory() / "tests" / f"all-MiniLM-L6-v2-{precision}-{key}"
    try:
        return fetch.fetch_encoder("all-MiniLM-L6-v2", out, precision=precision, on_step=print)
    except ServiceError as error:
        if os.environ.get("LEADLINE_REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(f"the encoder's weights cannot be downloaded: {error}")
