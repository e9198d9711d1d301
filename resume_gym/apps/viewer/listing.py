"""List of the runs and evaluations in a folder."""

import math
import os
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from resume_gym.apps.viewer.data import FolderContents
from resume_gym.folders.jobs import job_of, stamp, status
from resume_gym.support.json_lines import is_finite


class Listing:
    """Folder of runs and evaluations; the episodes of a run are read when the run is opened.

    Args:
        path: folder of the runs and evaluations.
        trusted: whether to trust the settings of all runs and evaluations; see `FolderContents`.
    """

    def __init__(self, path: Path, trusted: bool = False) -> None:
        self.path = path
        self._trusted = trusted
        self._opened: dict[str, FolderContents] = {}
        self._rows: dict[tuple[Path, tuple[int, int]], dict[str, Any]] = {}
        self._lock = Lock()

    def folders(self) -> dict[str, Path]:
        """Return the folders of runs and evaluations, by their path relative to `path`.

        If a subfolder is neither a run nor an evaluation, its direct subfolders are searched, too.
        """
        found: list[Path] = []
        for folder in _inside(self.path):
            found += [folder] if _is_readable(folder) else filter(_is_readable, _inside(folder))
        return {folder.relative_to(self.path).as_posix(): folder for folder in found}

    def open(self, name: str) -> FolderContents:
        """Return the run or evaluation `name`, which is a key of `folders()`.

        Raises:
            LookupError: there is no run or evaluation with this name.
            TaskError: the settings of the run or the evaluation are invalid.
        """
        with self._lock:  # the server handles each request in its own thread
            if name not in self._opened:
                self._opened[name] = FolderContents(self.folders()[name], self._trusted)
            return self._opened[name]

    def version(self) -> str:
        """Return a string that changes when a listed run or evaluation changes; no file is read."""
        folders = self.folders().items()
        return repr(sorted((name, stamp(folder), status(folder)) for name, folder in folders))

    def index(self) -> dict[str, Any]:
        """Return the list of runs and evaluations as JSON values."""
        keys = {(folder, stamp(folder)) for folder in self.folders().values()}
        # rebuild only rows of runs and evaluations whose files have changed
        self._rows = {key: self._rows.get(key) or self._row(*key) for key in keys}
        rows = [row | {"status": status(key[0])} for key, row in self._rows.items()]
        return {
            "kind": "list",
            "name": self.path.resolve().name,
            "rows": [],
            "runs": sorted(rows, key=itemgetter("changed"), reverse=True),
        }

    def _row(self, folder: Path, written: tuple[int, int]) -> dict[str, Any]:
        name = folder.relative_to(self.path).as_posix()
        href = f"./{quote(os.fsencode(name), safe='')}/"  # a single part of the URL's path
        row = {"name": name, "href": href, "changed": written[0] // 10**6}
        try:
            return row | _summary(FolderContents(folder, self._trusted))
        except Exception as problem:  # reading damaged files may raise anything; keep other rows
            return row | {"problem": str(problem)}


def _summary(results: FolderContents) -> dict[str, Any]:
    """Return the row of a run (with the latest reward) or of an evaluation (with the best reward).

    The row of an evaluation on training tasks has no reward: the list compares held-out rewards.
    """
    settings, told = results.settings, results.figures()
    figures, metrics = told["figures"], told["metrics"]
    if not results.is_run and figures:  # read the episodes, which `damage` needs, but load no tasks
        results.tasks = {}
        results.refresh()
    floor = figures.pop("floor", {}).get("reward") if results.is_run else settings.get("floor")
    rewards = {name: one["reward"] for name, one in figures.items() if is_finite(one.get("reward"))}
    agents = sorted(told.get("agents", ()), key=lambda name: -rewards.get(name, -math.inf))
    held_out = [name for name in agents if _is_held_out(name, settings.get("split"))]
    names = [*figures] if results.is_run else held_out[:1]
    latest = figures.get(names[-1], {}) if names else {}
    if not results.is_run and names:  # the floor on the same tasks
        floor = told["statistics"].get(names[-1], {}).get("floor", floor)
    last: dict[str, Any] = max(metrics, key=itemgetter("step"), default={})
    return {
        "kind": results.kind,
        "notes": [*results.damage(), *told["notes"]],
        "env": str(settings.get("env") or ""),
        # show only the last two parts of a model's path
        "model": "/".join(str(settings.get("model") or "").split("/")[-2:]) or ", ".join(agents),
        "step": _finite(last.get("step")),
        "steps": _finite(settings.get("steps")) if last else None,
        "training": _finite(last.get("reward")),
        "reward": _finite(latest.get("reward")),
        "error": _finite((latest.get("errors") or {}).get("reward")),
        "floor": _finite(floor),
    }


def _is_held_out(agent: str, split: object) -> bool:
    # `rejudge` of a run writes the split "all" and agents such as "training, again"
    return split != "train" and not (split == "all" and agent.startswith("training, "))


def _finite(value: object) -> float | None:
    return value if is_finite(value) else None


def open_folder(path: Path, trusted: bool = False) -> FolderContents | Listing:
    """Open a run, an evaluation, or a folder of runs and evaluations."""
    listing = Listing(path, trusted)
    is_listing = not job_of(path) and listing.folders()
    return listing if is_listing else FolderContents(path, trusted)


def _inside(folder: Path) -> list[Path]:
    try:
        return [*folder.iterdir()]
    except OSError:  # a file, or a folder of another user
        return []


def _is_readable(folder: Path) -> bool:
    try:
        return job_of(folder) is not None
    except OSError:  # e.g. a folder that belongs to another user
        return False
