"""The desk: batches written and tried again, labels filed, texts deleted in time, and nothing ever raised."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from agent.alert_report import Kind, Realised
from agent.annotation import desk as module
from agent.annotation import files, shelf
from agent.annotation.desk import MOST_WAITING, Annotation, no_answers
from agent.annotation.draw import Drawing, Made
from agent.annotation.files import read_batch, read_items, write
from agent.annotation.labels import read_labels
from agent.annotation.shelf import NEWEST
from agent.errors import ArtefactError
from agent.interval import Interval
from agent.records import Label
from tests.agent.annotation.annotation_bench import EPISODE, ESTIMATE, NOW, config_of, episode_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from agent.annotation.desk import Answers
    from agent.annotation.texts import KeptTexts
    from agent.records import Record
    from agent.reference import Reference
    from agent.scorer import Scored
    from agent.window_contents import EndedWindow


@dataclass
class Office:
    """A desk, what it works with, and another one as after a restart."""

    reference: Reference
    window: EndedWindow
    texts: KeptTexts
    root: Path

    def open(self, answers: Answers = no_answers, **changes: int) -> Annotation:
        """A desk over what is on disk."""
        config = config_of(self.root, texts=True, keep="1h", **changes)
        return Annotation(Drawing(self.reference, config, self.texts), 0.03, answers, lambda: NOW)

    @property
    def batch(self) -> Path:
        """Where the batch of the usual episode is."""
        return self.root / EPISODE

    @property
    def ids(self) -> list[str]:
        """Those of its items."""
        return [item.id for item in read_items(self.batch, read_batch(self.batch))]


@pytest.fixture
def office(reference: Reference, score: Callable[[Sequence[Record]], Scored], tmp_path: Path) -> Office:
    """With a window of three hundred items and their texts."""
    texts, window = texts_of(reference, score, tmp_path)
    return Office(reference, window, texts, tmp_path / "annotation")


def test_an_episode_has_its_batch_written(office: Office) -> None:
    """At once, with what was asked, and told about."""
    desk = office.open()
    assert desk.told().batches == ()
    desk.ask(replace(episode_of(), kind=Kind.UNKNOWN), office.window, ESTIMATE)
    (facts,) = desk.told().batches
    assert (facts.episode, facts.slice, facts.path) == (EPISODE, "all", str(office.batch))
    assert (facts.items, facts.texts, facts.written) == (60, True, NOW)
    assert read_batch(office.batch).kind == facts.kind == "unknown"
    assert desk.told().failures == 0


def test_an_episode_that_is_decided_again_keeps_its_batch(office: Office) -> None:
    """After a crash too: the batch on disk is found at the start and stays as it is."""
    office.open().ask(episode_of(), office.window, ESTIMATE)
    before = (office.batch / "items.jsonl").stat()
    again = office.open()
    again.ask(episode_of(needed=100), office.window, ESTIMATE)
    assert (office.batch / "items.jsonl").stat().st_ino == before.st_ino
    assert again.told().batches[0].items == 60


def test_a_batch_that_cannot_be_written_is_tried_again(office: Office) -> None:
    """The failure is counted and logged once, raises nothing, and the batch is there when the disk is back."""
    office.root.write_text("a file where the directory should be", encoding="utf-8")
    desk = office.open()
    with structlog.testing.capture_logs() as logs:
        desk.ask(episode_of(), office.window, ESTIMATE)
        desk.tidy(NOW)
        desk.tidy(NOW + 10)  # not yet again
        desk.tidy(NOW + 61)
    assert desk.told().failures == 3
    assert [line["what"] for line in logs] == ["write"]
    assert desk.told().batches == ()
    office.root.unlink()
    desk.tidy(NOW + 130)
    assert [facts.episode for facts in desk.told().batches] == [EPISODE]
    assert desk.told().failures == 3


def test_whatever_breaks_is_kept_from_the_loop(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error nobody thought of costs the batch, not the records; what it said is not logged."""

    def broken(*_: object) -> Made:
        raise RuntimeError("a user's text")

    desk = office.open()
    monkeypatch.setattr(Drawing, "make", broken)
    with structlog.testing.capture_logs() as logs:
        desk.ask(episode_of(), office.window, ESTIMATE)
        desk.tidy(NOW)
    assert desk.told().failures == 2
    assert "a user's text" not in json.dumps(logs)
    assert logs[0]["error"] == "RuntimeError"
    monkeypatch.undo()
    desk.tidy(NOW + 60)
    assert len(desk.told().batches) == 1


def test_labels_are_filed_with_the_batch_of_their_item(office: Office) -> None:
    """Those of other ids are not ours; repeated ones change nothing."""
    desk = office.open()
    desk.ask(episode_of(), office.window, ESTIMATE)
    first, second = office.ids[:2]
    labels = [Label(first, "positive", 1.0), Label("another", "positive", 1.0), Label(second, "negative", 2.0)]
    desk.take(labels)
    desk.take(labels)
    desk.take([Label(first, "negative", 3.0)])
    assert {name: label.label for name, label in read_labels(office.batch).items()} == {
        first: "negative",
        second: "negative",
    }
    assert len((office.batch / "labels.jsonl").read_bytes().splitlines()) == 3
    office.open().take([Label(second, "positive", 9.0)])  # after a restart
    assert read_labels(office.batch)[second].label == "positive"


def test_a_label_of_two_batches_goes_to_both(office: Office) -> None:
    """An item may be asked about in two episodes."""
    desk = office.open()
    desk.ask(episode_of(needed=300), office.window, ESTIMATE)
    desk.ask(episode_of("ffff", needed=300), office.window, ESTIMATE)
    desk.take([Label("item-7", "positive", 1.0)])
    assert set(read_labels(office.batch)) == set(read_labels(office.root / "ffff")) == {"item-7"}


def test_labels_wait_for_a_disk_that_refuses_them(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are filed when it takes them again."""
    desk = office.open()
    desk.ask(episode_of(), office.window, ESTIMATE)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "append_labels", full)
    with structlog.testing.capture_logs() as logs:
        desk.take([Label(office.ids[0], "positive", 1.0)])
        desk.tidy(NOW)
    assert [line["what"] for line in logs] == ["labels"]
    monkeypatch.undo()
    desk.tidy(NOW + 60)
    assert set(read_labels(office.batch)) == {office.ids[0]}


def test_a_damaged_file_of_labels_still_takes_new_ones(office: Office) -> None:
    """What people say is not lost because a line before it cannot be read."""
    desk = office.open()
    desk.ask(episode_of(), office.window, ESTIMATE)
    (office.batch / "labels.jsonl").write_text("no JSON\n", encoding="utf-8")
    desk.take([Label(office.ids[0], "positive", 1.0)])
    assert (office.batch / "labels.jsonl").read_text(encoding="utf-8").count("\n") == 2


def test_texts_in_batches_are_deleted_in_time(office: Office) -> None:
    """In the items and in the tasks, an hour after they were kept; labels and arrays stay."""
    desk = office.open()
    desk.ask(episode_of(), office.window, ESTIMATE)
    desk.take([Label(office.ids[0], "positive", 1.0)])
    desk.tidy(NOW + 3599)
    assert b"the text of" in (office.batch / "items.jsonl").read_bytes()
    desk.tidy(NOW + 3600)
    assert not any(b"the text of" in path.read_bytes() for path in office.batch.iterdir())
    assert not desk.told().batches[0].texts
    assert not read_batch(office.batch).texts
    assert set(read_labels(office.batch)) == {office.ids[0]}
    before = (office.batch / "items.jsonl").stat().st_ino
    desk.tidy(NOW + 9000)
    assert (office.batch / "items.jsonl").stat().st_ino == before


def _older_half(office: Office) -> None:
    """Let the texts of some items have been kept half an hour ago."""
    half = [replace(text, kept=NOW - 1800) for name, text in office.texts.kept.items() if name[1] < "item-2"]
    others = [text for name, text in office.texts.kept.items() if name[1] >= "item-2"]
    office.texts.restore([*half, *others])


def test_texts_are_deleted_one_by_one_and_after_a_restart(
    office: Office, score: Callable[[Sequence[Record]], Scored]
) -> None:
    """Each when its own time is over, also by an agent that was started later."""
    del score
    _older_half(office)
    office.open().ask(episode_of(), office.window, ESTIMATE)
    desk = office.open()
    desk.tidy(NOW + 1800)
    items = read_items(office.batch, read_batch(office.batch))
    assert {item.id < "item-2" for item in items if item.text is None} == {True}
    assert {item.id < "item-2" for item in items if item.text} == {False}
    assert desk.told().batches[0].texts


@pytest.mark.parametrize("file", range(4))
def test_texts_whose_deleting_was_cut_off_are_deleted_after_it(
    office: Office, monkeypatch: pytest.MonkeyPatch, file: int
) -> None:
    """Whichever of a batch's files it stopped at, the next agent goes on, and no file shows a text that is old."""
    _older_half(office)
    office.open().ask(episode_of(), office.window, ESTIMATE)
    real, calls = files.write_private, []

    def killed(path: Path, content: bytes) -> None:
        calls.append(path.name)
        if len(calls) == file + 1:
            raise SystemExit
        real(path, content)

    monkeypatch.setattr(files, "write_private", killed)
    with pytest.raises(SystemExit):
        office.open().tidy(NOW + 1800)
    monkeypatch.undo()
    office.open().tidy(NOW + 1800)
    shown = b"".join(path.read_bytes() for path in office.batch.iterdir())
    assert b"the text of item-1" not in shown
    assert b"the text of item-2" in shown


def test_a_batch_that_says_it_has_texts_is_cleared_though_its_items_have_none(office: Office) -> None:
    """As one whose items were rewritten before its tasks."""
    desk = office.open()
    desk.ask(episode_of(), office.window, ESTIMATE)
    shown = {name: (office.batch / name).read_bytes() for name in ("label-studio.json", "batch.json")}
    desk.tidy(NOW + 3600)
    for name, content in shown.items():
        (office.batch / name).write_bytes(content)
    office.open().tidy(NOW)
    assert b"the text of" not in (office.batch / "label-studio.json").read_bytes()
    assert not read_batch(office.batch).texts


def test_texts_kept_while_the_clock_was_ahead_are_deleted(office: Office) -> None:
    """They would stay as much longer; a clock that was a little ahead changes nothing."""
    desk = office.open()
    desk.ask(episode_of(), office.window, ESTIMATE)
    desk.tidy(NOW - 86_400)
    assert desk.told().batches[0].texts
    desk.tidy(NOW - 86_401)
    assert not desk.told().batches[0].texts


def test_what_a_crash_left_of_a_batch_is_swept_away(office: Office) -> None:
    """There may be text in it; an agent beside may still be writing one that is fresh."""
    office.root.mkdir()
    for age, name in ((7200, ".0a1b-abcdefgh"), (60, ".0a1c-abcdefgh")):
        (office.root / name).mkdir()
        (office.root / name / "items.jsonl").write_text("a text", encoding="utf-8")
        os.utime(office.root / name, (NOW - age, NOW - age))
    office.open().tidy(NOW)
    assert [path.name for path in office.root.iterdir()] == [".0a1c-abcdefgh"]


def test_batches_that_come_and_go_beside_the_agent_are_noticed(office: Office, made: Made) -> None:
    """A copy that was put back, one that was removed, one of another model, one that is damaged."""
    desk = office.open()
    desk.tidy(NOW)

    def put(name: str, **changes: Any) -> Path:  # noqa: ANN401 - any part of a batch
        batch = replace(made.batch, episode=name, **changes)
        return write(office.root, Made(batch, made.items, made.arrays))

    put("aaaa", created=1.0)
    put("bbbb", created=2.0)
    put("cccc", model="another")
    (put("dddd") / "items.jsonl").write_bytes(b"{")
    with structlog.testing.capture_logs() as logs:
        desk.tidy(NOW + 60)
        desk.tidy(NOW + 120)
    assert [facts.episode for facts in desk.told().batches] == ["bbbb", "aaaa"]
    assert [(line["what"], line["episode"]) for line in logs] == [("read", "dddd")]
    for path in (office.root / "bbbb").iterdir():
        path.unlink()
    (office.root / "bbbb").rmdir()
    desk.take([Label("item-0", "positive", 1.0)])
    desk.tidy(NOW + 180)
    assert [facts.episode for facts in desk.told().batches] == ["aaaa"]


def test_only_the_newest_batches_are_told_about(office: Office, made: Made) -> None:
    """However many there are on disk."""
    for number in range(NEWEST + 5):
        batch = replace(made.batch, episode=f"e{number:02}", created=float(number))
        write(office.root, Made(batch, made.items, made.arrays))
    told = [facts.episode for facts in office.open().told().batches]
    assert told == [f"e{number:02}" for number in range(NEWEST + 4, 4, -1)]


def test_batches_of_open_episodes_count_however_many_are_newer(office: Office, made: Made) -> None:
    """They are told about and take labels, also those that came before the first look."""
    for number in range(NEWEST + 5):
        batch = replace(made.batch, episode=f"e{number:02}", created=float(number))
        write(office.root, Made(batch, made.items, made.arrays))
    desk = office.open()
    desk.take([Label(made.items[0].id, "positive", 1.0)])
    desk.tidy(NOW, ["e00", "e03"])
    desk.take([Label(made.items[1].id, "positive", 1.0)])
    assert [facts.episode for facts in desk.told().batches[NEWEST:]] == ["e03", "e00"]
    for name, count in {"e00": 2, "e03": 2, "e04": 0}.items():
        assert len(read_labels(office.root / name)) == count
    assert not desk.lacks("e00")
    desk.tidy(NOW + 60)
    assert len(desk.told().batches) == NEWEST


def test_older_batches_are_not_read(office: Office, made: Made) -> None:
    """Only those with texts are, until these are deleted: years of batches cost a start next to nothing."""
    bare = tuple(item.without_text() for item in made.items)
    for number in range(NEWEST + 5):
        batch = replace(made.batch, episode=f"e{number:02}", created=float(number), texts=number == 1)
        write(office.root, Made(batch, made.items if number == 1 else bare, made.arrays))
    for number in (0, 2):
        (office.root / f"e{number:02}" / "items.jsonl").write_bytes(b"{")
    with structlog.testing.capture_logs() as logs:
        office.open().tidy(NOW + 3600)
    assert logs == []
    assert not any(b"the text of" in path.read_bytes() for path in (office.root / "e01").iterdir())


def test_a_batch_that_could_not_be_read_is_read_later(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk or a limit in the way costs a minute; damage is looked at again once a file has changed."""
    office.open().ask(episode_of(), office.window, ESTIMATE)

    def refused(*_: object) -> None:
        raise OSError(24, "Too many open files")

    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(shelf, "read_items", refused)
    desk = office.open()
    assert desk.lacks(EPISODE)
    monkeypatch.undo()
    desk.tidy(NOW)
    assert not desk.lacks(EPISODE)
    whole = (office.batch / "items.jsonl").read_bytes()
    (office.batch / "items.jsonl").write_bytes(b"{")
    with structlog.testing.capture_logs() as logs:
        for minute in range(1, 4):
            desk.tidy(NOW + 60 * minute)
        assert desk.lacks(EPISODE)
        monkeypatch.setattr(shelf, "read_items", forbidden)  # which would be told, were it read
        desk.tidy(NOW + 240)
        monkeypatch.undo()
    assert [line["what"] for line in logs] == ["read"]
    (office.batch / "items.jsonl").write_bytes(whole)
    desk.tidy(NOW + 300)
    assert not desk.lacks(EPISODE)


def test_few_batches_wait_for_the_disk(office: Office) -> None:
    """Each holds a window; the loop asks for the others again, because the desk lacks them."""
    office.root.write_text("a file where the directory should be", encoding="utf-8")
    desk = office.open()
    for number in range(MOST_WAITING + 2):
        desk.ask(episode_of(f"e{number}"), office.window, ESTIMATE)
    assert [number for number in range(MOST_WAITING + 2) if desk.lacks(f"e{number}")] == [5, 6]


def test_a_clock_that_jumps_back_stops_nothing(office: Office) -> None:
    """What is due every minute is done though the clock says less than before."""
    desk = office.open()
    desk.tidy(NOW + 1e6)
    office.root.write_text("", encoding="utf-8")
    desk.ask(episode_of(), office.window, ESTIMATE)
    office.root.unlink()
    desk.tidy(NOW)
    assert len(desk.told().batches) == 1


def test_a_batch_can_be_downloaded_with_and_without_texts(office: Office) -> None:
    """One line an item; of an episode that has none, or that is no plain name, nothing."""
    desk = office.open()
    desk.ask(episode_of(), office.window, ESTIMATE)
    whole, bare = desk.lines(EPISODE, texts=True), desk.lines(EPISODE, texts=False)
    assert whole == (office.batch / "items.jsonl").read_bytes()
    assert bare is not None
    assert [json.loads(line)["id"] for line in bare.splitlines()] == office.ids
    assert b"the text of" not in bare
    assert desk.lines("none", texts=True) is None
    assert desk.lines(f"../annotation/{EPISODE}", texts=True) is None
    (office.batch / "items.jsonl").unlink()
    assert desk.lines(EPISODE, texts=True) is None


def test_the_least_alike_can_be_shown(office: Office) -> None:
    """Those items alone, the least alike first."""
    desk = office.open(dissimilar=7)
    desk.ask(episode_of(), office.window, ESTIMATE)
    shown = desk.dissimilar(EPISODE)
    assert len(shown) == 7
    assert [item["depth"] for item in shown] == sorted(item["depth"] for item in shown)
    assert all(item["text"] == f"the text of {item['id']}" for item in shown)
    desk.tidy(NOW + 3600)
    assert not any("text" in item for item in desk.dissimilar(EPISODE))
    assert desk.dissimilar("none") == []


def test_what_labels_say_is_told_and_may_acquit(office: Office) -> None:
    """As those who know read them; a reader that breaks costs no more than its words."""
    drop = Interval(0.01, -0.01, 0.03)
    said = [(Realised("all", EPISODE, 60, 40, drop, drop, ESTIMATE.drop),)]
    desk = office.open(lambda _, __: said[0])
    assert list(desk.acquitted(0.05)) == []
    desk.tidy(NOW)
    assert desk.told().realised == said[0]
    assert list(desk.acquitted(0.05)) == [EPISODE]
    assert list(desk.acquitted(0.02)) == []
    said.clear()
    desk.tidy(NOW + 10)
    assert len(desk.told().realised) == 1


def test_labels_that_cannot_be_read_are_logged(office: Office) -> None:
    """Whoever reads them complains: once a batch, by its name, so that no labels are lost in silence."""

    def read(_: object, complain: Callable[[Path, Exception], None]) -> tuple[Realised, ...]:
        complain(office.batch, ArtefactError("labels.jsonl: line 3 is no label"))
        return ()

    desk = office.open(read)
    with structlog.testing.capture_logs() as logs:
        desk.tidy(NOW)
        desk.tidy(NOW + 10)
    (line,) = logs
    assert (line["what"], line["episode"]) == ("answers", EPISODE)
    assert line["error"] == "labels.jsonl: line 3 is no label"
