"""`leadline annotate export --now`: a batch on demand, from what the agent has saved."""

from __future__ import annotations

import json
import time
from contextlib import closing
from math import isfinite
from typing import TYPE_CHECKING

import pytest

from agent.annotation.batch import ON_DEMAND
from agent.annotation.files import found, read_batch
from agent.annotation.texts import KeptTexts
from agent.assembly import owner_of
from agent.bundle import load_reference, save_reference
from agent.checkpoints import Checkpoints
from agent.config import RunConfig, load_config
from agent.records import Record
from agent.summary import Summary
from agent.windows import Windows
from detectors.strata import labels_needed
from tests.agent.panel_bench import drawn_from, fitted, scored
from tests.agent.state_bench import TEXTS, Parts
from tests.cli.workbench import leadline, write_config

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("web", "mobile")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """As of an agent that ran until now."""
    return _configured(tmp_path, time.time())


def _configured(tmp_path: Path, kept: float) -> Path:
    """A run configuration, its reference, and the state that an agent saved after two hundred items a slice.

    Their texts were kept then (epoch seconds).
    """
    save_reference(fitted(2), tmp_path / "reference")
    (tmp_path / "stream.jsonl").write_text('{"id": "1", "text": "a"}\n', encoding="utf-8")
    content = {
        "reference": "reference",
        "source": {"file": {"path": "stream.jsonl"}},
        "windows": {"pane": "1m", "short": "3m", "long": "6m", "min_items": 20, "lateness": "1s"},
        "state": {"path": "state.db"},
        "annotation": {"path": "batches", "texts": True},
    }
    path = write_config(tmp_path / "run.yaml", content, {})
    _save(load_config(path, RunConfig), 200, kept)
    return path


def _save(config: RunConfig, items: int, kept: float) -> None:
    reference = load_reference(config.reference)
    drawn = drawn_from("window", items)
    parts = Parts()
    parts.windows = Windows(config.windows, reference.labels, tuple(reference.detectors))
    parts.texts = KeptTexts(TEXTS, clock=lambda: kept)
    for name in NAMES:
        records = [Record(f"{name}-{row}", text, float(row)) for row, text in enumerate(drawn.texts)]
        panes = Summary(reference, 60).panes(records, [name] * items, scored(reference, drawn))
        parts.windows.add(panes)
        parts.texts.keep(records, [name] * items, panes)
    parts.windows.admit(items + 120.0)
    parts.windows.close()
    with closing(Checkpoints(config.state.path, 10, owner_of(config, reference))) as store:  # type: ignore[union-attr]
        store.save(parts)


def _now(config: Path, *options: object) -> list[dict[str, object]]:
    out = config.with_name("items.jsonl")
    done = leadline("annotate", "export", config, "--out", out, "--now", *options)
    assert done.code == 0, done.err
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_a_batch_is_drawn_without_an_episode(config: Path) -> None:
    """From the newest long window, as many as asked for, written beside those of episodes and exported."""
    lines = _now(config, "--slice", "web", "--items", 40)
    assert len(lines) == 40
    assert all(str(line["id"]).startswith("web-") for line in lines)
    (directory,) = found(config.with_name("batches"))
    batch = read_batch(directory)
    assert (batch.kind, batch.slice, batch.items, batch.sampled) == (ON_DEMAND, "web", 40, 200)
    assert isfinite(batch.estimate.drop.low)
    assert _now(config, "--slice", "web", "--items", 40) == lines
    assert found(config.with_name("batches")) == [directory]


def test_without_a_number_as_many_as_the_precision_needs(config: Path) -> None:
    """As an episode would ask for: by `alerts.precision` and the accuracy that is believed."""
    lines = _now(config, "--slice", "mobile")
    (directory,) = found(config.with_name("batches"))
    assert 100 < read_batch(directory).needed == len(lines) < 200


@pytest.mark.parametrize(("items", "drawn"), [(40, 40), (1500, 200)])
def test_a_number_does_not_change_what_the_precision_needs(config: Path, items: int, drawn: int) -> None:
    """However many are asked for, the batch says how many labels would give its precision."""
    assert len(_now(config, "--slice", "web", "--items", items)) == drawn
    (directory,) = found(config.with_name("batches"))
    batch = read_batch(directory)
    accuracy = batch.estimate.accuracy
    assert batch.needed == labels_needed((accuracy.low, accuracy.high), batch.precision)
    assert batch.short == max(0, batch.needed - drawn)


def test_texts_that_the_state_keeps_are_shown(config: Path) -> None:
    """Each item of the batch has its own."""
    texts = drawn_from("window", 200).texts
    for line in _now(config, "--slice", "web", "--items", 20):
        assert line["text"] == texts[int(str(line["id"]).removeprefix("web-"))]


def test_texts_that_the_state_has_too_long_are_not_shown(tmp_path: Path) -> None:
    """Kept more than a week ago, they are not in the batch."""
    config = _configured(tmp_path, kept=time.time() - 8 * 86_400)
    assert not any("text" in line for line in _now(config, "--slice", "web", "--items", 20))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--now"], "--slice is missing: which of 'mobile', 'web'?"),
        (["--now", "--slice", "tv"], "--slice 'tv': the state holds no items of it. It holds 'mobile', 'web'."),
        (["--slice", "web"], "--slice and --items go with --now"),
        (["--items", "5"], "--slice and --items go with --now"),
        (["--now", "--episode", "x"], "--episode and --now exclude each other"),
    ],
)
def test_bad_usage_is_said_plainly(config: Path, options: list[str], complaint: str) -> None:
    """What is missing or does not go together, and nothing is drawn."""
    done = leadline("annotate", "export", config, "--out", config.with_name("x.jsonl"), *options)
    assert done.code == 2
    assert complaint in done.err
    assert found(config.with_name("batches")) == []


def test_without_a_state_nothing_can_be_drawn(config: Path) -> None:
    """No agent has run, or it keeps no state: the error says which."""
    out = config.with_name("x.jsonl")
    config.with_name("state.db").unlink()
    absent = leadline("annotate", "export", config, "--out", out, "--now")
    assert (absent.code, "no agent has run with this configuration yet" in absent.err) == (2, True)
    content = config.read_text(encoding="utf-8").replace("state:\n  path: state.db\n", "")
    config.write_text(content, encoding="utf-8")
    unset = leadline("annotate", "export", config, "--out", out, "--now")
    assert (unset.code, "state: missing: --now draws from" in unset.err) == (2, True)
