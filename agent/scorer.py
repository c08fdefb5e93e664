"""From items to scores: encoder, task model, every detector of the reference, and their p-values."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from agent.token_outputs import TokenLogits
from detectors.calibration import OOD_P_VALUE, p_values
from detectors.contract import joined, logits_of
from detectors.depth import depth_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from agent.inference import Inference
    from agent.items import Items
    from agent.reference import Reference
    from detectors.contract import Outputs, Vector


@dataclass(frozen=True)
class Scored:
    """n items scored, row by row.

    `tokens` holds the logits that decide, one row an item or, of a sequence labeller, one a token; `confidence`
    and `raw_confidence` the probability of the predicted class (the mean over an item's tokens), calibrated by
    temperature and as the model gives it; `scores` and `p` one (n,) vector a detector; `ranks` the share of the
    source lying at most as deep. Where `finite` is False the models gave NaN or infinity, and what the row holds
    means nothing.
    """

    outputs: Outputs
    finite: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    tokens: TokenLogits
    confidence: Vector
    raw_confidence: Vector
    scores: Mapping[str, Vector]
    p: Mapping[str, Vector]
    ranks: Vector
    encode_seconds: float
    score_seconds: float

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def predicted(self) -> NDArray[np.intp]:
        """(n,) class indices; of a sequence labeller (t,), one a token, items one after another."""
        return self.tokens.predicted

    @property
    def confidences(self) -> NDArray[np.float64]:
        """(n, 2) raw and calibrated confidence."""
        return np.stack([self.raw_confidence, self.confidence], axis=1)

    @classmethod
    def joined(cls, parts: Sequence[Scored]) -> Scored:
        """The items of all parts, one part after another, as if they had been scored together."""
        if len(parts) == 1:
            return parts[0]

        def all_of(get: Callable[[Scored], NDArray[Any]]) -> NDArray[Any]:
            return np.concatenate([get(part) for part in parts])

        first = parts[0]
        return cls(
            outputs=joined([part.outputs for part in parts]),
            finite=all_of(lambda part: part.finite),
            truncated=all_of(lambda part: part.truncated),
            tokens=TokenLogits.joined([part.tokens for part in parts]),
            confidence=all_of(lambda part: part.confidence),
            raw_confidence=all_of(lambda part: part.raw_confidence),
            scores={name: np.concatenate([part.scores[name] for part in parts]) for name in first.scores},
            p={name: np.concatenate([part.p[name] for part in parts]) for name in first.p},
            ranks=all_of(lambda part: part.ranks),
            encode_seconds=sum(part.encode_seconds for part in parts),
            score_seconds=sum(part.score_seconds for part in parts),
        )

    def take(self, rows: Sequence[int]) -> Scored:
        """The chosen rows, in the order asked for."""
        chosen = np.asarray(rows, np.intp)
        return replace(
            self,
            outputs=self.outputs.take(chosen),
            finite=self.finite[chosen],
            truncated=self.truncated[chosen],
            tokens=self.tokens.take(chosen),
            confidence=self.confidence[chosen],
            raw_confidence=self.raw_confidence[chosen],
            scores={name: values[chosen] for name, values in self.scores.items()},
            p={name: values[chosen] for name, values in self.p.items()},
            ranks=self.ranks[chosen],
        )


@dataclass(frozen=True)
class Scorer:
    """Scores items against one reference. Pure but for the clock that times it."""

    reference: Reference
    inference: Inference
    clock: Callable[[], float] = time.perf_counter

    def score(self, items: Items, on_progress: Callable[[int], None] | None = None) -> Scored:
        """Encode, run the task model, and score every item with every available detector."""
        started = self.clock()
        outputs, truncated = self.inference.run(items, on_progress)
        encoded = self.clock()
        finite = outputs.finite()
        if not finite.all():
            outputs = outputs.zeroed(~finite)  # detectors take finite numbers only
        scores, p = scores_of(self.reference, outputs)
        tokens = tokens_of(items, outputs)
        ranks = depth_ranks(scores["depth"], self.reference.source.depths)
        return Scored(
            outputs=outputs,
            finite=finite,
            truncated=truncated,
            tokens=tokens,
            confidence=tokens.confidence(self.reference.temperature.value),
            raw_confidence=tokens.confidence(),
            scores=scores,
            p=p,
            ranks=ranks,
            encode_seconds=encoded - started,
            score_seconds=self.clock() - encoded,
        )

    def ood(self, scored: Scored) -> NDArray[np.bool_]:
        """(n,) whether the primary detector calls the item out of distribution."""
        return scored.p[self.reference.primary] <= OOD_P_VALUE


def scores_of(reference: Reference, outputs: Outputs) -> tuple[dict[str, Vector], dict[str, Vector]]:
    """Scores and p-values by detector."""
    scores = {name: fitted.detector.score(outputs) for name, fitted in reference.detectors.items()}
    p = {name: p_values(scores[name], fitted.validation_scores) for name, fitted in reference.detectors.items()}
    return scores, p


def tokens_of(items: Items, outputs: Outputs) -> TokenLogits:
    """The logits that decide: those of the items' tokens, or of their outputs, one row an item."""
    return TokenLogits.one_each(logits_of(outputs)) if items.tokens is None else items.tokens
