"""The plots of an evaluation's report, as plain data for plotly.js. Pure: no plotly needed.

Colours are CSS variables, which the page fills in for light and dark; what is not known becomes null.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent.evaluation_report import Densities, DetectorScores, Evaluation
    from agent.interval import Interval

Figure: TypeAlias = dict[str, Any]

SOURCE, TARGET, MUTED = "var(--source)", "var(--target)", "var(--muted)"
FILLS = {SOURCE: "var(--source-fill)", TARGET: "var(--target-fill)"}
CALIBRATIONS = {"raw": "as the model gives it", "calibrated": "calibrated on the source"}


def figures(evaluation: Evaluation) -> dict[str, Figure]:
    """Every plot by the id of its place in the page."""
    return {
        "drop": _drop(evaluation),
        **({} if evaluation.depth.reason else {"depth-f1": _depth_f1(evaluation)}),
        "depths": _histograms(evaluation.depths, "depth", "share of items", height=300, legend=True),
        "reliability": _reliability(evaluation),
        **{f"detector-{scores.name}": _detector(scores) for scores in evaluation.detectors},
    }


def _drop(evaluation: Evaluation) -> Figure:
    """Points of accuracy, each with its interval: the realised drop, the estimated one, and what it is made of."""
    rows: list[tuple[str, Interval, str, str]] = [("drop, measured", evaluation.sd, TARGET, "circle")]
    if evaluation.estimate is not None and not evaluation.estimate.reason:
        rows.append(("drop, estimated<br>without labels", evaluation.estimate.drop, SOURCE, "diamond"))
    if evaluation.target is not None:
        rows += [
            ("retraining here<br>would give (TD)", evaluation.target.td, MUTED, "square"),
            ("harder by<br>itself (IDD)", evaluation.target.idd, MUTED, "triangle-up"),
        ]
    data = [_interval(*row) for row in reversed(rows)]
    layout = _layout(height=90 + 62 * len(rows), x="points of accuracy", y="")
    layout["xaxis"] |= {"zeroline": True, "zerolinewidth": 2, "ticksuffix": "", "rangemode": "tozero"}
    layout["yaxis"] |= {"showgrid": False, "type": "category", "ticklabelstandoff": 6}
    return {"data": data, "layout": layout}


def _interval(name: str, interval: Interval, colour: str, symbol: str) -> Figure:
    centre, low, high = (100 * value for value in (interval.estimate, interval.low, interval.high))
    plain = name.replace("<br>", " ")
    return {
        "type": "scatter",
        "x": known([centre]),
        "y": [name],
        "name": plain,
        "mode": "markers",
        "marker": {"color": colour, "size": 13, "symbol": symbol},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": known([high - centre]),
            "arrayminus": known([centre - low]),
            "color": colour,
            "thickness": 3,
            "width": 7,
        },
        "hovertemplate": f"{plain}: %{{x:+.1f}} points<br>between {low:+.1f} and {high:+.1f}<extra></extra>",
        "showlegend": False,
    }


def _depth_f1(evaluation: Evaluation) -> Figure:
    """Micro, with its interval, and macro Depth F1 against lambda, and plain accuracy for comparison."""
    curve = evaluation.depth.points
    at = [point.percentile for point in curve]
    there = [point for point in curve if point.items]
    band = [point.micro.low for point in there] + [point.micro.high for point in reversed(there)]
    data: list[Figure] = [
        {
            "type": "scatter",
            "x": [point.percentile for point in (*there, *reversed(there))],
            "y": known(band),
            "mode": "lines",
            "line": {"width": 0},
            "fill": "toself",
            "fillcolor": FILLS[TARGET],
            "hoverinfo": "skip",
            "showlegend": False,
        },
        _depth_line(evaluation, "micro", TARGET, "solid"),
        _depth_line(evaluation, "macro", SOURCE, "dash"),
        {
            "type": "scatter",
            "x": [at[0], at[-1]],
            "y": known([evaluation.accuracy.estimate] * 2),
            "name": "plain accuracy",
            "mode": "lines",
            "line": {"color": MUTED, "width": 2, "dash": "dot"},
            "hovertemplate": "plain accuracy %{y:.1%}<extra></extra>",
        },
    ]
    layout = _layout(height=340, x="λ: percent of the items left out", y="", legend=True)
    layout["xaxis"] |= {"tickvals": at}
    layout["yaxis"] |= {"tickformat": ".0%"}
    return {"data": data, "layout": layout}


def _depth_line(evaluation: Evaluation, name: str, colour: str, dash: str) -> Figure:
    curve = evaluation.depth.points
    values = [point.micro.estimate if name == "micro" else point.macro for point in curve]
    return {
        "type": "scatter",
        "x": [point.percentile for point in curve],
        "y": known(values),
        "customdata": [point.items for point in curve],
        "name": f"Depth F1, {name}",
        "mode": "lines+markers",
        "line": {"color": colour, "width": 3, "dash": dash},
        "marker": {"size": 9, "symbol": "circle" if name == "micro" else "square"},
        "hovertemplate": f"{name}: %{{y:.1%}} on the %{{customdata:,}} least alike items<extra></extra>",
    }


def _reliability(evaluation: Evaluation) -> Figure:
    """Accuracy against confidence, bin by bin, raw and calibrated; the diagonal is what it should be."""
    looks = {"raw": (SOURCE, "dash", "square"), "calibrated": (TARGET, "solid", "circle")}
    data: list[Figure] = [
        {
            "type": "scatter",
            "x": [0, 1],
            "y": [0, 1],
            "name": "as it should be",
            "mode": "lines",
            "line": {"color": MUTED, "width": 2, "dash": "dot"},
            "hoverinfo": "skip",
        }
    ]
    for calibration in evaluation.calibrations:
        colour, dash, symbol = looks[calibration.name]
        most = max(each.items for each in calibration.bins)
        data.append(
            {
                "type": "scatter",
                "x": known(each.confidence for each in calibration.bins),
                "y": known(each.accuracy for each in calibration.bins),
                "customdata": [each.items for each in calibration.bins],
                "name": CALIBRATIONS[calibration.name],
                "mode": "lines+markers",
                "line": {"color": colour, "width": 2, "dash": dash},
                "marker": {
                    "symbol": symbol,
                    "size": [7 + 15 * math.sqrt(each.items / most) for each in calibration.bins],
                    "opacity": 0.85,
                },
                "hovertemplate": "says %{x:.1%}, is right %{y:.1%}<br>%{customdata:,} items<extra></extra>",
            }
        )
    layout = _layout(height=400, x="confidence: how sure the model says it is", y="", legend=True)
    least = min((each.confidence for part in evaluation.calibrations for each in part.bins), default=0.0)
    layout["xaxis"] |= {"range": [max(0.0, least - 0.05), 1.02], "tickformat": ".0%"}
    layout["yaxis"] |= {"range": [-0.02, 1.05], "tickformat": ".0%"}
    return {"data": data, "layout": layout}


def _detector(scores: DetectorScores) -> Figure:
    """One detector's small plot: scores of source and target, and where it draws the line."""
    figure = _histograms(scores.densities, "", "", height=150, legend=False)
    figure["layout"]["xaxis"] |= {"nticks": 4}
    figure["layout"]["yaxis"] |= {"showticklabels": False, "showgrid": False}
    edges = scores.densities.edges
    if math.isfinite(scores.threshold) and edges[0] < scores.threshold < edges[-1]:
        figure["layout"]["shapes"] = [
            {
                "type": "line",
                "x0": scores.threshold,
                "x1": scores.threshold,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"color": "var(--ink)", "width": 1.5, "dash": "dot"},
            }
        ]
    return figure


def _histograms(densities: Densities, x: str, y: str, *, height: int, legend: bool) -> Figure:
    """Source and target as filled steps over each other."""
    sides = (("source", densities.source, SOURCE), ("this table", densities.target, TARGET))
    data = [
        {
            "type": "scatter",
            "x": list(densities.edges),
            "y": [*shares, shares[-1]],
            "name": name,
            "mode": "lines",
            "line": {"color": colour, "width": 2, "shape": "hv"},
            "fill": "tozeroy",
            "fillcolor": FILLS[colour],
            "hovertemplate": f"{name}: %{{y:.1%}} of the items from %{{x:.4g}}<extra></extra>",
        }
        for name, shares, colour in sides
    ]
    layout = _layout(height=height, x=x, y=y, legend=legend)
    layout["yaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    return {"data": data, "layout": layout}


def _layout(*, height: int, x: str, y: str, legend: bool = False) -> Figure:
    axis = {"fixedrange": True, "gridcolor": "var(--grid)", "zerolinecolor": "var(--axis)", "zeroline": False}
    axis |= {"automargin": True, "linecolor": "var(--axis)"}
    return {
        "height": height,
        "margin": {"l": 16, "r": 16, "t": 44 if legend else 10, "b": 40 if x else 24},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "var(--ink)"},
        "hoverlabel": {"bgcolor": "var(--card)", "bordercolor": "var(--axis)", "font": {"color": "var(--ink)"}},
        "dragmode": False,
        "showlegend": legend,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "itemsizing": "constant",
            "bgcolor": "rgba(0,0,0,0)",
        },
        "xaxis": axis | ({"title": {"text": x, "standoff": 10}} if x else {}),
        "yaxis": axis | ({"title": {"text": y, "standoff": 10}} if y else {}),
    }


def known(values: Iterable[float]) -> Sequence[float | None]:
    """The values with None, JSON's null, for those that are not finite."""
    return [value if math.isfinite(value) else None for value in values]
