"""Progress of an evaluation: a bar with running means per agent; log lines without a terminal."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from resume_gym.evaluation.contest import Entry
from resume_gym.evaluation.summary import Episode

_LINE_S = 30.0  # interval of log lines


def progress(console: Console) -> Progress:
    """Make the display of progress bars, disabled if the console is not a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[means]}", markup=False),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


class Bar:
    """Progress bar of one agent, from the episodes that it has already.

    Args:
        bars: display made by `progress`.
        entry: the agent.
        total: number of episodes.
    """

    def __init__(self, bars: Progress, entry: Entry, total: int) -> None:
        self._bars, self._entry, self._total = bars, entry, total
        self._told, self._restored = time.monotonic(), len(entry.episodes)
        self._reward = sum(episode.reward for episode in entry.episodes.values())
        self._submitted = sum(episode.submitted for episode in entry.episodes.values())
        self._task = bars.add_task(entry.name, total=total, means="", completed=self._restored)

    def count(self, episode: Episode | None) -> None:
        """Count an episode that the entry has taken; None for a failed one."""
        if episode:
            self._reward += episode.reward
            self._submitted += episode.submitted
        ended = len(self._entry.episodes) + len(self._entry.failures)
        if not self._bars.disable:
            self._bars.update(self._task, completed=ended, means=self._means())
        elif time.monotonic() - self._told >= _LINE_S:
            self._told = time.monotonic()
            line = f"{self._entry.name}: {ended} of {self._total} episodes, {self._means()}"
            self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _means(self) -> str:
        """Return the means, the tokens and cost so far, and the expected cost of all episodes."""
        graded, failed = len(self._entry.episodes), len(self._entry.failures)
        parts = []
        if graded:
            parts += [f"reward {self._reward / graded:.2f}"]
            parts += [f"submitted {self._submitted / graded:.0%}"]
        if failed:
            parts.append(f"{failed} without a number")
        if usages := list(self._entry.spent().values()):
            usage = sum(usages[1:], usages[0])
            parts.append(f"{usage.tokens:,} tokens")
            played = graded + failed - self._restored
            if usage.dollars is not None and played:
                whole = usage.dollars * (self._total - self._restored) / played
                parts.append(f"${usage.dollars:.2f} of about ${whole:.2f}")
        return ", ".join(parts)
