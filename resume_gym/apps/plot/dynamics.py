"""Training dynamics: temporary dips of metrics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from resume_gym.apps.plot.smoothing import ERRORS, SHARE, Dip, dips
from resume_gym.apps.plot.style import (
    BLUE,
    GREEN,
    GREY,
    RED,
    caption,
    ink,
    new_figure,
    number_steps,
)
from resume_gym.apps.plot.training import Metrics, draw_curve, points, verdict_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GOODS = {
    "reward": "reward",
    "tool_syntax": "tool calls",
    "content": "content",
    "layout": "layout",
    "submit_rate": "submit rate",
    "layout_pass": "fits the page",
}
"""Labels of metrics where higher is better, so that a dip is a loss; verdict fields are added."""
_RULE = (
    f"A dip counts if the smoothed curve falls by at least {100 * SHARE:.0f} % of its range and by "
    f"{ERRORS:.0f} times its noise, and rises again by as much. Triangle: trough. Disc: back at "
    "the level before. Ring: turned before that. Grey: from peak to recovery."
)


def draw_dips(metrics: Sequence[Metrics], title: str) -> "Figure | None":
    """Draw the metrics that dip and recover, with both points marked; return None if none does."""
    names = {**_GOODS, **{line.metric: line.label for line in verdict_lines(metrics)}}
    curves = {label: points(metrics, name) for name, label in names.items()}
    dips_of = {label: dips([y for _, y in curve]) for label, curve in curves.items() if curve}
    dipping = [label for label in dips_of if dips_of[label]]
    if not dipping:
        return None
    columns = min(3, len(dipping))
    rows = -(-len(dipping) // columns)
    steady = ", ".join(label for label in dips_of if not dips_of[label])
    note = f"{_RULE} No dip: {steady or 'none'}."
    figure = new_figure(0.9 + 2.0 * rows, title)
    for index, label in enumerate(dipping, 1):
        axes = figure.add_subplot(rows, columns, index)
        _draw_dips(axes, label, curves[label], dips_of[label])
        if index > columns * (rows - 1):
            axes.set_xlabel("step")
    caption(figure, note)
    return figure


def _draw_dips(
    axes: "Axes", label: str, curve: Sequence[tuple[int, float]], curve_dips: Sequence[Dip]
) -> None:
    axes.set_title(label)
    axes.grid(axis="y")
    axes.margins(y=0.15)
    number_steps(axes.xaxis)
    steps, values = zip(*curve, strict=True)
    heights = draw_curve(axes, steps, values, BLUE)
    for dip in curve_dips:
        axes.axvspan(steps[dip.peak], steps[dip.back], color=GREY, alpha=0.1, lw=0)
        _mark(axes, steps[dip.trough], heights[dip.trough], "v", RED, -1)
        fill = GREEN if dip.whole else "white"
        _mark(axes, steps[dip.back], heights[dip.back], "o", GREEN, 1, fill)


def _mark(
    axes: "Axes", step: int, height: float, shape: str, colour: str, side: int, fill: str = ""
) -> None:
    """Draw a marker on a curve, with its step below (side -1) or above (1) it."""
    axes.plot(step, height, shape, color=colour, markerfacecolor=fill or colour, markersize=6)
    axes.annotate(
        str(step), (step, height), xytext=(0, 6 * side), textcoords="offset points",
        ha="center", va="bottom" if side > 0 else "top", fontsize=7.5, color=ink(colour),
    )  # fmt: skip
