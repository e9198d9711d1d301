"""Omission tasks: a clause or a bullet with a figure is deleted from a generated resume.

In every second task, the evidence keeps the figure, and a rubric item rewards a revision that
restores the figure. In the other tasks, the figure is also removed from the evidence, and a rubric
item penalizes a revision that states the figure anyway.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

from resume_gym.episode.tasks import Evidence, Item, Task
from resume_gym.judges.rubric import RubricJudge
from resume_gym.synthesis.procedural import generate_task, load_with
from resume_gym.text.items import grade_items

WEIGHT = 1.0
_FIGURE = r"(\$?\d[\d.,]*\d|\d)[KM%]?\b"
_LAST_CLAUSE = re.compile(rf"^([-*+] .*\w), [^,\n]*?{_FIGURE}[^,\n]*$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z])")


def omit(task: Task, kept: bool, rng: Random) -> Task | None:
    """Remove a clause with a figure, or the whole bullet, from a resume.

    Args:
        task: a task with evidence.
        kept: whether to keep the figure in the evidence.
        rng: random generator.

    Returns:
        The changed task, with a rubric item for the figure; None if the resume has no figure that
        can be removed, that the evidence states, and that the judge would reward.
    """
    found = list(_LAST_CLAUSE.finditer(task.resume))
    for match in rng.sample(found, len(found)):
        line, figure = match[0], match[2]
        if any(fix.old in line or line in fix.old for fix in task.fixes):
            continue
        rest = match[1] if rng.random() < 0.5 else ""
        resume = task.resume.replace(line if rest else f"{line}\n", rest, 1)
        item = Item(figure, WEIGHT, "figure")
        made = replace(task, resume=resume, rubric=(*task.rubric, item))
        verdict = RubricJudge().judge(made, task.resume)
        if grade_items(made, task.resume, verdict).items[figure] <= 0 or verdict.hallucination < 0:
            continue
        if kept:
            return made
        evidence = tuple(_without(figure, document) for document in task.evidence)
        rubric = (*task.rubric, replace(item, weight=-WEIGHT))
        return replace(made, evidence=evidence, rubric=rubric)
    return None


def _without(figure: str, document: Evidence) -> Evidence:
    """Return a document without the sentences that contain `figure`."""
    states = re.compile(rf"(?<![\d.,]){re.escape(figure)}(?!\d)")
    lines = [
        " ".join(one for one in _SENTENCE.split(line) if not states.search(one))
        for line in document.text.split("\n")
    ]
    return replace(document, text="\n".join(lines))


@cache
def _omitted(seed: int, number: int, split: str, size: str) -> Task:
    """Return omission task `number`; skip generated tasks without a removable figure."""
    for attempt in range(1000):
        task = generate_task(seed, 1000 * number + attempt, split, size)
        rng = Random(f"{task.task_id}-omission")
        if made := omit(task, number % 2 == 0, rng):
            return replace(made, task_id=f"{task.task_id}-omission")
    raise AssertionError(f"no {size} task of seed {seed} and split {split} has a removable figure")


def load(source: str, split: str | None = None) -> Iterator[Task]:
    """Return an iterator over the tasks of "omission:SEED:COUNT" or "omission-mini:SEED:COUNT".

    Args:
        source: source of the tasks; COUNT is the number of tasks per split.
        split: split of the tasks; None selects both splits.
    """
    return load_with(_omitted, source, split)
