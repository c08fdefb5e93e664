"""What it costs to take records in: everything but encoding and scoring, from Kafka and over HTTP.

    python benchmarks/intake.py --write             about twenty minutes on two quiet cores
    python benchmarks/intake.py --part kafka        one table only: kafka, http, decoding or memory
    python benchmarks/intake.py --part memory --records 200000

A whole agent with its loop, state store and source, real traffic from a process of its own, and scores that were
made before from real texts. CPU time, not wall-clock: on a shared machine it holds better. Needs Java and Maven.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from agent_process import benchmark_reference, memory
from intake_loop import AT_ONCE, STEPS, Bench, Cost, cost
from intake_traffic import LINES, SENDERS, SPACING, Traffic, as_read, sending
from workbench import encoder_directory, machine, markdown, publish_sections, say

from agent.assembly import expected_of, intake_of, memory_of, payload_of
from agent.bundle import load_reference
from agent.config import RunConfig
from agent.demo_texts import write_demo_tables
from agent.encoder import Encoder
from agent.payloads.contract import Payload
from agent.payloads.envelope import opened
from agent.payloads.formats import parts_of
from agent.records import from_fields
from agent.sources.http import HttpSource
from tests.kafka_broker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent.payloads.contract import Part

TITLES = {
    "kafka": "From Kafka",
    "http": "Over HTTP",
    "decoding": "From messages to records",
    "memory": "Memory",
}
SLICES = {"1 slice": 1, "4 slices": 4, "20 slices": 20}
TURNS = 3
RECORDS = 100_000
DECODED = 20_000
SAMPLED = 100_000  # records between two looks at the memory
LONG_RUN = 5_000_000
LONG_WINDOW = 6.0  # hours, as the default
GOAL = 30.0  # µs a record
TOPIC = "traffic"


def main() -> None:
    """Measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=TITLES, action="append", help="only this table; may be repeated")
    parser.add_argument("--records", type=int, default=LONG_RUN, help="of the run in which memory is looked at")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/intake.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = prepared(Path(scratch))
        tables: dict[str, Callable[[], str]] = {
            "kafka": lambda: kafka(bench),
            "http": lambda: http(bench),
            "decoding": lambda: decoding(bench),
            "memory": lambda: resident(bench, options.records),
        }
        sections = {TITLES[part]: tables[part]() for part in options.part or TITLES}
    measured = f"Measured on: {machine()}.\n\n"
    described = {title: measured + body for title, body in sections.items()}
    introduction = INTRODUCTION.format(spacing=1000 * SPACING.total_seconds(), turns=TURNS, goal=GOAL)
    publish_sections("intake", introduction, described, write=options.write)


def prepared(directory: Path) -> Bench:
    """Real texts, and a reference with nine detectors fitted on some of them."""
    say("preparing: texts, an encoder, a reference; about half a minute")
    tables = write_demo_tables(directory / "tables")
    path = encoder_directory("int8")
    benchmark_reference(tables, Encoder.load(path, device="cpu"), path, directory / "reference")
    lines = tables.stream.read_text(encoding="utf-8").splitlines()
    return Bench(directory, [json.loads(line)["text"] for line in lines])


def kafka(bench: Bench) -> str:
    """By step, from a broker that has all of it already."""
    cases = {f"native, {name}": Traffic("native", RECORDS, count) for name, count in SLICES.items()}
    cases["KServe"] = Traffic("kserve", RECORDS, 1)
    with Broker(bench.directory / "kafka") as broker:
        for number, traffic in enumerate(cases.values()):
            say(f"producing {traffic.records:,} records")
            broker.create_topic(topic(number))
            with sending(replace(traffic, to=broker.bootstrap, topic=topic(number)), bench.texts, bench.directory):
                pass
        turns = [
            {
                name: from_kafka(bench, broker, traffic, topic(number), f"group-{turn}")
                for number, (name, traffic) in enumerate(cases.items())
            }
            for turn in range(TURNS)
        ]
    return KAFKA.format(records=RECORDS) + by_step(turns)


def topic(number: int) -> str:
    """A topic for each kind of traffic."""
    return f"{TOPIC}-{number}"


def from_kafka(bench: Bench, broker: Broker, traffic: Traffic, name: str, group: str) -> Cost:
    """One run over a whole topic."""
    stop = Event()
    agent = bench.agent(kafka_source(broker, name, group, traffic.payload), stop)
    return cost(bench, agent, traffic.records, stop)


def kafka_source(broker: Broker, name: str, group: str, form: str) -> dict[str, object]:
    """A source that reads the topic from its start."""
    return {
        "kafka": {
            "servers": [broker.bootstrap],
            "topics": [name],
            "group": group,
            "start": "earliest",
            "format": form,
        }
    }


def http(bench: Bench) -> str:
    """By step, as it is posted."""
    cases = {
        f"{LINES} lines, {name}": Traffic("native", RECORDS, count, lines=LINES) for name, count in SLICES.items()
    }
    cases |= {
        "one event": Traffic("native-events", RECORDS // 5, 1),
        "one KServe event": Traffic("kserve", RECORDS // 10, 1),
    }
    turns = [{name: over_http(bench, traffic) for name, traffic in cases.items()} for _ in range(TURNS)]
    return HTTP.format(senders=SENDERS, lines=LINES) + by_step(turns)


def over_http(bench: Bench, traffic: Traffic) -> Cost:
    """One run, with senders that start with it."""
    stop = Event()
    agent = bench.agent({"http": {"port": 0, "format": traffic.payload}}, stop)
    assert isinstance(agent.source, HttpSource)  # noqa: S101 - as configured
    to = f"{agent.source.address.host}:{agent.source.address.port}"
    with sending(replace(traffic, to=to), bench.texts, bench.directory):
        return cost(bench, agent, traffic.records, stop)


def by_step(turns: Sequence[Mapping[str, Cost]]) -> str:
    """The cheapest run of each case, and which of them reach the goal."""
    costs = {name: min((turn[name] for turn in turns), key=lambda found: found.total) for name in turns[0]}
    rows = [(step, *(f"{each.steps[step]:.1f}" for each in costs.values())) for step in STEPS]
    rows.append(("**together**", *(f"**{each.total:.1f}**" for each in costs.values())))
    rows.append(("records a second", *(f"{each.rate:,.0f}" for each in costs.values())))
    reached = [name for name, each in costs.items() if each.total < GOAL]
    verdict = f"Under {GOAL:.0f} µs together: {'; '.join(reached) or 'none of them'}.\n"
    return "\n".join([markdown(("CPU time, µs a record", *costs), rows), verdict])


def decoding(bench: Bench) -> str:
    """What it takes to make records of messages, step by step over many of them."""
    found = {form: decoding_times(bench, Traffic(form, DECODED, 1)) for form in ("native", "kserve")}
    rows = [(step, *(f"{each[step]:.1f}" for each in found.values())) for step in found["native"]]
    return DECODING.format(records=DECODED) + markdown(("CPU time, µs a record", "native", "KServe"), rows)


def decoding_times(bench: Bench, traffic: Traffic) -> dict[str, float]:
    """The best of some turns; what no step of its own accounts for is the rest."""
    config = RunConfig.model_validate(
        {
            "reference": str(bench.directory / "reference"),
            "source": {"kafka": {"servers": ["broker:9092"], "topics": [TOPIC], "format": traffic.payload}},
        }
    )
    reference = load_reference(config.reference)
    expected, parts = expected_of(reference, config), parts_of(payload_of(config.source), reference.labels)
    messages = as_read(traffic, bench.texts, time.time())
    found = [payload for message in messages for payload in opened(message)]
    payloads = [payload for payload in found if isinstance(payload, Payload)]
    fields = fields_of([part for payload in payloads for part in parts(payload, messages[0])])
    arrival = messages[0].arrival
    events = [f"{each['id']} {half}" for half in range(len(messages) // len(fields)) for each in fields]

    def whole() -> None:
        intake = intake_of(config, reference, memory_of(config))
        for start in range(0, len(messages), AT_ONCE):
            intake.batch(messages[start : start + AT_ONCE], {})

    def remembered() -> None:
        seen = memory_of(config).seen
        for name in events:
            seen.add(name)

    steps: dict[str, Callable[[], object]] = {
        "envelope and JSON": lambda: [opened(message) for message in messages],
        "format": lambda: [parts(payload, messages[0]) for payload in payloads],
        "checked fields": lambda: [from_fields(each, expected, "", arrival) for each in fields],
        "second deliveries": remembered,
    }
    best = {name: 1e6 * each / traffic.records for name, each in cpu_of({**steps, ALL: whole}).items()}
    rest = best[ALL] - sum(best[name] for name in steps)
    return {name: best[name] for name in steps} | {"pairs, batches and counts": rest, ALL: best[ALL]}


ALL = "together"


def cpu_of(tasks: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The least CPU seconds of each task, taken in turns."""
    turns: list[dict[str, float]] = []
    for _ in range(2 * TURNS):
        turn = {}
        for name, task in tasks.items():
            started = time.thread_time()
            task()
            turn[name] = time.thread_time() - started
        turns.append(turn)
    return {name: min(turn[name] for turn in turns) for name in tasks}


def fields_of(parts: Sequence[Part]) -> list[dict[str, object]]:
    """The fields of each record, its halves joined."""
    if parts[0].key is None:
        return [part.fields for part in parts]
    return [request.fields | response.fields for request, response in zip(parts[::2], parts[1::2], strict=True)]


def resident(bench: Bench, records: int) -> str:
    """Resident memory over a long run from Kafka, produced meanwhile."""
    say(f"{records:,} records from Kafka, looking at the memory; at 20,000 a second {records / 1.2e6:.0f} minutes")
    looks: list[tuple[int, float]] = []

    def seen(number: int) -> None:
        if number >= len(looks) * SAMPLED:
            looks.append((number, memory(os.getpid(), "VmRSS")))
            say(f"  {number:,} records: {looks[-1][1]:.0f} MB")

    stop, traffic = Event(), Traffic("native", records, 4)
    with Broker(bench.directory / "kafka-long") as broker:
        broker.create_topic(TOPIC)
        agent = bench.agent(kafka_source(broker, TOPIC, "memory", "native"), stop)
        with sending(replace(traffic, to=broker.bootstrap, topic=TOPIC), bench.texts, bench.directory):
            found = cost(bench, agent, records, stop, seen)
    looks.append((records, memory(os.getpid(), "VmRSS")))
    return memory_page(looks, found)


def memory_page(looks: Sequence[tuple[int, float]], found: Cost) -> str:
    """After every tenth of the run, and how far apart all looks of its second half are."""
    tenths = [looks[round((len(looks) - 1) * tenth / 10)] for tenth in range(11)]
    later = [mb for _, mb in looks[len(looks) // 2 :]]
    hours = looks[-1][0] * SPACING.total_seconds() / 3600
    table = markdown(("records", "resident, MB"), [(f"{number:,}", f"{mb:.0f}") for number, mb in tenths])
    return MEMORY.format(
        records=looks[-1][0],
        sampled=SAMPLED,
        table=table,
        low=min(later),
        high=max(later),
        looks=len(later),
        hours=hours,
        windows=hours / LONG_WINDOW,
        rate=found.rate,
        total=found.total,
    )


INTRODUCTION = """\
# What it costs to take records in

Written by `python benchmarks/intake.py --write`, section by section where `--part` is given.

A whole agent: its own loop, source, payload format, nine detectors' worth of panes, state store with a
checkpoint every 10 s. Only encoding and scoring are replaced, by rows that were scored before, and are not
counted. The texts are real; there is one record every {spacing:.0f} ms of event time. Senders, and the broker,
are processes of their own. Each run ends only if every record was counted, once.

CPU time of the agent's process, in the cheapest of {turns} runs; on another machine the figures differ. The
records a second are those of the clock on the wall in that run, in which senders, the broker and whatever else
ran shared the same cores. Python runs one thread at a time, so the time together bounds what one agent can take
in: 30 µs are 33,000 records a second, which is hundreds of times what it encodes on such a machine. **The goal
is less than {goal:.0f} µs a record together.**
"""

KAFKA = """\
Apache Kafka in KRaft mode, one partition, {records:,} records that are there before the agent starts. KServe's
are CloudEvents as its logger sends them, in binary mode: a request and a response, so two messages a record,
each with nine headers. They name no slice. What other threads take to receive is kafka-python, which decodes in
Python, and the garbage collector, which looks through what waits in the queue.

"""

HTTP = """\
{senders} connections that are kept open, each with one request at a time. {lines} native records a request as
lines; or one native record a request as a CloudEvent in binary mode; or KServe's two events a record. What one
event a request costs is HTTP itself, and batches of one or two records: such senders should batch where they
can.

"""

DECODING = """\
The line *messages to records* again, by step, each over {records:,} records at once.

"""

MEMORY = """\
{records:,} native records in four slices from Kafka, {hours:.1f} h of event time: {windows:.1f} times the long
window, so that panes come and go. Produced while they are read; {rate:,.0f} records a second by the clock on the
wall, {total:.1f} µs of CPU time a record. Looked at every {sampled:,} records; the {looks} looks of the second
half lie between {low:.0f} and {high:.0f} MB. The encoder, which is loaded and idle, and the rows scored before
are part of it.

{table}"""


if __name__ == "__main__":
    main()
