"""Distribution of the rewards of an evaluation."""

from collections.abc import Sequence
from math import floor
from statistics import fmean
from typing import TYPE_CHECKING

from resume_gym.apps.plot.reading import Evaluation
from resume_gym.apps.plot.style import COLOURS, caption, new_figure, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 64  # maximum number of bins of a histogram
_QUARTER = 0.25  # rewards of editing environments are multiples of it


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
