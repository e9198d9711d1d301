"""Storage of finished rollouts as JSON Lines: a file per step or evaluation, a line per episode.

Lines are appended in the order in which episodes end. If the process is killed during a write,
only the last line is truncated. Each line has a checksum. Reading a file removes its truncated and
damaged lines, and a resumed run plays their episodes again. A stored episode is appended again only
if its record has changed, for example because the episode now has a verdict.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from learners.errors import ConfigError
from learners.rollouts.rollout import Record, Rollout
from resume_gym.folders.reader import INCOMPLETE, FolderReader
from resume_gym.folders.writer import FolderWriter
from resume_gym.support.atomic_write import sync


class Trajectories:
    """Trajectory files of a run.

    Args:
        folder: folder of the files, such as `step-000010.jsonl`; created if missing.
        note: called with a sentence about damaged lines, or about an episode to be played again.
        kind: first word of the file names: "step", or "eval" for held-out episodes.
    """

    def __init__(
        self, folder: Path, note: Callable[[str], object] = print, kind: str = "step"
    ) -> None:
        self._folder = folder
        self._note = note
        self._kind = kind
        self._restored: Mapping[tuple[int, int], Record] = {}
        self._reader, self._writer = FolderReader(folder), FolderWriter(folder)
        folder.mkdir(parents=True, exist_ok=True)

    def held_out(self) -> "Trajectories":
        """Return the storage of evaluations, in files `eval-STEP.jsonl` of the same folder."""
        return Trajectories(self._folder, self._note, "eval")

    def path(self, step: int) -> Path:
        """Return the path of the trajectory file of a step."""
        return self._folder / f"{self._kind}-{step:06d}.jsonl"

    def append(self, step: int, rollout: Rollout) -> None:
        """Append a finished rollout, unless `restore` has read an identical record."""
        record = rollout.record()
        if record != self._restored.get((rollout.group, rollout.member)):
            self._writer.append_row(self.path(step).name, record)

    def sync(self, step: int) -> None:
        """Sync the file of a finished step to disk, so that the file survives a power cut."""
        sync(self.path(step))
        sync(self._folder)

    def restore(
        self,
        step: int,
        planned: Sequence[Rollout],
        groups: Collection[int] = (),
        whole: bool = False,
    ) -> list[Rollout]:
        """Return `planned`, with each rollout that is on disk replaced by the stored rollout.

        If a rollout has two lines, the later line counts, since it includes the verdict.

        Args:
            step: number of the step.
            planned: unplayed rollouts of this step.
            groups: numbers of all groups of this step, if `planned` lacks some of them.
            whole: whether all rollouts are played again if any is missing, since a smaller batch
                would sample other tokens; `Rollout.before` then holds the stored session.

        Raises:
            ConfigError: the file belongs to another run or step.
        """
        played = self._restored = self._played(step, groups or {one.group for one in planned})
        records = (played.get((rollout.group, rollout.member)) for rollout in planned)
        pairs = zip(planned, records, strict=True)
        restored = [self._restore(step, rollout, record) for rollout, record in pairs]
        if not whole or all(rollout.session.done for rollout in restored):
            return restored
        again = zip(planned, restored, strict=True)
        return [replace(rollout, before=old.session) for rollout, old in again]

    def _restore(self, step: int, planned: Rollout, record: Record | None) -> Rollout:
        try:
            return planned.restored(record) if record else planned
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{self.path(step)} is from another run or step: {error}") from None
        except Exception as error:  # the environment of the rollout failed, perhaps only this time
            task, kind = planned.session.task.task_id, type(error).__name__
            self._note(f"An episode of {task} is played again: {kind}: {error}")
            return planned

    def graded(self, step: int) -> list[Record]:
        """Return the records of the graded rollouts of a step, sorted by group and member."""
        # sorted: the lines are in the order in which verdicts arrived, which is not reproducible
        played = sorted(self._played(step, None).items())
        return [record for _, record in played if record["graded"]]

    def _played(self, step: int, groups: Collection[int] | None) -> dict[tuple[int, int], Record]:
        """Return a step's records by (group, member), and remove damaged lines from their file."""
        path = self.path(step)
        records: dict[tuple[int, int], Record] = {}
        whole: list[Record] = []
        damaged, incomplete = 0, False
        for line in self._reader.lines(path.name, sealed=True):
            if line.problem == INCOMPLETE:
                incomplete = True
                continue
            try:
                key = int(line.record["group"]), int(line.record["member"])
            except (KeyError, OverflowError, TypeError, ValueError):
                damaged += 1
            else:
                records[key] = line.record
                whole.append(line.record)
        if strange := {group for group, _ in records if groups and group not in groups}:
            raise ConfigError(f"{path} is from another run or step: it has group {min(strange)}")
        if damaged:
            self._note(f"Damaged lines removed from {path.name}: {damaged}.")
        if damaged or incomplete:
            self._writer.replace_rows(path.name, whole)
        return records
