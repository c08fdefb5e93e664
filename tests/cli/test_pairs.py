"""Sentence pairs: both texts are encoded together, in tables and on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agent.bundle import load_reference
from agent.encoder import Encoder
from agent.inference import Inference
from agent.items import Items
from agent.scorer import Scorer
from agent.tables import read_table, write_table
from agent.task import HeadTask
from tests.cli.workbench import columns, facts, leadline, stream, write_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

SIDES = ("same", "other")
SPLITS = {"train": 120, "validation": 60, "test": 60}
Pair = tuple[str, str, str]  # text, second text, label


def fitted(
    root: Path, encoder: Path, tables: Mapping[str, Sequence[Pair]], labels: Sequence[str]
) -> dict[str, Any]:
    """The facts of a fit, with a head, on tables of these pairs; the reference is in `root`."""
    for name, pairs in tables.items():
        texts, seconds, truth = zip(*pairs, strict=True)
        write_table(root / f"{name}.parquet", {"text": texts, "text_pair": seconds, "label": truth})
    config = {
        "model": {"name": "nli", "labels": list(labels), "outputs": "head"},
        "encoder": str(encoder),
        "source": {name: str(root / f"{name}.parquet") for name in SPLITS},
        "domains": {name: str(root / f"{name}.parquet") for name in tables if name not in SPLITS},
    }
    path = write_config(root / "fit.yaml", config, {})
    done = leadline("fit", path, "--out", root / "reference", "--json", root / "fit.json")
    assert done.code == 0, done.err
    return facts(root / "fit.json")


def embedded(root: Path, encoder: Path, table: Path, seconds: Sequence[str] | None) -> NDArray[np.floating]:
    """The embeddings that scoring this table works on, with these second texts instead of its own."""
    reference = load_reference(root / "reference")
    assert reference.head is not None
    items = Items.of_table(read_table(table))
    scorer = Scorer(reference, Inference(Encoder.load(encoder), HeadTask(reference.head)))
    return scorer.score(Items(items.texts, seconds)).outputs.embedding


def _made(rng: np.random.Generator, rows: int) -> list[Pair]:
    """Pairs whose label only the second text gives away."""
    topics = ("The cat slept.", "Rain fell all day.", "The bank raised rates.", "She plays the violin.")
    seconds = {"same": "Yes, that is true and correct.", "other": "No, this is false, a lie."}
    return [
        (str(rng.choice(topics)), f"{seconds[side]} {rng.integers(100)}", side)
        for side in (str(rng.choice(SIDES)) for _ in range(rows))
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, encoder_int8: Path) -> Path:
    """A reference fitted on made-up pairs."""
    rng, directory = np.random.default_rng(0), tmp_path_factory.mktemp("pairs")
    fitted(directory, encoder_int8, {name: _made(rng, rows) for name, rows in SPLITS.items()}, SIDES)
    return directory


def test_a_head_learns_from_the_second_text(root: Path) -> None:
    """Where the first texts say nothing of the label, accuracy is all the second text's."""
    assert facts(root / "fit.json")["accuracy"]["test"] > 0.9


def test_a_table_without_its_second_texts_is_scored_otherwise(root: Path, tmp_path: Path) -> None:
    """The same texts with other seconds, or with none, get other scores."""
    table = columns(root / "test.parquet")
    scored = {}
    seconds = {"own": table["text_pair"], "swapped": table["text_pair"][::-1], "none": [None] * 60}
    for name, pairs in seconds.items():
        write_table(tmp_path / f"{name}.jsonl", {"text": table["text"], "text_pair": pairs})
        done = leadline("score", root / "reference", tmp_path / f"{name}.jsonl", "--out", tmp_path / f"{name}.csv")
        assert done.code == 0, done.err
        scored[name] = [float(value) for value in columns(tmp_path / f"{name}.csv")["depth"]]
    differ = np.array(table["text_pair"]) != np.array(seconds["swapped"])
    assert (np.array(scored["own"]) != np.array(scored["swapped"]))[differ].all()
    assert (np.array(scored["own"]) != np.array(scored["none"])).all()


def test_an_agent_reads_pairs(root: Path, tmp_path: Path) -> None:
    """Records with `text_pair` are windows like those of the source; without it they are far from it."""
    table = columns(root / "test.parquet")
    ratios = []
    for seconds in (table["text_pair"], [None] * 60):
        lines = [
            {"text": text, "text_pair": second, "time": 1_767_600_000 + row}
            for row, (text, second) in enumerate(zip(table["text"], seconds, strict=True))
        ]
        config = {
            "reference": str(root / "reference"),
            "source": {"file": {"path": str(stream(tmp_path / "events.jsonl", lines))}},
            "windows": {"min_items": 20},
            "exporters": {"prometheus": {"port": 0}},
        }
        run = write_config(tmp_path / "run.yaml", config, {})
        done = leadline("run", run, "--json", tmp_path / "run.json")
        assert done.code == 0, done.err
        ratios.append(facts(tmp_path / "run.json")["windows"][-1]["ood_ratio"]["knn"])
    assert ratios[0] < 0.2
    assert ratios[1] > 0.8


@pytest.mark.data
def test_entailment_across_genres(evaluation_texts: Path, encoder_int8: Path, tmp_path: Path) -> None:
    """Real sentence pairs fit, score and shift; each item's embedding is that of both texts."""
    table = columns(evaluation_texts / "nli_pairs.parquet")
    genres: dict[tuple[str, str], list[Pair]] = {}
    for domain, split, *pair in zip(
        *(table[name] for name in ("domain", "split", "text", "text_pair", "label")), strict=True
    ):
        genres.setdefault((domain, split), []).append((pair[0], pair[1], pair[2]))
    told = fitted(
        tmp_path,
        encoder_int8,
        {
            "train": genres["slate", "test"][:200],
            "validation": genres["slate", "val"][:60],
            "test": genres["slate", "val"][60:120],
            "telephone": genres["telephone", "val"][:60],
            "fiction": genres["fiction", "val"][:60],
        },
        ("contradiction", "entailment", "neutral"),
    )
    assert [domain["n"] for domain in told["domains"]] == [60, 60]
    assert told["shift"]["telephone"]["ood_knn"] > 0.05  # talk on the telephone is not journalism
    texts, others, truth = zip(*genres["travel", "val"][:100], strict=True)
    write_table(tmp_path / "travel.parquet", {"text": texts, "text_pair": others, "label": truth})
    done = leadline(
        "estimate", tmp_path / "reference", tmp_path / "travel.parquet", "--json", tmp_path / "travel.json"
    )
    assert done.code == 0, done.err
    drop = facts(tmp_path / "travel.json")["drop"]
    scored = leadline(
        "score", tmp_path / "reference", tmp_path / "travel.parquet", "--out", tmp_path / "scored.parquet"
    )
    assert scored.code == 0, scored.err
    right = np.array(columns(tmp_path / "scored.parquet")["prediction"]) == np.array(truth)
    assert drop["low"] <= told["accuracy"]["test"] - right.mean() <= drop["high"]
    path = tmp_path / "test.parquet"
    seconds = columns(path)["text_pair"]
    own, other, none = (
        embedded(tmp_path, encoder_int8, path, pairs) for pairs in (seconds, [*seconds[1:], seconds[0]], None)
    )
    same = np.array(seconds) == np.array([*seconds[1:], seconds[0]])
    assert ((own * other).sum(axis=1)[~same] < 0.999).all()
    assert ((own * none).sum(axis=1) < 0.999).all()
