"""The poison corpus through Kafka and HTTP into the whole agent, good records in between."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafka import KafkaProducer

from agent.assembly import intake_of, memory_of
from agent.config import RunConfig, load_config
from agent.sources.http.inbox import Delivery
from agent.sources.http.split import messages
from tests.agent.payloads.poison import POISON
from tests.cli.workbench import write_config
from tests.reliability.agents import running, wait_until
from tests.reliability.posting import free_port, post, wait_for_intake
from tests.reliability.scale import FINDINGS, chance
from tests.reliability.scrapes import DEAD, DISCARDED, PROCESSED, RECEIVED
from tests.reliability.stage import letters, settings
from tests.reliability.traffic import Traffic, body_of, ends_of, hours_ago

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.batch import Batch
    from agent.messages import Headers, Message
    from tests.reliability.oracle import Oracle
    from tests.reliability.stage import Stage

MEBIBYTE = 1 << 20
# So long that records without a time, which are dated when they arrive, are in the same pane here and there.
WINDOWS = {"pane": "1d", "short": "1d", "long": "1d", "min_items": 20}
HUGE = 100 * MEBIBYTE


def _corpus() -> list[Message]:
    """Every message of the corpus that is meant for the native format; a time that is tomorrow whenever it is."""
    found = []
    for poison in POISON:
        message = poison.message
        if poison.name == "time is tomorrow":
            message = replace(message, body=json.dumps({"text": "ba", "time": time.time() + 86_400}).encode())
        if poison.format == "native":
            found.append(message)
    return found


def _mixed(traffic: Traffic) -> list[Message]:
    """A good record before each message of the corpus and after the last."""
    good = [
        replace(POISON[0].message, body=body_of(traffic.record()), headers=()) for _ in range(len(_corpus()) + 1)
    ]
    return [each for pair in zip(good, _corpus(), strict=False) for each in pair] + good[-1:]


def _expected(oracle: Oracle, config: RunConfig, batches: list[list[Message]]) -> list[Batch]:
    """What the intake makes of these messages, in this process, one after another."""
    intake = intake_of(config, oracle.reference, memory_of(config))
    return [intake.batch(each, {}) for each in batches]


def _counts(batches: list[Batch]) -> tuple[dict[str, float], dict[str, float]]:
    """Discarded and dead-lettered by reason."""
    discarded: Counter[str] = Counter()
    dead: Counter[str] = Counter()
    for batch in batches:
        discarded.update({reason.value: count for reason, count in batch.rejected.items()})
        for letter in batch.letters:
            dead[letter.reason] += letter.items
    return dict(discarded), dict(dead)


def test_poison_through_kafka(stage: Stage) -> None:
    """No crash; each rejection has its reason, good records count, dead letters hold the original bytes."""
    topic = f"{stage.topic}-poison"
    here = stage.on(topic)
    config = here.config(source__kafka__breaker=None, windows=WINDOWS)
    sent = _mixed(Traffic(chance("poison"), hours_ago(0), step=0.01))
    _send(here, sent)
    at = [
        replace(message, origin=f"{topic}:0:{offset}", channel=topic, arrival=time.time())
        for offset, message in enumerate(sent)
    ]
    batches = _expected(stage.oracle, here.loaded(), [[message] for message in at])
    with running(config) as agent:
        here.wait_until_settled()
        last = agent.quiet()
        agent.stop()
    discarded, dead = _counts(batches)
    assert last.by(DISCARDED, "reason") == discarded
    assert last.by(DEAD, "reason") == dead
    assert last.total(PROCESSED) == sum(len(batch.records) for batch in batches)
    assert last.total(RECEIVED) == sum(batch.received for batch in batches)
    bodies = {message.origin: message.body for message in at}
    kept = letters([stage.root / "run.dead.jsonl"])
    assert len(kept) == sum(len(batch.letters) for batch in batches)
    assert all(letter.body == bodies[letter.origin] for letter in kept)
    here.check_panes([record for batch in batches for record in batch.records])
    FINDINGS.say(
        f"poison through Kafka: {len(_corpus())} kinds, {len(dead)} reasons with a letter and {len(discarded)} "
        "without one"
    )


def _send(stage: Stage, sent: list[Message]) -> None:
    with KafkaProducer(bootstrap_servers=stage.broker.bootstrap, max_request_size=8 * MEBIBYTE) as producer:
        for message in sent:
            headers = list(message.headers)
            producer.send(stage.topic, message.body, key=b"key", headers=headers, partition=0).get(timeout=30)
    assert ends_of(stage.broker, stage.topic) == {0: len(sent)}


def _http_headers(headers: Headers) -> dict[str, str] | None:
    """As HTTP spells them; None for what no HTTP client sends."""
    found = {name.replace("ce_", "ce-"): value.decode("latin-1") for name, value in headers}
    return None if any(not name or "\x00" in name for name in found) else found


def test_poison_through_http(tmp_path: Path, oracle: Oracle) -> None:
    """As through Kafka; a body of 100 MB and a bomb of gzip are refused, and cost no memory to speak of."""
    port = free_port()
    source = {"http": {"port": port, "most_bytes": 2 * MEBIBYTE, "most_decompressed": 4 * MEBIBYTE}}
    path = write_config(tmp_path / "run.yaml", settings(oracle, tmp_path, "run", source), {"windows": WINDOWS})
    config = load_config(path, RunConfig)
    sent = [
        message for message in _mixed(Traffic(chance("posted poison"), hours_ago(0), step=0.01)) if message.body
    ]
    posted = [(message, headers) for message in sent if (headers := _http_headers(message.headers)) is not None]
    batches = _expected(oracle, config, [_split(number, *each) for number, each in enumerate(posted, 1)])
    with running(path) as agent:
        wait_for_intake(port)
        before = _resident(agent.process.pid)
        for message, headers in posted:
            assert post(port, message.body or b"", headers) == 200
        huge = {
            "plain": post(port, bytes(HUGE)),
            "chunked": _refused(port, (bytes(MEBIBYTE) for _ in range(HUGE // MEBIBYTE))),
            "bomb": post(port, gzip.compress(bytes(HUGE)), {"Content-Encoding": "gzip"}),
        }
        assert huge == dict.fromkeys(huge, 413)
        good = sum(len(batch.records) for batch in batches)
        wait_until(lambda: agent.metrics.total(PROCESSED) >= good, 60, "everything is counted")
        last, grown = agent.quiet(), _resident(agent.process.pid) - before
        agent.stop()
    discarded, dead = _counts(batches)
    assert last.by(DISCARDED, "reason") == discarded
    assert last.by(DEAD, "reason") == dead
    assert last.total(RECEIVED) == sum(batch.received for batch in batches)
    bodies = {letter.body for letter in letters([tmp_path / "run.dead.jsonl"])}
    assert bodies == {letter.message.body for batch in batches for letter in batch.letters}
    assert grown < HUGE / 2, f"it grew by {grown / MEBIBYTE:.0f} MiB"
    FINDINGS.say(
        f"poison through HTTP: {len(posted)} requests; 100 MB plain, in chunks and as a bomb answered 413, for "
        f"{grown / MEBIBYTE:.0f} MiB of memory"
    )


def _split(number: int, message: Message, headers: dict[str, str]) -> list[Message]:
    """The messages that the intake makes of one request."""
    kept = tuple((name.lower(), value.encode("latin-1")) for name, value in headers.items())
    delivery = Delivery(message.body or b"", "/", kept, time.time(), 0)
    return list(messages(delivery, f"http:here:{number}", native=True))


def _refused(port: int, chunks: Iterator[bytes]) -> int:
    """The status of a request in chunks, which the server may cut short; 413 if it says so by closing."""
    try:
        return post(port, chunks, {"Transfer-Encoding": "chunked"})
    except OSError:
        return 413


def _resident(pid: int) -> int:
    """Bytes of memory at its highest so far."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024
