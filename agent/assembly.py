"""Putting an agent together from its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from agent.bundle import load_reference
from agent.checkpoints import Checkpoints, NoCheckpoints
from agent.estimate_job import EstimateJob
from agent.estimation import Estimator
from agent.inference import open_inference
from agent.items import Items
from agent.ledger import Ledger
from agent.loop import Clocks, Listeners, run
from agent.no_estimates import NoEstimates
from agent.records import Expected
from agent.report import ModelInfo
from agent.scorer import Scorer
from agent.slices import Slices
from agent.sources.file import FileSource, Timing, fingerprint
from agent.state import Identity, State
from agent.summary import Summary
from agent.windows import Windows

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from agent.config import RunConfig
    from agent.loop import RecordSource
    from agent.records import Batch
    from agent.reference import Reference
    from agent.report import DropEstimate, Report
    from agent.scorer import Scored
    from agent.window_contents import Estimate, Window


@dataclass(frozen=True)
class Agent:
    """A whole agent, ready to run."""

    reference: Reference
    state: State
    source: RecordSource
    score: Callable[[Batch], Scored]
    checkpoints: Checkpoints | NoCheckpoints
    estimates: EstimateJob | NoEstimates
    clocks: Clocks

    def snapshot(self) -> Report:
        """What there is to say before the first record."""
        return self.state.report(self.clocks.epoch(), ready=False, estimation=self.estimates.latest)

    def run(self, listeners: Listeners, stop: Event) -> None:
        """Run until `stop` is set or the source has ended."""
        with self.estimates as estimates:
            run(self.source, self.score, self.state, estimates, listeners, self.checkpoints, stop, self.clocks)


def estimator_of(reference: Reference, least: int) -> Estimate:
    """What estimates the drop of a window against this reference, given at least so many items."""
    estimator = Estimator(reference, least)

    def estimate(window: Window) -> DropEstimate:
        return estimator.of_window(window.tally, window.sample)

    return estimate


def assemble(
    config: RunConfig, stop: Event, estimator_of: Callable[[Reference, int], Estimate] = estimator_of
) -> Agent:
    """Load the reference and its models, restore the state, open the source. LeadlineError says what is wrong."""
    reference = load_reference(config.reference)
    inference = open_inference(reference, config.reference, config.encoder, config.encoding)
    clocks = Clocks()
    state = _state(config, reference, inference.encoder.provider)
    source = FileSource(
        config.source.file, expected_of(reference, config), config.encoding.batch, Timing(wait=stop.wait)
    )
    checkpoints = open_checkpoints(config, reference, clocks)
    if isinstance(checkpoints, Checkpoints):
        checkpoints.restore(state)
    scorer = Scorer(reference, inference)

    def score(batch: Batch) -> Scored:
        return scorer.score(Items.of_records(batch.records))

    estimates = open_estimates(config, reference, clocks, estimator_of)
    return Agent(reference, state, source, score, checkpoints, estimates, clocks)


def expected_of(reference: Reference, config: RunConfig) -> Expected:
    """What a record must carry for this reference."""
    given = reference.task.outputs == "table"
    return Expected(
        model=reference.model,
        labels=frozenset(reference.labels),
        logits=len(reference.labels) if given else 0,
        features=reference.task.features if given else 0,
        slice_field=config.slices.field,
        tokens=reference.task.labels_tokens,
    )


def _state(config: RunConfig, reference: Reference, provider: str) -> State:
    names = tuple(reference.detectors)
    info = ModelInfo(reference.model, reference.id, reference.encoder.name, provider)
    return State(
        Summary(reference, int(config.windows.pane)),
        Windows(config.windows, reference.labels, names),
        Slices(config.slices.max),
        Ledger("file", names),
        Identity(version("leadline"), info),
    )


def open_checkpoints(config: RunConfig, reference: Reference, clocks: Clocks) -> Checkpoints | NoCheckpoints:
    """The state store of this configuration; the errors of Checkpoints."""
    if config.state is None:
        return NoCheckpoints()
    source = fingerprint(config.source.file.path)
    owner = f"{reference.id}, panes of {config.windows.pane:g} s by {config.slices.field}, from {source}"
    return Checkpoints(config.state.path, config.state.every, owner, clocks.epoch)


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
