"""Drift detection: judge frozen pairs again and compare the verdicts.

A hosted model may change without notice, and with it the meaning of a reward. `freeze` writes
pairs and verdicts to a file; `drift` judges the same pairs again and lists the changes. The
verdicts of a sampling judge also vary by chance: set the limit above the variation that
`resume-gym judge calibrate --repeats 2` reports.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from resume_gym.judges import AsyncJudge, JudgeError, JudgeUnavailable
from resume_gym.judges.audit.calibration import PairResult, ask
from resume_gym.judges.audit.pairs import LabelledPair
from resume_gym.rewards import VERDICT_FIELDS, Verdict
from resume_gym.tasks import Task, TaskError


class DriftError(JudgeError):
    """A judge's verdicts have drifted from the frozen ones."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """Stored verdicts of a judge.

    Attributes:
        judge: name of the judge.
        served: model version that answered; empty if the judge does not report it.
        date: date of the verdicts in ISO 8601 format, such as 2026-01-31.
        pairs: the pairs; their labels are the judge's verdicts.
    """

    judge: str
    served: str
    date: str
    pairs: tuple[LabelledPair, ...]


@dataclass(frozen=True, slots=True)
class Drift:
    """Comparison of a judge's verdicts with the frozen ones.

    Attributes:
        fields: number of verdict fields compared.
        changed: for each change the pair's id, the field, the old and the new value.
        failures: error type by id of the pairs that now have no verdict and are not compared.
        stored: number of cached answers used instead of a request.
    """

    fields: int
    changed: tuple[tuple[str, str, int, int], ...]
    failures: Mapping[str, str]
    stored: int = 0

    @property
    def share(self) -> float:
        """Share of the compared fields that changed."""
        return len(self.changed) / self.fields


async def freeze(judge: AsyncJudge, pairs: Sequence[LabelledPair], path: Path) -> Mapping[str, str]:
    """Judge pairs and write them with their verdicts to a file.

    Returns:
        The error type by id of the pairs without a verdict, which are not written.

    Raises:
        JudgeUnavailable: no pair received a verdict.
    """
    answers = await ask(judge, pairs)
    answered = _answered(answers)
    tasks = {answer.pair.task.task_id: answer.pair.task.to_row() for answer in answered}
    rows = [
        {
            "id": answer.pair.pair_id,
            "task_id": answer.pair.task.task_id,
            "revised": answer.pair.revised,
            "verdict": answer.fields,
        }
        for answer in answered
    ]
    served = str(getattr(judge, "served", ""))
    head = {"judge": judge.name, "served": served, "date": _today().isoformat()}
    text = json.dumps({**head, "tasks": tasks, "pairs": rows}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return _failures(answers)


async def drift(judge: AsyncJudge, frozen: Frozen) -> Drift:
    """Judge frozen pairs again and compare the verdicts.

    Raises:
        JudgeUnavailable: no pair received a verdict.
    """
    # A new draw each day, since cached answers of an earlier day would hide a change.
    before = _stored(judge)
    answers = await ask(judge, frozen.pairs, draw=_today().toordinal())
    answered = _answered(answers)
    changed = tuple(
        (answer.pair.pair_id, field, answer.pair.labels[field], answer.fields[field])
        for answer in answered
        for field in VERDICT_FIELDS
        if answer.fields and answer.fields[field] != answer.pair.labels[field]
    )
    return Drift(
        len(answered) * len(VERDICT_FIELDS), changed, _failures(answers), _stored(judge) - before
    )


def load_frozen(path: Path) -> Frozen:
    """Load a file of `freeze`.

    Raises:
        TaskError: the file was not written by `freeze`.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        tasks = {name: Task.from_row(row) for name, row in content["tasks"].items()}
        pairs = tuple(_pair(row, tasks) for row in content["pairs"])
        return Frozen(content["judge"], content["served"], content["date"], pairs)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as problem:
        kind = type(problem).__name__
        raise TaskError(f"{path}: expected a file of --freeze ({kind}: {problem})") from None


def _pair(row: Mapping[str, Any], tasks: Mapping[str, Task]) -> LabelledPair:
    verdict = {field: row["verdict"][field] for field in VERDICT_FIELDS}
    Verdict(**verdict)  # validates the values
    return LabelledPair(row["id"], tasks[row["task_id"]], row["revised"], "frozen", "", verdict)


def _answered(answers: Sequence[PairResult]) -> list[PairResult]:
    answered = [answer for answer in answers if answer.fields is not None]
    if not answered:
        kinds = ", ".join(sorted(set(_failures(answers).values())))
        raise JudgeUnavailable(f"no verdict on any of {len(answers)} pairs: {kinds}")
    return answered


def _failures(answers: Sequence[PairResult]) -> dict[str, str]:
    return {answer.pair.pair_id: answer.failure for answer in answers if answer.failure}


def _stored(judge: AsyncJudge) -> int:
    usage = getattr(judge, "usage", None)
    return usage.stored if usage else 0


def _today() -> date:
    return datetime.now(UTC).date()
