"""Episodes at an Alertmanager: told once, over once, whatever becomes of it or of the agent."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from agent.alert_report import Alerts, Episode, Kind, Notified, Outcome
from agent.errors import ServiceError
from agent.interval import UNKNOWN, Interval
from exporters.episodes.address import Address
from exporters.episodes.alertmanager import Alertmanagers, AlertmanagerSink, version_of
from exporters.episodes.alerts import Wording, alerts_of
from exporters.episodes.secret import TokenFile
from exporters.episodes.worker import Pace
from tests.moody_server import Answer, MoodyServer, eventually
from tests.prometheus_stack import Alertmanager, Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent.report import Report

NAN = float("nan")
NOW = 1767226000.0
SOON = Pace(first=0.01, most=0.1)
# Long enough for slow machines: what a real Alertmanager is told reaches the webhook after a second or two.
PATIENCE = 30.0
OPEN = Episode(
    id="5e1f0a",
    slice="tenant-a",
    kind=Kind.DROP,
    since=NOW - 3600,
    fired=NOW - 100,
    drop=Interval(0.082, 0.051, 0.11),
    items=12340,
    needed=400,
)
LABELS = {"alertname": "LeadlineAnnotate", "model": "sentiment", "slice": "tenant-a", "severity": "page"}
SLICES = [
    'quote " and \\ backslash',
    "new\nline, comma} and {brace=",
    "lone \ud800 surrogate",
    "<script>alert(1)</script>",
    "größe 🐟",
    "\x00\u202e",
    "long " * 200,
    "",
]


def over(episode: Episode, at: float) -> Episode:
    """The same episode, which ended then."""
    return replace(episode, resolved=at, outcome=Outcome.RECOVERED)


def fresh(**changes: Any) -> Episode:  # noqa: ANN401 - an episode's
    """An episode that has just fired, by the real clock: Alertmanager has no other."""
    return replace(OPEN, since=time.time() - 60, fired=time.time() - 1, **changes)


def saying(report: Report, *episodes: Episode) -> Report:
    """A report of these episodes."""
    return replace(report, alerts=Alerts(episodes=episodes))


def told(*episodes: Episode, now: float = NOW) -> list[dict[str, Any]]:
    """What would be sent then."""
    return alerts_of("sentiment", episodes, now, 60.0, Wording())


def seconds(moment: str) -> float:
    """A timestamp in epoch seconds."""
    return datetime.fromisoformat(moment).timestamp()


@contextmanager
def telling(*urls: str, every: float = 60.0, timeout: float = 5.0) -> Iterator[AlertmanagerSink]:
    """A sink at work, which hurries."""
    sink = AlertmanagerSink(
        Alertmanagers([Address.of(url, "urls") for url in urls], every=every, timeout=timeout), SOON
    )
    sink.start()
    try:
        yield sink
    finally:
        sink.close()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    """Whoever is paged."""
    with Webhook() as webhook:
        yield webhook


@pytest.fixture
def alertmanager(webhook: Webhook, tmp_path: Path) -> Iterator[Alertmanager]:
    """A real Alertmanager that pages it."""
    with Alertmanager(tmp_path / "alertmanager", webhook.url) as alertmanager:
        yield alertmanager


def states(webhook: Webhook, slice_name: str = "tenant-a") -> list[str]:
    """What has been said of a slice so far."""
    return [each.status for each in webhook.received if each.labels["slice"] == slice_name]


def test_a_firing_alert() -> None:
    """Its labels say which alert it is and hold no number; it ends by itself after four rounds."""
    wording = Wording({"team": "nlp", "severity": "ticket"}, "https://runbooks.test/leadline")
    assert alerts_of("sentiment", (OPEN,), NOW, 60.0, wording) == [
        {
            "labels": LABELS | {"severity": "ticket", "team": "nlp"},
            "annotations": {
                "summary": "sentiment, slice tenant-a: accuracy has probably dropped by 8.2 points",
                "description": "Estimated without labels on 12,340 items, between 5.1 and 11.0. "
                "The change began at 2025-12-31 23:06 UTC. 400 labels are asked for. Episode 5e1f0a.",
                "runbook_url": "https://runbooks.test/leadline",
            },
            "startsAt": "2026-01-01T00:05:00.000Z",
            "endsAt": "2026-01-01T00:10:40.000Z",
        }
    ]


def test_a_resolved_alert_is_told_for_five_minutes() -> None:
    """It has the same labels and beginning, and the end that it had; later nothing is said of it."""
    ended = over(OPEN, NOW - 20)
    (resolved,) = told(ended)
    (firing,) = told(OPEN)
    assert (resolved["labels"], resolved["startsAt"]) == (firing["labels"], firing["startsAt"])
    assert resolved["endsAt"] == "2026-01-01T00:06:20.000Z"
    assert resolved["annotations"]["description"].endswith("Over: the estimated drop is back below the limit.")
    assert told(ended, now=NOW + 280) == [resolved]
    assert told(ended, now=NOW + 281) == []


def test_what_moved_to_another_replica_is_left_to_it() -> None:
    """An end said under the labels that the other replica fires with would resolve its page."""
    moved = replace(OPEN, resolved=NOW - 1, outcome=Outcome.MOVED)
    assert alerts_of("sentiment", (moved,), NOW, 60.0, Wording()) == []


def test_an_old_end_does_not_resolve_a_new_beginning() -> None:
    """Where a slice has ended and begun again, only the open episode is told, in whichever order they come."""
    first, second = over(OPEN, NOW - 50), replace(OPEN, id="2", fired=NOW - 10)
    third = over(second, NOW - 5)
    assert told(first, second) == told(second, first) == told(second)
    assert told(first, third) == told(third, first) == told(third)


@pytest.mark.parametrize("now", [NOW - 1e6, NOW - 60, NOW, NOW + 60])
def test_a_clock_that_was_set_back(now: float) -> None:
    """An alert never ends before it begins, which Alertmanager refuses, nor is a resolved one still to end."""
    for episode in (OPEN, over(OPEN, NOW - 20), over(OPEN, NOW - 200)):
        for alert in told(episode, now=now):
            assert seconds(alert["startsAt"]) <= seconds(alert["endsAt"])
            assert (seconds(alert["endsAt"]) > now) == episode.open


def test_nothing_can_be_said() -> None:
    """Without numbers or times there is an alert even so, whose text says that nobody can tell."""
    blank = replace(OPEN, kind=Kind.UNKNOWN, since=NAN, fired=NAN, drop=UNKNOWN, outside=("pad", "js"))
    (alert,) = told(blank)
    assert alert["startsAt"] == "2026-01-01T00:06:40.000Z"
    assert alert["annotations"]["summary"].endswith("nobody can tell whether accuracy has dropped")
    assert "outside what the reference domains showed (pad, js)." in alert["annotations"]["description"]
    assert told(replace(OPEN, fired=1e300))[0]["startsAt"] == "2026-01-01T00:10:40.000Z"
    assert told() == []


FLOATS = st.floats() | st.floats(NOW - 1000, NOW + 1000)
EPISODES = st.builds(
    Episode,
    id=st.text(),
    slice=st.sampled_from(["a", "b", "\ud800"]),
    kind=st.sampled_from(Kind),
    since=FLOATS,
    fired=FLOATS,
    drop=st.builds(Interval, FLOATS, FLOATS, FLOATS),
    items=st.integers(0),
    needed=st.integers(0),
    resolved=FLOATS,
    outcome=st.sampled_from(Outcome),
)


@given(st.lists(EPISODES))
def test_whatever_the_episodes_are(episodes: list[Episode]) -> None:
    """No identity is told twice, no alert ends before it begins, and what is open anywhere in a slice fires."""
    alerts = told(*episodes)
    names = [alert["labels"]["slice"] for alert in alerts]
    assert len(set(names)) == len(names)
    firing = {alert["labels"]["slice"] for alert in alerts if seconds(alert["endsAt"]) > NOW}
    assert firing == {each.slice.replace("\ud800", "\\ud800") for each in episodes if each.open}
    assert all(seconds(alert["startsAt"]) <= seconds(alert["endsAt"]) for alert in alerts)
    assert json.dumps(alerts).encode()


def test_a_page_arrives_once_and_is_resolved_once(
    alertmanager: Alertmanager, webhook: Webhook, report: Report
) -> None:
    """However often it is said, whoever is woken hears one beginning and one end."""
    episode = fresh()
    with telling(alertmanager.url, every=0.5) as sink:
        sink.tell(saying(report, episode))
        webhook.wait_for(lambda _: states(webhook) == ["firing"], PATIENCE, "the page")
        before = sink.notified.sent
        eventually(lambda: sink.notified.sent >= before + 4, "told again and again")
        sink.tell(saying(report, over(episode, time.time())))
        webhook.wait_for(lambda _: states(webhook) == ["firing", "resolved"], PATIENCE, "its end")
        before = sink.notified.sent
        eventually(lambda: sink.notified.sent >= before + 4, "its end told again")
    firing, resolved = webhook.received
    assert firing.labels == resolved.labels == LABELS
    assert firing.starts_at == resolved.starts_at
    assert (
        firing.annotations["summary"] == "sentiment, slice tenant-a: accuracy has probably dropped by 8.2 points"
    )
    assert (sink.notified.failed, sink.notified.dropped, sink.notified.waiting) == (0, 0, 0)


def test_what_becomes_certain_is_said(alertmanager: Alertmanager, webhook: Webhook, report: Report) -> None:
    """An open episode of which more is known says so under the same labels, at once; nobody is paged again."""
    episode = fresh()
    unsure = replace(episode, kind=Kind.UNKNOWN, drop=UNKNOWN, items=300, outside=("pad",))
    with telling(alertmanager.url) as sink:
        sink.tell(saying(report, unsure))
        webhook.wait_for(lambda _: states(webhook) == ["firing"], PATIENCE, "the page")
        assert "nobody can tell" in alertmanager.alerts()[0]["annotations"]["summary"]
        sink.tell(saying(report, episode))
        eventually(lambda: sink.notified.sent == 2 and not sink.notified.waiting, "told at once")
        (alert,) = alertmanager.alerts()
        assert alert["annotations"]["summary"].endswith("accuracy has probably dropped by 8.2 points")
        assert "on 12,340 items, between 5.1 and 11.0" in alert["annotations"]["description"]
        assert alert["labels"] == LABELS
    assert states(webhook) == ["firing"]


def test_a_restart_of_the_agent_pages_nobody_again(
    alertmanager: Alertmanager, webhook: Webhook, report: Report
) -> None:
    """A stop resolves nothing, and the next agent goes on where the last one was: one beginning, one end."""
    episode = fresh()
    with telling(alertmanager.url) as sink:
        sink.tell(saying(report, episode))
        webhook.wait_for(lambda _: states(webhook) == ["firing"], PATIENCE, "the page")
    assert [alert["labels"]["slice"] for alert in alertmanager.alerts()] == ["tenant-a"]
    with telling(alertmanager.url, every=0.5) as sink:
        sink.tell(saying(report, episode))
        eventually(lambda: sink.notified.sent >= 4, "told again")
    ended = over(episode, time.time())
    with telling(alertmanager.url, every=0.5) as sink:
        sink.tell(saying(report, ended))
        webhook.wait_for(lambda _: states(webhook) == ["firing", "resolved"], PATIENCE, "its end")
        eventually(lambda: sink.notified.sent >= 4, "its end told again")
    assert states(webhook) == ["firing", "resolved"]


def test_an_agent_that_is_gone_for_good_leaves_no_alert_behind(
    alertmanager: Alertmanager, webhook: Webhook, report: Report
) -> None:
    """What nobody says any more ends by itself, four rounds after it was said last."""
    with telling(alertmanager.url, every=0.5) as sink:
        sink.tell(saying(report, fresh()))
        webhook.wait_for(lambda _: states(webhook) == ["firing"], PATIENCE, "the page")
    webhook.wait_for(lambda _: states(webhook) == ["firing", "resolved"], PATIENCE, "its time is up")


def test_an_alertmanager_that_was_down_hears_of_it_later(
    alertmanager: Alertmanager, webhook: Webhook, report: Report
) -> None:
    """Killed before the page, it pages when it is back; stopped before the end, it resolves then; each once."""
    alertmanager.kill()
    episode = fresh()
    with capture_logs() as lines, telling(alertmanager.url, every=2.0) as sink:
        sink.tell(saying(report, episode))
        eventually(lambda: sink.notified.failed >= 3, "tries")
        assert sink.notified.waiting == 1
        alertmanager.start()
        webhook.wait_for(lambda _: states(webhook) == ["firing"], PATIENCE, "the page")
        assert sink.notified.waiting == 0
        # A round after the page it has noted whom it paged, and writes that down when it ends.
        noted = alertmanager.metric("alertmanager_nflog_queries_total")
        eventually(lambda: alertmanager.metric("alertmanager_nflog_queries_total") > noted, "another round")
        alertmanager.stop()
        sink.tell(saying(report, over(episode, time.time())))
        eventually(lambda: sink.notified.waiting == 1, "it cannot be told")
        alertmanager.start()
        eventually(lambda: sink.notified.waiting == 0, "told")
        webhook.wait_for(lambda _: states(webhook) == ["firing", "resolved"], PATIENCE, "its end")
    assert [line["event"] for line in lines] == ["episodes_not_told", "episodes_told_again"] * 2
    assert lines[0]["problem"] == f"Alertmanager at {alertmanager.url} cannot be reached: Connection refused"


def test_one_that_is_down_keeps_no_other_from_hearing(
    alertmanager: Alertmanager, webhook: Webhook, report: Report
) -> None:
    """Neither one that refuses connections nor one that never answers delays the page of the third."""
    with MoodyServer(lambda _: Answer(late=True)) as hanging, MoodyServer(lambda _: Answer()) as down:
        down.stop()
        with telling(down.url, hanging.url, alertmanager.url, timeout=60.0) as sink:
            sink.tell(saying(report, fresh()))
            webhook.wait_for(lambda _: states(webhook) == ["firing"], PATIENCE, "the page")
            eventually(lambda: sink.notified.failed >= 2, "tries")
            assert (sink.notified.sent, sink.notified.waiting) == (1, 2)
            begin = time.monotonic()
    assert time.monotonic() - begin < 10


def test_hostile_slices(alertmanager: Alertmanager, webhook: Webhook, report: Report) -> None:
    """Any slice becomes an alert of its own; a lone surrogate is written out, as on /metrics."""
    episodes = [fresh(id=f"{number}", slice=name) for number, name in enumerate(SLICES)]
    with telling(alertmanager.url) as sink:
        sink.tell(saying(report, *episodes))
        webhook.wait_for(lambda received: len(received) >= len(SLICES), PATIENCE, "a page each")
        assert sink.notified.failed == 0
    paged = {each.labels.get("slice", "") for each in webhook.received}
    assert paged == {name.encode("utf-8", "backslashreplace").decode() for name in SLICES}
    assert all(each.annotations["summary"].isprintable() for each in webhook.received)


@pytest.mark.parametrize(
    ("mood", "problem"),
    [
        (Answer(400), "answers 400: it does not accept what it is sent."),
        (Answer(401), "answers 401: it wants a token, or refuses this one"),
        (Answer(404), "answers 404: there is no such thing. See that the URL is its own"),
        (Answer(429), "answers 429: it is asked too often."),
        (Answer(500, b"<html>"), "answers 500: its own log says why."),
        (Answer(301, headers={"Location": "http://127.0.0.1:1/"}), "answers 301: redirects are not followed."),
        (Answer(late=True), "cannot be reached: timed out"),
    ],
)
def test_it_is_tried_again_until_it_is_heard(report: Report, mood: Answer, problem: str) -> None:
    """Whatever is answered, the try is counted, logged once, and made again; the scoring is not held up."""
    with MoodyServer(lambda _: Answer()) as server, capture_logs() as lines:
        server.mood = mood
        with telling(server.url, timeout=0.2) as sink:
            begin = time.perf_counter()
            for _ in range(1000):
                sink.tell(saying(report, OPEN))
            assert time.perf_counter() - begin < 5
            eventually(lambda: sink.notified.failed >= 2, "two tries")
            assert (sink.notified.sent, sink.notified.waiting) == (0, 1)
            server.mood = None
            eventually(lambda: sink.notified.waiting == 0, "heard")
    assert [line["event"] for line in lines] == ["episodes_not_told", "episodes_told_again"]
    assert lines[0]["problem"].startswith(f"Alertmanager at {server.url} {problem}")


def test_pauses_are_never_longer_than_a_round(report: Report) -> None:
    """A firing alert is tried each round at least, unless Retry-After asks for longer."""
    with MoodyServer(lambda _: Answer(503)) as server:
        whom = Alertmanagers([Address.of(server.url, "urls")], every=30.0)
        sink = AlertmanagerSink(whom, Pace(jitter=lambda: 0.5), clock=lambda: NOW)
        sink.tell(saying(report, OPEN))
        turn = sink._lines[0].worker.turn
        assert [turn() for _ in range(7)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
        server.mood = Answer(503, headers={"Retry-After": "90"})
        assert turn() == 90.0
        server.mood = Answer()
        assert turn() == 30.0
        assert sink.notified == Notified(sent=1, failed=8)
        sink.tell(saying(report, over(OPEN, NOW - 301)))
        assert turn() is None


def test_the_token_goes_to_the_alertmanager_and_nowhere_else(report: Report, tmp_path: Path) -> None:
    """It is in the header of each request, behind the prefix of the URL, and not in a log."""
    path = tmp_path / "token"
    path.write_text("am-secret\n", encoding="ascii")
    with MoodyServer(lambda _: Answer(401)) as server, capture_logs() as lines:
        token = TokenFile(path, "token_file")
        sink = AlertmanagerSink(Alertmanagers([Address.of(f"{server.url}/am/", "urls")], token))
        sink.tell(saying(report, OPEN))
        sink._lines[0].worker.turn()
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/am/api/v2/alerts")
    assert asked.headers["Authorization"] == "Bearer am-secret"
    assert [alert["labels"] for alert in json.loads(asked.body)] == [LABELS]
    assert "am-secret" not in f"{lines}{token!r}"


def test_a_check_asks_for_the_version(alertmanager: Alertmanager) -> None:
    """A real Alertmanager tells its version; what is none of them is an error that says so."""
    whom = Alertmanagers([Address.of(alertmanager.url, "urls")])
    assert version_of(whom.door(whom.addresses[0])).startswith("0.")
    with MoodyServer(lambda _: Answer(body=b"<html>")) as other:
        door = whom.door(Address.of(other.url, "urls"))
        with pytest.raises(ServiceError, match="answers, but not as an Alertmanager does"):
            version_of(door)
