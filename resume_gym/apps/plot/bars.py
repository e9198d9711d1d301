"""Bar charts of agents: the reward and its components, and the reward by planted weakness."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from resume_gym.apps.plot.reading import Summaries
from resume_gym.episode.tasks import WEAKNESSES
from resume_gym.figures.style import COLOURS, WIDTH, caption, ink, legend_above, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GROUP = 0.84  # width of a group of bars; the distance between groups is 1
_ROOM = 0.34  # minimum width, in inches, of a bar that is labelled with its value
_PARTS = {"reward": "reward", "tool_syntax": "tool calls", "layout": "layout", "content": "content"}


class MeanBar(NamedTuple):
    """Mean reward; its `error` (two standard errors) and number of tasks are None if unknown."""

    mean: float
    error: float | None = None
    tasks: int | None = None


Bars = Mapping[str, Mapping[str, MeanBar]]
"""Bars of a chart, by agent and then by category."""


def components(summaries: Summaries) -> Bars:
    """Return bars for each agent's mean reward and the components of this reward."""
    return {
        name: {
            part: MeanBar(summary[part], summary.get("errors", {}).get(part), summary.get("tasks"))
            for part in _PARTS
        }
        for name, summary in summaries.items()
        if _PARTS.keys() <= summary.keys()
    }


def by_weakness(summaries: Summaries) -> Bars:
    """Return bars for each agent's mean reward by weakness of the tasks."""
    return {
        name: {
            weakness: MeanBar(
                mean,
                summary.get("errors", {}).get(f"by_weakness.{weakness}"),
                summary.get("tasks_by_weakness", {}).get(weakness),
            )
            for weakness, mean in summary["by_weakness"].items()
        }
        for name, summary in summaries.items()
        if summary.get("by_weakness")
    }


def draw_bars(bars: Bars, title: str, note: str = "") -> "Figure | None":
    """Draw a group of bars per category, with one bar per agent.

    Args:
        bars: bars to draw, by agent and category.
        title: title of the figure.
        note: caption of the figure.

    Returns:
        The figure, or None if there are no bars.
    """
    categories = sorted({name for values in bars.values() for name in values}, key=_position)
    if not categories:
        return None
    figure = new_figure(4.2, title)
    axes = figure.add_subplot()
    axes.grid(axis="y")
    axes.set_ylabel("mean reward of an episode")
    labels = [_PARTS.get(name, name).replace("_", "\n", 1) for name in categories]
    counts = _counts(bars, categories)
    labels = [f"{label}\n{count}".rstrip() for label, count in zip(labels, counts, strict=True)]
    axes.set_xticks(range(len(categories)), [label.replace("_", " ") for label in labels])
    axes.tick_params(axis="x", length=0, labelsize=8)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.margins(y=0.1)
    width = _GROUP / len(bars)
    # label bars only if wider than _ROOM inches; the axes take about 0.9 of the figure's width
    labelled = width * 0.9 * WIDTH / len(categories) > _ROOM
    for index, (agent, values) in enumerate(bars.items()):
        left = -_GROUP / 2 + (index + 0.5) * width
        by_x = {i + left: values[name] for i, name in enumerate(categories) if name in values}
        colour = COLOURS[index % len(COLOURS)]
        drawn = axes.bar(
            list(by_x), [bar.mean for bar in by_x.values()], 0.95 * width, label=agent,
            color=colour, edgecolor="white", linewidth=0,
            hatch="////" if index >= len(COLOURS) else "",  # for repeated colours
            yerr=[math.nan if bar.error is None else bar.error for bar in by_x.values()],
            capsize=2, error_kw={"ecolor": "#333333", "elinewidth": 0.9},
        )  # fmt: skip
        if labelled:  # format option z avoids -0.00
            axes.bar_label(drawn, fmt="{:z.2f}", padding=3, fontsize=7.5, color=ink(colour))
    legend_above(figure, axes)
    whiskers = any(bar.error is not None for values in bars.values() for bar in values.values())
    notes = [note] * bool(note) + ["Whiskers: two standard errors over n tasks."] * whiskers
    if notes:
        caption(figure, " ".join(notes))
    return figure


def _position(category: str) -> tuple[int, str]:
    """Return a sort key: known categories come first in a fixed order, then all others by name."""
    order = (*_PARTS, *WEAKNESSES)
    return (order.index(category) if category in order else len(order), category)


def _counts(bars: Bars, categories: Sequence[str]) -> list[str]:
    """Return a label "n = TASKS" or "n = LEAST to MOST" per category; empty if unknown."""
    numbers = [[own[name].tasks for own in bars.values() if name in own] for name in categories]
    known = [[one for one in of if one is not None] for of in numbers]
    return [
        f"n = {' to '.join(map(str, sorted({min(own), max(own)})))}" if own == of else ""
        for own, of in zip(known, numbers, strict=True)
    ]
