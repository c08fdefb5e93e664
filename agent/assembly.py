"""Putting an agent together from its configuration."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from agent.annotation.desk import Annotation
from agent.annotation.draw import Drawing
from agent.annotation.place import look_at
from agent.annotation.redaction import redaction_of
from agent.annotation.texts import KeptTexts, NoTexts
from agent.bundle import load_reference
from agent.careful import Careful
from agent.checkpoints import Checkpoints, NoCheckpoints
from agent.decision import Decision
from agent.duplicates import Seen
from agent.estimate_job import EstimateJob
from agent.estimation import Estimator
from agent.inference import open_inference
from agent.intake import Intake
from agent.items import Items
from agent.ledger import Ledger
from agent.loop import Clocks, Listeners, Loop
from agent.memory import Memory
from agent.messages import NoDeadLetters
from agent.no_annotation import NoAnnotation
from agent.no_estimates import NoEstimates
from agent.pairing import Pairing
from agent.panes import DEPTH_EDGES, bucket_counts
from agent.payloads.formats import parts_of
from agent.realised import RealisedDrops
from agent.records import MOST_BYTES, Expected
from agent.report import ModelInfo, SourceShape
from agent.scorer import Scorer
from agent.slices import Slices
from agent.sources.file import FileSource, Timing, fingerprint
from agent.sources.http import HttpSource
from agent.sources.kafka.source import KafkaSource
from agent.state import Beside, Identity, State
from agent.summary import Summary
from agent.watch import Rules
from agent.windows import Windows
from detectors.table import BIASED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event

    from agent.config import RunConfig
    from agent.loop import RecordSource
    from agent.messages import DeadLetters
    from agent.records import Record
    from agent.reference import Reference
    from agent.report import DropEstimate, Report
    from agent.scorer import Scored
    from agent.source_config import PayloadConfig, SourceConfig
    from agent.window_contents import Estimate, Window


@dataclass(frozen=True)
class Agent:
    """A whole agent, ready to run."""

    reference: Reference
    state: State
    source: RecordSource
    score: Callable[[Sequence[Record]], Scored]
    letters: DeadLetters
    checkpoints: Checkpoints | NoCheckpoints
    estimates: EstimateJob | NoEstimates
    estimator_of: Callable[[Reference, int], Estimate]
    clocks: Clocks
    annotation: Annotation | NoAnnotation

    def snapshot(self) -> Report:
        """What there is to say before the first record."""
        beside = Beside(
            self.estimates.latest, self.source.status(), self.checkpoints.upkeep(), self.annotation.told()
        )
        return self.state.report(self.clocks.epoch(), ready=False, beside=beside)

    def change(self, config: RunConfig) -> None:
        """Take up what can change while the agent runs; from the loop's thread."""
        self.state.windows.expect(config.windows.min_items)
        self.state.decision.change(rules_of(config))
        self.annotation.change(config.alerts.precision)
        if isinstance(self.estimates, EstimateJob):
            least = config.windows.min_items
            self.estimates.change(self.estimator_of(self.reference, least), config.estimate.every)
        if config.state is not None:
            self.checkpoints.change(config.state.every)

    def run(self, listeners: Listeners, stop: Event) -> None:
        """Run until `stop` is set or the source has ended."""
        with closing(self.checkpoints), closing(self.letters), closing(self.source), self.estimates as estimates:
            Loop(
                self.source,
                self.score,
                self.state,
                estimates,
                self.letters,
                self.checkpoints,
                listeners,
                stop,
                self.clocks,
                self.annotation,
            ).run()


def estimator_of(reference: Reference, least: int) -> Estimate:
    """What estimates the drop of a window against this reference, given at least so many items."""
    estimator = Estimator(reference, least)

    def estimate(window: Window) -> DropEstimate:
        return estimator.of_window(window.tally, window.sample)

    return estimate


def assemble(
    config: RunConfig,
    stop: Event,
    estimator_of: Callable[[Reference, int], Estimate] = estimator_of,
    letters: DeadLetters | None = None,
) -> Agent:
    """Load the reference and its models, restore the state, open the source. LeadlineError says what is wrong."""
    reference = load_reference(config.reference)
    inference = open_inference(reference, config.reference, config.encoder, config.encoding)
    clocks = Clocks()
    memory = memory_of(config)
    state = _state(config, reference, inference.encoder.provider, memory)
    checkpoints = open_checkpoints(config, reference, clocks)
    checkpoints.restore(state)
    intake = intake_of(config, reference, memory)
    scorer = Scorer(reference, inference)

    def score(records: Sequence[Record]) -> Scored:
        return scorer.score(Items.of_records(records))

    estimates = open_estimates(config, reference, clocks, estimator_of)
    source = open_source(config, intake, checkpoints.id, stop)
    return Agent(
        reference,
        state,
        source,
        Careful(score),
        letters or NoDeadLetters(),
        checkpoints,
        estimates,
        estimator_of,
        clocks,
        open_annotation(config, reference, memory, clocks),
    )


def open_annotation(
    config: RunConfig, reference: Reference, memory: Memory, clocks: Clocks
) -> Annotation | NoAnnotation:
    """Where batches go and labels come back, if that is wanted. UsageError if it cannot be had."""
    if config.annotation is None:
        return NoAnnotation()

    look_at(config.annotation)
    answers = RealisedDrops(reference, config.annotation.path).read
    drawing = Drawing(reference, config.annotation, memory.texts)
    return Annotation(drawing, config.alerts.precision, answers, clocks.epoch)


def texts_of(config: RunConfig) -> KeptTexts | NoTexts:
    """Where texts of sampled items are kept, if that is wanted. UsageError if what redacts them cannot be had."""
    if config.annotation is None or not config.annotation.texts:
        return NoTexts()
    return KeptTexts(config.annotation, redaction_of(config.annotation.redact))


def memory_of(config: RunConfig) -> Memory:
    """An empty memory of the configured size; the errors of `texts_of`."""
    payload = payload_of(config.source)
    pairing, seen = Pairing(payload.wait, payload.waiting), Seen(payload.remember)
    return Memory(Slices(config.slices.max), pairing, seen, texts_of(config))


def payload_of(source: SourceConfig) -> PayloadConfig:
    """What the messages of this source look like."""
    payload: PayloadConfig = getattr(source, source.name)
    return payload


def intake_of(config: RunConfig, reference: Reference, memory: Memory) -> Intake:
    """What makes records of the messages. UsageError if their format is configured wrongly."""
    payload = payload_of(config.source)
    return Intake(
        parts_of(payload, reference.labels),
        expected_of(reference, config),
        memory,
        payload.halves,
        letters=config.dead_letters is not None,
        anew=config.source.file is not None and config.source.file.loop,
    )


def open_source(config: RunConfig, intake: Intake, owner: str, stop: Event) -> RecordSource:
    """The source of this configuration; `owner` is whose commits its positions are."""
    source, size = config.source, config.encoding.batch
    if source.kafka is not None:
        return KafkaSource(source.kafka, intake, size, owner)
    if source.http is not None:
        return HttpSource(source.http, intake, size)
    assert source.file is not None  # noqa: S101 - the configuration holds one of the three
    return FileSource(source.file, intake, size, Timing(wait=stop.wait))


def expected_of(reference: Reference, config: RunConfig) -> Expected:
    """What a record must carry for this reference."""
    given = reference.task.outputs == "table"
    http = config.source.http
    return Expected(
        model=reference.model,
        labels=frozenset(reference.labels),
        logits=len(reference.labels) if given else 0,
        features=reference.task.features if given else 0,
        slice_field=config.slices.field,
        most_bytes=MOST_BYTES if http is None else max(MOST_BYTES, http.most_decompressed),
        tokens=reference.task.labels_tokens,
    )


def _state(config: RunConfig, reference: Reference, provider: str, memory: Memory) -> State:
    names = tuple(reference.detectors)
    info = ModelInfo(reference.model, reference.id, reference.encoder.name, provider)
    return State(
        Summary(reference, int(config.windows.pane)),
        Windows(config.windows, reference.labels, names),
        memory,
        Ledger(config.source.name, names),
        Identity(version("leadline"), info, shape_of(reference)),
        decision_of(config, reference),
    )


def decision_of(config: RunConfig, reference: Reference) -> Decision:
    """What decides by this configuration, with nothing decided yet."""
    detectors = reference.detectors.items()
    rows = [0 if name in BIASED else len(each.validation_scores) for name, each in detectors]
    return Decision(rules_of(config), f"{reference.model}, {reference.id}", rows)


def rules_of(config: RunConfig) -> Rules:
    """When this configuration wants a page."""
    alerts, windows = config.alerts, config.windows
    budget = alerts.false_alarms_per_month / alerts.shared_by
    return Rules(alerts.max_drop, budget, alerts.precision, windows.pane, windows.short, windows.long)


def shape_of(reference: Reference) -> SourceShape:
    """What the source of this reference looks like."""
    depths = reference.source.depths
    counts = bucket_counts(depths[np.newaxis], DEPTH_EDGES, np.zeros(len(depths), np.intp), 1)
    accuracy = reference.source.accuracy.get("test", float("nan"))
    return SourceShape(DEPTH_EDGES, tuple(counts[0, 0].tolist()), accuracy)


def open_checkpoints(config: RunConfig, reference: Reference, clocks: Clocks) -> Checkpoints | NoCheckpoints:
    """The state store of this configuration; the errors of Checkpoints."""
    if config.state is None:
        return NoCheckpoints()
    return Checkpoints(config.state.path, config.state.every, owner_of(config, reference), clocks.epoch)


def owner_of(config: RunConfig, reference: Reference) -> str:
    """What a state is bound to: with another of these, its panes and positions would mean something else."""
    return f"{reference.id}, panes of {config.windows.pane:g} s by {config.slices.field}, from {_origin(config)}"


def _origin(config: RunConfig) -> str:
    source = config.source
    if source.kafka is not None:
        return f"Kafka group {source.kafka.group} of {', '.join(sorted(source.kafka.topics))}"
    return "HTTP" if source.file is None else fingerprint(source.file.path)


def open_estimates(
    config: RunConfig,
    reference: Reference,
    clocks: Clocks,
    estimator_of: Callable[[Reference, int], Estimate] = estimator_of,
) -> EstimateJob | NoEstimates:
    """What estimates the drop of this reference's windows."""
    if not reference.domains:
        return NoEstimates(reference.trust.refusal, clocks.epoch)
    return EstimateJob(estimator_of(reference, config.windows.min_items), config.estimate.every, clocks)
