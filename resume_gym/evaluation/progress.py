"""Progress of an evaluation: a bar with running means per agent; log lines without a terminal."""

import time
from collections.abc import Callable, Iterable, Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from resume_gym.evaluation.summary import Episode
from resume_gym.llm import Usage

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
    """Progress bar of one agent.

    Args:
        bars: display made by `progress`.
        name: name of the agent.
        total: number of episodes.
        spent: returns what models have been asked for these episodes, if any.
    """

    def __init__(
        self,
        bars: Progress,
        name: str,
        total: int,
        spent: Callable[[], Mapping[str, Usage]] = dict,
    ) -> None:
        self._bars = bars
        self._task = bars.add_task(name, total=total, means="")
        self._name, self._total, self._told = name, total, time.monotonic()
        self._graded = self._failed = self._submitted = self._restored = 0
        self._spent = spent
        self._reward = 0.0

    def count(self, episode: Episode | None) -> None:
        """Count an episode; None stands for a failed one."""
        if episode is None:
            self._failed += 1
        else:
            self._graded += 1
            self._reward += episode.reward
            self._submitted += episode.submitted
        ended = self._graded + self._failed
        if not self._bars.disable:
            self._bars.update(self._task, completed=ended, means=self._means())
        elif time.monotonic() - self._told >= _LINE_S:
            self._told = time.monotonic()
            line = f"{self._name}: {ended} of {self._total} episodes, {self._means()}"
            self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def restore(self, episodes: Iterable[Episode]) -> None:
        """Count episodes of an earlier command, which cost nothing now."""
        for episode in episodes:
            self._restored += 1
            self.count(episode)

    def _means(self) -> str:
        means = []
        if self._graded:
            means.append(f"reward {self._reward / self._graded:.2f}")
            means.append(f"submitted {self._submitted / self._graded:.0%}")
        if self._failed:
            means.append(f"{self._failed} without a number")
        return ", ".join([*means, *self._cost()])

    def _cost(self) -> list[str]:
        """Return the tokens so far, and the cost so far and extrapolated to all episodes."""
        usages = list(self._spent().values())
        if not usages:
            return []
        usage = sum(usages[1:], usages[0])
        parts = [f"{usage.tokens:,} tokens"]
        played = self._graded + self._failed - self._restored
        if usage.dollars is not None and played:
            whole = usage.dollars * (self._total - self._restored) / played
            parts.append(f"${usage.dollars:.2f} of about ${whole:.2f}")
        return parts
