"""The status page in a real Chromium: it loads, says its names aloud, can be read, and renews itself quietly."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.alert_report import Alerts
from exporters.server import serving
from exporters.status.batches import Shown
from tests.exporters.browser import Chromium
from tests.exporters.plausible import EPISODE, NOW, calm, drifted
from tests.exporters.status_picture import PICTURE, WIDTH
from tests.exporters.test_status_page import Desk, hostile, many
from tests.services import program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.report import Report
    from tests.exporters.browser import Page

TAB, ENTER = ("Tab", 9), ("Enter", 13)
# Every visible text with the contrast to what lies behind it, worst first. Texts in drawings lie on their card.
CONTRASTS = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const linear = [r, g, b].map((each) => {
      const share = each / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    const unseen = ".unseen, .skip, script, style, title, desc";
    if (!text || !element.checkVisibility() || element.closest(unseen)) continue;
    const style = getComputedStyle(element);
    const color = parse(element instanceof SVGElement ? style.fill : style.color);
    const [one, other] = [light(color), light(behind(element))];
    found.push([(Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05), text]);
  }
  return found.sort((one, other) => one[0] - other[0]);
})()"""
# What has the focus, in a word.
FOCUSED = "(document.activeElement.id || document.activeElement.textContent).trim()"
# Whether what has the focus shows it.
OUTLINED = "parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2"


@dataclass
class Agent:
    """What the loop would keep: its newest snapshot."""

    report: Report

    def latest(self) -> Report:
        """The newest snapshot."""
        return self.report


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """The browser; without it the tests are skipped, or fail where services are required."""
    path = program("chromium", "chromium")
    with Chromium(path, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def agent() -> Agent:
    """An agent one of whose slices has drifted."""
    return Agent(drifted())


@pytest.fixture
def url(agent: Agent) -> Iterator[str]:
    """Where its page is served."""
    shown = Shown(Desk(), texts=True)
    with serving(agent.latest, "127.0.0.1", 0, clock=lambda: agent.report.time, shown=shown) as address:
        yield f"{address.url}/"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("report", [drifted, calm, hostile, many])
def test_it_loads_by_itself_and_can_be_read(
    browser: Chromium,
    agent: Agent,
    url: str,
    report: object,
    dark: bool,  # noqa: FBT001 - a column of the table above
) -> None:
    """One request, no complaint of the browser, and every text at a contrast of 4.5 at least, light and dark."""
    agent.report = report()  # type: ignore[operator]
    with browser.page(dark=dark) as page:
        page.open(url)
        assert [each["request"]["url"] for each in page.happened("Network.requestWillBeSent")] == [url]
        assert page.happened("Log.entryAdded") == []
        assert page.happened("Runtime.exceptionThrown") == []
        contrasts = page.value(CONTRASTS)
        assert len(contrasts) > 50
        assert contrasts[0][0] >= 4.5, contrasts[:3]
        ink = page.value("getComputedStyle(document.body).backgroundColor")
        assert (ink == "rgb(18, 22, 28)") == dark


@pytest.mark.parametrize("width", [320, 360, 768, 1200])
@pytest.mark.parametrize("report", [drifted, hostile])
def test_no_width_needs_sideways_scrolling(
    browser: Chromium, agent: Agent, url: str, report: object, width: int
) -> None:
    """From 320 pixels on nothing sticks out, whatever slices are called, with every detail unfolded."""
    agent.report = report()  # type: ignore[operator]
    with browser.page(width) as page:
        page.open(url)
        page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert page.value("document.documentElement.scrollWidth") == width
        sticks = (
            "[...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > innerWidth)"
        )
        assert page.value(f"{sticks}.map((e) => e.outerHTML.slice(0, 99))") == []


@dataclass
class Names(Desk):
    """Items with such slices and classes as there are."""

    def dissimilar(self, episode: str) -> list[dict[str, object]]:
        """Two items, of long texts."""
        item = {
            "id": "a",
            "slice": "de-customers",
            "prediction": "complaint",
            "depth": 0.87,
            "text": "lorem ipsum " * 30,
        }
        return [{**super().dissimilar(episode)[0], **item}] * 2


@pytest.mark.parametrize("width", [420, 1280])
def test_no_word_of_a_table_is_broken(browser: Chromium, agent: Agent, width: int) -> None:
    """However long the text beside them: words as long as those of detectors, slices and classes stay whole."""
    windows = tuple(
        replace(each, ood_ratio=each.ood_ratio | {"gradnorm": 0.3, "softmax-gap": 0.2})
        for each in agent.report.windows
    )
    agent.report = replace(agent.report, windows=windows)
    shown = Shown(Names(), texts=True)
    with (
        serving(agent.latest, "127.0.0.1", 0, clock=lambda: NOW, shown=shown) as address,
        browser.page(width) as page,
    ):
        page.open(address.url)
        lines = "[e.textContent, new Set([...e.getClientRects()].map((r) => r.top)).size]"
        told = page.value(f"[...document.querySelectorAll('.detectors bdi, .items td bdi')].map((e) => {lines})")
    assert {"gradnorm", "complaint"} <= {name for name, _ in told}
    assert not [each for each in told if each[1] > each[0].count("-") + 1]


def test_the_answer_is_on_the_first_screen(browser: Chromium, url: str) -> None:
    """On a phone, the sentence that matters needs no scrolling."""
    with browser.page(360) as page:
        page.call("Emulation.setDeviceMetricsOverride", width=360, height=640, deviceScaleFactor=1, mobile=False)
        page.open(url)
        assert page.value("document.querySelector('h1').getBoundingClientRect().bottom") < 640


def test_tab_goes_through_everything_in_order_and_shows_where_it_is(browser: Chromium, url: str) -> None:
    """The skip link first, then what is on the page from top to bottom, each visibly focused."""
    with browser.page() as page:
        page.open(url)
        seen = []
        for _ in range(14):
            page.press(*TAB)
            seen.append(page.value(FOCUSED))
            assert page.value(OUTLINED), seen[-1]
        assert seen == [
            "Skip to the answer",
            "reload",
            "pause",
            "in-de",
            "in-fr",
            "in-en",
            "The numbers",
            "The numbers",
            f"download-{EPISODE}",
            "status.json",
            "metrics",
            "livez",
            "readyz",
            seen[-1],
        ]


def named(page: Page, role: str) -> list[str]:
    """The accessible names of everything of this role, as a screen reader gets them."""
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    shown = [node for node in nodes if not node.get("ignored") and node.get("role", {}).get("value") == role]
    return [node.get("name", {}).get("value", "") for node in shown]


def test_a_screen_reader_finds_names_for_everything(browser: Chromium, url: str) -> None:
    """Landmarks, headings, tables, drawings, links and buttons are there under a name that says what they are."""
    with browser.page() as page:
        page.open(url)
        assert named(page, "heading")[0].startswith("Accuracy is probably lost in slice de, since 14:20 UTC")
        assert [len(named(page, role)) for role in ("main", "banner", "contentinfo", "navigation")] == [1] * 4
        assert named(page, "image") == [
            "Points of accuracy lost, over time",
            "Depth of the items against the source",
        ]
        tables = named(page, "table")
        assert len(tables) == 4
        assert tables[0].startswith("The worst first.")
        assert {"Slice", "State", "Points lost", "Items"} <= set(named(page, "columnheader"))
        assert {"de", "en", "fr", "knn"} <= set(named(page, "rowheader"))
        for role in ("link", "button", "table", "image", "region", "heading"):
            assert all(named(page, role)), role
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
        described = " ".join(each["description"]["value"] for each in nodes if each.get("description"))
        assert "The newest: 12.2 points lost, 7.2 to 17.2. The limit is 5." in described


def test_what_is_meant_does_not_hang_on_colour(browser: Chromium, url: str) -> None:
    """Each state has words, and each its own mark beside them."""
    with browser.page() as page:
        page.open(url)
        marks = "[...document.querySelectorAll('.slices .state')].map((each) => each.innerText.trim())"
        assert page.value(marks) == ["Hurting", "Fine", "Fine"]
        mark = (
            "[...document.querySelectorAll('.slices .mark')].map((e) => getComputedStyle(e, '::before').content)"
        )
        assert page.value(mark) == ['"▲"', '"✓"', '"✓"']


def test_it_renews_itself_without_moving_anything(browser: Chromium, agent: Agent, url: str) -> None:
    """Focus, scrolling, unfolded details and nodes stay; the new answer is announced, an unchanged one is not."""
    with browser.page() as page:
        page.open(url)
        page.value("document.getElementById('estimates').open = true")
        page.value("document.getElementById('in-fr').focus(); scrollTo(0, 700)")
        reading = "Math.round(document.getElementById('depths').getBoundingClientRect().top)"
        before = page.value(reading)
        page.value("window.old = document.querySelector('h1').firstChild")
        page.value("refresh()")
        assert page.value("document.getElementById('news').textContent") == ""
        counts = replace(agent.report.counts, processed=999_999)
        agent.report = replace(agent.report, counts=counts, time=NOW + 10)
        page.value("refresh()")
        assert "999,999" in page.value("document.getElementById('agent').parentElement.textContent")
        assert page.value("document.querySelector('#updated time').textContent") == "2026-11-21 16:32:20 UTC"
        assert page.value("document.getElementById('news').textContent") == ""
        agent.report = replace(agent.report, alerts=Alerts(limit=0.5), time=NOW + 20)
        page.value("refresh()")
        assert page.value("document.getElementById('news').textContent") == "No sign of harm."
        assert page.value("document.querySelector('h1').textContent") == "No sign of harm."
        assert page.value("document.querySelector('h1').firstChild === window.old")
        assert page.value("document.title").startswith("Fine: ")
        assert page.value(FOCUSED) == "in-fr"
        assert page.value(reading) == before
        assert page.happened("Log.entryAdded") == []


def test_details_stay_unfolded(browser: Chromium, agent: Agent, url: str) -> None:
    """What a reader has unfolded does not fold itself with the next Report."""
    with browser.page() as page:
        page.open(url)
        page.value("document.getElementById('buckets').open = true")
        agent.report = replace(agent.report, time=NOW + 10)
        page.value("refresh()")
        assert page.value("document.getElementById('buckets').open") is True


def test_a_reader_is_not_disturbed(browser: Chromium, agent: Agent, url: str) -> None:
    """While paused, or while text is selected, the page stays as it is."""
    with browser.page() as page:
        page.open(url)
        page.value("getSelection().selectAllChildren(document.querySelector('h1'))")
        agent.report = calm()
        page.value("tick()")
        page.value("getSelection().empty(); document.getElementById('pause').click(); tick()")
        requests = page.happened("Network.requestWillBeSent")
        assert len(requests) == 1
        assert page.value("document.getElementById('pause').getAttribute('aria-pressed')") == "true"


def test_a_page_whose_agent_is_gone_says_that_it_is_old(browser: Chromium, agent: Agent) -> None:
    """The last page stays, with since when there was no answer; once there is one again, the warning goes."""
    with browser.page() as page:
        with serving(agent.latest, "127.0.0.1", 0, clock=lambda: NOW) as address:
            page.open(f"{address.url}/")
        page.value("refresh()")
        assert named(page, "alert") != []
        assert page.value("document.getElementById('stale').innerText") == (
            "No answer from the agent since 2026-11-21 16:32:10 UTC: what you see is old."
        )
        assert page.value("document.querySelector('h1').textContent").startswith("Accuracy is probably lost")
        with serving(agent.latest, address.host, address.port, clock=lambda: NOW):
            page.value("refresh()")
            assert page.value("document.getElementById('stale').hidden") is True


def test_it_works_without_a_script(browser: Chromium, url: str) -> None:
    """Everything is there without one: the reload link, the slices, the drawings; nothing that would not work."""
    with browser.page(script=False) as page:
        page.open(f"{url}?slice=fr")
        page.call("Emulation.setScriptExecutionDisabled", value=False)
        assert page.value("document.getElementById('slice').textContent") == "Slice fr"
        assert page.value("document.getElementById('reload').href.endsWith('?slice=fr')") is True
        assert page.value("document.getElementById('pause').checkVisibility()") is False
        assert page.value("document.querySelectorAll('.chart').length") == 2


def test_a_name_that_is_a_script_does_not_run(browser: Chromium, agent: Agent, url: str) -> None:
    """Hostile names do nothing, neither when the page loads nor when it renews itself."""
    agent.report = hostile()
    with browser.page() as page:
        page.call("Runtime.addBinding", name="alert")
        page.open(url)
        page.value("refresh()")
        assert page.happened("Runtime.bindingCalled") == []
        assert page.value("document.images.length") == 0
        page.value("document.querySelector('.slices a').click()")


def test_it_can_be_printed(browser: Chromium, url: str) -> None:
    """On paper it is black on white, for those too who read it in the dark, without what cannot be pressed."""
    with browser.page(dark=True) as page:
        page.open(url)
        page.call("Emulation.setEmulatedMedia", media="print")
        assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.value(CONTRASTS)[0][0] >= 4.5
        assert page.value("document.getElementById('pause').checkVisibility()") is False
        assert page.call("Page.printToPDF")["data"].startswith("JVBERi0")


def test_the_picture_in_the_docs_is_small() -> None:
    """It is a PNG of the width that it says, and light enough for a README."""
    picture = Path(PICTURE).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">I", picture[16:20]) == (WIDTH,)
    assert len(picture) < 150_000
