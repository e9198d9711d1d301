"""Bar charts per agent: the reward with its components, and the reward by weakness."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from resume_gym.apps.plot.reading import GradedEpisode
from resume_gym.apps.plot.style import COLOURS, WIDTH, caption, ink, legend_above, new_figure
from resume_gym.evaluation.summary import task_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHAPES = "o^sD"  # markers of the reproduced experiment's agents
_GROUP = 0.84  # width of a group of bars; the distance between groups is 1
_MARKS = 0.24  # part of that width for the markers
_ROOM = 0.34  # inches that a bar needs for a readable number
_PART_NAMES = {"tool_syntax": "tool calls"}


class MeanBar(NamedTuple):
    """Mean with twice its standard error over tasks, and their number; None if unknown."""

    mean: float
    error: float | None = None
    tasks: int | None = None


Bars = Mapping[str, Mapping[str, MeanBar]]
"""Bars by agent, then by category."""
Reference = Mapping[str, Mapping[str, float]]
"""Results of the experiment that this project reproduces, by agent, then by category.

They cover 40 held-out tasks x 16 rollouts with another task set and judge: compare the shape, not
the second decimal.
"""

_PARTS = ("reward", "tool_syntax", "layout", "content")
_WEAKNESSES = (
    "too_long",
    "wrong_emphasis",
    "weak_verbs",
    "no_metrics",
    "vague_bullets",
    "formatting_inconsistent",
)


def _reference(names: Sequence[str], *rows: Sequence[float]) -> Reference:
    agents = ("Qwen3-14B base", "Qwen3-32B", "GPT-5 Mini", "Qwen3-14B trained")
    return {
        agent: dict(zip(names, row, strict=True)) for agent, row in zip(agents, rows, strict=True)
    }


COMPONENTS = _reference(
    _PARTS,
    (2.73, 0.82, 0.54, 1.37),
    (3.07, 1.16, 0.52, 1.39),
    (5.30, 1.94, 0.87, 2.48),
    (5.41, 3.16, 0.47, 1.78),
)
"""Mean reward and its components."""
BY_WEAKNESS = _reference(
    _WEAKNESSES,
    (-1.2, 1.7, 3.9, 4.0, 4.6, 4.6),
    (-0.8, 2.9, 4.3, 5.0, 3.8, 4.8),
    (4.7, 5.3, 5.3, 5.6, 5.5, 5.6),
    (2.7, 5.4, 6.4, 5.8, 6.7, 6.5),
)
"""Mean reward by weakness."""


def components(episodes: Iterable[GradedEpisode]) -> Bars:
    """Return the mean reward and its components; skips episodes without a ledger."""
    return _bars(
        episodes,
        lambda episode: {"reward": episode.reward, **episode.parts} if episode.parts else {},
    )


def by_weakness(episodes: Iterable[GradedEpisode]) -> Bars:
    """Return the mean reward by weakness; skips episodes without a weakness."""
    return _bars(
        episodes, lambda episode: {episode.weakness: episode.reward} if episode.weakness else {}
    )


def _bars(
    episodes: Iterable[GradedEpisode], figures: Callable[[GradedEpisode], Mapping[str, float]]
) -> Bars:
    rewards: dict[str, dict[str, dict[str, list[float]]]] = {}
    for episode in episodes:
        for category, value in figures(episode).items():
            tasks = rewards.setdefault(episode.agent, {}).setdefault(category, defaultdict(list))
            tasks[episode.task_id].append(value)
    return {
        agent: {category: _bar(list(tasks.values())) for category, tasks in categories.items()}
        for agent, categories in rewards.items()
    }


def _bar(tasks: Sequence[Sequence[float]]) -> MeanBar:
    """Return the mean over episodes, with its error over tasks."""
    return MeanBar(
        fmean(value for values in tasks for value in values), task_error(tasks), len(tasks)
    )


def summary_components(summaries: Mapping[str, Mapping[str, Any]]) -> Bars:
    """Return the reward and its components from saved summaries."""
    return {
        name: {
            part: MeanBar(summary[part], summary.get("errors", {}).get(part), summary.get("tasks"))
            for part in _PARTS
        }
        for name, summary in summaries.items()
        if set(_PARTS) <= summary.keys()
    }


def summary_by_weakness(summaries: Mapping[str, Mapping[str, Any]]) -> Bars:
    """Return the reward by weakness from saved summaries."""
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


def draw_bars(
    bars: Bars,
    title: str,
    marks: Reference | None = None,
    note: str = "",
    agents: Sequence[str] = (),
) -> "Figure | None":
    """Draw a group of bars per category, with one bar per agent.

    Args:
        bars: bars to draw.
        title: title of the figure.
        marks: reference values, drawn as markers beside the bars of the same category.
        note: text for the caption.
        agents: all agents, whose order gives them their colours in every figure; by default those
            of the bars.

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
    labels = [_PART_NAMES.get(name, name).replace("_", "\n", 1) for name in categories]
    counts = _counts(bars, categories)
    labels = [f"{label}\n{count}".rstrip() for label, count in zip(labels, counts, strict=True)]
    axes.set_xticks(range(len(categories)), [label.replace("_", " ") for label in labels])
    axes.tick_params(axis="x", length=0, labelsize=8)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.margins(y=0.1)
    marked = any(values.keys() & set(categories) for values in (marks or {}).values())
    width = _GROUP - (_MARKS if marked else 0)
    # estimated width of a bar in inches, with axes of 0.9 of the figure
    labelled = width / len(bars) * 0.9 * WIDTH / len(categories) > _ROOM
    order = tuple(agents or bars)
    for place, (agent, values) in enumerate(bars.items()):
        index = order.index(agent)
        left = -_GROUP / 2 + (place + 0.5) * width / len(bars)
        by_x = {i + left: values[name] for i, name in enumerate(categories) if name in values}
        _draw_agent(axes, by_x, 0.95 * width / len(bars), index, agent)
        if labelled:
            _draw_numbers(axes, by_x, COLOURS[index % len(COLOURS)])
    _draw_marks(axes, categories, marks or {})
    legend_above(figure, axes)
    whiskers = any(bar.error is not None for values in bars.values() for bar in values.values())
    notes = [note] * bool(note) + ["Whiskers: two standard errors over n tasks."] * whiskers
    if notes:
        caption(figure, " ".join(notes))
    return figure


def _position(category: str) -> tuple[int, str]:
    """Sort key: components and weaknesses in the reference's order, then others by name."""
    order = (*_PARTS, *_WEAKNESSES)
    return (order.index(category) if category in order else len(order), category)


def _counts(bars: Bars, categories: Sequence[str]) -> list[str]:
    """Return the number of tasks of each category, where its bars have one number."""
    numbers = [{own[name].tasks for own in bars.values() if name in own} for name in categories]
    return [f"n = {of.pop()}" if len(of) == 1 and None not in of else "" for of in numbers]


def _draw_agent(
    axes: "Axes", bars: Mapping[float, MeanBar], width: float, index: int, agent: str
) -> None:
    """Draw an agent's bars and whiskers, by x; hatching marks colours that are used again."""
    axes.bar(
        list(bars), [bar.mean for bar in bars.values()], width, label=agent,
        color=COLOURS[index % len(COLOURS)], edgecolor="white", linewidth=0,
        hatch="////" if index >= len(COLOURS) else "",
    )  # fmt: skip
    whiskers = [(x, bar.mean, bar.error) for x, bar in bars.items() if bar.error is not None]
    if whiskers:
        places, means, errors = zip(*whiskers, strict=True)
        axes.errorbar(
            places, means, errors, fmt="none", ecolor="#333333", elinewidth=0.9, capsize=2
        )


def _draw_numbers(axes: "Axes", bars: Mapping[float, MeanBar], colour: str) -> None:
    for x, (mean, error, _) in bars.items():
        side = -1 if mean < 0 else 1
        axes.annotate(  # format option z avoids -0.00
            f"{mean:z.2f}", (x, mean + side * (error or 0)), xytext=(0, 3 * side),
            textcoords="offset points", ha="center", va="top" if side < 0 else "bottom",
            fontsize=7.5, color=ink(colour),
        )  # fmt: skip


def _draw_marks(axes: "Axes", categories: Sequence[str], marks: Reference) -> None:
    """Draw reference values to the right of the bars, with one marker shape per agent."""
    for index, (agent, values) in enumerate(marks.items()):
        left = _GROUP / 2 - _MARKS + (index + 0.5) * _MARKS / len(marks)
        by_x = {i + left: values[name] for i, name in enumerate(categories) if name in values}
        if by_x:
            axes.plot(
                list(by_x), list(by_x.values()), _SHAPES[index % len(_SHAPES)], color="black",
                markerfacecolor="white", markersize=5.5, zorder=4, label=f"source: {agent}",
            )  # fmt: skip
