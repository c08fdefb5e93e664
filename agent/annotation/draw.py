"""From a window that has ended to the items of it that are worth a label."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from agent.annotation.batch import TOKENS, Arrays, Batch, Believed, Item, Span, Stratum
from detectors.contract import Outputs
from detectors.depth import depth_ranks
from detectors.softmax import probabilities
from detectors.strata import draw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from agent.alert_config import AnnotationConfig
    from agent.annotation.texts import KeptText, Texts
    from agent.reference import Reference
    from agent.report import DropEstimate
    from agent.sample import Sample
    from agent.window_contents import Window
    from detectors.strata import Drawn

# Enough to tell probabilities apart; files are half as long.
DECIMALS = 6


@dataclass(frozen=True)
class Question:
    """What is asked: of which episode, why, and how many labels give an interval of half width `precision`.

    `most` is how many items to draw at most: as many as are needed if not said.
    """

    episode: str
    kind: str
    needed: int
    precision: float
    most: int | None = None


@dataclass(frozen=True)
class Made:
    """A batch with its items, in random order, and the arrays of the whole sample they were drawn from."""

    batch: Batch
    items: tuple[Item, ...]
    arrays: Arrays


@dataclass(frozen=True)
class Drawing:
    """Draws batches against one reference. The same window and question give the same items."""

    reference: Reference
    config: AnnotationConfig
    texts: Texts

    def make(self, question: Question, window: Window, estimate: DropEstimate | None, now: float) -> Made:
        """The batch, drawn at `now`: never more items than the configuration allows, or the sample has."""
        sample, reference = window.sample, self.reference
        depths = reference.detectors["depth"].detector.score(Outputs(sample.embedding.astype(np.float32)))
        most = min(question.most or question.needed, self.config.most_items)
        drawn = draw(depths, _order(question.episode, sample), most, self.config.dissimilar)
        kept = self.texts.get(window.slice, sample.ids[drawn.rows].tolist())
        items = self._items(window, drawn, depths, kept)
        batch = Batch(
            episode=question.episode,
            slice=window.slice,
            kind=question.kind,
            model=reference.model,
            reference_id=reference.id,
            labels=reference.labels,
            task=reference.task.kind,
            window=Span(float(window.start), float(window.end), window.tally.items),
            estimate=_believed(estimate),
            precision=question.precision,
            needed=question.needed,
            sampled=len(sample),
            strata=tuple(Stratum(size, count) for size, count in drawn.strata),
            created=now,
            texts=any(item.text is not None for item in items),
        )
        return Made(batch, items, _arrays(sample))

    def _items(
        self, window: Window, drawn: Drawn, depths: NDArray[np.float64], kept: Mapping[str, KeptText]
    ) -> tuple[Item, ...]:
        sample, reference = window.sample, self.reference
        ranks = depth_ranks(depths, reference.source.depths)
        temperature = reference.temperature.value
        confidence = sample.confidences(temperature)[:, 1].round(DECIMALS)
        columns = zip(
            drawn.rows.tolist(),
            drawn.stratum.tolist(),
            drawn.probability.tolist(),
            drawn.lowest.tolist(),
            strict=True,
        )
        shares = None
        if reference.task.kind != TOKENS and sample.logits.shape[1]:
            shares = probabilities(sample.logits, temperature).round(DECIMALS)
        items = []
        for row, stratum, probability, lowest in columns:
            text = kept.get(str(sample.ids[row]))
            share = None if shares is None else shares[row]
            items.append(
                Item(
                    id=str(sample.ids[row]),
                    slice=window.slice,
                    row=row,
                    stratum=stratum,
                    inclusion_probability=probability,
                    dissimilar=lowest,
                    depth=round(float(depths[row]), DECIMALS),
                    depth_rank=round(float(ranks[row]), DECIMALS),
                    confidence=float(confidence[row]),
                    prediction=None if share is None else reference.labels[int(share.argmax())],
                    probabilities=None
                    if share is None
                    else dict(zip(reference.labels, share.tolist(), strict=True)),
                    text=None if text is None else text.text,
                    text_pair=None if text is None else text.pair,
                    text_kept=None if text is None else text.kept,
                )
            )
        return tuple(items)


def _order(episode: str, sample: Sample) -> NDArray[np.uint64]:
    """(N,) random numbers that depend on the episode and the item alone, whatever numpy's version draws."""
    key = blake2b(episode.encode("utf-8", "replace"), digest_size=32).digest()
    found = b"".join(
        blake2b(number.to_bytes(8, "little"), digest_size=8, key=key).digest() for number in sample.hashes.tolist()
    )
    return np.frombuffer(found, np.dtype("<u8")).astype(np.uint64)


def _arrays(sample: Sample) -> Arrays:
    def some(values: NDArray[np.generic]) -> bool:
        return bool(values.shape[1])

    return Arrays(
        embedding=sample.embedding,
        logits=sample.logits if some(sample.logits) else None,
        features=sample.features if some(sample.features) else None,
        confidence=sample.confidence if some(sample.confidence) else None,
    )


def _believed(estimate: DropEstimate | None) -> Believed:
    if estimate is None:
        return Believed(reason="no estimate was made")
    return Believed(
        estimate.drop,
        estimate.accuracy,
        estimate.level,
        estimate.reason,
        bool(estimate.inside_domains),
        {name: float(value) for name, value in estimate.metrics.items()},
    )
