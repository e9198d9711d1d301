"""`resume-gym plot RUN_OR_RESULT...`: all pictures of runs and evaluations.

Of a run `training` (nine panels), `trainer` (is it sound?), `dips` (curves that dip and come
back), `phase` (tool calls against content), and `components` and `weaknesses` before and after;
of evaluations, all of them in one set, `components`, `weaknesses`, `rewards` and `efficiency`.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from resume_gym.arguments import add_parser
from resume_gym.report.reading import Evaluation, Run, is_run, read_evaluations, read_run
from resume_gym.report.source import BY_WEAKNESS, COMPONENTS
from resume_gym.report.style import FORMATS, save, styled
from resume_gym.tasks import TaskError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from resume_gym.report.bars import Bars

Picture = tuple[str, "Figure | None"]
"""A name and a picture; None if there is nothing to draw."""
_SOURCE = "Marks: the source's agents, on its own tasks, by its own judge."


class Written(NamedTuple):
    """The files that were written, and the pictures for which there was nothing to draw."""

    files: list[Path]
    missing: list[Path]


def plot(
    paths: Sequence[Path],
    out: Path | None = None,
    formats: Sequence[str] = FORMATS,
    source: bool = False,
) -> Written:
    """Write all pictures of runs and evaluations.

    Args:
        paths: folders. Evaluations go into one set of pictures, each run into one of its own.
        out: where to, for several sets in a folder for each run; `plots` in the folder of the
            run or evaluation if not given.
        formats: of `FORMATS`.
        source: whether to mark the source's figures in the bars.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        OSError: a file cannot be read or written.
        TaskError: a path holds no run or evaluation, or several evaluations have no `out`.
    """
    paths = list({path.resolve(): path for path in paths}.values())
    runs = [path for path in paths if is_run(path)]
    results = [path for path in paths if path not in runs]
    if out is None and len(results) > 1:
        raise TaskError("--out: expected a folder, since several evaluations make one picture")
    written = Written([], [])
    with styled():
        for path in runs:
            own = out / path.resolve().name if out and len(paths) > 1 else out
            _write(of_run(read_run(path), source), own or path / "plots", formats, written)
        if results:
            pictures = of_evaluation(read_evaluations(results), source)
            _write(pictures, out or results[0] / "plots", formats, written)
    return written


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


def of_run(run: Run, source: bool = False) -> Iterator[Picture]:
    """Draw what there is of a run; to be consumed in `styled()`."""
    from resume_gym.report import bars, dynamics, training

    metrics, name = run.metrics, run.title
    yield "training", training.draw_panels(metrics, training.OVERVIEW, name)
    yield "trainer", training.draw_panels(metrics, training.TRAINER, f"{name}, the trainer")
    yield "dips", dynamics.draw_dips(metrics, f"{name}, curves that dip and come back")
    yield "phase", dynamics.draw_phase(metrics, f"{name}, tool calls against content")
    parts = bars.summary_components(run.summaries)
    kinds = bars.summary_by_weakness(run.summaries)
    yield from _bars(parts, kinds, f"{name}, held-out tasks", source, "")


def of_evaluation(evaluation: Evaluation, source: bool = False) -> Iterator[Picture]:
    """Draw what there is of evaluations; to be consumed in `styled()`."""
    from resume_gym.report import bars, spread

    name, episodes, note = evaluation.title, evaluation.episodes, evaluation.note
    yield from _bars(bars.components(episodes), bars.by_weakness(episodes), name, source, note)
    yield "rewards", spread.draw_rewards(evaluation, f"{name}: rewards of single episodes")
    yield "efficiency", spread.draw_efficiency(evaluation, f"{name}: reward and effort")


def _bars(parts: "Bars", kinds: "Bars", name: str, source: bool, note: str) -> Iterator[Picture]:
    from resume_gym.report.bars import draw_bars

    for picture, bars, what, marks in (
        ("components", parts, "the reward and its parts", COMPONENTS),
        ("weaknesses", kinds, "reward by weakness", BY_WEAKNESS),
    ):
        notes = [note] * bool(note) + [_SOURCE] * source
        figure = draw_bars(bars, f"{name}: {what}", marks if source else {}, " ".join(notes))
        yield picture, figure


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `plot`."""
    command = add_parser(
        commands,
        "plot",
        "draw runs and evaluations",
        "Draw training runs and evaluations. Evaluations that are given together are drawn "
        "together, each run for itself; what the data do not have is left out.",
        [
            "plot runs/nano --out docs --format svg --source",
            "eval --agent careful --agent oracle --out result",
            "plot result",
        ],
    )
    add = command.add_argument
    add(
        "paths",
        nargs="+",
        type=Path,
        metavar="RUN_OR_RESULT",
        help="folder of a run, or of an evaluation, as `resume-gym eval --out FOLDER` writes",
    )
    add(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where the pictures go (default: `plots` in the folder that is drawn)",
    )
    add(
        "--format",
        default=",".join(FORMATS),
        metavar="LIST",
        help="png, svg or both (default: %(default)s)",
    )
    add(
        "--source",
        action="store_true",
        help="mark the figures of the experiment that this project reproduces",
    )
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    formats = list(dict.fromkeys(options.format.split(",")))
    for one in formats:
        if one not in FORMATS:
            raise TaskError(f"--format: expected some of {', '.join(FORMATS)}; got {one!r}")
    written = plot(options.paths, options.out, formats, options.source)
    for file in written.files:
        print(file)
    if written.missing:
        print(f"nothing to draw for: {', '.join(map(str, written.missing))}", file=sys.stderr)
