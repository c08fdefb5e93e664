"""The last step of a fit: detectors, calibration, source facts and reference domains, frozen into a Reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from agent.backtest import with_estimator
from agent.errors import UsageError
from agent.estimation import Counted, comparison_of
from agent.observed import drawn, of_rows
from agent.reference import Calibrated, Domain, Reference, SourceFacts, Trust
from agent.sample import half, single
from agent.scorer import scores_of, tokens_of
from agent.taught import MOST_ROWS, Taught, TaughtRows
from agent.words import Vocabulary
from detectors.calibration import fit_temperature
from detectors.contract import FitError, Source, missing
from detectors.depth import depth_ranks
from detectors.table import DETECTORS, PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from agent.config import FitConfig
    from agent.labelled import Labelled
    from agent.reference import EncoderIdentity, TaskIdentity
    from agent.token_outputs import TokenLogits
    from detectors.comparison import Comparison
    from detectors.contract import Detector, Head, Outputs, Vector

SOURCE = ("train", "validation", "test")


@dataclass(frozen=True)
class Split:
    """A labelled table with the outputs of the encoder and the task model."""

    table: Labelled
    outputs: Outputs

    @property
    def tokens(self) -> TokenLogits:
        """The logits that decide, ragged by row; of a classifier one each."""
        return tokens_of(self.table.items, self.outputs)

    @property
    def quality(self) -> Vector:
        """(n,) how well the task model does on each row, in [0, 1]."""
        return self.table.quality(self.outputs)

    @property
    def taught(self) -> TaughtRows:
        """The rows that the estimator learns from."""
        return TaughtRows.of(self.outputs, self.table.labels, drawn(len(self.table), MOST_ROWS))

    @property
    def accuracy(self) -> float:
        """Mean quality of the rows."""
        return self.table.accuracy(self.outputs)


@dataclass(frozen=True)
class Fitted:
    """What a fit has come to: the source's splits, the reference domains by name, the models' identities."""

    source: Mapping[str, Split]
    domains: Mapping[str, Split]
    head: Head | None
    encoder: EncoderIdentity
    task: TaskIdentity


def freeze(config: FitConfig, fitted: Fitted, on_progress: Callable[[int, int], None]) -> Reference:
    """Fit the detectors on the source, describe the reference domains with them, fit and backtest the estimator.

    Deterministic. `on_progress` is told how much of the backtest is done, and of how much.
    """
    source = Source(fitted.source["train"].outputs, fitted.source["validation"].outputs, fitted.head)
    detectors, unavailable = _fit_detectors(config, source)
    if config.detectors.primary in unavailable:
        reason = unavailable[config.detectors.primary]
        raise UsageError(f"detectors.primary: {config.detectors.primary} is not available: {reason}")
    validation = fitted.source["validation"]
    temperature = fit_temperature(validation.tokens.values, validation.table.labels)
    reference = Reference(
        model=config.model.name,
        labels=config.model.labels,
        task=fitted.task,
        encoder=fitted.encoder,
        preset=config.detectors.preset,
        primary=config.detectors.primary,
        detectors=detectors,
        unavailable=unavailable,
        head=fitted.head,
        temperature=temperature,
        source=_source_facts(fitted.source, detectors["depth"], temperature.value),
        domains=(),
        trust=Trust("the reference is not finished"),
    )
    comparison = comparison_of(reference)
    described = (_domain(reference, comparison, name, split) for name, split in fitted.domains.items())
    home = _domain(reference, comparison, "source", validation).shift
    taught = _taught(fitted)
    return with_estimator(replace(reference, domains=tuple(described), home=home, taught=taught), on_progress)


def _taught(fitted: Fitted) -> Taught | None:
    """What the estimator learns from; None where items have no class."""
    train = fitted.source["train"]
    if train.outputs.logits is None:
        return None
    return Taught(train.taught, {name: split.taught for name, split in fitted.domains.items()})


def _fit_detectors(config: FitConfig, source: Source) -> tuple[dict[str, Calibrated], dict[str, str]]:
    """Every detector that the source can fit, calibrated; and for each other one the reason."""
    detectors: dict[str, Calibrated] = {}
    unavailable: dict[str, str] = {}
    options = {name: dict(values) for name, values in PRESETS[config.detectors.preset].items()}
    options["knn"] = options.get("knn", {}) | {"most_rows": config.detectors.bank}
    whole = " of a whole text" if config.model.task == "tokens" else ""
    for name, kind in DETECTORS.items():
        absent = missing(kind.needs, source.train, source.head)
        if absent:
            unavailable[name] = f"it needs {', '.join(absent)}{whole}, which the model does not give"
            continue
        fit: Callable[..., Detector] = kind.fit
        try:
            detector = fit(source, **options.get(name, {}))
        except FitError as error:
            unavailable[name] = str(error)
            continue
        detectors[name] = Calibrated(detector, np.sort(detector.score(source.validation)))
    return detectors, unavailable


def _source_facts(source: Mapping[str, Split], depth: Calibrated, temperature: float) -> SourceFacts:
    train, test = source["train"], source["test"]
    vocabulary = Vocabulary.of(train.table.items.texts, _stop_words())
    chosen = drawn(len(test.table))
    kept = test.outputs.take(chosen)
    sample: dict[str, NDArray[np.generic]] = {"embedding": half(kept.embedding)}
    if kept.logits is None:
        sample["confidence"] = test.tokens.confidences(temperature)[chosen].astype(np.float32)
        sample["quality"] = test.quality[chosen].astype(np.float32)
    else:
        sample["logits"] = single(kept.logits)
        sample["labels"] = test.table.labels[chosen].astype(np.int64)
    # With a head on the embeddings the features are the embeddings: keeping both would only double the size.
    if kept.features is not None and test.outputs.features is not test.outputs.embedding:
        sample["features"] = half(kept.features)
    return SourceFacts(
        rows={name: len(split.table) for name, split in source.items()},
        accuracy={name: split.accuracy for name, split in source.items()},
        depths=np.sort(depth.detector.score(train.outputs)),
        vocabulary=vocabulary,
        words=vocabulary.count(train.table.items.texts),
        sample=sample,
    )


def _stop_words() -> frozenset[str]:
    """English stop words; the vocabulary keeps them, so that the agent counts as the fit did."""
    # Imported here, because an agent that only runs would pay 90 MB and a second for it.
    from sklearn.feature_extraction.text import (  # noqa: PLC0415 - see above
        ENGLISH_STOP_WORDS,
    )

    words: frozenset[str] = ENGLISH_STOP_WORDS
    return words


def _domain(reference: Reference, comparison: Comparison, name: str, target: Split) -> Domain:
    """A reference domain: the model's quality there, the drop from the source's test rows, the shift metrics."""
    scores, p = scores_of(reference, target.outputs)
    ranks = depth_ranks(scores["depth"], reference.source.depths)
    rows = drawn(len(target.table))
    observed = of_rows(target.outputs.take(rows), target.tokens.confidences(reference.temperature.value)[rows])
    counted = Counted.of_items(reference, p, ranks, target.table.items.texts)
    return Domain(
        name=name,
        n=len(target.table),
        accuracy=target.accuracy,
        drop=reference.source.accuracy["test"] - target.accuracy,
        shift=comparison.metrics(observed) | dict(counted.metrics),
    )
