"""Dashboard of a training run: reward, behaviour of the agent and training health per step.

In panels with a single curve, black points show the evaluations on held-out tasks. A panel is left
out if the run records none of the panel's metrics.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from resume_gym.figures.style import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    caption,
    save,
    step_panels,
    styled,
)
from resume_gym.support.user_errors import number_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Metrics = Mapping[str, float]
"""Metrics of one training step, including its number as `step`."""
Evaluations = Sequence[Mapping[str, Any]]
"""Evaluations on held-out tasks: metrics by name, with `step` and, where known, `errors`."""
_HELD_OUT = "Black: held-out tasks, with two standard errors over the tasks."
FLOOR = "Dashed: floor, the reward of an agent that improves nothing."
_ALARM = "alarm_"  # prefix of the metrics of active alarms


class Panel(NamedTuple):
    """Panel with title, metrics, number format, limits of the y axis, scale factor and log scale.

    If `metrics` is empty, the panel has a curve for each field of the verdicts. If `log` is true,
    the y axis is logarithmic, and values below `low`, the noise level of the metric, are drawn at
    `low`. The metrics of a panel with `held_out` are those of evaluations on held-out tasks.
    """

    title: str
    metrics: Sequence[str]
    form: str = "{:z.2f}"
    low: float | None = None
    high: float | None = None
    scale: float = 1.0
    log: bool = False
    held_out: bool = False


_LOOKS = {
    "reward": ("", BLUE),
    "score": ("", BLUE),
    "tool_syntax": ("tools", BLUE),
    "content": ("content", GREEN),
    "layout": ("layout", ORANGE),
    "edits": ("applied", GREEN),
    "failed_edits": ("failed", RED),
    "submit_rate": ("submitted", BLUE),
    "skipped_judgements": ("not judged", PURPLE),
    "failed_share": ("edits failed", RED),
    "turns": ("turns", GREY),
    "edit_calls": ("edit calls", GREEN),
    "other_calls": ("others", SKY),
    "malformed": ("no call", PURPLE),
    "lines": ("", ORANGE),
    "layout_pass": ("", ORANGE),
    "entropy": ("", PURPLE),
    "gradient_norm": ("", GREY),
    "loss": ("", BLUE),
    "gap": ("", RED),
    "ratio_std": ("", ORANGE),
    "seconds_rollout": ("play", BLUE),
    "seconds_train": ("train", ORANGE),
    "seconds_publish": ("publish", GREEN),
}
"""Label and colour of each metric's curve."""
OVERVIEW = (
    Panel("Reward, ± sd of episodes", ["reward"]),
    Panel("Score, 0 to 100", ["score"], "{:.1f}", 0, 100),
    Panel("The reward's parts", ["tool_syntax", "content", "layout"]),
    Panel("Judge, -1 to +1", [], ""),
    Panel("Edits an episode", ["edits", "failed_edits"], "{:.1f}", 0),
    Panel(
        "Shares, in %",
        ["submit_rate", "skipped_judgements", "failed_share"],
        "{:.0f}",
        0,
        100,
        scale=100,
    ),
    Panel(
        "Turns and calls an episode",
        ["turns", "edit_calls", "other_calls", "malformed"],
        "{:.1f}",
        0,
    ),
    Panel("Lines of the final document", ["lines"], "{:.1f}"),
    Panel("Fits the page, in %", ["layout_pass"], "{:.0f}", 0, 100, scale=100),
)
"""Panels on the behaviour and the reward of the agent."""
TRAINER = (
    Panel("Entropy, nats a token", ["entropy"], "{:.3f}", 0),
    Panel("Gradient norm", ["gradient_norm"], "{:.2f}", 0),
    Panel("Loss", ["loss"], "{:z.3f}"),
    Panel("Sampler-trainer gap", ["gap"], "{:.0e}", 1e-6, 1, log=True),
    Panel("Ratio to the sampler, sd", ["ratio_std"], "{:.0e}", 1e-6, 1, log=True),
    Panel(
        "Seconds of a step", ["seconds_rollout", "seconds_train", "seconds_publish"], "{:.1f}", 0
    ),
)
"""Panels on training health.

The plotted gap is the mean absolute difference between the log-probabilities of trainer and
sampler. The ratio is the trainer's probability of a token divided by the sampler's; its standard
deviation is plotted. The policy loss ignores tokens whose ratio is too far from 1.
"""


def dashboard(
    metrics: Sequence[Metrics],
    path: Path,
    title: str,
    held_out: Evaluations = (),
    floor: Mapping[str, float] | None = None,
) -> None:
    """Draw all panels of a run into one file.

    Args:
        metrics: metrics of each step, oldest first; panels without metrics are left out.
        path: output file, replaced atomically; the extension sets the format.
        title: title of the figure.
        held_out: evaluations on held-out tasks.
        floor: reward and score, on held-out tasks, of an agent that improves nothing, if known.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: there are no metrics to draw.
    """
    with styled():
        figure = draw_panels(metrics, (*OVERVIEW, *TRAINER), title, held_out, floor)
        if figure is None:
            raise ValueError("no metrics to draw")
        save(figure, path)


def draw_panels(
    metrics: Sequence[Metrics],
    panels: Sequence[Panel],
    title: str,
    held_out: Evaluations = (),
    floor: Mapping[str, float] | None = None,
) -> "Figure | None":
    """Draw the panels that have metrics, three per row; return None if no panel has any."""
    # if a row records a metric that could be derived from others, use the recorded value
    rows = [{**_derived(row), **row} for row in metrics]
    drawn = [(panel, curves) for panel in panels if (curves := _curves(panel, rows))]
    if not drawn:
        return None
    names = [panel.title for panel, _ in drawn]
    figure, every = step_panels(title, names, min(3, len(drawn)))
    tested, marks = False, begun(rows)
    for axes, (panel, curves) in zip(every, drawn, strict=True):
        first = next(iter(curves))
        evaluated = [row for row in held_out if first in row and len(curves) == 1]
        if evaluated:
            tested = True
            errors = [row.get("errors", {}).get(first, math.nan) for row in evaluated]
            axes.errorbar(
                [row["step"] for row in evaluated], [row[first] for row in evaluated], errors,
                fmt="o", markersize=3, color="black", elinewidth=0.9, capsize=2, zorder=4,
                clip_on=False,
            )  # fmt: skip
        if floor and first in ("reward", "score"):
            axes.axhline(floor[first], color="black", linestyle="--", linewidth=0.9)
        for step in marks:
            axes.axvline(step, color=RED, linestyle=":", linewidth=0.9, zorder=1)
        _draw(axes, panel, curves, rows)
    width = span(len(rows))
    short = f"Points: {number_of(len(rows), 'step')}, too few for a mean."
    notes = [f"Strong: mean over {width} steps. Faint: single steps." if width > 1 else short]
    notes += [_HELD_OUT] * tested + [FLOOR] * bool(floor)
    told = (f"step {step}, {' and '.join(names)}" for step, names in marks.items())
    notes += [f"Dotted: alarms begin: {'; '.join(told)}."] * bool(marks)
    caption(figure, " ".join(notes))
    return figure


def begun(rows: Sequence[Metrics]) -> dict[int, list[str]]:
    """Return the names of the alarms that begin at each step, by step; a rollback adds a note."""
    marks: dict[int, list[str]] = {}
    before: set[str] = set()
    for row in rows:
        now = {name for name in row if name.startswith(_ALARM)}
        names = sorted(name.removeprefix(_ALARM).replace("_", " ") for name in now - before)
        if "rolled_back_to" in row:
            names.append(f"rolled back to step {row['rolled_back_to']:.0f}")
        if names:
            marks[int(row["step"])] = names
        before = now
    return marks


def _derived(row: Metrics) -> dict[str, float]:
    derived = {}
    if "judged" in row:
        derived["skipped_judgements"] = 1 - row["judged"]
    if {"edits", "failed_edits"} <= row.keys():
        derived["edit_calls"] = row["edits"] + row["failed_edits"]
        if {"turns", "malformed"} <= row.keys():
            derived["other_calls"] = row["turns"] - derived["edit_calls"] - row["malformed"]
    return derived


def _curves(panel: Panel, rows: Sequence[Metrics]) -> dict[str, tuple[str, str]]:
    """Return label and colour of a panel's curves, by metric; leave out metrics without values."""
    curves = {metric: _LOOKS[metric] for metric in panel.metrics}
    if not curves:
        names = dict.fromkeys(name for row in rows for name in row if name.startswith("verdict_"))
        colours = cycle((RED, *(colour for colour in COLOURS if colour != RED)))
        labels = (name.removeprefix("verdict_").replace("_", " ") for name in names)
        curves = dict(zip(names, zip(labels, colours, strict=False), strict=True))
    return {name: look for name, look in curves.items() if points(rows, name)}


def smooth(values: Sequence[float]) -> list[float]:
    """Return the centred moving average over `span` values, or over fewer values at the ends."""
    window = span(len(values)) // 2
    parts = (values[max(0, i - window) : i + window + 1] for i in range(len(values)))
    return [fmean(part) for part in parts]


def span(steps: int) -> int:
    """Return the width, in steps, of the smoothing window; 1 for curves of fewer than ten steps."""
    return 1 if steps < 10 else 2 * max(1, steps // 20) + 1


def points(rows: Sequence[Metrics], metric: str) -> list[tuple[int, float]]:
    """Return (step, value) pairs of a metric."""
    return [(int(row["step"]), row[metric]) for row in rows if metric in row]


def _draw(
    axes: "Axes", panel: Panel, curves: Mapping[str, tuple[str, str]], rows: Sequence[Metrics]
) -> None:
    if panel.log:
        axes.set_yscale("log")
    labels = {}  # legend labels, with the last value of each curve
    least = panel.low if panel.log and panel.low else -math.inf
    for metric, (label, colour) in curves.items():
        if metric == "reward":
            _band(axes, rows, colour)
        steps, raw = zip(*points(rows, metric), strict=True)
        values = [max(least, value * panel.scale) for value in raw]
        curve = smooth(values)
        dot = "o" if span(len(values)) == 1 else ""
        axes.plot(steps, values, color=colour, alpha=0.35, linewidth=0.8, clip_on=False)
        (drawn,) = axes.plot(steps, curve, color=colour, marker=dot, markersize=3, clip_on=False)
        end = curve[-1]
        bound = "≤ " if end == least else ""
        labels[drawn] = f"{label} {bound}{panel.form.format(end)}".strip()
    axes.set_ylim(panel.low, panel.high)
    axes.legend(
        labels, labels.values(), loc="upper left", bbox_to_anchor=(1, 1), borderaxespad=0,
        handlelength=0, handletextpad=0.4, markerscale=0, labelcolor="linecolor", fontsize=7.5,
    )  # fmt: skip


def _band(axes: "Axes", rows: Sequence[Metrics], colour: str) -> None:
    rows = [row for row in rows if {"reward", "reward_std"} <= row.keys()]
    low, high = ([row["reward"] + sign * row["reward_std"] for row in rows] for sign in (-1, 1))
    axes.fill_between([row["step"] for row in rows], low, high, color=colour, alpha=0.15, lw=0)
