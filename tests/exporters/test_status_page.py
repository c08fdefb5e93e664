"""The status page and its facts over a real socket: sound, safe with any name, and nothing else within reach."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from agent.alert_report import Alerts, BatchFacts, Episode, HistoryPoint, Kind, SliceDecision
from agent.interval import Interval
from agent.report import Estimation, SourceShape
from exporters.server import serving
from exporters.status.batches import Shown
from exporters.status.charts import buckets, drop_over_time, thinned
from exporters.status.page import StatusPage
from tests.exporters.plausible import BEGAN, EPISODE, NOW, calm, course, drifted, drop, made, window
from tests.exporters.strict_reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message

    from agent.listener import Address
    from agent.report import Report

NAN = float("nan")
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & 'q' \"q\"\n\u202e\ud800"
TEXT = "Der Vertrag wurde <b>gekündigt</b>"


@dataclass
class Desk:
    """Batches such as the agent keeps: one of this episode, and how often it was read."""

    reads: list[str] = field(default_factory=list)
    text: str = TEXT

    def lines(self, episode: str, *, texts: bool) -> bytes | None:
        """The one batch."""
        self.reads.append(episode)
        if episode != EPISODE:
            return None
        return json.dumps({"id": "a"} | ({"text": self.text} if texts else {})).encode() + b"\n"

    def dissimilar(self, episode: str) -> list[dict[str, object]]:
        """Two items, one of them with whatever can be in one."""
        self.reads.append(episode)
        known = {"id": "a", "slice": "de", "prediction": "complaint", "depth": 0.871, "text": self.text}
        return [known, {"id": EVIL, "prediction": None, "depth": NAN, "text": EVIL * 50, "text_pair": 3}]


def page_of(report: Report, chosen: str | None = None, shown: Shown | None = None) -> str:
    """The page of this Report."""
    return StatusPage(lambda: report, 60.0, lambda: report.heartbeat, shown or Shown()).html(chosen).decode()


def facts_of(report: Report) -> dict[str, object]:
    """The facts of this Report."""
    found: dict[str, object] = json.loads(
        StatusPage(lambda: report, 60.0, lambda: report.heartbeat, Shown()).json()
    )
    return found


def hostile() -> Report:
    """A Report with a hostile name wherever anybody may choose one, and numbers that are not known."""
    report = drifted()
    lost = Episode(EVIL, EVIL, Kind.UNKNOWN, NAN, NAN, Interval(), 0, 0, (EVIL,))
    return replace(
        report,
        version=EVIL,
        info=replace(report.info, model=EVIL, reference_id=EVIL, encoder=EVIL),
        windows=(
            replace(report.windows[0], slice=EVIL, ood_ratio={EVIL: NAN, "knn": float("inf")}, depth_counts=()),
            *report.windows,
        ),
        estimation=Estimation(
            (replace(report.estimation.estimates[0], slice=EVIL), *report.estimation.estimates),
            failures={EVIL: 1},
        ),
        source=replace(report.source, lag={(EVIL, EVIL): 3}),
        alerts=Alerts(
            limit=0.05,
            slices=(SliceDecision(EVIL, NAN, NAN, shift_seen=True),),
            episodes=(lost, replace(lost, id="b", resolved=float("inf"))),
            batches=(BatchFacts(EVIL, EVIL, EVIL, 3, texts=True, written=NAN),),
            history={EVIL: (HistoryPoint(NAN, Interval(), inside_domains=False),) * 3},
        ),
        notified={EVIL: report.notified["grafana"]},
        shape=SourceShape(),
    )


PAGES = {"drifted": drifted, "calm": calm, "hostile": hostile}


@pytest.mark.parametrize("name", PAGES)
def test_the_structure_is_sound(name: str) -> None:
    """Every tag closes in order, ids are unique and what refers to them finds them, headings step down by one."""
    page = page_of(PAGES[name](), shown=Shown(Desk(), texts=True))
    read = Reader(page)
    assert page.startswith("<!doctype html>")
    assert (read.open, read.crooked) == ([], [])
    ids = read.attributes("id")
    assert len(ids) == len(set(ids))
    assert not [each for each in ids if re.search(r"\s", each)]
    named = " ".join(read.attributes("aria-labelledby")).split()
    assert set(named) <= set(ids)
    levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    names = [tag for tag, _ in read.tags]
    assert [names.count(each) for each in ("main", "header", "footer", "nav")] == [1, 1, 1, 1]
    assert names.count("table") == names.count("caption")
    assert all(attributes.get("scope") for tag, attributes in read.tags if tag == "th")


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_loaded_and_no_nan_is_shown(name: str) -> None:
    """Links stay on this server; no source, no style that fetches, no inline style or handler; no `nan`."""
    page = page_of(PAGES[name]())
    read = Reader(page)
    for attribute in ("src", "srcset", "action", "data", "style", "onclick", "onerror"):
        assert read.attributes(attribute) == []
    assert not [each for each in read.attributes("href") if re.match(r"[a-z]+:|/", each) and each != "data:,"]
    assert not re.search(r"@import|url\(|https?://", page)
    words = [text for tag, texts in read.texts.items() if tag not in {"script", "style"} for text in texts]
    words += [value for _, attributes in read.tags for value in attributes.values() if value]
    assert not [each for each in words if re.search(r"\b(nan|inf)\b|None$", each)]


def test_names_are_escaped_and_spelled_out() -> None:
    """A name that is a script stays a name; what turns the writing or has no UTF-8 form is shown as such."""
    page = page_of(hostile(), shown=Shown(Desk(), texts=True))
    read = Reader(page)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert [tag for tag, _ in read.tags].count("script") == 1
    assert any(r"</script><script>alert(1)" in each and r"\n\u202e\ud800" in each for each in read.texts["bdi"])


def test_the_slice_that_is_asked_for_is_shown() -> None:
    """Every link of the table leads to its slice, whatever it is called; an unknown name gives the worst."""
    read = Reader(page_of(hostile()))
    links = [each for each in read.attributes("href") if each.startswith("?slice=")]
    assert len(links) == 4
    assert '<h2 id="slice">Slice <bdi>en</bdi>' in page_of(drifted(), "en")
    assert '<h2 id="slice">Slice <bdi>de</bdi>' in page_of(drifted(), "no such slice")
    assert page_of(drifted()).count('aria-current="true"') == 1


def test_texts_are_shown_only_if_that_is_wanted() -> None:
    """Without `texts` neither the page nor the download holds any; with it, both do, escaped and cut."""
    silent = page_of(drifted(), shown=Shown(Desk()))
    assert "Vertrag" not in silent
    assert "0.87" in silent
    told = page_of(drifted(), shown=Shown(Desk(), texts=True))
    assert "Der Vertrag wurde &lt;b&gt;gekündigt&lt;/b&gt;" in told
    assert len(told) < len(silent) + 4000
    assert Shown(Desk()).download(drifted(), EPISODE) == b'{"id": "a"}\n'
    assert b"Vertrag" in (Shown(Desk(), texts=True).download(drifted(), EPISODE) or b"")


def test_a_text_that_was_deleted_is_shown_no_longer() -> None:
    """The page of the next Report has only what the batch then holds."""
    desk = Desk()
    reports = [drifted()]
    status = StatusPage(lambda: reports[0], 60.0, lambda: NOW, Shown(desk, texts=True))
    assert b"Vertrag" in status.html()
    desk.text = ""
    reports[0] = replace(drifted(), time=NOW + 1)
    assert b"Vertrag" not in status.html()


def test_a_page_is_rendered_once_for_each_report() -> None:
    """The same Report gives the same bytes; a newer one another page; a loop that stands still is told at once."""
    reports, clock = [drifted()], [NOW]
    status = StatusPage(lambda: reports[0], 60.0, lambda: clock[0], Shown())
    first = status.html()
    assert status.html() is first
    assert status.html("de") is first
    assert status.html("en") is not first
    reports[0] = calm()
    assert b"No sign of harm" in status.html()
    clock[0] += 61
    assert b"the loop has stood still for 61 s" in status.html()


def many() -> Report:
    """Twenty slices, all drifted, with long histories and nine detectors."""
    report = drifted()
    names = [f"tenant-{number:02}" for number in range(20)]
    return replace(
        report,
        windows=tuple(window(name, kind, 2_000, 0.9) for name in names for kind in ("long", "short")),
        estimation=Estimation(tuple(made(name, "long", 0.12, 0.05, 2_000) for name in names)),
        alerts=replace(
            report.alerts,
            slices=tuple(SliceDecision(name, 60.0, 4.9, shift_seen=True, since=BEGAN) for name in names),
            episodes=tuple(
                Episode(f"e{name}", name, Kind.DROP, BEGAN, BEGAN, drop(0.12, 0.05), 2_000, 310) for name in names
            ),
            batches=tuple(
                BatchFacts(f"e{name}", name, "annotation", 330, texts=False, written=BEGAN) for name in names
            ),
            history={name: course(0.12, 0.0) * 3 for name in names},
        ),
    )


def test_twenty_slices_are_a_small_page_soon_made() -> None:
    """Under 100 kB; and made within 20 ms, by the fastest of ten tries on a busy machine."""
    report = many()
    took = []
    for _ in range(10):
        status = StatusPage(lambda: report, 60.0, lambda: NOW, Shown())
        began = time.perf_counter()
        page = status.html()
        took.append(time.perf_counter() - began)
    assert len(page) < 100_000
    assert min(took) < 0.02


def test_what_is_to_be_typed_stands_out() -> None:
    """What the answer has between backticks is code; anything else in it is escaped."""
    report = drifted()
    harmful = replace(report.alerts.realised[0], labelled=330)
    page = page_of(replace(report, alerts=replace(report.alerts, realised=(harmful,))))
    assert "<code>leadline annotate import … --out</code> makes a new reference" in page
    assert "`" not in page.split("<script>")[0]


def test_estimates_and_labels_are_named_as_such() -> None:
    """What was estimated is not headed as what was lost; labels are told together with predictions."""
    page = page_of(drifted())
    assert "Points of accuracy lost, estimated" in page
    assert "Points lost, estimated" in page
    assert "118 of 330: 11.3 (7.2 to 15.4)" in page
    assert "labels said: no more lost than you accept" in page


def test_the_facts_are_json_without_nan() -> None:
    """Scripts get the same answer as people, in fractions and epoch seconds; what is not known is null."""
    facts = facts_of(drifted())
    assert facts["state"] == "lost"
    assert facts["headline"] in page_of(drifted())
    worst = facts["slices"][0]  # type: ignore[index]
    assert (worst["slice"], worst["drop"]["low"], worst["since"]) == ("de", pytest.approx(0.071), BEGAN)
    assert facts["batches"][0]["download"] == f"batches/{EPISODE}.jsonl"  # type: ignore[index]
    assert worst["history"]["high"][-1] == pytest.approx(drifted().alerts.history["de"][-1].drop.high)
    assert {len(column) for column in worst["history"].values()} == {97}
    assert facts["agent"]["source"]["lag"] == {"tickets/0": 118, "tickets/1": 64}  # type: ignore[index]
    odd = facts_of(hostile())
    assert odd["slices"][0]["slice"] == EVIL  # type: ignore[index]
    assert odd["slices"][0]["since"] is None  # type: ignore[index]


def test_charts_leave_gaps_and_stay_small() -> None:
    """Estimates that are not known break the band; many points are thinned evenly; one point is no course."""
    gap = HistoryPoint(NOW, Interval(), inside_domains=False)
    early, late = course(0.1, 0)[:40], course(0.1, 0)[50:]
    for history in ((*early, *late), (*early, replace(gap, end=early[-1].end + 1), *course(0.1, 0)[40:])):
        assert str(drop_over_time(history, 0.05, BEGAN, NOW)).count("<polygon") == 2
    assert drop_over_time((gap,), 0.05, NAN, NOW) is None
    assert len(thinned(course(0.1, 0) * 10)) == 120
    outside = tuple(replace(each, inside_domains=False) for each in course(0.1, 0))
    assert 2 < str(drop_over_time(outside, NAN, NAN, NOW)).count("<circle") <= 40
    assert buckets((1.0, 2.0), (1, 0), (0, 0)) == []
    assert buckets((1.0, 2.0), (1, 0), (0, 3, 4)) == []
    assert [each.window for each in buckets((1.0, 1.5, 2.0), (1, 1, 0), (0, 4, 0))] == [0.0, 1.0]


@dataclass(frozen=True)
class Got:
    """A response, read to its end."""

    status: int
    headers: Message
    body: bytes


def get(address: Address, path: str) -> Got:
    """The answer, whatever its status."""
    try:
        with urlopen(address.url + path, timeout=10) as response:  # noqa: S310 - our own http address
            return Got(response.status, response.headers, response.read())
    except HTTPError as error:
        with error:
            return Got(error.code, error.headers, error.read())


@pytest.fixture(scope="module")
def desk() -> Desk:
    """The batches that are served."""
    return Desk()


@pytest.fixture(scope="module")
def address(desk: Desk) -> Iterator[Address]:
    """Where the page of a drifted agent is served."""
    report = drifted()
    with serving(lambda: report, "127.0.0.1", 0, clock=lambda: NOW, shown=Shown(desk)) as address:
        yield address


def test_the_policy_names_what_is_in_the_page(address: Address) -> None:
    """The one script and the one style are those whose hashes the policy names; it allows nothing else."""
    answer = get(address, "/")
    page, policy = answer.body.decode(), answer.headers["Content-Security-Policy"]
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_batch_is_a_download(address: Address) -> None:
    """The batch that the Report names comes as a file of JSON Lines."""
    answer = get(address, f"/batches/{EPISODE}.jsonl")
    assert (answer.status, answer.body) == (200, b'{"id": "a"}\n')
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="leadline-{EPISODE}.jsonl"'


@pytest.mark.parametrize(
    "name",
    ["0000", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "-rf", "", quote(EPISODE + "\n"), "a" * 999],
)
def test_nothing_else_on_disk_is_within_reach(address: Address, desk: Desk, name: str) -> None:
    """What the Report does not name is not even asked for."""
    get(address, "/")
    desk.reads.clear()
    assert get(address, f"/batches/{name}.jsonl").status == 404
    assert desk.reads == []


def test_an_id_that_no_agent_gives_is_never_opened() -> None:
    """Even if a Report names a batch by a path, it is not read, and neither the page nor the facts link to it."""
    report = drifted()
    batch = replace(report.alerts.batches[0], episode="../../etc/passwd")
    odd = replace(report, alerts=replace(report.alerts, batches=(batch,)))
    desk = Desk()
    assert Shown(desk).download(odd, "../../etc/passwd") is None
    assert "download" not in Reader(page_of(odd, shown=Shown(desk))).attributes("class")
    assert facts_of(odd)["batches"][0]["download"] is None  # type: ignore[index]
    assert desk.reads == []


def test_the_address_chooses_the_slice(address: Address) -> None:
    """`?slice=` names the slice, also when it comes twice or broken."""
    assert b'id="slice">Slice <bdi>fr' in get(address, "/?slice=fr").body
    assert b'id="slice">Slice <bdi>de' in get(address, "/?slice=%ff%fe&slice=%00").body
    assert json.loads(get(address, "/status.json").body)["headline"].startswith("Accuracy is probably lost")
