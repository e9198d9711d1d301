"""Progress of an evaluation: on a terminal, a bar and means per agent; elsewhere, log lines."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from resume_gym.evaluation.contest import Entry
from resume_gym.evaluation.estimator import by_task, mean
from resume_gym.support.printing import amount
from resume_gym.support.user_errors import number_of

_LINE_S = 30.0  # seconds between log lines


def progress(console: Console) -> Progress:
    """Make the display of progress bars, disabled if the console cannot move its cursor."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[means]}", markup=False),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_interactive)


class Bar:
    """Progress bar of one agent, made before the agent plays; includes the restored episodes.

    Args:
        bars: display of progress bars, made by `progress`.
        entry: entry of the agent.
    """

    def __init__(self, bars: Progress, entry: Entry) -> None:
        done, self._total = len(entry.episodes), len(entry.episodes) + len(entry.left)
        self._bars, self._entry = bars, entry
        self._told = time.monotonic()
        self._task = bars.add_task(entry.name, total=self._total, means="", completed=done)

    def update(self) -> None:
        """Update the bar; without a terminal, print a line of progress every `_LINE_S` seconds."""
        ended = len(self._entry.episodes) + len(self._entry.failures)
        if not self._bars.disable:
            self._bars.update(self._task, completed=ended, means=self._means())
        elif time.monotonic() - self._told >= _LINE_S:
            self._told = time.monotonic()
            total = number_of(self._total, "episode")
            line = f"{self._entry.name}: {ended} of {total}, {self._means()}"
            self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _means(self) -> str:
        """Format mean reward, submit rate, tokens and cost so far, and the expected total cost."""
        graded, failed = self._entry.episodes.values(), len(self._entry.failures)
        parts = []
        if graded:
            rows = ({"reward": one.reward, "submitted": one.submitted} for one in graded)
            values = by_task(zip((one.task_id for one in graded), rows, strict=True))
            parts += [f"reward {mean(values['reward']):.2f}"]
            parts += [f"submitted {mean(values['submitted']):.0%}"]
        if failed:
            parts.append(f"{failed} without a reward")
        spent = self._entry.spent()
        if usages := [spent[who] for who in ("agent", "judge") if who in spent]:
            usage = sum(usages[1:], usages[0])
            if usage.tokens is not None:
                parts.append(number_of(usage.tokens, "token"))
            if usage.dollars is not None and (ended := self._entry.ended):
                left = self._total - len(graded) - failed
                whole = usage.dollars * (ended + left) / ended
                parts.append(f"${amount(usage.dollars)} of about ${amount(whole)}")
        return ", ".join(parts)
