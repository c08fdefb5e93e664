"use strict";
// Takes the newest page in every ten seconds. Only what has changed is touched, so that focus, scrolling, what is
// unfolded, and the place a screen reader has come to, all stay; only a new answer is announced.
const EVERY = 10000;
const WAIT = 8000;
const [news, stale, pause] = ["news", "stale", "pause"].map((id) => document.getElementById(id));

function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((node, place) => (place < before.length ? morph(before[place], node) : old.append(node)));
  before.slice(after.length).forEach((node) => node.remove());
}

function swap(fresh) {
  if (fresh.documentElement.dataset.version !== document.documentElement.dataset.version) {
    location.reload();
    return;
  }
  const answer = fresh.querySelector("h1").textContent;
  const changed = answer !== document.querySelector("h1").textContent;
  const focused = document.activeElement?.id;
  document.title = fresh.title;
  morph(document.querySelector("main"), fresh.querySelector("main"));
  morph(document.getElementById("updated"), fresh.getElementById("updated"));
  if (focused && document.activeElement?.id !== focused) {
    document.getElementById(focused)?.focus({ preventScroll: true });
  }
  if (changed) news.textContent = answer;
}

async function refresh() {
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(WAIT) });
    if (!answer.ok) throw new Error(answer.status);
    swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
    stale.hidden = true;
  } catch {
    if (!stale.hidden) return;
    const time = document.querySelector("#updated time").textContent;
    stale.textContent = `No answer from the agent since ${time}: what you see is old.`;
    stale.hidden = false;
  }
}

function tick() {
  const reading = !getSelection().isCollapsed;
  if (pause.getAttribute("aria-pressed") === "false" && !document.hidden && !reading) refresh();
}

pause.hidden = false;
pause.addEventListener("click", () => {
  pause.setAttribute("aria-pressed", String(pause.getAttribute("aria-pressed") === "false"));
});
document.addEventListener("visibilitychange", tick);
setInterval(tick, EVERY);
