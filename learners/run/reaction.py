"""Reaction of a run to the alarms of a step: a warning, a rollback or the end of the run."""

from collections.abc import Sequence
from typing import NamedTuple

from learners.run.alarms import BACK, LEAD, held, judge_gap, rollbacks, standing
from learners.run.folder import Metrics

ROLLBACKS = 3
"""Number of rollbacks after which another collapse stops the run."""
MARK = "alarm_"
"""Prefix of the names of alarm metrics; an alarm's metric is 1 while the alarm holds."""


class Action(NamedTuple):
    """Reaction to the alarms of a step.

    Attributes:
        metrics: metrics of the reaction, to add to the metrics of the step.
        sentences: pairs (sentence for the journal, whether the terminal also shows it).
        back: step of the checkpoint to load; None to continue without a rollback.
        stop: why the run ends; empty if the run continues.
    """

    metrics: Metrics
    sentences: Sequence[tuple[str, bool]] = ()
    back: int | None = None
    stop: str = ""


def react(
    history: Sequence[Metrics],
    on_collapse: str = "warn",
    on_hack: str = "warn",
    saved: Sequence[int] = (),
) -> Action:
    """Return the reaction to the alarms that hold after the last step, but did not hold before it.

    The reaction depends only on the arguments, so a resumed run reacts in the same way.

    Args:
        history: metrics of all steps so far, oldest first.
        on_collapse: reaction to a collapse; see `Config.on_collapse`.
        on_hack: reaction to a hack; see `Config.on_hack`.
        saved: steps of the checkpoints.
    """
    rows, undone = standing(history)
    if not rows or rows[-1] is not history[-1]:
        return Action({})
    now, before = held(rows), held(rows[:-1])
    metrics = {f"{MARK}{name.replace(' ', '_')}": 1.0 for name in now}
    if LEAD in history[-1]:
        metrics["second_judge_gap"] = judge_gap(rows)
    new = [alarm for name, alarm in now.items() if name not in before]
    first = {alarm.kind: alarm for alarm in reversed(new)}
    quiet = on_collapse == "note"
    told = [(f"warning, {one.text}", not (quiet and one.kind == "collapse")) for one in new]
    action = Action(metrics, told)
    if (hack := first.get("hack")) and on_hack == "stop":
        return action._replace(stop=f"{hack.text} (on_hack = stop)")
    if (collapse := first.get("collapse")) and on_collapse == "stop":
        return action._replace(stop=f"{collapse.text} (on_collapse = stop)")
    if not collapse or on_collapse != "rollback":
        return action
    widest = max(one.span for one in new if one.kind == "collapse")
    begins = int(rows[-min(widest, len(rows))]["step"])
    # The checkpoint right before the first bad step is skipped: its weights sampled some of that
    # step's episodes and may be bad, unless they come from a rollback to an older checkpoint.
    earlier = {step for step, _ in rollbacks(history[:-1])}
    old = (step for step in saved if step < begins - (step not in earlier))
    healthy = [step for step in old if step not in undone]
    if len(earlier) == ROLLBACKS:
        return action._replace(stop=f"{collapse.text}, after {ROLLBACKS} rollbacks")
    if not healthy:
        reason = f"{collapse.text}, and there is no checkpoint before step {begins - 1}"
        return action._replace(stop=reason)
    back = max(healthy)
    told.append((f"rolled back to the checkpoint of step {back}, at half the learning rate", True))
    return Action({**metrics, BACK: back}, told, back=back)


def holding(row: Metrics) -> set[str]:
    """Return the names of the alarms that held after a step, given the step's metrics."""
    return {name.removeprefix(MARK).replace("_", " ") for name in row if name.startswith(MARK)}
