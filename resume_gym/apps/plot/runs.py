"""Several training runs in one figure: curves of runs, and means over runs with equal settings."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal, NamedTuple

from resume_gym.apps.plot.reading import Run
from resume_gym.figures.dashboard import FLOOR, Panel, points, smooth, span
from resume_gym.figures.style import COLOURS, caption, step_panels
from resume_gym.support.user_errors import number_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WITHOUT_EFFECT = {
    *("name", "runs", "seed", "threads", "trainer_procs", "replicas", "offload", "async_save"),
    *("engine_urls", "engine_procs", "engine_gpus", "timeout_s", "log_to"),
    *("save_every", "eval_every", "on_collapse", "on_hack", "goal", "budget", "heartbeat_s"),
}
"""Settings in which runs of a group may differ: the seed, and settings that change no result."""
_NAMED = 3  # maximum number of settings in a label
_DASHES: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")  # for repeated colours


class RunGroup(NamedTuple):
    """Runs that differ only in the seed and in settings without effect; `label` is for legends."""

    label: str
    runs: Sequence[Run]


Curve = Mapping[int, float]
"""Values of a metric by training step."""
_PANELS = (
    Panel("Reward, held-out tasks", ["reward"], held_out=True),
    Panel("Reward, training tasks", ["reward"]),
    Panel("Reward from tool calls", ["tool_syntax"]),
    Panel("Reward from content", ["content"]),
    Panel("Reward from layout", ["layout"]),
    Panel("Submitted, in %", ["submit_rate"], scale=100),
    Panel("Edits that failed, in %", ["failed_share"], scale=100),
    Panel("Entropy, nats a token", ["entropy"]),
)


def grouped(runs: Sequence[Run]) -> list[RunGroup]:
    """Group runs by their settings; a run without settings forms a separate group.

    The label of a group names the settings that differ between groups. If no setting or more than
    three settings differ, the label names the runs of the group.
    """
    by_settings: dict[str, list[Run]] = {}
    for number, run in enumerate(runs):
        kept = {name: run.config[name] for name in run.config.keys() - _WITHOUT_EFFECT}
        key = json.dumps(kept, sort_keys=True, default=str) if run.config else str(number)
        by_settings.setdefault(key, []).append(run)
    members = list(by_settings.values())
    names = sorted({name for run in runs for name in run.config} - _WITHOUT_EFFECT)
    differing = [
        name for name in names if len({str(own[0].config.get(name)) for own in members}) > 1
    ]
    known = all(run.config for run in runs) and 0 < len(differing) <= _NAMED
    groups = []
    for own in members:
        settings = [f"{name.replace('_', ' ')} {own[0].config.get(name)}" for name in differing]
        label = ", ".join(settings if known else [run.name for run in own])
        groups.append(RunGroup(f"{label}; {len(own)} runs" if len(own) > 1 else label, own))
    return groups


def draw_runs(runs: Sequence[Run]) -> "Figure | None":
    """Draw all runs into the same panels and add a legend; return None if no run has metrics."""
    groups = grouped(runs)
    drawn = [panel for panel in _PANELS if any(_curve(run, panel) for run in runs)]
    if not drawn:
        return None
    count = number_of(len(runs), "run") + (f" in {len(groups)} groups" if len(groups) > 1 else "")
    figure, panels = step_panels(count, [panel.title for panel in drawn], 3, legend=True)
    floors = {run.summaries.get("floor", {}).get("reward") for run in runs}
    floor = floors.pop() if len(floors) == 1 else None
    for axes, panel in zip(panels, drawn, strict=False):
        axes.margins(y=0.1)
        if floor is not None and "reward" in panel.metrics:
            axes.axhline(floor, color="black", linestyle="--", linewidth=0.9)
        for number, group in enumerate(groups):
            curves = [curve for run in group.runs if (curve := _curve(run, panel))]
            _draw(axes, curves, number, "o" if panel.held_out else "")
    _legend(panels[-1], groups)
    widths = sorted({span(len(run.metrics)) for run in runs})
    mean = f", mean over {' or '.join(map(str, widths))} steps except for held-out tasks"
    caption(
        figure,
        f"Thin: single runs{mean * (widths != [1])}. Bold: mean of a group. Band: ± one standard "
        "error over its runs." + f" {FLOOR}" * (floor is not None),
    )
    return figure


def _curve(run: Run, panel: Panel) -> Curve:
    pairs = points(run.held_out if panel.held_out else run.metrics, panel.metrics[0])
    values = [panel.scale * value for _, value in pairs]
    smoothed = values if panel.held_out else smooth(values)
    return dict(zip((step for step, _ in pairs), smoothed, strict=True))


def _draw(axes: "Axes", curves: Sequence[Curve], number: int, marker: str) -> None:
    """Draw a group's runs, and their mean and standard error at steps that all these runs have."""
    if not curves:
        return
    colour, dashes = _look(number)
    steps = sorted(set(curves[0]).intersection(*curves[1:]))
    columns = [[curve[step] for curve in curves] for step in steps]
    middle = [fmean(values) for values in columns]
    if len(curves) > 1:
        for curve in curves:
            axes.plot(list(curve), list(curve.values()), color=colour, alpha=0.4, linewidth=0.7)
        errors = [stdev(values) / sqrt(len(values)) for values in columns]
        low, high = (
            [m + sign * e for m, e in zip(middle, errors, strict=True)] for sign in (-1, 1)
        )
        axes.fill_between(steps, low, high, color=colour, alpha=0.18, lw=0)
    dot = marker or ("o" if len(steps) == 1 else "")
    axes.plot(steps, middle, color=colour, linestyle=dashes, marker=dot, markersize=3)


def _look(number: int) -> tuple[str, Literal["-", "--", ":"]]:
    return COLOURS[number % len(COLOURS)], _DASHES[number // len(COLOURS) % len(_DASHES)]


def _legend(axes: "Axes", groups: Sequence[RunGroup]) -> None:
    from matplotlib.lines import Line2D

    axes.axis("off")
    looks = [_look(number) for number in range(len(groups))]
    handles = [Line2D([], [], color=colour, linestyle=dashes) for colour, dashes in looks]
    labels = [textwrap.fill(group.label, 34, max_lines=4, placeholder=" …") for group in groups]
    legend = axes.legend(handles, labels, loc="upper left", borderaxespad=0)
    for text in legend.get_texts():
        text.set_parse_math(False)
