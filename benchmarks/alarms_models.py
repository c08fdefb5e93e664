"""The models that are watched: a reference for each source, by the product's own fit, and pools of new texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from alarms_texts import STYLES, TASKS, Rows, Task, domains_of, styled
from scipy import sparse
from workbench import say

from agent.config import FitConfig, ModelConfig, SourceTables
from agent.freeze import Fitted, Split, freeze
from agent.head import train_head
from agent.items import Items
from agent.labelled import Labelled
from agent.panes import P_EDGES, units
from agent.reference import EncoderIdentity, TaskIdentity
from agent.scorer import scores_of
from detectors.contract import Outputs
from detectors.depth import depth_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from agent.encoder import Encoder
    from agent.reference import Reference
    from detectors.contract import Head

PARTS = ("train", "validation", "test", "stream")


@dataclass(frozen=True)
class Pool:
    """n texts as the agent sees them once scored, from which a stream draws.

    `p` (detectors, n) p-values, `bins` (detectors, n) their buckets; `words` (n, vocabulary) counts; the rest (n,)
    or as their names say. `right` is whether the model is.
    """

    name: str
    p: NDArray[np.float64]
    bins: NDArray[np.intp]
    embedding: NDArray[np.float16]
    logits: NDArray[np.float32]
    ranks: NDArray[np.int64]
    words: sparse.csr_matrix
    right: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.right)

    def rows_of(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """Embeddings and logits of some of the texts."""
        return self.embedding[rows], self.logits[rows]

    @property
    def accuracy(self) -> float:
        """Of the model on all of it."""
        return float(self.right.mean())


@dataclass(frozen=True)
class Watched:
    """A model with its reference, the pool of its usual traffic, and the pools that may come instead."""

    name: str
    reference: Reference
    usual: Pool
    changes: Mapping[str, Pool]

    def drop(self, change: str, share: float = 1.0) -> float:
        """The accuracy that is lost, by the labels, where so much of the traffic is of that kind."""
        return share * (self.usual.accuracy - self.changes[change].accuracy)

    def flagged(self, alpha: float) -> NDArray[np.float64]:
        """(detectors,) the share of the usual traffic with p <= alpha."""
        return np.asarray((self.usual.p <= alpha).mean(axis=1), np.float64)


def watched_models(encoder: Encoder, seed: int = 0, most: int | None = None) -> Iterator[Watched]:
    """The models one after another; `seed` decides which rows are for what.

    Those of seed 0 have labelled domains and changes. The others can only tell whether a shift is seen.
    """
    made = 0
    for task in TASKS:
        domains = domains_of(task, encoder)
        for source in task.sources:
            if most is None or made < most:
                made += 1
                say(f"fitting {source}")
                yield watched(task, source, domains, encoder, seed)


def watched(task: Task, source: str, domains: Mapping[str, Rows], encoder: Encoder, seed: int) -> Watched:
    """The model of one source, with labelled reference domains that the changes do not come from."""
    parts = parts_of(domains[source], task.shares, seed)
    head = train_head(*((parts[name].embedding, parts[name].labels) for name in ("train", "validation")))
    known, pools = {}, {}
    if seed == 0:
        known = {name: rows for name, rows in domains.items() if name not in (source, *task.targets)}
        pools = {name: domains[name] for name in task.targets}
        pools |= {name: styled(parts["stream"], name, encoder, source) for name in STYLES}
    reference = fitted(task, source, parts, known, head)
    return Watched(
        source,
        reference,
        pool_of("usual", reference, head, parts["stream"]),
        {name: pool_of(name, reference, head, rows) for name, rows in pools.items()},
    )


def parts_of(rows: Rows, shares: Sequence[float], seed: int) -> dict[str, Rows]:
    """A source's rows by what they are for."""
    order = np.random.default_rng((seed, 1)).permutation(len(rows))
    ends = [round(end * len(rows)) for end in np.cumsum([0, *shares])]
    return {
        name: rows.take(order[start:end])
        for name, start, end in zip(PARTS, ends, [*ends[1:], len(rows)], strict=True)
    }


def fitted(task: Task, source: str, parts: Mapping[str, Rows], known: Mapping[str, Rows], head: Head) -> Reference:
    """The reference as `leadline fit` freezes it."""
    nowhere = Path("benchmark")
    config = FitConfig(
        model=ModelConfig(name=source, labels=task.classes, outputs="head"),
        encoder=nowhere,
        source=SourceTables(train=nowhere, validation=nowhere, test=nowhere),
        domains=dict.fromkeys(known, nowhere),
    )
    found = Fitted(
        source={name: split(parts[name], head) for name in ("train", "validation", "test")},
        domains={name: split(rows, head) for name, rows in known.items()},
        head=head,
        encoder=EncoderIdentity("benchmark", "0" * 64, "."),
        task=TaskIdentity("head", parts["train"].embedding.shape[1]),
    )
    return freeze(config, found, lambda *_: None)


def split(rows: Rows, head: Head) -> Split:
    """Rows as a fit takes them."""
    return Split(Labelled(Path("benchmark"), Items(rows.texts), rows.labels), outputs_of(rows, head))


def outputs_of(rows: Rows, head: Head) -> Outputs:
    """What encoder and head say of them."""
    return Outputs(rows.embedding, head.logits(rows.embedding), rows.embedding)


def pool_of(name: str, reference: Reference, head: Head, rows: Rows) -> Pool:
    """The rows, scored."""
    outputs = outputs_of(rows, head)
    scores, by_detector = scores_of(reference, outputs)
    p = np.stack(list(by_detector.values()))
    logits = head.logits(rows.embedding)
    vocabulary = reference.source.vocabulary
    return Pool(
        name=name,
        p=p,
        bins=np.minimum(np.searchsorted(P_EDGES, p, side="left"), len(P_EDGES) - 1),
        embedding=rows.embedding.astype(np.float16),
        logits=logits.astype(np.float32),
        ranks=units(depth_ranks(scores["depth"], reference.source.depths)),
        words=sparse.vstack([sparse.csr_matrix(vocabulary.count([text])) for text in rows.texts], format="csr"),
        right=logits.argmax(axis=1) == rows.labels,
    )
