"""`leadline annotate export`: the items of a batch in a file, with texts that need never have been kept."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agent.annotation.batch import Arrays, Batch, Believed, Item, Span, Stratum
from agent.annotation.draw import Made
from agent.annotation.files import write
from agent.interval import Interval
from tests.cli.workbench import facts, leadline, write_config

if TYPE_CHECKING:
    from pathlib import Path

LABELS = ("negative", "positive")
BATCH = Batch(
    episode="aaaa",
    slice='mobile "beta"\n[bold]',
    kind="drop",
    model="sentiment",
    reference_id="0123456789abcdef",
    labels=LABELS,
    task="classification",
    window=Span(0.0, 3600.0, 500),
    estimate=Believed(Interval(0.1, 0.06, 0.14), Interval(0.8, 0.76, 0.84), 0.9, inside_domains=True),
    precision=0.03,
    needed=4,
    sampled=10,
    strata=(Stratum(1, 1), Stratum(9, 3)),
    created=1_700_000_000.0,
    texts=True,
)


def _item(row: int) -> Item:
    return Item(
        id=f"id-{row}",
        slice=BATCH.slice,
        row=row,
        stratum=min(row, 1),
        inclusion_probability=1.0 if row == 0 else 1 / 3,
        dissimilar=row == 0,
        depth=0.5,
        depth_rank=0.1,
        confidence=0.9,
        prediction="positive",
        probabilities={"negative": 0.1, "positive": 0.9},
        text=f"kept text {row}",
        text_kept=time.time(),
    )


def _put(root: Path, *items: Item, **changes: Any) -> Path:  # noqa: ANN401 - any part of a batch
    arrays = Arrays(np.zeros((10, 4), np.float16), np.zeros((10, 2), np.float32))
    return write(root, Made(replace(BATCH, **changes), items or tuple(map(_item, range(4))), arrays))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A run configuration whose batches are in `batches`, where none is yet."""
    content = {
        "reference": "reference",
        "source": {"file": {"path": "stream.jsonl"}},
        "annotation": {"path": "batches", "texts": True},
    }
    return write_config(tmp_path / "run.yaml", content, {})


def test_the_newest_batch_is_exported_as_json_lines(config: Path, tmp_path: Path) -> None:
    """One object an item, in a file that only its owner can read; the command says where and what is missing."""
    _put(tmp_path / "batches")
    _put(tmp_path / "batches", episode="bbbb", created=1_700_000_001.0, needed=1000)
    out = tmp_path / "new" / "items.jsonl"
    done = leadline("annotate", "export", config, "--out", out, "--json", tmp_path / "facts.json")
    assert (done.code, done.err) == (0, "")
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["id-0", "id-1", "id-2", "id-3"]
    assert lines[1]["probabilities"] == {"negative": 0.1, "positive": 0.9}
    assert out.stat().st_mode & 0o777 == 0o600
    assert "4 items of episode bbbb" in done.out
    assert "1,000 labels would give ±3 points" in done.out
    told = facts(tmp_path / "facts.json")
    assert (told["episode"], told["items"], told["texts"], told["labelled"]) == ("bbbb", 4, 4, 0)
    assert told["files"] == [str(out)]


def test_an_episode_can_be_named(config: Path, tmp_path: Path) -> None:
    """Its batch is exported though another is newer; an unknown one is an error that says which there are."""
    _put(tmp_path / "batches")
    _put(tmp_path / "batches", episode="bbbb", created=1_700_000_001.0)
    out = tmp_path / "items.jsonl"
    assert "episode aaaa" in leadline("annotate", "export", config, "--out", out, "--episode", "aaaa").out
    unknown = leadline("annotate", "export", config, "--out", out, "--episode", "cccc")
    assert unknown.code == 2
    assert unknown.complaints[0].endswith("holds no batch of episode cccc. There are: aaaa, bbbb.")
    assert leadline("annotate", "export", config, "--out", out, "--episode", "../x").code == 2


def test_what_an_alert_asked_for_comes_before_what_was_drawn_on_demand(config: Path, tmp_path: Path) -> None:
    """Though it is older; which one was taken is said, and the other can be named."""
    _put(tmp_path / "batches")
    _put(tmp_path / "batches", episode="asked-0123", kind="asked", created=1_700_000_001.0)
    out = tmp_path / "items.jsonl"
    done = leadline("annotate", "export", config, "--out", out)
    assert "Of 2 batches the newest that an alert asked for: aaaa." in done.out
    assert "4 items of episode aaaa" in done.out
    named = leadline("annotate", "export", config, "--out", out, "--episode", "asked-0123")
    assert "4 items of episode asked-0123" in named.out
    shutil.rmtree(tmp_path / "batches" / "aaaa")
    assert "episode asked-0123" in leadline("annotate", "export", config, "--out", out).out


def test_tasks_for_label_studio_come_with_their_configuration(config: Path, tmp_path: Path) -> None:
    """Two files: the tasks to import, and what to paste under Labeling Interface."""
    _put(tmp_path / "batches")
    out = tmp_path / "tasks.json"
    done = leadline("annotate", "export", config, "--out", out, "--format", "label-studio")
    assert done.code == 0, done.err
    tasks = json.loads(out.read_text(encoding="utf-8"))
    assert [task["data"]["text"] for task in tasks] == [f"kept text {row}" for row in range(4)]
    assert '<Choice value="positive"/>' in (tmp_path / "tasks.xml").read_text(encoding="utf-8")
    assert str(tmp_path / "tasks.xml") in done.out
    same = leadline("annotate", "export", config, "--out", tmp_path / "a.xml", "--format", "label-studio")
    assert same.code == 2
    assert "is for the labelling configuration" in same.err


@pytest.mark.parametrize("name", ["own.csv", "own.jsonl"])
def test_texts_can_come_from_the_users_own_table(config: Path, tmp_path: Path, name: str) -> None:
    """Found by id, so that none need ever be kept; items that the table lacks have none, and that is said."""
    _put(tmp_path / "batches", *(_item(row).without_text() for row in range(4)), texts=False)
    own = tmp_path / name
    if name.endswith("csv"):
        own.write_text('id,text,text_pair\nid-2,"own, two",pair\nother,more,\nid-0,own zero,\n', encoding="utf-8")
    else:
        own.write_text(
            '{"id": "id-2", "text": "own, two", "text_pair": "pair"}\n{"id": "id-0", "text": "own zero"}\n',
            encoding="utf-8",
        )
    out = tmp_path / "items.jsonl"
    done = leadline("annotate", "export", config, "--out", out, "--texts", own)
    assert done.code == 0, done.err
    lines = {each["id"]: each for each in map(json.loads, out.read_text(encoding="utf-8").splitlines())}
    assert {name: line.get("text") for name, line in lines.items()} == {
        "id-0": "own zero",
        "id-1": None,
        "id-2": "own, two",
        "id-3": None,
    }
    assert lines["id-2"]["text_pair"] == "pair"
    assert "2 items have no text" in done.out


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("text\na text\n", "own.csv: column 'id' is missing"),
        ("id,label\nid-1,positive\n", "own.csv: column 'text' is missing"),
        ("id,text\nother,a text\n", "own.csv: none of its ids is in the batch, such as 'id-0'."),
    ],
)
def test_a_table_that_does_not_fit_is_an_error(config: Path, tmp_path: Path, content: str, complaint: str) -> None:
    """Nothing is written, and the error says what is wrong with the table."""
    _put(tmp_path / "batches")
    own, out = tmp_path / "own.csv", tmp_path / "items.jsonl"
    own.write_text(content, encoding="utf-8")
    done = leadline("annotate", "export", config, "--out", out, "--texts", own)
    assert (done.code, out.exists()) == (2, False)
    assert complaint in done.err


def test_texts_that_are_too_old_are_not_handed_out(config: Path, tmp_path: Path) -> None:
    """Even if no agent ran that would have deleted them."""
    old = replace(_item(1), text_kept=time.time() - 8 * 86_400)
    _put(tmp_path / "batches", _item(0), old, _item(2), _item(3))
    out = tmp_path / "items.jsonl"
    assert leadline("annotate", "export", config, "--out", out).code == 0
    assert "kept text 1" not in out.read_text(encoding="utf-8")
    assert "kept text 2" in out.read_text(encoding="utf-8")


def test_batches_are_listed(config: Path, tmp_path: Path) -> None:
    """With their slice, why they were drawn, and how many items have come back; none is no error."""
    assert "holds no annotation batch yet" in leadline("annotate", "export", config, "--list").out
    directory = _put(tmp_path / "batches")
    (directory / "labels.jsonl").write_text('{"id": "id-1", "label": "positive", "time": 1}\n', encoding="utf-8")
    done = leadline("annotate", "export", config, "--list", "--json", tmp_path / "facts.json")
    assert done.code == 0, done.err
    assert "aaaa" in done.out
    (told,) = facts(tmp_path / "facts.json")["batches"]
    assert (told["slice"], told["kind"], told["items"], told["labelled"]) == (BATCH.slice, "drop", 4, 1)


def test_what_is_missing_is_said_plainly(config: Path, tmp_path: Path) -> None:
    """No batch yet, no `annotation`, no `--out`: what would mend it."""
    out = tmp_path / "items.jsonl"
    none = leadline("annotate", "export", config, "--out", out)
    assert none.code == 2
    assert "holds no annotation batch yet. The agent writes one when it begins to ask" in none.err
    silent = leadline("annotate", "export", config)
    assert silent.code == 2
    assert "--out is missing" in silent.err
    bare = write_config(tmp_path / "bare.yaml", {"reference": "r", "source": {"file": {"path": "s.jsonl"}}}, {})
    unset = leadline("annotate", "export", bare, "--out", out)
    assert unset.code == 2
    assert "annotation: missing, so no batch is ever written" in unset.err


def test_a_damaged_batch_ends_with_3(config: Path, tmp_path: Path) -> None:
    """The error names the file; nothing is written."""
    directory = _put(tmp_path / "batches")
    (directory / "items.jsonl").write_bytes(b"{")
    done = leadline("annotate", "export", config, "--out", tmp_path / "items.jsonl")
    assert done.code == 3
    assert "items.jsonl: line 1 is not JSON" in done.err


@pytest.mark.parametrize("kind", ["directory", "link", "below a file"])
def test_only_plain_files_are_written_over(config: Path, tmp_path: Path, kind: str) -> None:
    """A directory, or a link such as /dev/stdout, is left as it is; the error names it."""
    _put(tmp_path / "batches")
    (tmp_path / "file").write_text("of the user", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    out = {"directory": tmp_path / "batches", "link": tmp_path / "link", "below a file": tmp_path / "file" / "x"}[
        kind
    ]
    done = leadline("annotate", "export", config, "--out", out)
    assert done.code == 2
    assert str(out) in done.err
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "of the user"


def test_help_fits_a_terminal() -> None:
    """`--help` ends with 0 and fits 80 columns."""
    for command in (["annotate"], ["annotate", "export"]):
        told = leadline(*command, "--help")
        assert told.code == 0
        assert max(map(len, told.out.splitlines())) <= 80
