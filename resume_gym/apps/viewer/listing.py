"""List of the runs and evaluations in a folder."""

import os
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from resume_gym.apps.viewer.data import FolderContents, is_results, stamp
from resume_gym.json_lines import is_finite


class Listing:
    """Folder of runs and evaluations; their episodes are read when one of them is opened.

    Args:
        path: the folder.
        trusted: see `FolderContents`.
    """

    def __init__(self, path: Path, trusted: bool = False) -> None:
        self.path = path
        self._trusted = trusted
        self._opened: dict[str, FolderContents] = {}
        self._rows: dict[tuple[Path, tuple[int, int]], dict[str, Any]] = {}
        self._lock = Lock()

    def folders(self) -> dict[str, Path]:
        """Return the folders of runs and evaluations, by name."""
        inside = self.path.iterdir() if self.path.is_dir() else ()
        return {folder.name: folder for folder in inside if _is_readable(folder)}

    def open(self, name: str) -> FolderContents:
        """Return a run or an evaluation.

        Raises:
            LookupError: there is none of this name.
            TaskError: its settings are invalid.
        """
        with self._lock:  # the server handles each request in a thread
            if name not in self._opened:
                self._opened[name] = FolderContents(self.folders()[name], self._trusted)
            return self._opened[name]

    def version(self) -> str:
        """Return a text that changes when the list does; reads no file."""
        return repr(sorted((name, stamp(folder)) for name, folder in self.folders().items()))

    def index(self) -> dict[str, Any]:
        """Return the list as JSON values."""
        rows = {(folder, stamp(folder)) for folder in self.folders().values()}
        # a row is made again once its files have changed
        self._rows = {key: self._rows.get(key) or self._row(*key) for key in rows}
        return {
            "kind": "list",
            "name": self.path.resolve().name,
            "columns": [],
            "rows": [],
            "runs": sorted(self._rows.values(), key=lambda row: row["changed"], reverse=True),
        }

    def _row(self, folder: Path, written: tuple[int, int]) -> dict[str, Any]:
        href = f"./{quote(os.fsencode(folder.name))}/"
        row = {"name": folder.name, "href": href, "changed": written[0] // 10**6}
        try:
            return row | _summary(FolderContents(folder, self._trusted))
        except Exception as problem:  # another's files may hold anything: the other rows stay
            return row | {"problem": str(problem)}


def _summary(results: FolderContents) -> dict[str, Any]:
    """Return the figures of a row: rewards of the last step or of each agent."""
    settings = results.settings
    common = {"env": str(settings.get("env") or "")}
    if not results.is_run:
        agents = results.figures()["figures"].items()
        rewards = {name: _finite(told.get("reward")) for name, told in agents}
        return {**common, "kind": "evaluation", "steps": None, "rewards": rewards}
    last: dict[str, Any] = max(
        results.steps("metrics.jsonl", []), key=itemgetter("step"), default={}
    )
    steps = [_finite(last.get("step", 0)), _finite(settings.get("steps"))]
    return {**common, "kind": "run", "steps": steps, "rewards": {"": _finite(last.get("reward"))}}


def _finite(value: Any) -> float | None:
    return value if is_finite(value) else None


def open_folder(path: Path, trusted: bool = False) -> FolderContents | Listing:
    """Return a run, an evaluation, or a folder of them; see `FolderContents`."""
    listing = Listing(path, trusted)
    is_listing = not is_results(path) and listing.folders()
    return listing if is_listing else FolderContents(path, trusted)


def _is_readable(folder: Path) -> bool:
    try:
        return is_results(folder)
    except OSError:  # another user's
        return False
