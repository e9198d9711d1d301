"""Entry point of `resume-gym plot`: all figures of training runs and evaluations.

A run yields the figures `training` (nine panels), `trainer` (training health), and `components`
and `weaknesses` (rewards on held-out tasks before and after training). Several runs also yield the
figure `runs`. All evaluations together yield one figure `components` and one figure `weaknesses`.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from resume_gym.apps.plot import bars
from resume_gym.apps.plot.reading import Run, Summaries, read_evaluations, read_run
from resume_gym.apps.plot.runs import draw_runs
from resume_gym.apps.viewer.data import FolderContents
from resume_gym.figures import dashboard
from resume_gym.figures.style import FORMATS, save, styled
from resume_gym.support.user_errors import TaskError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Picture = tuple[str, "Figure | None"]
"""Name and figure; the figure is None if its data are missing."""


class Written(NamedTuple):
    """Result of the function `plot`.

    Attributes:
        files: image files that were written.
        missing: paths (without extension) of figures whose data are missing.
        damage: notes on damaged data files, such as invalid lines that are left out.
    """

    files: list[Path]
    missing: list[Path]
    damage: list[str]


def plot(
    paths: Sequence[Path],
    out: Path | None = None,
    formats: Sequence[str] = FORMATS,
) -> Written:
    """Write all figures of runs and evaluations.

    Args:
        paths: folders of runs and evaluations. Each run has a separate set of figures; all
            evaluations share one set.
        out: output folder, with a subfolder per run if there are several paths. A subfolder is
            named like the folder of its run or, if these names repeat, by the path of the run
            relative to the common parent folder of all runs. By default, figures go to the
            subfolder `plots` of their run or evaluation, and the figure `runs` to that of the first
            run.
        formats: formats of the image files, a subset of `FORMATS`.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        OSError: a file cannot be read or written.
        TaskError: a path holds no run or evaluation, or `out` is missing for several evaluations.
    """
    # keep one path per folder
    paths = list({path.resolve(): path for path in paths}.values())
    opened = [FolderContents(path) for path in paths]
    runs = [one for one in opened if one.is_run]
    results = [one for one in opened if not one.is_run]
    if out is None and len(results) > 1:
        raise TaskError("--out: expected a folder, since the evaluations share their figures")
    written = Written([], [], [])
    with styled():
        read = [read_run(one) for one in runs]
        written.damage.extend(told for run in read for told in run.damage)
        if len(runs) > 1:
            together = [("runs", draw_runs(read))]
            _write(together, out or runs[0].path / "plots", formats, written)
        folders = [one.path for one in runs]
        for path, name, run in zip(folders, _names(folders), read, strict=True):
            folder = out / name if out and len(paths) > 1 else out
            _write(of_run(run), folder or path / "plots", formats, written)
        if results:
            both = read_evaluations(results)
            written.damage.extend(both.damage)
            pictures = draw_summaries(both.summaries, both.title, both.note)
            _write(pictures, out or results[0].path / "plots", formats, written)
    return written


def _names(runs: Sequence[Path]) -> list[Path]:
    """Return a distinct relative output subfolder for each run; see `out` of `plot`."""
    folders = [path.resolve() for path in runs]
    if len({folder.name for folder in folders}) == len(folders):
        return [Path(folder.name) for folder in folders]
    top = os.path.commonpath([folder.parent for folder in folders])
    return [folder.relative_to(top) for folder in folders]


def _write(
    pictures: Iterable[Picture], folder: Path, formats: Sequence[str], written: Written
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures:
        if figure is None:
            written.missing.append(folder / name)
            continue
        for kind in formats:
            save(figure, folder / f"{name}.{kind}")
            written.files.append(folder / f"{name}.{kind}")


def of_run(run: Run) -> Iterator[Picture]:
    """Yield the figures of a run; consume this iterator inside `styled()`."""
    metrics, name = run.metrics, run.title
    floor = run.summaries.get("floor")
    panels = dashboard.OVERVIEW
    yield "training", dashboard.draw_panels(metrics, panels, name, run.held_out, floor)
    yield "trainer", dashboard.draw_panels(metrics, dashboard.TRAINER, f"{name}, the trainer")
    yield from draw_summaries(run.summaries, f"{name}, held-out tasks")


def draw_summaries(summaries: Summaries, name: str, note: str = "") -> Iterator[Picture]:
    """Yield the bar charts of summaries; consume this iterator inside `styled()`."""
    parts, weaknesses = bars.components(summaries), bars.by_weakness(summaries)
    yield "components", bars.draw_bars(parts, f"{name}: the reward and its parts", note)
    yield "weaknesses", bars.draw_bars(weaknesses, f"{name}: reward by weakness", note)
