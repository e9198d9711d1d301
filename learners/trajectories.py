"""Finished rollouts on disk: a file a step, a line an episode, in the order in which they ended.

A line is written whole or, when the process is killed meanwhile, cut short at the end of the
file, where the next reader removes it. What is played again and comes out the same is there once.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from learners.checkpoint import write_text
from learners.rollout import Rollout


class Trajectories:
    """The files of a run.

    Args:
        folder: holds `step-000010.jsonl` and so on; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._restored: Mapping[tuple[int, int], Mapping[str, Any]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, step: int) -> Path:
        """The file of a step."""
        return self._folder / f"step-{step:06d}.jsonl"

    def append(self, step: int, rollout: Rollout) -> None:
        """Add a rollout that has ended, unless its step was restored with the very same."""
        record = rollout.record()
        if record == self._restored.get((rollout.group, rollout.member)):
            return
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        file = os.open(self.path(step), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            while line:
                line = line[os.write(file, line) :]
        finally:
            os.close(file)

    def restore(self, step: int, planned: Sequence[Rollout]) -> list[Rollout]:
        """The planned rollouts, each as it was played if it has been.

        The later of two lines on one rollout counts: it has been graded since.

        Raises:
            ValueError: the file is of another run.
        """
        played = self._restored = self._played(step)
        try:
            return [
                one.restored(played[key]) if (key := (one.group, one.member)) in played else one
                for one in planned
            ]
        except (KeyError, ValueError) as error:
            raise ValueError(f"{self.path(step)} is of another run: {error}") from None

    def rewards(self, step: int) -> list[tuple[str, float]]:
        """Task and reward of each rollout of a step that has been graded, in order."""
        played = sorted(self._played(step).items())  # lines come in the order of their verdicts
        return [(one["task_id"], one["reward"]) for _, one in played if one["graded"]]

    def _played(self, step: int) -> dict[tuple[int, int], dict[str, Any]]:
        """Records by group and member; a line that was cut short is removed."""
        path = self.path(step)
        if not path.exists():
            return {}
        *lines, rest = path.read_text(encoding="ascii").split("\n")
        if rest:
            write_text(path, "".join(line + "\n" for line in lines))
        return {(one["group"], one["member"]): one for one in map(json.loads, lines)}
