"""The picture of a run: nine panels, wide enough for a README."""

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#555555",
)
"""Okabe and Ito's colours, which the colour-blind can tell apart, and a grey."""
_JUDGE_COLOURS = (RED, GREEN, ORANGE, PURPLE, SKY, BLUE, GREY)


class Line(NamedTuple):
    """One curve: a metric, its label, its colour, and what its values are multiplied by."""

    metric: str
    label: str
    colour: str
    scale: float = 1.0


class Panel(NamedTuple):
    """One plot: a title, its curves, how a value is written, and limits where they are known.

    Without curves it has one for each field of the verdicts.
    """

    title: str
    lines: tuple[Line, ...]
    form: str = "{:.2f}"
    low: float | None = None
    high: float | None = None
    log: bool = False


PANELS = (
    Panel("Reward, and spread in a group", (Line("reward", "", BLUE),)),
    Panel(
        "The reward's parts",
        (
            Line("tool_syntax", "tools", BLUE),
            Line("content", "content", GREEN),
            Line("layout", "layout", ORANGE),
        ),
    ),
    Panel("Score, 0 to 100", (Line("score", "", BLUE),), "{:.1f}", 0, 100),
    Panel(
        "Rates",
        (
            Line("submit_rate", "submitted", BLUE, 100),
            Line("layout_pass", "fits page", ORANGE, 100),
            Line("failed_share", "failed edits", RED, 100),
        ),
        "{:.0f} %",
        0,
        100,
    ),
    Panel("Judge, -1 to +1", (), "{:+.2f}"),
    Panel("Lines of the final document", (Line("lines", "", ORANGE),), "{:.1f}"),
    Panel(
        "Calls an episode",
        (
            Line("turns", "turns", GREY),
            Line("edits", "edits", GREEN),
            Line("failed_edits", "failed edits", RED),
            Line("malformed", "malformed", PURPLE),
        ),
        "{:.1f}",
        0,
    ),
    Panel("Entropy, nats a token", (Line("entropy", "", PURPLE),), "{:.3f}", 0),
    Panel(
        "Soundness, logarithmic",
        (Line("gradient_norm", "gradient", GREY), Line("gap", "sampler gap", RED)),
        "{:.0e}",
        log=True,
    ),
)


def dashboard(metrics: Sequence[Mapping[str, float]], path: Path, title: str) -> None:
    """Draw a run's metrics into a PNG file of about 1200 x 960 pixels.

    Args:
        metrics: of each step, oldest first; a metric that never occurs leaves no curve.
        path: of the picture, replaced as a whole.
        title: of the picture.

    Raises:
        ValueError: there are no metrics.
    """
    if not metrics:
        raise ValueError("no metrics to draw")
    from matplotlib.figure import Figure  # slow to import, and only drawing needs it

    figure = Figure(figsize=(12, 9.6), dpi=100, facecolor="white", layout="constrained")
    figure.suptitle(title, fontsize=14, fontweight="bold")
    grid = figure.subplots(3, 3, sharex=True)
    for axes, panel in zip(grid.flat, PANELS, strict=True):
        _draw(axes, panel, metrics)
    for axes in grid[-1]:
        axes.set_xlabel("step")
        axes.xaxis.get_major_locator().set_params(integer=True)
    unfinished = path.with_name(f".unfinished-{path.name}")
    figure.savefig(unfinished, format="png")
    unfinished.replace(path)


def _draw(axes: "Axes", panel: Panel, metrics: Sequence[Mapping[str, float]]) -> None:
    axes.set_title(panel.title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.tick_params(labelsize=9)
    if panel.log:
        axes.set_yscale("log")
    window = len(metrics) // 20
    dot = "o" if len(metrics) == 1 else ""
    ends: list[tuple[float, Line]] = []
    for line in panel.lines or _judge_lines(metrics):
        points = [
            (one["step"], one[line.metric] * line.scale)
            for one in metrics
            if line.metric in one and (one[line.metric] > 0 or not panel.log)
        ]
        if not points:
            continue
        steps, values = zip(*points, strict=True)
        smooth = _smooth(values, window)
        axes.plot(steps, values, color=line.colour, alpha=0.3, linewidth=1, clip_on=False)
        axes.plot(steps, smooth, color=line.colour, linewidth=2, marker=dot, clip_on=False)
        ends.append((smooth[-1], line))
        if line.metric == "reward":
            _band(axes, metrics, line.colour)
    axes.set_ylim(panel.low, panel.high)
    _label(axes, ends, panel.form)


def _judge_lines(metrics: Sequence[Mapping[str, float]]) -> list[Line]:
    """A curve for each field of the domain's verdicts."""
    names = dict.fromkeys(name for one in metrics for name in one if name.startswith("verdict_"))
    return [
        Line(name, name.removeprefix("verdict_").replace("_", " "), colour)
        for name, colour in zip(names, cycle(_JUDGE_COLOURS), strict=False)
    ]


def _band(axes: "Axes", metrics: Sequence[Mapping[str, float]], colour: str) -> None:
    rows = [one for one in metrics if "reward_std" in one]
    low, high = ([one["reward"] + sign * one["reward_std"] for one in rows] for sign in (-1, 1))
    axes.fill_between([one["step"] for one in rows], low, high, color=colour, alpha=0.15, lw=0)


def _label(axes: "Axes", ends: Sequence[tuple[float, Line]], form: str) -> None:
    """Write each curve's name and last value beside its end, without overlap."""
    places = [
        axes.transAxes.inverted().transform(axes.transData.transform((0, y)))[1] for y, _ in ends
    ]
    for place, (value, line) in zip(_apart(places, 0.085), ends, strict=True):
        text = f"{line.label} {form.format(value)}".strip()
        axes.text(
            1.02, place, text, transform=axes.transAxes, color=line.colour, va="center", fontsize=9
        )


def _apart(places: Sequence[float], gap: float) -> list[float]:
    """Heights in [0, 1] as near to the wanted ones as keeps `gap` between them."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + gap)
    ceiling = 0.98
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - gap
    return moved


def _smooth(values: Sequence[float], window: int) -> list[float]:
    """Means over `window` steps to both sides, fewer at the ends."""
    parts = (values[max(0, i - window) : i + window + 1] for i in range(len(values)))
    return [sum(part) / len(part) for part in parts]
