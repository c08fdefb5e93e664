"""Episodes in Grafana: each once, whatever becomes of Grafana or of the agent, and never at the scoring's price.

Grafana is a real HTTP server here, but not Grafana: see tests/fake_grafana.py.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from agent.alert_report import Alerts, Episode, Kind, Notified, Outcome
from agent.errors import UsageError
from agent.interval import UNKNOWN, Interval
from exporters.episodes.address import Address
from exporters.episodes.annotator import Annotator, region_of
from exporters.episodes.grafana import GrafanaServer
from exporters.episodes.secret import TokenFile
from exporters.episodes.worker import Pace
from tests.fake_grafana import TOKEN, FakeGrafana
from tests.kafka_security import Security
from tests.moody_server import Answer, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent.report import Report
    from tests.moody_server import Asked

NAN = float("nan")
FIRED = 1767225900.5
SOON = Pace(first=0.005, most=0.02)
OPEN = Episode(
    id="5e1f0a",
    slice="tenant-a",
    kind=Kind.DROP,
    since=1767222000.0,
    fired=FIRED,
    drop=Interval(0.082, 0.051, 0.11),
    items=12340,
    needed=400,
)
UNSURE = replace(OPEN, kind=Kind.UNKNOWN, drop=UNKNOWN, items=300, outside=("pad",))
OVER = replace(OPEN, resolved=FIRED + 600, outcome=Outcome.RECOVERED)
TAGS = ["leadline", "model:sentiment", "slice:tenant-a", "leadline-episode:5e1f0a"]
TEXT = (
    "sentiment, slice tenant-a: accuracy has probably dropped by 8.2 points.<br>"
    "Estimated without labels on 12,340 items, between 5.1 and 11.0. "
    "The change began at 2025-12-31 23:00 UTC. 400 labels are asked for. Episode 5e1f0a."
)
HOSTILE = [
    'quote " and \\ backslash',
    "new\nline, comma} and {brace=",
    "lone \ud800 surrogate",
    "<script>alert(1)</script>",
    "a&tags=leadline&limit=0#fragment?%41",
    "größe 🐟",
    "",
    "two:colons:",
    "\x00\u202e",
    "long " * 200,
    "__other__",
]


@pytest.fixture
def grafana() -> Iterator[FakeGrafana]:
    """A Grafana that is up, and empty."""
    with FakeGrafana() as grafana:
        yield grafana


@pytest.fixture
def server(grafana: FakeGrafana, tmp_path: Path) -> GrafanaServer:
    """How the agent reaches it."""
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n", encoding="ascii")
    return GrafanaServer(Address.of(grafana.url, "url"), TokenFile(token, "token_file"), timeout=0.3)


@contextmanager
def telling(server: GrafanaServer, **options: Any) -> Iterator[Annotator]:  # noqa: ANN401 - its own
    """An annotator at work, which hurries."""
    annotator = Annotator(server, pace=SOON, **options)
    annotator.start()
    try:
        yield annotator
    finally:
        annotator.close()


@contextmanager
def idle(server: GrafanaServer) -> Iterator[Annotator]:
    """An annotator without its thread, whose turns a test takes."""
    annotator = Annotator(server, pace=Pace(jitter=lambda: 0.5))
    try:
        yield annotator
    finally:
        annotator.close()


def saying(report: Report, *episodes: Episode) -> Report:
    """A report of these episodes."""
    return replace(report, alerts=Alerts(episodes=episodes))


def vouched(text: str) -> str:
    """The tag by which a text is known to be ours."""
    return f"leadline-text:{sha256(text.encode()).hexdigest()[:8]}"


def settled(annotator: Annotator) -> None:
    """Wait until it has nothing more to say."""
    eventually(lambda: annotator.notified.waiting == 0, "everything told")


def test_a_region_opens_at_firing_and_closes_at_the_end(
    grafana: FakeGrafana, server: GrafanaServer, report: Report
) -> None:
    """An episode is one annotation in plain words, open from when it fired, then a region to when it was over."""
    with telling(replace(server, dashboard="leadline", panel=4), tags=("team:nlp", "on call")) as annotator:
        annotator.tell(saying(report, OPEN))
        settled(annotator)
        opened = {
            "id": 1,
            "dashboardUID": "leadline",
            "panelId": 4,
            "time": 1767225900500,
            "timeEnd": 1767225900500,
            "tags": [*TAGS[:3], "team:nlp", "on_call", TAGS[3], vouched(TEXT)],
            "text": TEXT,
        }
        assert grafana.kept == {1: opened}
        annotator.tell(saying(report, OVER))
        settled(annotator)
    over = f"{TEXT}<br>Over: the estimated drop is back below the limit."
    tags = [*opened["tags"][:-1], vouched(over)]
    assert grafana.kept == {1: opened | {"timeEnd": 1767226500500, "text": over, "tags": tags}}
    assert annotator.notified == Notified(sent=2)


def test_an_episode_told_a_thousand_times_is_one_annotation(
    grafana: FakeGrafana, server: GrafanaServer, report: Report
) -> None:
    """Every report carries every episode; only what is new of it is sent."""
    with telling(server) as annotator:
        for _ in range(500):
            annotator.tell(saying(report, OPEN))
        for _ in range(500):
            annotator.tell(saying(report, replace(OVER, drop=Interval())))
        settled(annotator)
    assert len(grafana.kept) == 1
    assert grafana.written in (["POST"], ["POST", "PATCH"])


def test_a_restart_posts_nothing_again(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """A new agent finds what the last one posted, and closes what ended while there was none."""
    other = replace(OPEN, id="77", slice="tenant-b")
    for episodes in ((OPEN, other), (OPEN, other), (OVER, other), (OVER, other)):
        with telling(server) as annotator:
            annotator.tell(saying(report, *episodes))
            settled(annotator)
    assert grafana.written == ["POST", "POST", "PATCH"]
    assert [each["timeEnd"] - each["time"] for each in grafana.kept.values()] == [600_000, 0]


@pytest.mark.parametrize("restart", [False, True])
def test_what_becomes_certain_is_said(
    grafana: FakeGrafana, server: GrafanaServer, report: Report, *, restart: bool
) -> None:
    """Once more is known of an open episode, its annotation says so, also where another agent had written it."""
    with telling(server) as first, telling(server) as second:
        first.tell(saying(report, UNSURE))
        settled(first)
        assert "nobody can tell" in grafana.kept[1]["text"]
        for told in (OPEN, replace(OPEN, drop=Interval(0.082, 0.051, 0.11)), OVER):
            annotator = second if restart else first
            annotator.tell(saying(report, told))
            settled(annotator)
            assert grafana.kept[1]["text"].startswith(TEXT)
            assert (grafana.kept[1]["timeEnd"] > grafana.kept[1]["time"]) is not told.open
    assert grafana.written == ["POST", "PATCH", "PATCH"]


def test_a_restart_brings_nothing_back(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """Of what ended long before, only the region that is open is closed; what was deleted or moved stays so."""
    later = replace(report, time=OVER.resolved + 301)
    others = [replace(OPEN, id=f"{number}", slice=f"tenant-{number}") for number in (2, 3)]
    ended = [replace(each, resolved=OVER.resolved, outcome=Outcome.SILENT) for each in others]
    with telling(server) as annotator:
        annotator.tell(saying(report, OPEN, *others))
        settled(annotator)
        annotator.tell(saying(report, OVER, ended[0], others[1]))
        settled(annotator)
    del grafana.kept[1]
    grafana.kept[2]["timeEnd"] += 9
    before = len(grafana.written)
    for _ in range(2):
        with telling(server) as annotator:
            annotator.tell(saying(later, OVER, *ended))
            settled(annotator)
    assert grafana.written[before:] == ["PATCH"]
    assert {number: each["timeEnd"] - each["time"] for number, each in grafana.kept.items()} == {
        2: 600_009,
        3: 600_000,
    }


def test_what_ends_while_it_is_told_is_told_later_too(
    grafana: FakeGrafana, server: GrafanaServer, report: Report
) -> None:
    """Whether an end is old is counted from when the telling began, however long Grafana was away."""
    grafana.stop()
    with telling(server) as annotator:
        annotator.tell(saying(report, OPEN))
        annotator.tell(saying(replace(report, time=OVER.resolved + 1e6), OVER))
        grafana.start()
        settled(annotator)
    assert grafana.kept[1]["timeEnd"] == 1767226500500


def test_an_episode_that_was_over_before_it_could_be_told_is_a_whole_region(
    grafana: FakeGrafana, server: GrafanaServer, report: Report
) -> None:
    """One message tells of beginning and end."""
    with telling(server) as annotator:
        annotator.tell(saying(report, OVER))
        settled(annotator)
    assert grafana.written == ["POST"]
    assert grafana.kept[1]["timeEnd"] == 1767226500500


def test_a_post_whose_answer_is_lost_is_not_repeated(
    grafana: FakeGrafana, server: GrafanaServer, report: Report
) -> None:
    """If Grafana keeps the annotation and its answer never comes, or the agent dies then, it is found and left."""

    def keep_silent(asked: Asked) -> Answer:
        return replace(grafana._usual_answer(asked), late=asked.method == "POST")

    grafana.mood = keep_silent
    with telling(server) as annotator:
        annotator.tell(saying(report, OPEN))
        settled(annotator)
    assert annotator.notified.failed == 1
    assert (len(grafana.kept), grafana.written) == (1, ["POST"])


def test_a_twin_is_removed(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """A POST that was given up and kept even so makes two: at the end the oldest stays, closed."""
    with telling(server) as annotator:
        annotator.tell(saying(report, OPEN))
        settled(annotator)
        grafana.add(grafana.kept[1])
        annotator.tell(saying(report, OVER))
        settled(annotator)
    assert list(grafana.kept) == [1]
    assert grafana.kept[1]["timeEnd"] == 1767226500500


def test_what_people_write_stays(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """Tags and texts that were changed by hand are kept when more is known, and when the region is closed."""
    with telling(server) as annotator:
        annotator.tell(saying(report, UNSURE))
        settled(annotator)
        tags = [*grafana.kept[1]["tags"], "known"]
        grafana.kept[1] |= {"text": "our release 7", "tags": tags}
        annotator.tell(saying(report, OPEN))
        settled(annotator)
        assert grafana.written == ["POST"]
        annotator.tell(saying(report, OVER))
        settled(annotator)
    assert (grafana.kept[1]["text"], grafana.kept[1]["tags"]) == ("our release 7", tags)
    assert grafana.kept[1]["timeEnd"] == 1767226500500


@pytest.mark.parametrize(
    ("mood", "problem"),
    [
        (Answer(401), "answers 401: it refuses the token. Write that of a service account into "),
        (Answer(403), "answers 403: the token may not do this."),
        (Answer(404), "answers 404: there is no such thing. See that `url` is Grafana's own"),
        (Answer(429), "answers 429: it is asked too often."),
        (Answer(500, b"<html>"), "answers 500: its own log says why."),
        (Answer(503), "answers 503"),
        (Answer(302, headers={"Location": "http://127.0.0.1:1/"}), "answers 302: redirects are not followed."),
        (Answer(200, b"<html>login</html>", {"Content-Type": "text/html"}), "answers, but not as Grafana does."),
        (Answer(200, b"not json"), "answers, but not as Grafana does."),
        (Answer(200, b'[{"id": "x"}]'), "answers, but not as Grafana does."),
        (Answer(204, b""), "answers, but not as Grafana does."),
        (Answer(late=True), "cannot be reached: "),
    ],
)
def test_it_is_tried_again_until_grafana_is_well(
    grafana: FakeGrafana, server: GrafanaServer, report: Report, mood: Answer, problem: str
) -> None:
    """Whatever Grafana answers, the try is counted, logged once, and made again: one annotation results."""
    grafana.mood = mood
    with capture_logs() as lines, telling(server) as annotator:
        annotator.tell(saying(report, OPEN))
        eventually(lambda: annotator.notified.failed >= 2, "two tries")
        assert (annotator.notified.sent, annotator.notified.waiting) == (0, 1)
        grafana.mood = None
        settled(annotator)
    assert len(grafana.kept) == 1
    assert [line["event"] for line in lines] == ["episodes_not_told", "episodes_told_again"]
    assert lines[0]["problem"].startswith(f"Grafana at {grafana.url} {problem}")
    assert TOKEN not in str(lines)


def test_a_grafana_that_is_down_is_told_later(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """While nobody listens the episode waits; its whole story is told in one message once somebody does."""
    grafana.stop()
    with capture_logs() as lines, telling(server) as annotator:
        annotator.tell(saying(report, OPEN))
        eventually(lambda: annotator.notified.failed >= 1, "a try")
        annotator.tell(saying(report, OVER))
        assert annotator.notified.waiting == 1
        grafana.start()
        settled(annotator)
    assert grafana.written == ["POST"]
    assert grafana.kept[1]["timeEnd"] == 1767226500500
    assert lines[0]["problem"] == f"Grafana at {grafana.url} cannot be reached: [Errno 111] Connection refused"


def test_pauses_grow_and_grafana_may_ask_for_longer(
    grafana: FakeGrafana, server: GrafanaServer, report: Report
) -> None:
    """Each failure doubles the pause up to a minute; Retry-After is heeded, up to a quarter of an hour."""
    grafana.mood = Answer(500)
    with idle(server) as annotator:
        annotator.tell(saying(report, OPEN))
        turn = annotator._worker.turn
        assert [turn() for _ in range(8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
        for asked, given in (("120", 120.0), ("99999", 900.0), ("soon", 60.0), ("5", 60.0)):
            grafana.mood = Answer(429, headers={"Retry-After": asked})
            assert turn() == given
        grafana.mood = None
        assert turn() is None
        assert annotator.notified == Notified(sent=1, failed=12)


def test_a_new_token_is_taken_up(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """The file is read at each try; one that cannot be read leaves the token as it was."""
    with idle(server) as annotator:
        grafana.token = "glsa_other"  # noqa: S105 - of a server in this process
        annotator.tell(saying(report, OPEN))
        assert annotator._worker.turn() == 1.0
        server.token.path.write_text("glsa_other", encoding="ascii")
        assert annotator._worker.turn() is None
        server.token.path.write_text("", encoding="ascii")
        annotator.tell(saying(report, OVER))
        with capture_logs() as lines:
            assert annotator._worker.turn() is None
    assert grafana.written == ["POST", "PATCH"]
    assert lines[0]["kept"] == "the token before"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: No such file or directory"),
        (b" \n", "is empty. Write the token into it."),
        (b"two tokens", "expected one token, in ASCII, without spaces"),
        ("größe".encode(), "expected one token, in ASCII, without spaces"),
        (b"x" * 70_000, "expected one token, in ASCII, without spaces"),
    ],
)
def test_a_token_that_cannot_be_used_is_an_error_at_the_start(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    """The message names the key and the file, never the content."""
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        TokenFile(path, "exporters.grafana.token_file")
    assert str(raised.value) == f"exporters.grafana.token_file: {path}: {problem}"


def test_hostile_slices(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """Any slice is annotated once, in HTML that is only text; slices whose tags are the same stay apart."""
    slices = [*HOSTILE, "größe 🐠", "gr__e 🐠"]
    episodes = [replace(OPEN, id=f"{number:02}", slice=name) for number, name in enumerate(slices)]
    closed = [replace(each, resolved=FIRED + 60, outcome=Outcome.SILENT) for each in episodes]
    for told in (episodes, closed, closed):
        with telling(server) as annotator:
            annotator.tell(saying(report, *told))
            settled(annotator)
            assert annotator.notified.failed == 0
    assert grafana.written == ["POST"] * len(slices) + ["PATCH"] * len(slices)
    assert all(each["timeEnd"] - each["time"] == 60_000 for each in grafana.kept.values())
    assert {each["tags"][2] for each in grafana.kept.values()} >= {"slice:two_colons_", "slice", "slice:gr__e__"}
    for each in grafana.kept.values():
        assert each["text"].isprintable()
        assert not set("<>\"'") & set(each["text"].replace("<br>", ""))


def test_an_id_of_any_kind_is_found_again(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """An id that no tag can hold is told by its digest."""
    odd = replace(OPEN, id="a:b &tags=\ud800" + "x" * 200)
    for _ in range(2):
        with telling(server) as annotator:
            annotator.tell(saying(report, odd))
            settled(annotator)
    assert grafana.written == ["POST"]


def test_nothing_can_be_said(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """Without a number, a time or a reason there is an annotation even so, and it says that nobody can tell."""
    blank = replace(OPEN, kind=Kind.UNKNOWN, since=NAN, fired=NAN, drop=UNKNOWN, items=0, needed=0)
    numberless = replace(OPEN, id="2", drop=UNKNOWN, outside=("pad",), kind=Kind.DROP, since=1e300)
    with telling(server) as annotator:
        annotator.tell(saying(report, blank, numberless, replace(OVER, id="3", resolved=FIRED - 9)))
        settled(annotator)
    assert grafana.kept[1]["text"] == (
        "sentiment, slice tenant-a: the traffic has changed, and nobody can tell whether accuracy has dropped.<br>"
        "Seen on 0 items; the estimate is too uncertain to say more. Episode 5e1f0a."
    )
    assert grafana.kept[2]["text"].startswith(
        "sentiment, slice tenant-a: accuracy has probably dropped.<br>Estimated without labels on 12,340 items. 40"
    )
    assert grafana.kept[3]["timeEnd"] == grafana.kept[3]["time"]


def test_one_episode_that_grafana_refuses_holds_up_no_other(
    grafana: FakeGrafana, server: GrafanaServer, report: Report
) -> None:
    """What cannot be told goes behind what can."""

    def refuse(asked: Asked) -> Answer:
        return Answer(500) if b"tenant-bad" in asked.body else grafana._usual_answer(asked)

    grafana.mood = refuse
    bad = replace(OPEN, id="0", slice="tenant-bad")
    with telling(server) as annotator:
        annotator.tell(saying(report, bad, OPEN, replace(OPEN, id="2", slice="tenant-c")))
        eventually(lambda: annotator.notified.waiting == 1, "the others told")
        assert len(grafana.kept) == 2


def test_a_hanging_grafana_holds_up_nobody(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """While no answer comes, telling returns at once, what waits is bounded, and the end comes within seconds."""
    grafana.mood = Answer(late=True)
    annotator = Annotator(replace(server, timeout=30.0), most=20)
    annotator.start()
    slowest = 0.0
    for number in range(200):
        episodes = [replace(OPEN, id=f"{number}-{each}") for each in range(5)]
        begin = time.perf_counter()
        annotator.tell(saying(report, *episodes))
        slowest = max(slowest, time.perf_counter() - begin)
    assert slowest < 2  # the answer would take 30
    assert annotator.notified == Notified(dropped=980, waiting=20)
    begin = time.monotonic()
    annotator.close()
    assert time.monotonic() - begin < 5


def test_a_stop_says_what_has_just_happened(grafana: FakeGrafana, server: GrafanaServer, report: Report) -> None:
    """An episode that fired with the last batch is told before the agent ends."""
    with telling(server) as annotator:
        annotator.tell(saying(report, OPEN))
    assert len(grafana.kept) == 1


def test_a_grafana_behind_a_prefix(tmp_path: Path, report: Report) -> None:
    """A sub-path is kept, with or without a slash at its end."""
    token = tmp_path / "token"
    token.write_text(TOKEN, encoding="ascii")
    with FakeGrafana("/monitoring/grafana") as grafana:
        for number, slash in enumerate(("", "/")):
            address = Address.of(f"{grafana.url}/monitoring/grafana{slash}", "url")
            with telling(GrafanaServer(address, TokenFile(token, "token_file"))) as annotator:
                annotator.tell(saying(report, replace(OPEN, id=str(number))))
                settled(annotator)
                assert annotator.notified.failed == 0
    assert len(grafana.kept) == 2


def test_tls_with_a_private_authority(tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that nobody vouches for is refused, and no token shown; SSL_CERT_FILE says whom to trust."""
    security = Security(tmp_path / "tls")
    security.write()
    (tmp_path / "token").write_text(TOKEN, encoding="ascii")
    with FakeGrafana(certificate=security.directory / "keystore.pem") as grafana, capture_logs() as lines:
        server = GrafanaServer(Address.of(grafana.url, "url"), TokenFile(tmp_path / "token", "token_file"))
        with idle(server) as annotator:
            annotator.tell(saying(report, OPEN))
            assert annotator._worker.turn() == 1.0
        assert grafana.asked == []
        assert "certificate verify failed" in lines[0]["problem"]
        monkeypatch.setenv("SSL_CERT_FILE", str(security.ca))
        with idle(server) as annotator:
            annotator.tell(saying(report, OPEN))
            assert annotator._worker.turn() is None
    assert len(grafana.kept) == 1


@given(st.text(st.characters()))
def test_any_name_can_be_told(name: str) -> None:
    """Whatever a slice is called, its tags are what Grafana and a URL can hold, and its text is one of UTF-8."""
    region = region_of(name, replace(OPEN, slice=name, outside=(name,), kind=Kind.UNKNOWN), (name,))
    for tag in (*region.tags, region.key):
        assert re.fullmatch(r"[A-Za-z0-9_.=-]*(:[A-Za-z0-9_.=-]{0,100})?", tag)
    assert region.whole_text.encode()
    assert not set("<>\"'") & set(region.whole_text.replace("<br>", ""))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://host:99999", "expected http(s)://host[:port][/prefix]; the port is at most 65535"),
        ("http://", "expected http(s)://host[:port][/prefix]"),
        ("http://host/?orgId=1", "expected http(s)://host[:port][/prefix], in ASCII, without query or fragment"),
        ("http://größe/", "expected http(s)://host[:port][/prefix], in ASCII, without query or fragment"),
    ],
)
def test_a_url_that_cannot_be_used(url: str, problem: str) -> None:
    """What is wrong with it is said at the start, by the name of its key."""
    with pytest.raises(UsageError) as raised:
        Address.of(url, "exporters.grafana.url")
    assert str(raised.value) == f"exporters.grafana.url: {problem}"
