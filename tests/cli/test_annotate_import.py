"""`leadline annotate import`: labels go to their batch; out come a verdict, and a new version if asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from agent.annotation.files import LABELS
from agent.bundle import load_reference, load_taught, save_reference
from agent.interval import Interval
from agent.tables import write_table
from tests.agent.batch_bench import truth_of, write_batch
from tests.agent.panel_bench import drawn_from, fitted
from tests.cli.workbench import leadline

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.workbench import Outcome

KEYS = {
    "imported",
    "version",
    "episode",
    "slice",
    "reference_id",
    "asked",
    "labelled",
    "effective_items",
    "empty_strata",
    "level",
    "source_accuracy",
    "accuracy",
    "drop",
    "combined",
    "judged",
    "estimated",
    "depth_f1",
    "sd",
    "tt",
    "td",
    "idd",
    "scenario",
    "scenario_meaning",
    "max_drop",
    "verdict",
    "more_labels",
    "reasons",
}


@dataclass(frozen=True)
class Desk:
    """A configuration, a reference and a batch with known labels."""

    root: Path
    batch: Path
    truth: dict[str, str]

    @property
    def labels(self) -> Path:
        """All labels, as a table."""
        return self.table(self.truth)

    def table(self, labels: dict[str, str], name: str = "labels.csv") -> Path:
        """These labels as a table."""
        write_table(self.root / name, {"id": list(labels), "label": list(labels.values())})
        return self.root / name

    def bring(self, labels: Path, *options: object) -> Outcome:
        """Import labels."""
        return leadline("annotate", "import", self.root / "run.yaml", labels, "--json", self.told, *options)

    @property
    def told(self) -> Path:
        """Where the facts go."""
        return self.root / "told.json"

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the last import."""
        found: dict[str, Any] = json.loads(self.told.read_text(encoding="utf-8"))
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A window that lost much, and 300 items of it to label."""
    save_reference(fitted(3), tmp_path / "reference")
    reference = load_reference(tmp_path / "reference")
    config = {
        "reference": "reference",
        "source": {"file": {"path": "none.jsonl"}},
        "annotation": {"path": "batches"},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return with_batch(tmp_path, reference, "abc")


def with_batch(root: Path, reference: Any, episode: str, seed: int = 7) -> Desk:  # noqa: ANN401 - a reference
    """A batch below the root, of a window with names that want to be markup."""
    window = drawn_from("toys", 1_200, seed=seed)
    batch = write_batch(
        root / "batches",
        reference,
        window,
        labels=300,
        episode=episode,
        slice_='sh[bold]"op\n',
        estimate=Interval(0.15, 0.05, 0.25),
    )
    return Desk(root, batch, truth_of(reference, window, batch))


def test_a_verdict_and_its_fixed_facts(desk: Desk) -> None:
    """The answer comes first, with its numbers; `--json` has its keys whatever happened."""
    done = desk.bring(desk.labels)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert any(line.startswith("300 new labels for episode abc.") for line in lines)
    assert "Yes, the drift costs more than 5 points" in done.out
    assert "retraining should help" in done.out.replace("\n", " ")
    assert "Estimated without labels: +15.0 points [+5.0, +25.0]" in done.out.replace("\n", " ")
    facts = desk.facts
    assert facts.keys() == KEYS
    assert (facts["verdict"], facts["scenario"], facts["max_drop"]) == ("harmful", "classic", 0.05)
    assert facts["imported"] == {"new": 300, "changed": 0, "known": 0, "empty": 0}
    assert facts["drop"]["low"] < facts["drop"]["estimate"] < facts["drop"]["high"]
    assert facts["estimated"]["level"] == 0.9
    assert facts["depth_f1"].keys() == {"0", "25", "50", "75", "90"}
    assert facts["version"] is None


def test_again_changes_nothing(desk: Desk) -> None:
    """The same file a second time appends no line and tells the same."""
    desk.bring(desk.labels)
    first, lines = desk.facts, (desk.batch / LABELS).read_bytes()
    assert desk.bring(desk.labels).code == 0
    assert (desk.batch / LABELS).read_bytes() == lines
    assert desk.facts["imported"] == {"new": 0, "changed": 0, "known": 300, "empty": 0}
    assert {**desk.facts, "imported": None} == {**first, "imported": None}


def test_a_part_now_and_the_rest_later(desk: Desk) -> None:
    """With few labels it cannot tell yet and says how many would; with all it can."""
    few = desk.bring(desk.table(dict(list(desk.truth.items())[:15]), "few.csv"))
    assert "Label at least 30 first" in " ".join(few.out.split())
    assert "more labels would" not in " ".join(few.out.split())
    assert desk.facts["more_labels"] is None
    assert "more_labels" in desk.facts["reasons"]
    done = desk.bring(desk.table(dict(list(desk.truth.items())[:35]), "half.csv"))
    said = " ".join(done.out.split())
    assert "Cannot tell yet" in said
    assert "more labels would tell" in said
    assert desk.facts["verdict"] == "open"
    assert desk.facts["more_labels"] > 0
    judged, drop = desk.facts["judged"], desk.facts["combined"]["drop"]
    assert judged["low"] < drop["low"] < drop["high"] < judged["high"]
    decided_by = f"[{100 * judged['low']:+.1f}, {100 * judged['high']:+.1f}]"
    assert f"While 35 of 300 labels are back, the interval is taken wider, as {decided_by}" in said
    assert desk.facts["tt"] is None
    assert "tt" in desk.facts["reasons"]
    assert desk.facts.keys() == KEYS
    desk.bring(desk.labels)
    assert (desk.facts["verdict"], desk.facts["more_labels"]) == ("harmful", 0)
    assert desk.facts["imported"]["new"] == 265
    assert desk.facts["judged"] == desk.facts["combined"]["drop"]


def test_a_label_that_was_wrong_is_replaced(desk: Desk) -> None:
    """Another label for an id takes the place of the old one, and is counted."""
    desk.bring(desk.labels)
    name, label = next(iter(desk.truth.items()))
    other = "positive" if label == "negative" else "negative"
    assert desk.bring(desk.table({name: other}, "one.csv")).code == 0
    assert desk.facts["imported"] == {"new": 0, "changed": 1, "known": 0, "empty": 0}
    assert "1 in the place of another" in desk.bring(desk.table({name: label}, "back.csv")).out


def test_nothing_is_half_imported(desk: Desk) -> None:
    """One wrong row among three hundred: exit code 2, the row, and the batch as it was."""
    before = (desk.batch / LABELS).read_bytes()
    done = desk.bring(desk.table(desk.truth | {"nobody": "positive"}, "wrong.csv"))
    assert done.code == 2
    assert done.complaints == [
        f"{desk.root / 'wrong.csv'}: row 301: the batch has no item 'nobody'",
        "No label was imported.",
    ]
    assert (desk.batch / LABELS).read_bytes() == before
    assert not desk.told.exists()


def test_a_new_version(desk: Desk) -> None:
    """`--out` writes a reference with the window as a domain; it names its parent and still finds its encoder."""
    done = desk.bring(desk.labels, "--out", desk.root / "later" / "second")
    assert done.code == 0, done.err
    assert "Old and new version on the 3 domains that both know" in done.out
    said = " ".join(done.out.split())
    left_out = 300 - desk.facts["version"]["rows"]
    assert left_out > 0
    assert f"The other {left_out} are left out: some parts of the window" in said
    assert "puts the state of the old version aside" in said
    version = desk.facts["version"]
    old, new = load_reference(desk.root / "reference"), load_taught(desk.root / "later" / "second")
    assert version["id"] == new.id
    assert version["parent"] == old.id == new.earlier[-1].id
    assert (version["written"], version["worse"], version["domain"]) == (True, None, "episode-abc")
    assert version["old"].keys() == version["new"].keys() == {"mae", "max", "covered", "domains"}
    assert new.encoder.path == "../../reference/encoder"
    assert new.taught is not None
    assert list(new.taught.domains)[-1] == "episode-abc"
    again = leadline("annotate", "import", desk.root / "run.yaml", desk.labels, "--out", desk.root / "third")
    assert again.code == 0
    assert load_reference(desk.root / "third").id == new.id


def test_a_worse_version_is_not_written_unless_forced(desk: Desk) -> None:
    """With labels that are all wrong the version is worse: exit code 1 and no file, or with --force a file."""
    other = {"negative": "positive", "positive": "negative"}
    wrong = desk.table({name: other[label] for name, label in desk.truth.items()}, "wrong.csv")
    done = desk.bring(wrong, "--out", desk.root / "worse")
    assert done.code == 1
    assert "The new version is worse" in done.out
    assert not (desk.root / "worse").exists()
    assert (desk.facts["version"]["id"], desk.facts["version"]["written"]) == (None, False)
    assert desk.bring(wrong, "--out", desk.root / "worse", "--force").code == 0
    assert load_reference(desk.root / "worse").domains[-1].name == "episode-abc"


def test_the_version_in_use_is_never_written_over(desk: Desk) -> None:
    """`--out` on the reference itself, or on something else, is refused before anything is imported."""
    before = (desk.batch / LABELS).read_bytes()
    done = desk.bring(desk.labels, "--out", desk.root / "reference")
    assert done.code == 2
    assert "the old version is there" in done.err
    assert desk.bring(desk.labels, "--out", desk.root / "batches").code == 2
    assert (desk.batch / LABELS).read_bytes() == before


def test_another_reference_is_written_over_only_by_force(desk: Desk) -> None:
    """What is no earlier version by the same episode stays, and nothing is imported; its own is made anew."""
    assert desk.bring(desk.labels, "--out", desk.root / "second").code == 0
    assert desk.bring(desk.labels, "--out", desk.root / "second").code == 0
    other = with_batch(desk.root, load_reference(desk.root / "reference"), "xyz", seed=8)
    before = (other.batch / LABELS).read_bytes()
    refused = other.bring(other.labels, "--episode", "xyz", "--out", desk.root / "second")
    assert refused.code == 2
    assert "holds another reference, which an agent may be running on" in refused.err
    assert (other.batch / LABELS).read_bytes() == before
    save_reference(fitted(2), desk.root / "other")
    assert desk.bring(desk.labels, "--episode", "abc", "--out", desk.root / "other").code == 2
    assert desk.bring(desk.labels, "--episode", "abc", "--out", desk.root / "other", "--force").code == 0
    assert load_reference(desk.root / "other").earlier[-1].episode == "abc"


def test_labels_are_for_the_batch_that_an_alert_asked_for(desk: Desk) -> None:
    """Where one on demand has all the ids too; blanks around ids do not hide them."""
    demanded = with_batch(desk.root, load_reference(desk.root / "reference"), "asked-0123")
    facts = json.loads((demanded.batch / "batch.json").read_text("utf-8"))
    (demanded.batch / "batch.json").write_text(json.dumps(facts | {"kind": "asked"}), "utf-8")
    both = {f" {name}": label for name, label in desk.truth.items() if name in demanded.truth}
    done = desk.bring(desk.table(both, "both.csv"))
    assert f"{len(both)} new labels for episode abc." in done.out


def test_which_batch_is_told_by_the_ids(desk: Desk) -> None:
    """Of several batches the one that has all the ids is meant; where two have them, the episode must be named."""
    reference = load_reference(desk.root / "reference")
    with_batch(desk.root, reference, "xyz", seed=8)
    name = next(iter(desk.truth))
    shared = set(desk.truth) & set(
        truth_of(reference, drawn_from("toys", 1_200, seed=8), desk.root / "batches/xyz")
    )
    assert desk.bring(desk.table(dict.fromkeys(desk.truth, "positive"), "all.csv")).code == 0
    assert desk.facts["episode"] == "abc"
    both = desk.bring(desk.table({next(iter(shared)): "positive"}, "both.csv"))
    assert both.code == 2
    assert "abc, xyz have all these ids. Say it with --episode." in both.err.replace("\n", " ")
    neither = desk.bring(desk.table({name: "positive", "nobody": "positive"}, "neither.csv"))
    assert "none of abc, xyz has all these ids" in neither.err.replace("\n", " ")
    named = desk.bring(desk.table({next(iter(shared)): "positive"}, "named.csv"), "--episode", "xyz")
    assert named.code == 0
    assert desk.facts["episode"] == "xyz"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--episode", "none"], "holds no batch of episode none. There are: abc."),
        (["--episode", "../x"], "letters"),
    ],
)
def test_episodes_that_are_not_there(desk: Desk, options: list[str], message: str) -> None:
    """An unknown episode is answered with those there are; a path is no episode."""
    done = desk.bring(desk.labels, *options)
    assert done.code == 2
    assert message in done.err.replace("\n", " ")


def test_without_batches_or_annotation(tmp_path: Path) -> None:
    """A configuration without the part, or a directory without a batch, says what is missing."""
    write_table(tmp_path / "labels.csv", {"id": ["a"], "label": ["positive"]})
    config = {"reference": "reference", "source": {"file": {"path": "none.jsonl"}}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    done = leadline("annotate", "import", tmp_path / "run.yaml", tmp_path / "labels.csv")
    assert done.code == 2
    assert "annotation: missing" in done.err
    config["annotation"] = {"path": "batches"}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    done = leadline("annotate", "import", tmp_path / "run.yaml", tmp_path / "labels.csv")
    assert "holds no annotation batch yet" in done.err


def test_tokens_are_sent_elsewhere(desk: Desk) -> None:
    """Labels of tokens cannot be judged by a batch, which says where they can."""
    facts = json.loads((desk.batch / "batch.json").read_text("utf-8"))
    (desk.batch / "batch.json").write_text(json.dumps(facts | {"task": "tokens"}), "utf-8")
    done = desk.bring(desk.labels)
    assert done.code == 2
    assert "use `leadline evaluate`" in done.err.replace("\n", " ")


def test_another_reference_is_refused(desk: Desk) -> None:
    """A batch that was drawn with another reference takes no labels by way of this one."""
    save_reference(fitted(2), desk.root / "reference")
    done = desk.bring(desk.labels)
    assert done.code == 2
    assert "was drawn with the reference" in done.err
    assert (desk.batch / LABELS).read_bytes() == b""
