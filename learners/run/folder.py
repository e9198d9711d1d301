"""The folder of a run: everything that is kept on disk, and how a resumed run finds it again."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from learners.config import Config, ConfigError, differences, read_toml, to_toml
from learners.rollouts.trajectories import Trajectories
from learners.training.checkpoint import write_text
from resume_gym.evaluation import Returns, Summary

Metrics = Mapping[str, float]
"""Metrics of one step, including `step`."""

# settings that may change on resume: they affect where and how fast a run computes, not its result
_CHANGEABLE = {
    *("name", "runs", "threads", "trainer_procs", "replicas", "offload", "async_save"),
    *("engine_urls", "engine_procs", "engine_gpus", "timeout_s", "log_to"),
}


class RunFolder:
    """Files of a run.

    | path | content |
    |---|---|
    | `config.toml` | the configuration |
    | `metrics.jsonl` | metrics, one line per step |
    | `evaluations.jsonl` | evaluations during training, one per line |
    | `before.json`, `after.json` | held-out results before and after training |
    | `facts.json` | base model, tasks, judge and package versions, for the model card |
    | `journal.md` | milestones, warnings and restarts, with their time |
    | `trajectories/` | one file per step, one line per episode |
    | `checkpoints/`, `logs/` | training state; output of the engine servers |

    Args:
        path: the folder; created if missing.

    Attributes:
        checkpoints: folder of the checkpoints.
        logs: folder of the server logs.
        trajectories: the stored episodes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.logs = path / "logs"
        self.trajectories = Trajectories(path / "trajectories")
        self._metrics = path / "metrics.jsonl"
        self._evaluations = path / "evaluations.jsonl"

    def configure(self, config: Config) -> None:
        """Write the configuration, or check it against that of the run to resume.

        Raises:
            ConfigError: a setting that affects the result has changed. `steps` may increase, unless
                the learning rate decays over them.
        """
        file = self.path / "config.toml"
        changed = differences(read_toml(file), config) if file.exists() else {}
        longer = config.learning_rate_schedule == "constant"
        conflicts = [
            f"{name} was {before!r}, is {now!r}"
            for name, (before, now) in changed.items()
            if name not in _CHANGEABLE and not (name == "steps" and now > before and longer)
        ]
        if conflicts:
            raise ConfigError(
                f"{self.path} holds another run: {', '.join(conflicts)}; choose another name"
            )
        write_text(file, to_toml(config))

    def append(self, metrics: Metrics) -> None:
        """Append the metrics of a step.

        Raises:
            ValueError: a value is not finite; nothing is written.
        """
        wrong = [
            f"{name} is {value}" for name, value in metrics.items() if not math.isfinite(value)
        ]
        if wrong:
            raise ValueError(
                f"step {metrics['step']:.0f}: expected finite metrics, {', '.join(wrong)}"
            )
        _append_line(self._metrics, metrics)

    def append_evaluation(self, evaluation: Mapping[str, Any]) -> None:
        """Append an evaluation; it includes `step`."""
        _append_line(self._evaluations, evaluation)

    def metrics(self) -> list[dict[str, float]]:
        """Return the metrics of all steps, oldest first."""
        return _read_lines(self._metrics)

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the evaluations, in the order in which they ended."""
        return _read_lines(self._evaluations)

    def result(self, when: str) -> Returns | None:
        """Return the held-out result "before" or "after" training, or None if there is none.

        Raises:
            ConfigError: another version wrote the file.
        """
        file = self.path / f"{when}.json"
        if not file.exists():
            return None
        values = json.loads(file.read_text())
        try:
            return Summary(**values) if "score" in values else Returns(**values)
        except TypeError:
            raise ConfigError(
                f"{file} was written by another version; choose another name"
            ) from None

    def write_result(self, when: str, result: Returns) -> None:
        """Write the held-out result "before" or "after" training."""
        write_text(self.path / f"{when}.json", json.dumps(asdict(result), indent=1) + "\n")

    def set_aside(self, step: int) -> None:
        """Rename `after.json` after its last step, because the run continues."""
        file = self.path / "after.json"
        if file.exists():
            file.rename(self.path / f"after-{step:06d}.json")

    def truncate(self, step: int) -> None:
        """Remove metrics and evaluations of later steps; their trajectories are kept."""
        for file in (self._metrics, self._evaluations):
            if file.exists():
                lines = [json.dumps(row) + "\n" for row in _read_lines(file) if row["step"] <= step]
                write_text(file, "".join(lines))

    def note(self, sentence: str) -> None:
        """Append a sentence to the journal."""
        file = self.path / "journal.md"
        title = "" if file.exists() else f"# Journal of {self.path.name}\n\n"
        with file.open("a", encoding="utf-8") as journal:
            journal.write(f"{title}- {datetime.now():%Y-%m-%d %H:%M:%S} {sentence}\n")


def _append_line(file: Path, row: Mapping[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(dict(row)) + "\n")


def _read_lines(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    # a process that is killed while it writes leaves an incomplete last line, which is dropped
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
