"""A reference made of numbers instead of texts, and states to fill: no encoder, no download."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from agent.config import WindowsConfig
from agent.decision import Decision
from agent.duplicates import Seen
from agent.ledger import Ledger
from agent.memory import Memory
from agent.pairing import Pairing
from agent.records import Record
from agent.reference import Calibrated, EncoderIdentity, Reference, SourceFacts, TaskIdentity, Trust
from agent.report import ModelInfo
from agent.sample import digests
from agent.scorer import Scored, scores_of
from agent.slices import Slices
from agent.state import Identity, State
from agent.summary import Summary
from agent.token_outputs import TokenLogits
from agent.watch import Rules
from agent.windows import Windows
from agent.words import Vocabulary
from detectors.calibration import Temperature
from detectors.contract import Head, Outputs, Source, logits_of
from detectors.depth import depth_ranks
from detectors.table import DETECTORS

settings.register_profile("agent", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agent")

LABELS = ("negative", "positive")
WIDTH = 5
FITTED = ("msp", "energy", "klm", "knn", "depth")
WINDOWS = WindowsConfig(pane=60, short=180, long=360, min_items=3)

Score = Callable[[Sequence[Record]], Scored]


def _outputs(rng: np.random.Generator, rows: int, shift: float = 0.0) -> Outputs:
    embedding = rng.normal(size=(rows, WIDTH)) + np.array([2.0, 1.0, 0.0, 0.0, 0.0]) * (1 - shift)
    head = Head(np.linspace(-1, 1, 2 * WIDTH).reshape(2, WIDTH), np.array([0.1, -0.1]))
    return Outputs(embedding.astype(np.float32), head.logits(embedding))


@pytest.fixture(scope="session")
def reference() -> Reference:
    """Five detectors fitted on synthetic outputs, and a vocabulary of three words."""
    rng = np.random.default_rng(1)
    source = Source(_outputs(rng, 200), _outputs(rng, 99))
    detectors = {}
    for name in FITTED:
        detector = DETECTORS[name].fit(source)
        detectors[name] = Calibrated(detector, np.sort(detector.score(source.validation)))
    vocabulary = Vocabulary(["good", "bad", "film"])
    return Reference(
        model="sentiment",
        labels=LABELS,
        task=TaskIdentity("head"),
        encoder=EncoderIdentity("synthetic", "0" * 64, "encoder"),
        preset="original",
        primary="knn",
        detectors=detectors,
        unavailable={},
        head=None,
        temperature=Temperature(1.0, bounded=False),
        source=SourceFacts(
            rows={"train": 200},
            accuracy={"train": 0.9},
            depths=np.sort(detectors["depth"].detector.score(source.train)),
            vocabulary=vocabulary,
            words=vocabulary.count(["good film", "bad film"]),
            sample={},
        ),
        domains=(),
        trust=Trust("there are no reference domains"),
        id="0123456789abcdef",
    )


@pytest.fixture(scope="session")
def score(reference: Reference) -> Score:
    """Scores records one by one, so that a record's numbers are the same in whatever batch it comes."""
    known: dict[tuple[str, str], Scored] = {}

    def one(record: Record) -> Scored:
        key = (record.id, record.text)
        if key not in known:
            seed = digests([f"{record.id} {record.text}".encode()])
            rng = np.random.default_rng(seed)
            outputs = _outputs(rng, 1, shift=rng.choice([0.0, 2.0]))
            scores, p = scores_of(reference, outputs)
            tokens = TokenLogits.one_each(logits_of(outputs))
            confidence = tokens.confidence()
            ranks = depth_ranks(scores["depth"], reference.source.depths)
            truncated = np.array([len(record.text) > 20])
            finite = np.array(["no numbers" not in record.text])
            known[key] = Scored(
                outputs, finite, truncated, tokens, confidence, confidence, scores, p, ranks, 0.25, 0.125
            )
        return known[key]

    def score(records: Sequence[Record]) -> Scored:
        if not records:
            return one(Record("nothing", "nothing", 0.0)).take([])
        parts = [one(record) for record in records]

        def joined(get: Callable[[Scored], Any]) -> Any:  # noqa: ANN401 - any of the arrays
            return np.concatenate([get(part) for part in parts])

        return replace(
            parts[0],
            outputs=Outputs(joined(lambda s: s.outputs.embedding), joined(lambda s: s.outputs.logits)),
            finite=joined(lambda s: s.finite),
            truncated=joined(lambda s: s.truncated),
            tokens=TokenLogits.one_each(joined(lambda s: s.tokens.values)),
            confidence=joined(lambda s: s.confidence),
            raw_confidence=joined(lambda s: s.raw_confidence),
            scores={name: joined(lambda s, name=name: s.scores[name]) for name in FITTED},
            p={name: joined(lambda s, name=name: s.p[name]) for name in FITTED},
            ranks=joined(lambda s: s.ranks),
        )

    return score


@pytest.fixture(scope="session")
def new_state(reference: Reference) -> Callable[..., State]:
    """Makes empty states: panes of one minute, windows of three and six, at least three items."""

    def make(windows: WindowsConfig = WINDOWS, slices: int = 3, sample: int = 8, remember: int = 100) -> State:
        names = tuple(reference.detectors)
        return State(
            Summary(reference, int(windows.pane), sample),
            Windows(windows, reference.labels, names),
            Memory(Slices(slices), Pairing(60.0, 10), Seen(remember)),
            Ledger("file", names),
            Identity("0", ModelInfo(reference.model, reference.id, reference.encoder.name, "none")),
            Decision(
                Rules(0.05, 1.0, 0.03, windows.pane, windows.short, windows.long), "a model", [200] * len(names)
            ),
        )

    return make


@pytest.fixture(scope="session")
def plain() -> Callable[[object], Any]:
    """Turns dataclasses of arrays into values that `==` compares exactly; NaN equals NaN."""

    def plain(value: object) -> Any:  # noqa: ANN401 - any plain value
        if isinstance(value, np.ndarray | np.generic):
            return plain(value.tolist())
        if is_dataclass(value) and not isinstance(value, type):
            return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
        if isinstance(value, Mapping):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return "NaN" if value != value else value  # noqa: PLR0124 - only NaN differs from itself

    return plain
