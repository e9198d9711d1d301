"""Held-out tasks that a run or an evaluation has played, to tell whether results are comparable."""

import hashlib
import json
from functools import lru_cache
from pathlib import Path

from resume_gym.apps.viewer.data import FolderContents
from resume_gym.folders.reader import GrowingFile


def played_tasks(results: FolderContents) -> list[str]:
    """Return digests of the held-out tasks that were played, each of the task's ID and document.

    The list is sorted. It is empty if no held-out episode is stored.
    """
    files = [file for file in results.files() if file.is_file()]
    # all evaluations of a run play the same tasks, and the first is the first to be complete
    held_out = [file for file in files if not results.is_run or file.name.startswith("eval-")]
    if not held_out:
        return []
    found = held_out[0].stat()
    return _tasks_in(held_out[0], found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=256)
def _tasks_in(file: Path, *state: int) -> list[str]:
    """Return the digests of the tasks in a file; `state` changes whenever the file changes."""
    records = (line.record for line in GrowingFile(file).read() if not line.problem)
    keys = {json.dumps([one.get("task_id"), one.get("original")]) for one in records}
    return sorted(hashlib.sha256(key.encode()).hexdigest()[:16] for key in keys)
