"""The last step of a fit: detectors, calibration, source facts and reference domains, frozen into a Reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from agent.errors import UsageError
from agent.reference import Calibrated, Domain, Reference, SourceFacts
from agent.scorer import prediction, scores_of
from agent.words import Vocabulary
from detectors.calibration import OOD_P_VALUE, fit_temperature
from detectors.contract import FitError, Source, logits_of, missing
from detectors.depth import depth_ranks
from detectors.divergence import js_divergence
from detectors.table import DETECTORS, PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from agent.config import DetectorsConfig, FitConfig
    from agent.labelled import Labelled
    from agent.reference import EncoderIdentity, TaskIdentity
    from detectors.contract import Detector, Head, Outputs

SOURCE = ("train", "validation", "test")
# Held-out source rows kept for the estimates that train classifiers.
SAMPLE_ROWS = 2_000


@dataclass(frozen=True)
class Split:
    """A labelled table with the outputs of the encoder and the task model."""

    table: Labelled
    outputs: Outputs

    @property
    def accuracy(self) -> float:
        """Share of rows the task model gets right."""
        return self.table.accuracy(self.outputs)


@dataclass(frozen=True)
class Fitted:
    """What a fit has come to: the source's splits, the reference domains by name, the models' identities."""

    source: Mapping[str, Split]
    domains: Mapping[str, Split]
    head: Head | None
    encoder: EncoderIdentity
    task: TaskIdentity


def freeze(config: FitConfig, fitted: Fitted) -> Reference:
    """Fit the detectors on the source and describe the reference domains with them. Deterministic."""
    source = Source(fitted.source["train"].outputs, fitted.source["validation"].outputs, fitted.head)
    detectors, unavailable = _fit_detectors(config.detectors, source)
    if config.detectors.primary in unavailable:
        reason = unavailable[config.detectors.primary]
        raise UsageError(f"detectors.primary: {config.detectors.primary} is not available: {reason}")
    validation = fitted.source["validation"]
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
        temperature=fit_temperature(logits_of(validation.outputs), validation.table.labels),
        source=_source_facts(fitted.source, detectors["depth"]),
        domains=(),
    )
    test = fitted.source["test"]
    domains = (_domain(reference, test, name, split) for name, split in fitted.domains.items())
    return replace(reference, domains=tuple(domains))


def _fit_detectors(config: DetectorsConfig, source: Source) -> tuple[dict[str, Calibrated], dict[str, str]]:
    """Every detector that the source can fit, calibrated; and for each other one the reason."""
    detectors: dict[str, Calibrated] = {}
    unavailable: dict[str, str] = {}
    options = {name: dict(values) for name, values in PRESETS[config.preset].items()}
    options["knn"] = options.get("knn", {}) | {"most_rows": config.bank}
    for name, kind in DETECTORS.items():
        absent = missing(kind.needs, source.train, source.head)
        if absent:
            unavailable[name] = f"it needs {', '.join(absent)}, which the model does not give"
            continue
        fit: Callable[..., Detector] = kind.fit
        try:
            detector = fit(source, **options.get(name, {}))
        except FitError as error:
            unavailable[name] = str(error)
            continue
        detectors[name] = Calibrated(detector, np.sort(detector.score(source.validation)))
    return detectors, unavailable


def _source_facts(source: Mapping[str, Split], depth: Calibrated) -> SourceFacts:
    train, test = source["train"], source["test"]
    vocabulary = Vocabulary.of(train.table.items.texts, _stop_words())
    chosen = np.sort(np.random.default_rng(0).permutation(len(test.table))[:SAMPLE_ROWS])
    kept = test.outputs.take(chosen)
    sample: dict[str, NDArray[np.generic]] = {
        "embedding": kept.embedding.astype(np.float16),
        "logits": logits_of(kept).astype(np.float32),
        "labels": test.table.labels[chosen].astype(np.int64),
    }
    # With a head on the embeddings the features are the embeddings: keeping both would only double the size.
    if kept.features is not None and test.outputs.features is not test.outputs.embedding:
        sample["features"] = kept.features.astype(np.float16)
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
    from sklearn.feature_extraction.text import (  # type: ignore[import-untyped] # noqa: PLC0415 - ships no types; see above
        ENGLISH_STOP_WORDS,
    )

    words: frozenset[str] = ENGLISH_STOP_WORDS
    return words


def _domain(reference: Reference, test: Split, name: str, target: Split) -> Domain:
    """A reference domain: the model's accuracy there, the drop from the source's test rows, the shift metrics."""
    return Domain(
        name=name,
        n=len(target.table),
        accuracy=target.accuracy,
        drop=test.accuracy - target.accuracy,
        shift=_shift(reference, test, target),
    )


def _shift(reference: Reference, test: Split, target: Split) -> dict[str, float]:
    """CONF, CONF_CALIB, Q of depth, JS divergence of words, and each detector's OOD ratio."""
    scores, p = scores_of(reference, target.outputs)
    temperature = reference.temperature.value
    counts = reference.source.vocabulary.count(target.table.items.texts)
    return {
        "conf": _confidence(test, 1.0) - _confidence(target, 1.0),
        "conf_calib": _confidence(test, temperature) - _confidence(target, temperature),
        "q": float(depth_ranks(scores["depth"], reference.source.depths).mean()),
        "js": js_divergence(reference.source.words, counts),
        **{f"ood_{detector}": float((values <= OOD_P_VALUE).mean()) for detector, values in p.items()},
    }


def _confidence(split: Split, temperature: float) -> float:
    """Mean probability of the predicted class at this temperature."""
    return float(prediction(split.outputs, temperature)[1].mean())
