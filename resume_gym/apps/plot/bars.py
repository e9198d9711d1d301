"""Bar charts per agent: the reward with its components, and the reward by weakness."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from resume_gym.apps.plot import source
from resume_gym.apps.plot.reading import Played
from resume_gym.apps.plot.style import COLOURS, WIDTH, caption, ink, legend_above, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHAPES = "o^sD"  # markers of the reproduced experiment's agents
_GROUP = 0.84  # width of a group of bars; the distance between groups is 1
_MARKS = 0.24  # part of that width for the markers
_ROOM = 0.34  # inches that a bar needs for a readable number
_PART_NAMES = {"tool_syntax": "tool calls"}


class Bar(NamedTuple):
    """Mean with twice its standard error over tasks; the error is None if unknown."""

    mean: float
    error: float | None = None


Bars = Mapping[str, Mapping[str, Bar]]
"""Bars by agent, then by category."""


def components(episodes: Iterable[Played]) -> Bars:
    """Return the mean reward and its components; skips episodes without a ledger."""
    return _bars(episodes, lambda one: {"reward": one.reward, **one.parts} if one.parts else {})


def by_weakness(episodes: Iterable[Played]) -> Bars:
    """Return the mean reward by weakness; skips episodes without a weakness."""
    return _bars(episodes, lambda one: {one.weakness: one.reward} if one.weakness else {})


def _bars(episodes: Iterable[Played], figures: Callable[[Played], Mapping[str, float]]) -> Bars:
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for one in episodes:
        for category, value in figures(one).items():
            tasks = found.setdefault(one.agent, {}).setdefault(category, defaultdict(list))
            tasks[one.task_id].append(value)
    return {
        agent: {category: _bar(list(tasks.values())) for category, tasks in categories.items()}
        for agent, categories in found.items()
    }


def _bar(tasks: Sequence[Sequence[float]]) -> Bar:
    """Return the mean over episodes, with its error over tasks."""
    # rollouts of one task are not independent: n is the number of tasks
    means = [fmean(one) for one in tasks]
    error = 2 * stdev(means) / sqrt(len(means)) if len(means) > 1 else None
    return Bar(fmean(value for one in tasks for value in one), error)


def summary_components(summaries: Mapping[str, Mapping[str, Any]]) -> Bars:
    """Return the reward and its components from saved summaries, without errors."""
    return {
        name: {part: Bar(one[part]) for part in source.PARTS}
        for name, one in summaries.items()
        if set(source.PARTS) <= one.keys()
    }


def summary_by_weakness(summaries: Mapping[str, Mapping[str, Any]]) -> Bars:
    """Return the reward by weakness from saved summaries, without errors."""
    return {
        name: {weakness: Bar(mean) for weakness, mean in one["by_weakness"].items()}
        for name, one in summaries.items()
        if one.get("by_weakness")
    }


def draw_bars(
    bars: Bars, title: str, marks: source.Figures | None = None, note: str = ""
) -> "Figure | None":
    """Draw a group of bars per category, with one bar per agent.

    Args:
        bars: bars to draw.
        title: title of the figure.
        marks: reference values, drawn as markers beside the bars of the same category.
        note: text for the caption.

    Returns:
        The figure, or None if there are no bars.
    """
    categories = sorted({name for one in bars.values() for name in one}, key=_place)
    if not categories:
        return None
    figure = new_figure(4.2, title)
    axes = figure.add_subplot()
    axes.grid(axis="y")
    axes.set_ylabel("mean reward of an episode")
    labels = [_PART_NAMES.get(name, name).replace("_", "\n", 1) for name in categories]
    axes.set_xticks(range(len(categories)), [label.replace("_", " ") for label in labels])
    axes.tick_params(axis="x", length=0, labelsize=8)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.margins(y=0.1)
    marked = [own for own in (marks or {}).values() if own.keys() & set(categories)]
    width = _GROUP - (_MARKS if marked else 0)
    # estimated width of a bar in inches, with axes of 0.9 of the figure
    labelled = width / len(bars) * 0.9 * WIDTH / len(categories) > _ROOM
    for place, (agent, own) in enumerate(bars.items()):
        left = -_GROUP / 2 + (place + 0.5) * width / len(bars)
        spots = {i + left: own[name] for i, name in enumerate(categories) if name in own}
        _draw_agent(axes, spots, 0.95 * width / len(bars), place, agent)
        if labelled:
            _draw_numbers(axes, spots, COLOURS[place % len(COLOURS)])
    _draw_marks(axes, categories, marks or {})
    legend_above(figure, axes)
    whiskers = any(bar.error is not None for own in bars.values() for bar in own.values())
    told = [note] * bool(note) + ["Whiskers: two standard errors over the tasks."] * whiskers
    if told:
        caption(figure, " ".join(told))
    return figure


def _place(category: str) -> tuple[int, str]:
    """Sort key: components and weaknesses in the order of `source`, others by name."""
    known = (*source.PARTS, *source.WEAKNESSES)
    return (known.index(category) if category in known else len(known), category)


def _draw_agent(
    axes: "Axes", spots: Mapping[float, Bar], width: float, place: int, agent: str
) -> None:
    """Draw an agent's bars and whiskers; hatching marks colours that are used again."""
    axes.bar(
        list(spots), [bar.mean for bar in spots.values()], width, label=agent,
        color=COLOURS[place % len(COLOURS)], edgecolor="white", linewidth=0,
        hatch="////" if place >= len(COLOURS) else "",
    )  # fmt: skip
    known = [(spot, *bar) for spot, bar in spots.items() if bar.error is not None]
    if known:
        places, means, errors = zip(*known, strict=True)
        axes.errorbar(
            places, means, errors, fmt="none", ecolor="#333333", elinewidth=0.9, capsize=2
        )


def _draw_numbers(axes: "Axes", spots: Mapping[float, Bar], colour: str) -> None:
    for spot, (mean, error) in spots.items():
        side = -1 if mean < 0 else 1
        axes.annotate(  # format option z avoids -0.00
            f"{mean:z.2f}", (spot, mean + side * (error or 0)), xytext=(0, 3 * side),
            textcoords="offset points", ha="center", va="top" if side < 0 else "bottom",
            fontsize=7.5, color=ink(colour),
        )  # fmt: skip


def _draw_marks(axes: "Axes", categories: Sequence[str], marks: source.Figures) -> None:
    """Draw reference values to the right of the bars, with one marker shape per agent."""
    for place, (agent, own) in enumerate(marks.items()):
        left = _GROUP / 2 - _MARKS + (place + 0.5) * _MARKS / len(marks)
        spots = {i + left: own[name] for i, name in enumerate(categories) if name in own}
        if spots:
            axes.plot(
                list(spots), list(spots.values()), _SHAPES[place % len(_SHAPES)], color="black",
                markerfacecolor="white", markersize=5.5, zorder=4, label=f"source: {agent}",
            )  # fmt: skip
