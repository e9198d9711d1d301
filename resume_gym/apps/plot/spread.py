"""Episodes of an evaluation: distribution of rewards, and reward against effort."""

from collections.abc import Callable, Sequence
from math import floor
from statistics import fmean
from typing import TYPE_CHECKING

from resume_gym.apps.plot.reading import Evaluation, Played
from resume_gym.apps.plot.style import COLOURS, caption, ink, legend_above, new_figure, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 64  # maximum number of bins of a histogram
_QUARTER = 0.25  # rewards of editing environments are multiples of it
_SHAPES = "oD^sPXv*"  # 8 shapes and 7 colours: a combination recurs after 56 agents


def draw_rewards(evaluation: Evaluation, title: str) -> "Figure":
    """Draw a reward histogram with its mean for each agent, one below the other."""
    rewards = {
        agent: [episode.reward for episode in evaluation.of(agent)] for agent in evaluation.agents
    }
    edges = _edges([reward for values in rewards.values() for reward in values])
    figure = new_figure(0.9 + 1.1 * len(rewards), title)
    grid = figure.subplots(len(rewards), 1, sharex=True, squeeze=False)[:, 0]
    for index, (axes, (agent, values)) in enumerate(zip(grid, rewards.items(), strict=True)):
        colour = COLOURS[index % len(COLOURS)]
        axes.grid(axis="y")
        weights = [100 / len(values)] * len(values)
        axes.hist(values, edges, weights=weights, color=colour, rwidth=0.9)
        axes.margins(x=0.02, y=0.15)
        axes.locator_params(axis="y", nbins=3)
        mean = fmean(values)
        axes.axvline(mean, color="black", linewidth=1.2, linestyle=(0, (3, 2)))
        axes.set_title(f"{short(agent)}: mean {mean:z.2f} (n = {len(values)})", parse_math=False)
        axes.set_ylabel("% of episodes")
    grid[-1].set_xlabel("reward of an episode")
    caption(figure, f"Dashed: mean. {evaluation.note}")
    return figure


def _edges(values: Sequence[float]) -> list[float]:
    """Return equidistant bin edges that never fall on a multiple of 0.25, a typical reward."""
    low, high = min(values), max(values)
    width = _QUARTER
    while high - low > _BINS * width:
        width *= 2
    while 0 < high - low < 4 * width <= _QUARTER:
        width /= 2
    left = min(width, _QUARTER) / 2
    first, last = (floor((end + left) / width) for end in (low, high))
    return [bin_ * width - left for bin_ in range(first, last + 2)]


def draw_efficiency(evaluation: Evaluation, title: str) -> "Figure | None":
    """Draw mean reward against mean words and turns; return None if neither is recorded."""
    costs: dict[str, Callable[[Played], int | None]] = {
        "words that the agent wrote in an episode": lambda episode: episode.words,
        "turns of an episode": lambda episode: episode.turns,
    }
    panels = {
        label: cost
        for label, cost in costs.items()
        if all(cost(episode) is not None for episode in evaluation.episodes)
    }
    if not panels:
        return None
    figure = new_figure(4.2, title)
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (label, cost) in zip(grid, panels.items(), strict=True):
        axes.grid()
        axes.set_xlabel(label)
        for index, agent in enumerate(evaluation.agents):
            _draw_cost(axes, evaluation.of(agent), cost, index, agent)
    grid[0].set_ylabel("mean reward of an episode")
    legend_above(figure, grid[0], len(panels))
    caption(figure, f"Small: a task. Large: all episodes of an agent. {evaluation.note}")
    return figure


def _draw_cost(
    axes: "Axes",
    episodes: Sequence[Played],
    cost: Callable[[Played], int | None],
    index: int,
    agent: str,
) -> None:
    """Draw an agent's tasks as small dots and the mean of all its episodes as a large marker."""
    colour = COLOURS[index % len(COLOURS)]
    tasks: dict[str, list[Played]] = {}
    for episode in episodes:
        tasks.setdefault(episode.task_id, []).append(episode)
    costs, rewards = zip(*(_mean(of_task, cost) for of_task in tasks.values()), strict=True)
    axes.scatter(costs, rewards, s=12, color=colour, alpha=0.35, lw=0)
    shape = _SHAPES[index % len(_SHAPES)]
    axes.plot(
        *_mean(episodes, cost), shape, color=ink(colour), markerfacecolor=colour, markersize=9,
        linestyle="none", zorder=4, label=agent,
    )  # fmt: skip


def _mean(episodes: Sequence[Played], cost: Callable[[Played], int | None]) -> tuple[float, float]:
    return (
        fmean(cost(episode) or 0 for episode in episodes),
        fmean(episode.reward for episode in episodes),
    )
