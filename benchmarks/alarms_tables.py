"""The tables of the alarms benchmark."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from alarms_quiet import PAGED, SEEN
from alarms_runs import AGENTS, BUDGET
from scipy.stats import chi2
from workbench import markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alarms_changes import Found
    from alarms_quiet import Quiet

BINS = (-1.0, 0.0, 0.01, 0.05, 0.08, 0.12, 0.2, 1.0)
HARMS = ("harmful", "slight", "harmless")


def poisson(count: int, level: float = 0.95) -> tuple[float, float]:
    """The exact interval of a Poisson mean."""
    low = chi2.ppf((1 - level) / 2, 2 * count) / 2 if count else 0.0
    return float(low), float(chi2.ppf((1 + level) / 2, 2 * count + 2) / 2)


def per_fleet(count: int, months: float, slices: int) -> str:
    """A count over slice-months, as a rate a month of the whole fleet, with its interval."""
    scale = AGENTS * slices / months
    low, high = (scale * bound for bound in poisson(count))
    return f"{scale * count:,.1f} ({low:,.1f} to {high:,.1f})"


def quiet_table(rows: Sequence[Quiet], slices: int) -> str:
    """Alarms of every contender, a month of ten models."""
    lines = []
    for name in rows[0].alarms:
        count, months = sum(row.alarms[name] for row in rows), sum(row.months[name] for row in rows)
        touched = sum(row.alarms[name] > 0 for row in rows)
        budget = f"{BUDGET:g}" if name in (SEEN, PAGED) else ""
        cells = (f"{months:.1f}", count, f"{touched} of {len(rows)}", per_fleet(count, months, slices), budget)
        lines.append((name, *cells))
    header = ("contender", "slice-months", "alarms", "models with any", "a month, 10 models (95 %)", "budget")
    return markdown(header, lines)


def splits_table(rows: Sequence[Quiet], slices: int) -> str:
    """Ours over calibrations: those whose traffic keeps to what calibration allows for, and the others."""
    lines = []
    for title, chosen in (
        ("within what calibration allows for", [row for row in rows if not row.beyond]),
        ("beyond it for some detector", [row for row in rows if row.beyond]),
        ("all", list(rows)),
    ):
        count, months = sum(row.alarms[SEEN] for row in chosen), sum(row.months[SEEN] for row in chosen)
        touched = sum(row.alarms[SEEN] > 0 for row in chosen)
        rate = per_fleet(count, months, slices) if months else "-"
        lines.append((title, len(chosen), f"{months:.0f}", count, touched, rate))
    header = (
        "the usual traffic is",
        "models",
        "slice-months",
        "false shifts seen",
        "models with any",
        "a month, 10 models",
    )
    return markdown(header, lines)


def beyond_list(rows: Iterable[Quiet]) -> str:
    """Which shares were beyond, by model."""
    found = [f"{row.model} ({', '.join(row.beyond)})" for row in rows if row.beyond]
    return f"Beyond it: {'; '.join(found)}.\n" if found else "None is beyond it.\n"


def by_harm(rows: Sequence[Found]) -> str:
    """What was seen and paged, by what the labels say and the share of the traffic."""
    lines = []
    for harm in HARMS:
        for share in sorted({row.share for row in rows}):
            chosen = [row for row in rows if row.harm == harm and row.share == share]
            if chosen:
                lines.append((f"{harm}, {100 * share:.0f} %", len(chosen), points(chosen), *ours(chosen)))
    header = (
        "change, share of the traffic",
        "runs",
        "drop, points (median)",
        "seen",
        "paged",
        "as unknown",
        "items to seen (90 %)",
        "items to page (90 %)",
    )
    return markdown(header, lines)


def by_drop(rows: Sequence[Found]) -> str:
    """What was seen and paged, by the accuracy lost."""
    lines = []
    for low, high in pairwise(BINS):
        chosen = [row for row in rows if low < row.drop <= high]
        if chosen:
            title = "nothing, or gained" if high == 0 else f"{100 * low:.0f} to {100 * high:.0f}"
            lines.append((title, len(chosen), *ours(chosen)))
    header = (
        "points lost",
        "runs",
        "seen",
        "paged",
        "as unknown",
        "items to seen (90 %)",
        "items to page (90 %)",
    )
    return markdown(header, lines)


def by_kind(rows: Sequence[Found]) -> str:
    """The same by where the change comes from."""
    lines = []
    for kind in sorted({kind_of(row) for row in rows}):
        chosen = [row for row in rows if kind_of(row) == kind]
        harmless = [row for row in chosen if row.harm == "harmless"]
        harmful = [row for row in chosen if row.harm == "harmful"]
        lines.append(
            (
                kind,
                len(chosen),
                share_of(chosen, saw),
                f"{sum(map(paged, harmful))} of {len(harmful)}",
                f"{sum(map(paged, harmless))} of {len(harmless)}",
            )
        )
    return markdown(("change", "runs", "seen", "harmful paged", "harmless paged"), lines)


def contenders(rows: Sequence[Found]) -> str:
    """Everyone: how many of the changes raised an alarm, how soon, and how often again."""
    lines = []
    for name in (SEEN, PAGED, *rows[0].rivals):
        cells = [alarmed([row for row in rows if row.harm == harm], name) for harm in HARMS]
        cells += [alarmed([row for row in rows if row.harm == harm and row.domain], name) for harm in HARMS]
        harmful = [delay(row, name) for row in rows if row.harm == "harmful"]
        lines.append((name, *cells, spread(harmful), again(rows, name)))
    sizes = [
        sum(row.harm == harm and (row.domain or not domain) for row in rows) for domain in (0, 1) for harm in HARMS
    ]
    titles = (*HARMS, *(f"{harm}, another domain" for harm in HARMS))
    header = (
        "contender",
        *(f"{title} ({size})" for title, size in zip(titles, sizes, strict=True)),
        "items until, harmful (90 %)",
        "alarms a change",
    )
    return markdown(header, lines)


def alarmed(rows: Sequence[Found], name: str) -> str:
    """In how many of the runs a contender raised an alarm."""
    return share_of(rows, lambda row: not np.isnan(delay(row, name)))


def delay(row: Found, name: str) -> float:
    """Items until a contender's alarm."""
    if name == SEEN:
        return row.seen
    return row.paged if name == PAGED else row.rivals[name].delay


def again(rows: Sequence[Found], name: str) -> str:
    """Mean alarms of a change that had any; KSWIN is stopped at the first."""
    if name == SEEN or "KSWIN" in name:
        return "-"
    counts = [row.episodes if name == PAGED else row.rivals[name].alarms for row in rows]
    some = [count for count in counts if count]
    return f"{np.mean(some):.2f} (at most {max(some)})" if some else "-"


def endings(rows: Sequence[Found]) -> str:
    """Episodes of a change, and what comes after it, in a sentence each."""
    episodes = [row.episodes for row in rows if row.page]
    resolved = np.array([row.resolved for row in rows if row.page])
    unseen = np.array([row.unseen for row in rows if not np.isnan(row.seen)])
    more = sum(count > 1 for count in episodes)
    early, elsewhere = sum(row.early for row in rows), sum(row.elsewhere for row in rows)
    return (
        f"- Episodes of a change that was paged: one in {len(episodes) - more} runs, more in {more}"
        f" (at most {max(episodes, default=0)}).\n"
        f"- From the return of the usual traffic to the end of the episode: {span(resolved)}; to the end of"
        f" *shift seen*: {span(unseen)}.\n"
        f"- Shifts seen before the change in {early} of {len(rows)} runs, and {elsewhere} in slices where nothing"
        " changed.\n"
    )


def span(values: np.ndarray) -> str:
    """Median and 90 % of hours; how many were over before, and how many never came."""
    known = values[values > 0]
    if not len(known):
        return "none"
    before, never = int((values == 0).sum()), int(np.isnan(values).sum())
    text = f"{np.median(known):.1f} hours (90 %: {np.quantile(known, 0.9):.1f}) in {len(known)} runs"
    return f"{text}, over before the return in {before}, not within 12 hours in {never}"


def kind_of(row: Found) -> str:
    """What came."""
    return "another domain" if row.domain else f"style: {row.change}"


def ours(rows: Sequence[Found]) -> tuple[str, ...]:
    """Seen, paged, paged as unknown, and both delays."""
    return (
        share_of(rows, saw),
        share_of(rows, paged),
        share_of(rows, lambda row: row.page == "unknown"),
        spread([row.seen for row in rows]),
        spread([row.paged for row in rows]),
    )


def saw(row: Found) -> bool:
    """Whether the change was seen."""
    return not np.isnan(row.seen)


def paged(row: Found) -> bool:
    """Whether it was paged."""
    return bool(row.page)


def share_of(rows: Sequence[Found], holds: Callable[[Found], bool]) -> str:
    """In how many of the runs."""
    return f"{100 * np.mean([holds(row) for row in rows]):.0f} %" if rows else "-"


def points(rows: Sequence[Found]) -> str:
    """The median drop."""
    return f"{100 * np.median([row.drop for row in rows]):.1f}"


def spread(values: Sequence[float]) -> str:
    """Median and 90 % of the delays that are known."""
    known = [value for value in values if not np.isnan(value)]
    return f"{np.median(known):,.0f} ({np.quantile(known, 0.9):,.0f})" if known else "-"
