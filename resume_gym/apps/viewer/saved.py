"""Reader of a file with one episode: the output of `play --save` or of `revise --json`."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from resume_gym.apps.viewer.data import FolderContents, is_results, read_object, unreadable
from resume_gym.apps.viewer.rows import make_row
from resume_gym.apps.viewer.tasks import Tasks, find_tasks
from resume_gym.support.user_errors import TaskError


class SavedEpisode(FolderContents):
    """Single episode, read from a file and shown like a folder with one episode.

    Raises:
        TaskError: the file holds no episode or an invalid one.
    """

    def __init__(self, path: Path, trusted: bool = False) -> None:
        report: Mapping[str, Any] = {}
        with suppress(TaskError):
            report = read_object(path)
        record: Any = report.get("episode", report)
        if not (isinstance(record, dict) and {"task_id", "actions"} <= record.keys()):
            inside = is_results(path.parent)
            hint = f"; did you mean its folder {str(path.parent)!r}?" if inside else ""
            raise TaskError(
                "expected a folder, or a file of `play --save` or `revise --json`; "
                f"{str(path)!r} is neither{hint}"
            )
        self._record: dict[str, Any] = record
        self.path, self.kind, self._lock, self._report = path, "episode", Lock(), report
        self.is_run, self.unreadable, self._incomplete = False, [], set()
        self.settings = {name: report.get(name) for name in ("env", "judge", "agent")}
        env = str(report.get("env") or "")
        self.tasks = find_tasks(env, "", trusted) if env else Tasks()
        row = {"score": report.get("score"), "weakness": report.get("weakness"), **record}
        try:
            with unreadable():
                made = make_row(row, None, self.tasks)
        except ValueError as problem:
            raise TaskError(f"{path}: {problem}") from None
        if resume := report.get("resume"):  # the task ID is "revise" in every report
            parts = Path(str(resume)).name, str(report.get("created", ""))[:10]
            made = made._replace(task=", ".join(filter(None, parts)))
        self.rows = [made]

    def files(self) -> list[Path]:
        """Return no episode files, since the only episode is already loaded."""
        return []

    def record(self, number: int) -> dict[str, Any]:
        """Return the only episode, number 0; raise IndexError for other numbers."""
        return [self._record][number]

    def figures(self) -> dict[str, Any]:
        """Return the settings and, as "notes", all warnings, unsupported claims and notes."""
        report = self._report
        claims = [
            f"not supported by the original: {claim['quote']}: {claim['reason']}"
            for claim in report.get("claims") or ()
        ]
        notes = [*(report.get("warnings") or ()), *claims, *(report.get("notes") or ())]
        return {"settings": self.settings, "metrics": [], "figures": {}, "notes": notes}
