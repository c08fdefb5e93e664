"""What one estimate of the accuracy drop costs: seconds by part, by the size of the window, by the domains.

    python benchmarks/estimate_cost.py --write

The product's own `fit` and `Estimator` on sentiment texts whose embeddings come from the cache; about three
minutes on two cores, most of it for the fits.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # ships no types
from drop_study import CLASSES, SAMPLE, Part, joined, sentiment
from pyarrow import parquet
from workbench import best_of, machine, markdown, publish, say

from agent.config import FitConfig, ModelConfig, SourceTables
from agent.estimation import Counted, Estimator, comparison_of, too_little
from agent.fit import fit
from agent.observed import of_rows
from detectors.contract import Outputs
from detectors.divergence import js_divergence
from detectors.label_free import cbpe, certainty, cot, doc, mano
from detectors.shift import class_shift, confidence_drop, pad
from detectors.softmax import probabilities

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from agent.reference import Reference
    from detectors.comparison import Comparison, Observed

WINDOWS = (250, 500, 1_000, SAMPLE, 5_000)
DOMAINS = (3, 8, 20)
MANY_CLASSES = 20
SOURCE_ROWS = {"train": 1_500, "validation": 500, "test": SAMPLE}
GOAL = 2.0  # seconds


@dataclass(frozen=True)
class Encoded:
    """What an encoder gives."""

    embedding: NDArray[np.float32]


class Remembering:
    """Stands in for the encoder: gives each known text the embedding that it had."""

    name, sha256 = "remembered", "0" * 64

    def __init__(self, parts: Sequence[Part]) -> None:
        whole = joined(*parts)
        self._embedding = whole.embedding
        self._rows = {text: row for row, text in enumerate(whole.texts)}

    def encode(
        self, texts: Sequence[str], pairs: object = None, *, on_progress: Callable[[int], None] | None = None
    ) -> Encoded:
        """(n, d) embeddings."""
        del pairs, on_progress
        return Encoded(self._embedding[[self._rows[text] for text in texts]])


@dataclass(frozen=True)
class Bench:
    """A fitted reference, how long its fit took, and rows to make windows of."""

    reference: Reference
    fitting: float
    rows: Part

    def observed(self, items: int) -> Observed:
        """A window of so many items as the agent would hand it over."""
        head = self.reference.head
        embedding = self.rows.embedding[:items]
        logits = head.logits(embedding)
        temperatures = (1.0, self.reference.temperature.value)
        confidence = np.stack([probabilities(logits, each).max(axis=1) for each in temperatures], axis=1)
        return of_rows(Outputs(embedding, logits, embedding), confidence)

    def counted(self, items: int) -> Counted:
        """What the window's panes would have counted."""
        shift = self.reference.domains[0].shift
        return Counted(items, {name: shift[name] for name in ("js", "q")})


def main() -> None:
    """Measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/estimate_cost.md")
    options = parser.parse_args()
    names, parts = sentiment()
    benches = {count: prepared(names, parts, count) for count in DOMAINS}
    publish("estimate_cost", page(benches), write=options.write)


def prepared(names: Sequence[str], parts: Sequence[Part], count: int) -> Bench:
    """A reference with so many labelled domains besides its source; the source is drawn from all of them."""
    say(f"fitting a reference with {count} domains")
    everything = joined(*parts)
    order = np.random.default_rng(0).permutation(len(everything))
    with tempfile.TemporaryDirectory() as scratch:
        paths, start = {}, 0
        for name, rows in SOURCE_ROWS.items():
            paths[name] = written(everything.take(order[start : start + rows]), Path(scratch), name)
            start += rows
        domains = {
            name: written(part, Path(scratch), name) for name, part in zip(names[:count], parts, strict=False)
        }
        config = FitConfig(
            model=ModelConfig(name="sentiment", labels=CLASSES, outputs="head"),
            encoder=Path(scratch),
            source=SourceTables(**paths),
            domains=domains,
        )
        started = time.perf_counter()
        reference = fit(config, Remembering(parts), Path(scratch) / "reference", lambda *_: None)
        return Bench(
            reference, time.perf_counter() - started, everything.take(order[start : start + max(WINDOWS)])
        )


def written(part: Part, directory: Path, name: str) -> Path:
    """A labelled table."""
    path = directory / f"{name}.parquet"
    labels = [CLASSES[label] for label in part.labels]
    parquet.write_table(pa.table({"text": list(part.texts), "label": labels}), path)
    return path


def page(benches: Mapping[int, Bench]) -> str:
    """All tables."""
    most = benches[max(benches)]
    pieces = parts_of(most, SAMPLE)
    pieces |= {f"COT with {MANY_CLASSES} classes": many_classes(SAMPLE)}
    seconds = best_of(pieces)
    return HEAD.format(
        answer=answer(seconds),
        machine=machine(),
        rows=f"{SAMPLE:,}",
        domains=max(benches),
        parts=markdown(("part", "ms", "share of the pass"), shares(seconds)),
        windows=windows_table(most),
        by_domains=domains_table(benches),
    )


WHOLE = "the whole pass"


def answer(seconds: Mapping[str, float]) -> str:
    """Whether one pass is as fast as it should be."""
    whole = seconds[WHOLE]
    verdict = "reached" if whole < GOAL else "not reached"
    return f"One pass takes {whole:.2f} s; the goal of less than {GOAL:g} s is **{verdict}**."


def shares(seconds: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """Milliseconds of each part, and what share of the whole pass that is."""
    return [
        (name, f"{1e3 * value:.1f}", f"{100 * value / seconds[WHOLE]:.0f} %") for name, value in seconds.items()
    ]


def parts_of(bench: Bench, items: int) -> dict[str, Callable[[], object]]:
    """Each part of a pass over a window of so many items, and the whole."""
    reference, observed, counted = bench.reference, bench.observed(items), bench.counted(items)
    comparison = comparison_of(reference)
    source, classified, predicted = comparison.source, comparison.classified, observed.predicted
    words = reference.source.words
    panel = reference.estimator.panel
    estimator = Estimator(reference)
    return {
        WHOLE: lambda: estimator.estimate(observed, counted),
        "agreement with the panel": lambda: panel.posteriors(observed.embedding).agreements(predicted),
        "PAD": lambda: pad(source.embedding, observed.embedding),
        "RCA and RCA*": lambda: classified.reverse.against(observed.embedding, predicted),
        "CONF, CONF_CALIB, DoC, CBPE, class shift": lambda: confidences(comparison, observed),
        "ATC": lambda: classified.threshold.accuracy(certainty(observed.logits)),
        "COT": lambda: cot(probabilities(observed.logits, classified.temperature), classified.labels),
        "MaNo": lambda: mano(observed.logits, threshold=0.0),
        "JS of words": lambda: js_divergence(words, words[::-1]),
        "checks of the sample": lambda: too_little(observed),
        "the first pass after a start": lambda: Estimator(restarted(reference)).estimate(observed, counted),
    }


def confidences(comparison: Comparison, observed: Observed) -> None:
    """The metrics that are means and counts."""
    source, classified = comparison.source, comparison.classified
    confidence_drop(source.confidence, observed.confidence)
    confidence_drop(source.calibrated, observed.calibrated)
    doc(comparison.accuracy, source.confidence, observed.confidence)
    cbpe(observed.calibrated)
    class_shift(classified.counts, np.bincount(observed.predicted, minlength=len(CLASSES)))


def restarted(reference: Reference) -> Reference:
    """The same reference, with nothing worked out yet."""
    estimator = reference.estimator
    return replace(reference, estimator=replace(estimator, panel=replace(estimator.panel)))


def many_classes(items: int) -> Callable[[], object]:
    """COT where it has no closed form."""
    draw = np.random.default_rng(0)
    chances = draw.dirichlet(np.full(MANY_CLASSES, 0.3), items)
    labels = np.bincount(draw.integers(MANY_CLASSES, size=items), minlength=MANY_CLASSES)
    return lambda: cot(chances, labels)


SHOWN = (WHOLE, "agreement with the panel", "PAD", "RCA and RCA*")


def windows_table(bench: Bench) -> str:
    """The largest parts by the size of the window."""
    rows = []
    for items in WINDOWS:
        say(f"a window of {items}")
        found = parts_of(bench, items)
        seconds = best_of({name: found[name] for name in SHOWN})
        rows.append((f"{items:,}", *(f"{1e3 * seconds[name]:.0f}" for name in SHOWN)))
    return markdown(("items", *(f"{name}, ms" for name in SHOWN)), rows)


def domains_table(benches: Mapping[int, Bench]) -> str:
    """The pass, its memory and the fit by the number of reference domains."""
    rows = []
    for count, bench in benches.items():
        say(f"{count} domains")
        found = parts_of(bench, SAMPLE)
        seconds = best_of({name: found[name] for name in (WHOLE, "agreement with the panel")})
        panel = bench.reference.estimator.panel
        size = sum(getattr(panel, name).nbytes for name in ("grams", "crosses", "means"))
        rows.append(
            (
                count,
                *(f"{1e3 * value:.0f}" for value in seconds.values()),
                f"{size / 1e6:.1f}",
                f"{bench.fitting:.0f}",
            )
        )
    return markdown(("domains", f"{WHOLE}, ms", "agreement, ms", "panel, MB", "fit, s"), rows)


HEAD = """\
# What one estimate costs

{answer}

Written by `python benchmarks/estimate_cost.py --write`. Measured on: {machine}. What is compared was taken in
turns in one run, and the best of the turns counts; on another machine, or beside other work, the figures differ.

A pass is `Estimator.estimate`: a window's sample of {rows} items against {rows} held-out items of the source, with
{domains} labelled reference domains of about 2,000 items, 384-dimensional embeddings that are also the features,
and two classes. Encoding and scoring come before it and are not part of it, and the size of the nearest-neighbour
bank does not matter to it.

## By part

{parts}
Where the task model has features of its own, PAD* costs as much again as PAD.
COT has a closed form for two classes; for more it assigns items to labels, which may cost more than all the rest.
The first pass after a start also solves the heads of the single domains, which are then kept.

## By the size of the window

The agent keeps {rows} items of a window; `leadline estimate` on a table may bring more.

{windows}
## By the number of reference domains

The fit is that of the whole reference, its backtest included, with the embeddings at hand.

{by_domains}"""


if __name__ == "__main__":
    main()
