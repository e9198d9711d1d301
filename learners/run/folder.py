"""Folder of a run, with all files that are needed to resume the run."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from learners.config import Config, differences, read_toml, to_dict, to_toml
from learners.errors import ConfigError
from learners.goals import Condition, End, budget, conditions, ended
from learners.rollouts.trajectories import Trajectories
from learners.training import checkpoint
from learners.training.checkpoint import open_to_append, write_text
from resume_gym import EDITION
from resume_gym.evaluation import Returns, Summary
from resume_gym.support.atomic_write import sync
from resume_gym.support.json_lines import (
    check_figures,
    check_step,
    is_finite,
    read_bytes,
    read_lines,
    seal,
    unseal,
)
from resume_gym.support.user_errors import number_of

HEARTBEAT = "heartbeat.json"
TOTALS = ("seconds_total", "judge_tokens", "judge_dollars")
"""Metrics that are totals of the run so far, not values of one step."""
Metrics = Mapping[str, float]
"""Metrics of one step by name; the metric `step` is the number of the step."""

# settings that may change on resume: they affect where, how fast and how long a run computes, but
# not the result of a step
_CHANGEABLE = {
    *("name", "runs", "threads", "trainer_procs", "replicas", "offload", "async_save"),
    *("engine_urls", "engine_procs", "engine_gpus", "timeout_s", "log_to"),
    # a new goal, budget or reaction to alarms lets an ended run continue
    *("save_every", "goal", "budget", "heartbeat_s", "on_collapse", "on_hack"),
}


class RunFolder:
    """Files of a run.

    | path | content |
    |---|---|
    | `config.toml` | the configuration |
    | `metrics.jsonl` | metrics, one line per step |
    | `evaluations.jsonl` | evaluations during training, one per line |
    | `before.json`, `after.json` | held-out results before and after training |
    | `floor.json` | the floor agent's results on the held-out tasks |
    | `facts.json` | command, commit, machine, tasks, versions and so on, for the model card |
    | `journal.md` | commands, commits, machines, milestones and warnings, with their time |
    | `heartbeat.json` | what the run is doing, or why it has ended; see `Heartbeat` |
    | `trajectories/` | one file per step and evaluation, one line per episode |
    | `checkpoints/`, `logs/` | training state; output of the engine servers |
    | `started` | a random id, which marks a run that was started on this machine |
    | `lock` | the process that writes to the folder, or was the last to do so |

    Args:
        path: path of the folder of the run; created if missing.

    Attributes:
        checkpoints: folder of the checkpoints.
        logs: folder of the server logs.
        trajectories: storage of the run's episodes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.logs = path / "logs"
        self.trajectories = Trajectories(path / "trajectories", self.note)
        self._metrics = path / "metrics.jsonl"
        self._evaluations = path / "evaluations.jsonl"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder against other runs during the block; a crash releases the lock, too.

        Raises:
            ConfigError: another process holds the lock, or `lock` is not a regular file.
        """
        with os.fdopen(open_to_append(self.path / "lock"), "a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "another process"
                raise ConfigError(
                    f"{self.path}: {holder} writes to this folder; wait until the process ends, or "
                    "choose another run name"
                ) from None
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
            yield

    def configure(self, config: Config) -> bool:
        """Check `config` against the settings of an existing run in the folder, then write it.

        Returns:
            True if the folder had no settings, so that the run is new; False if a run is resumed.

        Raises:
            ConfigError: a setting that affects the run's results has changed. `steps` may increase
                if the learning rate is constant.
        """
        file = self.path / "config.toml"
        if file.exists() and not file.stat().st_size:
            raise ConfigError(f"{file} is empty: expected the settings of this run; restore it")
        is_new = not file.exists()
        changed = {} if is_new else differences(read_toml(file), config)
        longer = config.learning_rate_schedule == "constant"
        conflicts = [
            f"{name} was {before!r}, is now {now!r}"
            for name, (before, now) in changed.items()
            if name not in _CHANGEABLE and not (name == "steps" and now > before and longer)
        ]
        if conflicts:
            raise ConfigError(
                f"{self.path} has other settings: {', '.join(conflicts)}; choose another run name"
            )
        self._check_edition()
        write_text(file, to_toml(config))
        return is_new

    def _check_edition(self) -> None:
        """Raise a ConfigError if the run began with another `EDITION` of tasks and rubric judge."""
        file = self.path / "facts.json"
        if not file.is_file():
            return
        try:
            facts = json.loads(read_bytes(file))
            edited, edition = facts["judge"] is not None, facts.get("edition")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"{file} is damaged: {type(error).__name__}: {error}") from None
        if edited and edition != EDITION:
            raise ConfigError(
                f"{self.path} began with edition {edition or 1} of the tasks and verdicts, "
                f"and this version has edition {EDITION}; choose another run name"
            )

    def append(self, metrics: Metrics) -> None:
        """Append the metrics of a step to `metrics.jsonl`.

        Raises:
            ValueError: a value is not finite; nothing is written.
        """
        check_figures(metrics, f"step {metrics['step']:.0f}.")
        _append_line(self._metrics, metrics)

    def append_evaluation(self, evaluation: Mapping[str, object]) -> None:
        """Append an evaluation, whose values include `step`, to `evaluations.jsonl`."""
        _append_line(self._evaluations, evaluation)

    def metrics(self) -> list[dict[str, float]]:
        """Return the metrics of all steps, oldest first.

        Raises:
            ConfigError: a value or a step is invalid, although the checksum of its line is correct.
        """
        return _parse_lines(self._metrics)[0]

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the evaluations in order of their end; raise the same errors as `metrics`."""
        return _parse_lines(self._evaluations)[0]

    def result(self, when: str) -> Returns | None:
        """Return the result "before" or "after" training, or of the agent "floor"; None if missing.

        Raises:
            ConfigError: the file is damaged, or another version wrote it.
        """
        file = self.path / f"{when}.json"
        if not file.exists():
            return None
        try:
            values = json.loads(read_bytes(file))
            result = Summary(**values) if "score" in values else Returns(**values)
            _check_result(result)
            return result
        except (ValueError, RecursionError) as error:
            again = "delete it to play the held-out tasks again"
            remedy = again if when != "before" else "restore it, or choose another run name"
            raise ConfigError(f"{file} is damaged: {error}; {remedy}") from None
        except TypeError:
            raise ConfigError(
                f"{file} was written by another version; choose another run name"
            ) from None

    def write_result(self, when: str, result: Returns) -> None:
        """Write the held-out result "before" or "after" training, or of the agent "floor"."""
        write_text(self.path / f"{when}.json", json.dumps(asdict(result), indent=1) + "\n")

    def set_aside(self, step: int) -> None:
        """Rename `after.json`, the result of a run that now continues, to `after-STEP.json`."""
        file = self.path / "after.json"
        if file.exists():
            file.rename(self.path / f"after-{step:06d}.json")

    def goal(self) -> tuple[Condition, ...]:
        """Return the conditions of the run's goal; empty if the run has no goal."""
        return conditions(read_toml(self.path / "config.toml").goal, "goal")

    def ended(self) -> End | None:
        """Return which goal or budget has ended the run; None if neither has; see `goals.ended`."""
        config = read_toml(self.path / "config.toml")
        if not (config.goal or config.budget):
            return None
        limits = budget(config.budget)
        return ended(self.goal(), limits, config.steps, self.metrics(), self.evaluations())

    def begun(self, done: int) -> range:
        """Return the steps after `done` that have metrics or stored episodes."""
        last = max((int(row["step"]) for row in self.metrics()), default=0)
        return range(done + 1, last + 1 + self.trajectories.path(last + 1).exists())

    def kept(self, steps: int) -> str:
        """Describe which steps are saved, and which will be repeated if the process ends now."""
        done, _ = checkpoint.latest(self.checkpoints) or (0, None)
        saved = f"steps up to {done} are saved" if done else "no step is saved yet"
        now = int((self.metrics() or [{"step": 0}])[-1]["step"]) + 1
        again = range(done + 1, min(max(now, done + 1), steps) + 1)
        return f"{saved}; {numbered(again)} will be repeated" if again else saved

    def totals(self) -> dict[str, float]:
        """Return the time and the judge's cost so far, including steps that will be repeated."""
        last = (self.metrics() or [{}])[-1]
        totals = {name: last.get(name, 0.0) for name in TOTALS}
        # totals in the heartbeat file are newer, and include steps that `truncate` removed
        with suppress(AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError):
            beat = json.loads(read_bytes(self.path / HEARTBEAT))["totals"]
            newer = {name: beat[name] for name in TOTALS if is_finite(beat.get(name))}
            totals |= {name: max(value, totals[name]) for name, value in newer.items()}
        return totals

    def unusual(self) -> str:
        """Return the settings that differ from the defaults, in one line."""
        config = read_toml(self.path / "config.toml")
        values = to_dict(config)
        return ", ".join(f"{name} {values[name]!r}" for name in differences(Config(), config))

    def truncate(self, step: int) -> list[str]:
        """Remove metrics and evaluations of all steps after `step`; trajectories are kept.

        Returns:
            Sentences about damaged lines, which are also removed, and about missing steps.
        """
        told = []
        for file in (self._metrics, self._evaluations):
            if file.exists():
                rows, damaged = _parse_lines(file)
                if damaged:
                    told.append(f"Damaged lines removed from {file.name}: {damaged}.")
                kept = [seal(row) + "\n" for row in rows if row["step"] <= step]
                write_text(file, "".join(kept))
        missing = sorted({*range(1, step + 1)} - {int(row["step"]) for row in self.metrics()})
        if missing:
            lacks = f"{self._metrics.name} lacks {len(missing)} of {number_of(step, 'step')}"
            told.append(f"{lacks}; the first missing step is {missing[0]}.")
        return told

    def note(self, sentence: str) -> None:
        """Append a sentence to the journal."""
        file = self.path / "journal.md"
        title = "" if file.exists() else f"# Journal of {self.path.name}\n\n"
        with os.fdopen(open_to_append(file), "a", encoding="utf-8") as journal:
            journal.write(f"{title}- {datetime.now():%Y-%m-%d %H:%M:%S} {sentence}\n")


def numbered(steps: range) -> str:
    """Return consecutive steps as text: "step 3" or "steps 3 to 5"."""
    return f"steps {steps[0]} to {steps[-1]}" if steps[1:] else f"step {steps[0]}"


def _check_result(result: Returns) -> None:
    """Raise a ValueError if a number in a result is invalid; `Returns` does not check numbers."""
    values = asdict(result)
    for one in fields(result):
        if one.default is None and values[one.name] is None:  # None in files of earlier versions
            del values[one.name]
    check_figures(values)


def _append_line(file: Path, row: Mapping[str, object]) -> None:
    with os.fdopen(open_to_append(file), "a", encoding="utf-8") as lines:
        lines.write(seal(row) + "\n")
    # synced now, so that after a power cut no checkpoint is newer than the metrics
    sync(file)
    sync(file.parent)


def _parse_lines(file: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of a JSON Lines file, and the number of its damaged lines."""
    rows: dict[int, dict[str, Any]] = {}
    damaged = 0
    # a process that is killed while it writes leaves an incomplete last line, which is dropped
    for number, line in enumerate(read_lines(file) if file.exists() else (), 1):
        try:
            row = unseal(line)
        except (RecursionError, ValueError):
            damaged += 1
            continue
        try:
            rows[check_step(row.get("step"), rows)] = row
            check_figures({"reward": None, **row})  # None: a missing reward is invalid, too
        except ValueError as error:
            told = f"{file} is damaged: line {number}, {error}; restore it"
            raise ConfigError(told) from None
    if damaged and not rows:
        raise ConfigError(
            f"{file}: expected lines with a checksum; `plot` and `view` open runs of other versions"
        )
    return list(rows.values()), damaged
