"""What a person sees while agents play: a bar for each, with the means so far."""

from collections.abc import Mapping
from statistics import fmean
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from resume_gym.evaluation.figures import Episode


class Bars:
    """Bars on a terminal; elsewhere nothing.

    Args:
        console: where to show them.
    """

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[means]}", markup=False),
        )
        self._bars = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def add(self, name: str, total: int) -> "Bar":
        """The bar of an agent."""
        return Bar(self._bars, name, total)


class Bar:
    """The bar of one agent; see `Bars`."""

    def __init__(self, bars: Progress, name: str, total: int) -> None:
        self._bars = bars
        self._task = bars.add_task(name, total=total, means="")

    def show(self, episodes: Mapping[object, Episode], failed: int) -> None:
        """Show what has been played so far."""
        if self._bars.disable:
            return
        self._bars.update(
            self._task, completed=len(episodes) + failed, means=means(episodes, failed)
        )


def means(episodes: Mapping[object, Episode], failed: int) -> str:
    """The means of some episodes, in a few words."""
    told = []
    if episodes:
        played = episodes.values()
        told.append(f"reward {fmean(one.reward for one in played):.2f}")
        told.append(f"submitted {fmean(one.submitted for one in played):.0%}")
    if failed:
        told.append(f"{failed} without a number")
    return ", ".join(told)
