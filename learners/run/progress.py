"""Printed progress of a run: a line per step, the time left, and sentences on milestones."""

from collections.abc import Sequence
from datetime import timedelta

from learners.run.folder import Metrics
from resume_gym.support.printing import amount

REWARD_LEVEL = 0.5
"""A new best mean reward is a milestone if it passes a multiple of this number."""


def milestones(history: Sequence[Metrics]) -> list[str]:
    """Return sentences, without full stops, about milestones first reached at the last step.

    Args:
        history: metrics of all steps so far, oldest first.
    """
    if len(history) < 2:
        return []
    reached = []
    for name, label in (("submit_rate", "submit rate"), ("layout_pass", "layout pass rate")):
        *before, now = (row.get(name, 0.0) for row in history)
        passed = [bar for bar in (0.5, 0.9) if max(before) < bar <= now]
        if passed:
            reached.append(f"the {label} passed {100 * passed[-1]:.0f} %")
    *before, now = (row.get("failed_share", 1.0) for row in history)
    if now < 0.1 <= min(before):
        reached.append("fewer than 10 % of the edits fail")
    *before, now = (row.get("feedback_weight", 0.0) for row in history)
    if before[-1] > now == 0:
        reached.append("the hints no longer narrow the mean gap, and the feedback has ended")
    *before, now = (row["reward"] for row in history)
    if now // REWARD_LEVEL > max(before) // REWARD_LEVEL:
        reached.append(f"mean reward {now:.1f}, best so far")
    return reached


# name of the metric, label of the column, format of the values
_COLUMNS = (
    ("reward", "reward", "{:.2f}"),
    ("tool_syntax", "tools", "{:.2f}"),
    ("layout", "layout", "{:.2f}"),
    ("content", "content", "{:.2f}"),
    ("submit_rate", "submit", "{:.0%}"),
    ("failed_share", "failed", "{:.0%}"),
    ("entropy", "entropy", "{:.3f}"),
    ("tokens_per_s", "tokens/s", "{:,.0f}"),
    ("judge_tokens", "judge tokens", "{:,.0f}"),
)


def seconds_left(
    step: int, total: int, eval_every: int, step_s: float, evaluation_s: float
) -> float:
    """Estimate the time until the end of the evaluation after training, in seconds.

    Args:
        step: number of completed steps; an evaluation that is due after `step` is still to come.
        total: number of steps of the run.
        eval_every: interval in steps of evaluations that interrupt training; 0 for none.
        step_s: mean time of a step in seconds.
        evaluation_s: time of an evaluation in seconds.
    """
    during = (total - 1) // eval_every - (step - 1) // eval_every if eval_every else 0
    return step_s * (total - step) + evaluation_s * (during + 1)


def line(metrics: Metrics, total: int, left_s: float | None) -> str:
    """Format a completed step as one line.

    Args:
        metrics: metrics of the step.
        total: number of steps of the run.
        left_s: time until the end of the run in seconds; None if unknown.
    """
    cells = [
        f"{label} {form.format(metrics[name])}" for name, label, form in _COLUMNS if name in metrics
    ]
    if "judge_dollars" in metrics:
        cells.append(f"dollars {amount(metrics['judge_dollars'])}")
    if left_s is not None:
        cells.append(f"left {timedelta(seconds=round(left_s))}")
    return f"step {metrics['step']:.0f}/{total}  {'  '.join(cells)}"
