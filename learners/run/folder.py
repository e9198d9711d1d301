"""Folder of a run, with all files that are needed to resume the run."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from learners.config import Config, differences, read_toml, to_dict, to_toml
from learners.errors import ConfigError
from learners.goals import Condition, End, budget, conditions, ended
from learners.rollouts.trajectories import Trajectories
from learners.training import checkpoint
from resume_gym import EDITION
from resume_gym.evaluation import Returns, Summary
from resume_gym.folders.jobs import RUN
from resume_gym.folders.reader import INCOMPLETE, FolderReader
from resume_gym.folders.writer import FolderWriter
from resume_gym.support.json_lines import check_figures, check_step, is_finite, parse
from resume_gym.support.printing import visible
from resume_gym.support.user_errors import number_of

HEARTBEAT = "heartbeat.json"
DOSE = "dose.json"
TOTALS = ("seconds_total", "judge_tokens", "judge_dollars")
"""Metrics that are totals of the run so far, not values of one step."""
Metrics = Mapping[str, float]
"""Metrics of one step by name; the metric `step` is the number of the step."""

_LARGEST = 1e100
"""Largest valid metric, far above all values of float32; sums of squares do not overflow."""
_LONGEST_S = 1e9
"""Longest valid time in seconds."""

# settings that may change on resume: they affect where, how fast and how long a run computes, but
# not the result of a step
_CHANGEABLE = {
    *("name", "runs", "threads", "trainer_procs", "replicas", "offload", "async_save"),
    *("engine_urls", "engine_procs", "engine_gpus", "timeout_s", "log_to"),
    # a new goal, budget or reaction to alarms lets an ended run continue
    *("save_every", "goal", "budget", "heartbeat_s", "on_collapse", "on_hack"),
    *("workers", "keep"),  # of imitation
}


class RunFolder:
    """Files of a run.

    | path | content |
    |---|---|
    | `config.toml` | the configuration |
    | `dose.json` | further settings, if the run is imitation |
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
        reader: reader of the files.
        writer: writer of the files.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.logs = path / "logs"
        self.trajectories = Trajectories(path / "trajectories", self.note)
        self.reader, self.writer = FolderReader(path), FolderWriter(path)

    def lock(self) -> AbstractContextManager[None]:
        """Lock the folder against other processes during a block; see `FolderWriter.lock`."""
        return self.writer.lock(RUN.lock)

    def configure(self, config: Config, dose: Mapping[str, Any] | None = None) -> bool:
        """Write the settings of a run after a `check`, which describes arguments and results."""
        is_new = self.check(config, dose)
        if dose is not None:
            self.writer.replace(DOSE, json.dumps(dose, indent=1) + "\n")
        self.writer.replace("config.toml", to_toml(config))
        return is_new

    def check(self, config: Config, dose: Mapping[str, Any] | None = None) -> bool:
        """Check settings against those of an existing run in the folder; write nothing.

        Args:
            config: settings of the run.
            dose: settings of a run of imitation that replace or complete those of `config`, as JSON
                values; None for other runs.

        Returns:
            True if the folder had no settings, so that the run is new; False if a run is resumed.

        Raises:
            ConfigError: a setting that affects the run's results has changed. `steps` may increase
                if the learning rate is constant, and `tokens` always.
        """
        file = self.path / "config.toml"
        if file.exists() and not file.stat().st_size:
            raise ConfigError(f"{file} is empty: expected the settings of this run; restore it")
        is_new = not file.exists()
        changed = {} if is_new else self._changes(config, dose)
        longer = config.learning_rate_schedule == "constant"
        conflicts = [
            f"{name} was {before!r}, is now {now!r}"
            for name, (before, now) in changed.items()
            if name not in _CHANGEABLE
            and not (name == "steps" and now > before and longer)
            and not (name == "tokens" and now > before)
        ]
        if conflicts:
            raise ConfigError(
                f"{self.path} has other settings: {', '.join(conflicts)}; choose another run name"
            )
        self._check_edition()
        return is_new

    def _changes(
        self, config: Config, dose: Mapping[str, Any] | None
    ) -> dict[str, tuple[Any, Any]]:
        """Return the settings that differ from those in the folder, with both values.

        Raises:
            ConfigError: one of the two runs is imitation, and the other is not.
        """
        content = self.reader.content(DOSE)
        if (content is None) != (dose is None):
            programs = ("aipo.py", "imitation.py")
            held, asked = (programs[is_one] for is_one in (dose is None, dose is not None))
            told = f"{self.path} holds a run of {held}, and this is {asked}"
            raise ConfigError(f"{told}; choose another run name")
        try:
            before = {**parse(content or b"{}")}
        except (ValueError, TypeError) as error:
            told = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{self.path / DOSE} is damaged: {told}; restore it") from None
        pairs = {name: (before.get(name, "absent"), now) for name, now in (dose or {}).items()}
        values = {**differences(read_toml(self.path / "config.toml"), config), **pairs}
        return {name: (then, now) for name, (then, now) in values.items() if then != now}

    def _check_edition(self) -> None:
        """Raise a ConfigError if the run began with another `EDITION` of tasks and rubric judge."""
        content = self.reader.content("facts.json")
        if content is None:
            return
        try:
            facts = parse(content)
            edited, edition = facts["judge"] is not None, facts.get("edition")
        except (ValueError, KeyError) as error:
            told = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{self.path / 'facts.json'} is damaged: {told}") from None
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
        # synced now, so that after a power cut no checkpoint is newer than the metrics
        self.writer.append_row("metrics.jsonl", metrics, synced=True)

    def metrics(self) -> list[dict[str, float]]:
        """Return the metrics of all steps, oldest first.

        Raises:
            ConfigError: a value or a step is invalid, although the checksum of its line is correct.
        """
        return self._rows("metrics.jsonl")[0]

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the evaluations in order of their end; raise the same errors as `metrics`."""
        return self._rows("evaluations.jsonl")[0]

    def _rows(self, name: str) -> tuple[list[dict[str, Any]], int]:
        """Return the rows of a file with a line per step, and the number of its damaged lines."""
        rows: dict[int, dict[str, Any]] = {}
        damaged = 0
        for line in self.reader.lines(name, sealed=True):
            if line.problem:
                damaged += line.problem != INCOMPLETE
                continue
            try:
                rows[check_step(line.record.get("step"), rows)] = line.record
                _check_row(line.record, name == "metrics.jsonl")
            except ValueError as error:
                told = f"{self.path / name} is damaged: line {line.number}, {error}; restore it"
                raise ConfigError(told) from None
        if damaged and not rows:
            raise ConfigError(
                f"{self.path / name}: expected lines with a checksum; "
                "`plot` and `view` open runs of other versions"
            )
        return list(rows.values()), damaged

    def result(self, when: str) -> Returns | None:
        """Return the result "before" or "after" training, or of the agent "floor"; None if missing.

        Raises:
            ConfigError: the file is damaged, or another version wrote it.
        """
        file = self.path / f"{when}.json"
        content = self.reader.content(file.name)
        if content is None:
            return None
        try:
            values = parse(content)
            result = Summary(**values) if "score" in values else Returns(**values)
            _check_result(result)
            return result
        except ValueError as error:
            again = "delete it to play the held-out tasks again"
            remedy = again if when != "before" else "restore it, or choose another run name"
            raise ConfigError(f"{file} is damaged: {error}; {remedy}") from None
        except TypeError:
            raise ConfigError(
                f"{file} was written by another version; choose another run name"
            ) from None

    def write_result(self, when: str, result: Returns) -> None:
        """Write the held-out result "before" or "after" training, or of the agent "floor"."""
        self.writer.replace(f"{when}.json", json.dumps(asdict(result), indent=1) + "\n")

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
        """Return the time and the judge's cost so far, including steps that will be repeated.

        Costs that are unknown are left out.
        """
        rows = self.metrics()
        last = {"seconds_total": 0.0, **rows[-1]} if rows else dict.fromkeys(TOTALS, 0.0)
        totals = {name: last[name] for name in TOTALS if name in last}
        # totals in the heartbeat file are newer, and include steps that `truncate` removed
        with suppress(AttributeError, KeyError, OSError, TypeError, ValueError):
            beat = self.reader.object(HEARTBEAT)["totals"]
            newer = {name: beat[name] for name in TOTALS if is_finite(beat.get(name))}
            if "seconds_total" in newer:  # the file is not damaged
                totals = {name: max(value, totals.get(name, 0.0)) for name, value in newer.items()}
        return totals

    def duration(self) -> timedelta:
        """Return the time for which the job has run, evaluations included, in whole seconds."""
        return timedelta(seconds=round(self.totals()["seconds_total"]))

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
        for name in ("metrics.jsonl", "evaluations.jsonl"):
            if (self.path / name).exists():
                rows, damaged = self._rows(name)
                if damaged:
                    told.append(f"Damaged lines removed from {name}: {damaged}.")
                self.writer.replace_rows(name, (row for row in rows if row["step"] <= step))
        missing = sorted({*range(1, step + 1)} - {int(row["step"]) for row in self.metrics()})
        if missing:
            lacks = f"metrics.jsonl lacks {len(missing)} of {number_of(step, 'step')}"
            told.append(f"{lacks}; the first missing step is {missing[0]}.")
        return told

    def note(self, sentence: str) -> None:
        """Append a sentence to the journal, as one line without control characters."""
        title = f"# Journal of {self.path.name}\n\n"
        head = "" if (self.path / "journal.md").exists() else title
        entry = f"{datetime.now():%Y-%m-%d %H:%M:%S} {visible(' '.join(sentence.splitlines()))}"
        self.writer.append("journal.md", f"{head}- {entry}\n")


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


def _check_row(row: Mapping[str, Any], plain: bool) -> None:
    """Raise a ValueError if a value of a row is invalid; in a `plain` row, all are numbers."""
    check_figures({"reward": None, **row})  # None: a missing reward is invalid, too
    for name, value in row.items():
        if not is_finite(value):
            if plain:
                raise ValueError(f"{name}: expected a number, got {value!r:.40}")
            continue
        largest = _LONGEST_S if name.startswith("seconds_") else _LARGEST
        if abs(value) > largest:
            raise ValueError(f"{name}: expected at most {largest:g}, got {value:g}")
        if name == "tasks" and value <= 0:
            raise ValueError(f"{name}: expected a number > 0, got {value:g}")
