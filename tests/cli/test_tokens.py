"""Sequence labelling from `fit` to `run`: items are texts, quality is the share of tokens labelled right."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.feature_extraction import FeatureHasher  # type: ignore[import-untyped] # ships no types
from sklearn.linear_model import SGDClassifier  # type: ignore[import-untyped] # as above

from agent.bundle import load_reference
from agent.tables import write_table
from tests.cli.workbench import START, columns, facts, leadline, panes, stream, write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Tag = Callable[[Sequence[str]], NDArray[np.float64]]

LABELS = ("DET", "NOUN", "VERB")
WORDS = {
    "DET": ["the", "a", "every"],
    "NOUN": ["dog", "cat", "child", "bird"],
    "VERB": ["barks", "sleeps", "sings"],
}
FAR = {"DET": ["said"], "NOUN": ["covenant", "indemnity", "lessor"], "VERB": ["indemnifies", "warrants", "cures"]}
SPLITS = {"train": 80, "validation": 60, "test": 60, "contracts": 60}
UNAVAILABLE = {"msp", "energy", "react", "klm", "gradnorm", "dice", "vim"}


@dataclass(frozen=True)
class Sentence:
    """Tokens and their true labels."""

    tokens: list[str]
    labels: list[str]


@dataclass(frozen=True)
class Tagger:
    """A sequence labeller that Leadline does not know: its labels, and the logits it gives each token."""

    labels: tuple[str, ...]
    tag: Tag

    def table(self, path: Path, sentences: Sequence[Sentence], **changes: list[Any]) -> Path:
        """A labelled table with the tagger's logits; `changes` replaces columns."""
        content: dict[str, list[Any]] = {
            "id": [f"{path.stem}-{row}" for row in range(len(sentences))],
            "tokens": [sentence.tokens for sentence in sentences],
            "label": [sentence.labels for sentence in sentences],
            "logits": [self.tag(sentence.tokens).tolist() for sentence in sentences],
        }
        write_table(path, content | changes)
        return path

    def quality(self, sentences: Sequence[Sentence]) -> float:
        """The mean over sentences of the share of tokens labelled right, in a plain loop."""
        shares = []
        for sentence in sentences:
            found = [self.labels[place] for place in self.tag(sentence.tokens).argmax(axis=1)]
            shares.append(np.mean([one == other for one, other in zip(found, sentence.labels, strict=True)]))
        return float(np.mean(shares))

    def records(self, sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
        """What the tagger's server would put on the wire, ten seconds apart."""
        return [
            {
                "id": f"event-{row}",
                "time": (START + timedelta(seconds=10 * row)).isoformat(),
                "tokens": sentence.tokens,
                "logits": self.tag(sentence.tokens).tolist(),
            }
            for row, sentence in enumerate(sentences)
        ]


def fitted(root: Path, encoder: Path, tagger: Tagger, domains: Sequence[str], suffix: str = "parquet") -> Path:
    """A reference in `root`, fitted on the tables there; its facts are in `fit.json`."""
    config = {
        "model": {"name": "tagger", "labels": list(tagger.labels), "task": "tokens", "outputs": "table"},
        "encoder": str(encoder),
        "source": {name: str(root / f"{name}.{suffix}") for name in ("train", "validation", "test")},
        "domains": {name: str(root / f"{name}.{suffix}") for name in domains},
    }
    path = write_config(root / "fit.yaml", config, {})
    checked = leadline("check", path)
    assert checked.code == 0, checked.out
    assert "the logits of every token come with the tables" in " ".join(checked.out.split())
    done = leadline("fit", path, "--out", root / "reference", "--json", root / "fit.json")
    assert done.code == 0, done.err
    return root / "reference"


def ran(root: Path, records: Sequence[object], **changes: object) -> dict[str, Any]:
    """The facts of an agent that ran over these records."""
    config = {
        "reference": str(root / "reference"),
        "source": {"file": {"path": str(stream(root / "events.jsonl", records))}},
        "windows": {"pane": "5m", "short": "10m", "long": "30m", "min_items": 20, "lateness": "1s"},
        "exporters": {"prometheus": {"port": 0}},
    }
    done = leadline("run", write_config(root / "run.yaml", config, changes), "--json", root / "run.json")
    assert done.code == 0, done.err
    return facts(root / "run.json")


def _simple(rng: np.random.Generator, words: Mapping[str, Sequence[str]]) -> Sentence:
    labels = ["DET", "NOUN", "VERB", *(["DET", "NOUN"] if rng.random() < 0.5 else [])]
    return Sentence([str(rng.choice(words[label])) for label in labels], labels)


def _simple_logits(tokens: Sequence[str]) -> NDArray[np.float64]:
    """Sure of the words it knows; of others it thinks that they are nouns, but is less sure."""
    known = {word: place for place, label in enumerate(LABELS) for word in WORDS[label]}
    return np.array(
        [np.eye(3)[known[word]] * 4 if word in known else [0.3, 0.9 + len(word) / 100, 0.2] for word in tokens]
    )


@dataclass(frozen=True)
class Bench:
    """A reference of a sequence labeller with the tables that it was fitted on."""

    root: Path
    tagger: Tagger
    sentences: Mapping[str, Sequence[Sentence]]


@pytest.fixture(scope="module")
def simple(tmp_path_factory: pytest.TempPathFactory, encoder_int8: Path) -> Bench:
    """A tagger of made-up sentences, one in forty of them mislabelled, and one foreign domain."""
    root, rng = tmp_path_factory.mktemp("tokens"), np.random.default_rng(0)
    sentences = {
        name: [_simple(rng, FAR if name == "contracts" else WORDS) for _ in range(rows)]
        for name, rows in SPLITS.items()
    }
    for split in sentences.values():
        for sentence in split[::40]:
            sentence.labels[-1] = "DET"
    tagger = Tagger(LABELS, _simple_logits)
    for name, split in sentences.items():
        tagger.table(root / f"{name}.parquet", split)
    fitted(root, encoder_int8, tagger, ["contracts"])
    return Bench(root, tagger, sentences)


def test_a_fit_measures_tokens(simple: Bench) -> None:
    """Accuracy is the mean share of tokens labelled right; a foreign domain lowers it, and confidence with it."""
    told = facts(simple.root / "fit.json")
    (domain,) = told["domains"]
    assert told["task"] == "tokens"
    for name in ("train", "validation", "test"):
        assert told["accuracy"][name] == pytest.approx(simple.tagger.quality(simple.sentences[name]))
    assert domain["accuracy"] == pytest.approx(simple.tagger.quality(simple.sentences["contracts"]))
    assert domain["drop"] == pytest.approx(told["accuracy"]["test"] - domain["accuracy"])
    assert domain["drop"] > 0.4
    shift = told["shift"]["contracts"]
    assert shift["conf"] > 0.2
    assert shift["conf_calib"] > 0.2
    assert shift["ood_knn"] > 0.5


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, encoder_int8: Path) -> Bench:
    """The same tagger with domains that hold ever more foreign sentences, and a window between them."""
    root, rng = tmp_path_factory.mktemp("graded"), np.random.default_rng(1)
    shares = dict.fromkeys(("train", "validation", "test"), 0.0)
    shares |= {"letters": 0.2, "minutes": 0.45, "deeds": 0.7, "wills": 0.9, "window": 0.6}
    tagger, sentences = Tagger(LABELS, _simple_logits), {}
    for name, share in shares.items():
        sentences[name] = [_simple(rng, FAR if rng.random() < share else WORDS) for _ in range(60)]
        tagger.table(root / f"{name}.parquet", sentences[name])
    fitted(root, encoder_int8, tagger, ["letters", "minutes", "deeds", "wills"])
    return Bench(root, tagger, sentences)


def test_the_drop_of_a_tagger_is_estimated(graded: Bench, tmp_path: Path) -> None:
    """Without a class for each text the ensemble of regressions speaks; its interval holds the realised drop."""
    table = graded.tagger.table(tmp_path / "window.jsonl", graded.sentences["window"])
    done = leadline("estimate", graded.root / "reference", table, "--json", tmp_path / "window.json")
    assert done.code == 0, done.err
    told, accuracy = facts(tmp_path / "window.json"), facts(graded.root / "fit.json")["accuracy"]["test"]
    drop = accuracy - graded.tagger.quality(graded.sentences["window"])
    assert told["drop"]["low"] <= drop <= told["drop"]["high"]
    assert told["drop"]["estimate"] == pytest.approx(told["methods"]["ensemble"]["drop"])
    assert told["drop"]["high"] - told["drop"]["low"] < 0.5
    assert told["methods"].keys() == {
        "mean",
        "pad",
        "pad_star",
        "conf",
        "conf_calib",
        "js",
        "q",
        "doc",
        "cbpe",
        "ensemble",
    }


def test_a_taggers_backtest_leaves_domains_out(graded: Bench, tmp_path: Path) -> None:
    """Each domain has what the regression of the others says of it, and the ensemble beats the mean."""
    done = leadline("backtest", graded.root / "reference", "--json", tmp_path / "backtest.json")
    assert done.code == 0, done.err
    told = facts(tmp_path / "backtest.json")
    assert {domain["name"] for domain in told["domains"]} == {"letters", "minutes", "deeds", "wills"}
    assert told["coverage"]["n"] == 4
    off = [abs(domain["predicted"] - domain["drop"]) for domain in told["domains"]]
    assert told["methods"]["ensemble"] == pytest.approx({"mae": np.mean(off), "max": max(off)})
    assert told["methods"]["ensemble"]["mae"] < told["methods"]["mean"]["mae"]


def test_one_domain_is_too_few_for_a_tagger(simple: Bench) -> None:
    """A fit with one domain ends well, and its backtest says how many it takes."""
    told = facts(simple.root / "fit.json")
    assert told["reason"].startswith("the reference has only 1 labelled domain beside its source: name at least 3")
    assert leadline("backtest", simple.root / "reference").code == 1


def test_the_temperature_is_that_of_all_validation_tokens(simple: Bench) -> None:
    """Calibrated confidence is the share of tokens that are right, to within what one temperature can do."""
    reference = load_reference(simple.root / "reference")
    logits = [simple.tagger.tag(sentence.tokens) for sentence in simple.sentences["validation"]]
    values = np.concatenate(logits) / reference.temperature.value
    labels = [LABELS.index(label) for sentence in simple.sentences["validation"] for label in sentence.labels]
    share = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    # At the best temperature the mean logit of the truth is the mean expected logit.
    assert (share * values).sum(axis=1).mean() == pytest.approx(values[np.arange(len(labels)), labels].mean())


def test_what_needs_the_logits_of_a_text_is_listed(simple: Bench) -> None:
    """The detectors of the embedding are fitted; for each other one the reason is in plain words."""
    told = facts(simple.root / "fit.json")
    assert told["detectors"] == ["knn", "depth"]
    assert set(told["unavailable"]) == UNAVAILABLE
    assert told["unavailable"]["msp"] == "it needs logits of a whole text, which the model does not give"


def test_the_source_sample_has_what_estimates_need(simple: Bench) -> None:
    """Both confidences and the quality of held-out items stand in for logits and labels."""
    sample = load_reference(simple.root / "reference").source.sample
    assert sample.keys() == {"embedding", "confidence", "quality"}
    assert sample["confidence"].shape == (60, 2)
    assert sample["quality"].astype(float).mean() == pytest.approx(
        simple.tagger.quality(simple.sentences["test"]), abs=1e-6
    )


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_a_scored_table_has_a_label_for_each_token(simple: Bench, tmp_path: Path, suffix: str) -> None:
    """Tables in any format are scored alike: lists of labels, and one confidence an item."""
    sentences = simple.sentences["test"]
    table = simple.tagger.table(tmp_path / f"test.{suffix}", sentences)
    done = leadline("score", simple.root / "reference", table, "--out", tmp_path / "scored.parquet")
    assert done.code == 0, done.err
    found = columns(tmp_path / "scored.parquet")
    logits = [simple.tagger.tag(sentence.tokens) for sentence in sentences]
    assert found["prediction"] == [[LABELS[place] for place in item.argmax(axis=1)] for item in logits]
    assert found["id"] == [f"test-{row}" for row in range(len(sentences))]
    temperature = load_reference(simple.root / "reference").temperature.value
    powers = [np.exp(item / temperature) for item in logits]
    expected = [(item / item.sum(axis=1, keepdims=True)).max(axis=1).mean() for item in powers]
    assert found["confidence"] == pytest.approx(expected)


def test_scores_can_be_written_in_every_format(simple: Bench, tmp_path: Path) -> None:
    """CSV holds the lists of labels as JSON text; what is read back is the same."""
    scored = {}
    for suffix in ("parquet", "csv", "jsonl"):
        out = tmp_path / f"scored.{suffix}"
        done = leadline("score", simple.root / "reference", simple.root / "test.parquet", "--out", out)
        assert done.code == 0, done.err
        scored[suffix] = columns(out)["prediction"]
    assert scored["jsonl"] == scored["parquet"]
    assert scored["csv"][0] == '["' + '", "'.join(scored["parquet"][0]) + '"]'


def test_an_agent_runs_on_tokens(simple: Bench, tmp_path: Path) -> None:
    """Records with tokens and nested logits make windows of items; what is wrong with one has a reason."""
    records = simple.tagger.records(simple.sentences["test"])
    del records[0]["logits"]
    records[1]["logits"] = records[1]["logits"][1:]
    records[2]["tokens"] = "the dog barks"
    told = ran(simple.root, records, state__path=tmp_path / "state.sqlite")
    assert told["events"]["discarded"] == {"no_logits": 1, "tokens_mismatch": 1, "tokens_not_strings": 1}
    window = told["windows"][-1]
    assert window["items"] == told["events"]["processed"] == len(records) - 3
    assert 0.8 < window["confidence_mean"] <= 1
    tokens = sum(len(sentence.tokens) for sentence in simple.sentences["test"][3:])
    assert sum(window["classes"].values()) == tokens
    kept = [pane.sample for pane in panes(tmp_path / "state.sqlite").values()]
    raw, calibrated = np.concatenate([sample.confidences(1.0) for sample in kept]).T
    assert calibrated.mean() == pytest.approx(window["confidence_mean"], abs=1e-6)
    assert (raw > calibrated).all() or (raw < calibrated).all()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_an_agent_reads_tokens_from_every_table(simple: Bench, tmp_path: Path, suffix: str) -> None:
    """The rows of a table with lists, or JSON text for them, are records with tokens, logits and labels."""
    sentences = simple.sentences["test"][:30]
    times = [record["time"] for record in simple.tagger.records(sentences)]
    table = simple.tagger.table(tmp_path / f"events.{suffix}", sentences, timestamp=times)
    told = ran(simple.root, [], source__file__path=table)
    assert told["events"]["discarded"] == {}
    assert told["windows"][-1]["items"] == 30


def test_a_label_for_another_number_of_tokens_ends_the_check(simple: Bench, tmp_path: Path) -> None:
    """`check` finds what `fit` would: file, row, what was found and what was expected."""
    sentences = [*simple.sentences["test"]]
    labels = [sentence.labels for sentence in sentences]
    labels[6] = labels[6][:1]
    table = simple.tagger.table(tmp_path / "test.parquet", sentences, label=labels)
    config = (simple.root / "fit.yaml").read_text(encoding="utf-8")
    broken = tmp_path / "fit.yaml"
    broken.write_text(config.replace(str(simple.root / "test.parquet"), str(table)), encoding="utf-8")
    done = leadline("check", broken)
    assert done.code == 1
    found = f"{table}: row 7: 'label' has 1 labels, expected {len(sentences[6].tokens)}, one for each token."
    assert found in " ".join(done.out.split())


def _traits(words: Sequence[str]) -> Iterator[list[str]]:
    """What a simple tagger sees of each word: itself, its endings, its shape and its neighbours."""
    lower = ["", *map(str.lower, words), ""]
    for place, word in enumerate(words, start=1):
        one, shape = lower[place], f"{word[0].isupper()} {word.isalpha()} {place == 1}"
        endings = (f"{size} {one[-size:]}" for size in (1, 2, 3))
        yield [f"w {one}", f"p {lower[place - 1]}", f"n {lower[place + 1]}", f"s {shape}", *endings]


def _tagger(sentences: Sequence[Sentence]) -> Tagger:
    hashed = FeatureHasher(2**15, input_type="string", alternate_sign=False)
    model = SGDClassifier(loss="log_loss", alpha=1e-5, max_iter=8, tol=None, random_state=0)
    truth = [label for sentence in sentences for label in sentence.labels]
    model.fit(hashed.transform([traits for sentence in sentences for traits in _traits(sentence.tokens)]), truth)

    def tag(words: Sequence[str]) -> NDArray[np.float64]:
        logits: NDArray[np.float64] = model.decision_function(hashed.transform(_traits(words)))
        return logits

    return Tagger(tuple(model.classes_.tolist()), tag)


@pytest.mark.data
def test_parts_of_speech_across_genres(evaluation_texts: Path, encoder_int8: Path, tmp_path: Path) -> None:
    """A tagger of reviews is less accurate, and less sure, on every other genre; an agent sees which it is on."""
    table = columns(evaluation_texts / "pos_tagging.parquet")
    places = zip(table["domain"], table["split"], table["tokens"], table["upos"], strict=True)
    genres: dict[tuple[str, str], list[Sentence]] = {}
    for domain, split, tokens, labels in places:
        genres.setdefault((domain, split), []).append(Sentence(tokens, labels))
    tagger = _tagger(genres["ewt_reviews", "train"][:1500])
    far = ("ewt_email", "ewt_newsgroup", "ewt_answers", "gum_fiction", "gum_whow", "lines", "partut")
    tables = {"train": genres["ewt_reviews", "train"][:300]}
    tables |= {
        name: genres["ewt_reviews", short][:200] for name, short in (("validation", "val"), ("test", "test"))
    }
    tables |= {name: genres[name, "test"][:100] for name in far}
    for name, sentences in tables.items():
        tagger.table(tmp_path / f"{name}.parquet", sentences)
    fitted(tmp_path, encoder_int8, tagger, far)
    told = facts(tmp_path / "fit.json")
    assert told["accuracy"]["test"] == pytest.approx(tagger.quality(tables["test"]))
    assert told["accuracy"]["test"] > 0.85
    assert told["temperature"]["value"] > 1  # trained one class against the rest, it is too sure
    for domain in told["domains"]:
        assert domain["drop"] > 0
        assert told["shift"][domain["name"]]["conf"] > 0
        assert told["shift"][domain["name"]]["conf_calib"] > 0

    held = []
    for name in ("ewt_weblog", "gum_conversation", "gum_textbook"):
        window = genres[name, "test"][:100]
        path = tagger.table(tmp_path / f"{name}.parquet", window)
        done = leadline("estimate", tmp_path / "reference", path, "--json", tmp_path / f"{name}.json")
        assert done.code == 0, done.err
        drop = facts(tmp_path / f"{name}.json")["drop"]
        assert drop["high"] - drop["low"] < 0.4
        held.append(drop["low"] <= told["accuracy"]["test"] - tagger.quality(window) <= drop["high"])
    assert sum(held) >= 2, held  # nine in ten are promised

    near, away = (ran(tmp_path, tagger.records(tables[name]))["windows"][-1] for name in ("test", "ewt_email"))
    assert near["items"] > away["items"] == 100
    assert near["confidence_mean"] > away["confidence_mean"]
    assert near["ood_ratio"]["knn"] < away["ood_ratio"]["knn"]
