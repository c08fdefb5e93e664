"""Kept texts: of sampled items only, redacted before anything keeps them, forgotten in time."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from agent.annotation import texts as module
from agent.annotation.texts import KeptText, KeptTexts, NoTexts
from agent.records import Record
from tests.agent.annotation.annotation_bench import NOW, config_of, panes_of, records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from agent.reference import Reference
    from agent.scorer import Scored

    Score = Callable[[Sequence[Record]], Scored]


def _texts(path: Path, redact: Callable[[str], Any] | None = None, **changes: Any) -> KeptTexts:  # noqa: ANN401 - any key
    size = changes.pop("size", 2000)
    config = config_of(path, texts=True, **changes)
    return KeptTexts(config, redact or (lambda text: text), clock=lambda: NOW, size=size)


def test_only_texts_of_sampled_items_are_kept(reference: Reference, score: Score, tmp_path: Path) -> None:
    """Of a hundred records, those whose ids their pane samples, each under its slice."""
    texts, records = _texts(tmp_path), records_of(50)
    panes = panes_of(reference, score, records, size=8)
    texts.keep(records, ["all"] * 50, panes)
    sampled = set(panes[0].sample.ids.tolist())
    assert set(texts.kept) == {("all", name) for name in sampled}
    assert len(sampled) == 8
    found = texts.get("all", [*sampled, "item-none"])
    assert {name: text.text for name, text in found.items()} == {name: f"the text of {name}" for name in sampled}
    assert texts.get("another", sampled) == {}
    assert texts.take_changed() == set(texts.kept)
    assert texts.take_changed() == set()


def test_slices_keep_the_same_id_apart(reference: Reference, score: Score, tmp_path: Path) -> None:
    """Two records of one id in two slices have two texts."""
    texts = _texts(tmp_path)
    records = [Record("one", "from a", 1.0), Record("one", "from b", 1.0)]
    panes = [*panes_of(reference, score, records[:1], "a"), *panes_of(reference, score, records[1:], "b")]
    texts.keep(records, ["a", "b"], panes)
    assert texts.get("a", ["one"])["one"].text == "from a"
    assert texts.get("b", ["one"])["one"].text == "from b"


def test_a_text_is_redacted_before_it_is_cut(reference: Reference, score: Score, tmp_path: Path) -> None:
    """The redaction sees the whole text and its pair, so that a cut hides nothing from it."""
    seen: list[str] = []

    def redact(text: str) -> str:
        seen.append(text)
        return text.replace("jo@example.org", "<address>")

    texts = _texts(tmp_path, redact, most_characters=12)
    records = [Record("one", "write to jo@example.org now", 1.0, pair="or jo@example.org")]
    texts.keep(records, ["all"], panes_of(reference, score, records))
    kept = texts.get("all", ["one"])["one"]
    assert seen == ["write to jo@example.org now", "or jo@example.org"]
    assert (kept.text, kept.pair) == ("write to <ad", "or <address>")


def test_a_redaction_that_breaks_loses_the_text_and_nothing_else(
    reference: Reference, score: Score, tmp_path: Path
) -> None:
    """It is counted, logged once, by its kind alone; what gives no text is lost too, and None keeps nothing."""

    def redact(text: str) -> object:
        number = int(text.rsplit("-", 1)[1])
        if number % 3 == 0:
            raise ValueError(f"secret {text}")
        return {1: b"bytes"}.get(number % 3, text if number % 2 else None)

    texts, records = _texts(tmp_path, redact), records_of(12)
    with structlog.testing.capture_logs() as logs:
        texts.keep(records, ["all"] * 12, panes_of(reference, score, records))
    assert set(texts.kept) == {("all", "item-5"), ("all", "item-11")}
    assert texts.failures == 8
    assert [(line["event"], line["error"]) for line in logs] == [("redaction_failed", "ValueError")]
    assert "secret" not in json.dumps(logs)


def test_texts_go_with_the_items_that_no_pane_samples(reference: Reference, score: Score, tmp_path: Path) -> None:
    """Pruned by all panes there are, what none of them samples is forgotten and told as changed."""
    texts, records = _texts(tmp_path), records_of(120)
    panes = panes_of(reference, score, records)
    texts.keep(records, ["all"] * 120, panes)
    texts.take_changed()
    texts.prune(panes[1:])
    assert {name for _, name in texts.kept} == set(panes[1].sample.ids.tolist())
    assert texts.take_changed() == {("all", name) for name in panes[0].sample.ids.tolist()}
    texts.prune([])
    assert not texts.kept


def test_a_pane_that_takes_many_records_keeps_no_more_than_twice_its_sample(
    reference: Reference, score: Score, tmp_path: Path
) -> None:
    """However long a pane stays open, its texts stay bounded, and those it still samples are among them."""
    texts, panes = _texts(tmp_path, size=8), []
    for part in range(30):
        records = records_of(10, f"part{part}")
        new = panes_of(reference, score, [replace(each, time=1.0) for each in records], size=8)
        texts.keep(records, ["all"] * 10, new)
        panes += new
        assert len(texts.kept) <= 16
    whole = panes[0]
    for pane in panes[1:]:
        whole = whole.merge(pane)
    assert set(whole.sample.ids.tolist()) <= {name for _, name in texts.kept}


def test_texts_expire_by_the_clock_and_by_event_time(reference: Reference, score: Score, tmp_path: Path) -> None:
    """After `keep` a text is gone, counted from when it was kept; and one whose record is that much older too."""
    texts, records = _texts(tmp_path, keep="1h"), records_of(3)
    texts.keep(records, ["all"] * 3, panes_of(reference, score, records))
    texts.expire(NOW + 3599)
    assert len(texts.kept) == 3  # though their records are of 1970: it is a replay
    later = [Record("late", "a text", 3601.0)]
    texts.keep(later, ["all"], panes_of(reference, score, later))
    texts.expire(NOW + 1)
    assert {name for _, name in texts.kept} == {"item-2", "late"}
    texts.take_changed()
    texts.expire(NOW + 3600)
    assert not texts.kept
    assert len(texts.take_changed()) == 2


def test_a_text_kept_while_the_clock_was_ahead_goes(reference: Reference, score: Score, tmp_path: Path) -> None:
    """Counted from a moment that is more than a day off, it would stay as much longer."""
    texts, records = _texts(tmp_path), records_of(3)
    texts.keep(records, ["all"] * 3, panes_of(reference, score, records))
    texts.expire(NOW - 86_400)
    assert len(texts.kept) == 3
    texts.expire(NOW - 86_401)
    assert not texts.kept


def test_of_very_many_texts_the_newest_are_kept(
    reference: Reference, score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All together take so much memory and no more, pairs included, after a restart too."""
    texts, records = _texts(tmp_path), records_of(10)
    pairs = [replace(each, pair="é" * 100, time=1.0) for each in records]
    texts.keep(pairs, ["all"] * 10, panes_of(reference, score, pairs))
    kept = list(texts.kept.values())
    most = sum(text.size for text in kept[6:])
    assert most > 4 * 100
    monkeypatch.setattr(module, "MOST_BYTES", most)
    late = replace(pairs[0], id="late")
    texts.keep([late], ["all"], panes_of(reference, score, [late]))
    assert [name for _, name in texts.kept] == ["item-7", "item-8", "item-9", "late"]
    assert texts.take_changed() >= {text.key for text in kept[:7]}
    again = _texts(tmp_path)
    again.restore([replace(text, kept=NOW - place) for place, text in enumerate(kept)])
    assert {name for _, name in again.kept} == {"item-0", "item-1", "item-2", "item-3"}
    assert again.take_changed() == {text.key for text in kept[4:]}


@pytest.mark.parametrize("length", [20, 500])
def test_a_text_counts_for_the_memory_that_it_takes(tmp_path: Path, length: int) -> None:
    """With its id, its times and its places, held against what Python says: not for less, nor for much more."""
    texts = _texts(tmp_path, redact=str.upper)
    tracemalloc.start()
    try:
        texts.restore(
            KeptText("".join("shop"), f"id-{row:09}", row // 1000 * 60, "a" * length, None, row + 0.5, NOW + row)
            for row in range(22_000)
        )
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counted = sum(text.size for text in texts.kept.values())
    assert len(texts.kept) == 22_000
    assert 0.8 * counted < taken < counted


def test_a_second_delivery_does_not_make_a_text_younger(
    reference: Reference, score: Score, tmp_path: Path
) -> None:
    """The first text of an id stays, with the time at which it was kept."""
    now = [NOW]
    texts = KeptTexts(config_of(tmp_path, texts=True), clock=lambda: now[0])
    for text in ("first", "second"):
        records = [Record("one", text, 1.0)]
        texts.keep(records, ["all"], panes_of(reference, score, records))
        now[0] += 60
    assert texts.get("all", ["one"])["one"] == KeptText("all", "one", 0, "first", None, 1.0, NOW)


def test_a_restart_brings_texts_back_as_the_configuration_now_allows(
    reference: Reference, score: Score, tmp_path: Path
) -> None:
    """What was kept before a redaction was configured, or a lower cut, is redacted and cut when it is taken up."""
    before, records = _texts(tmp_path), records_of(5)
    before.keep(records, ["all"] * 5, panes_of(reference, score, records))
    kept = [KeptText(**json.loads(json.dumps(asdict(text)))) for text in before.kept.values()]
    same = _texts(tmp_path)
    same.restore(kept)
    assert same.kept == before.kept
    assert same.take_changed() == set()

    def redact(text: str) -> str | None:
        return None if text.endswith("4") else text.upper()

    stricter = _texts(tmp_path, redact, most_characters=8)
    stricter.restore(kept)
    assert {text.text for text in stricter.kept.values()} == {"THE TEXT"}
    assert ("all", "item-4") not in stricter.kept
    assert stricter.take_changed() == set(before.kept)


def test_who_did_not_opt_in_keeps_nothing_and_forgets_what_was_kept(reference: Reference, score: Score) -> None:
    """Without `texts` nothing is kept; what an earlier run kept is told as gone, so that the state drops it."""
    texts, records = NoTexts(), records_of(5)
    panes = panes_of(reference, score, records)
    texts.keep(records, ["all"] * 5, panes)
    texts.prune(panes)
    texts.expire(NOW)
    assert (dict(texts.kept), texts.get("all", ["item-0"]), texts.take_changed()) == ({}, {}, set())
    texts.restore([KeptText("all", "item-0", 0, "a text", None, 1.0, NOW)])
    assert not texts.kept
    assert texts.take_changed() == {("all", "item-0")}
    assert texts.take_changed() == set()


def test_hostile_ids_and_texts_are_kept_like_any(reference: Reference, score: Score, tmp_path: Path) -> None:
    """Halves of surrogate pairs from a redaction, NUL at the end of an id, quotes and HTML break nothing."""
    texts = _texts(tmp_path, lambda text: text + "\ud800")
    ids = ["nul\0", 'a"b', "<script>", "line\nend", "ü" * 200]
    records = [Record(name, "a text", 1.0) for name in ids]
    texts.keep(records, ["all"] * len(ids), panes_of(reference, score, records))
    assert {name for _, name in texts.kept} == {"nul", *ids[1:]}
    assert {text.text for text in texts.kept.values()} == {"a text?"}
