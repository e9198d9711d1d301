"""Measure the amount of work in a task without playing it.

The measures describe a task; they do not predict rewards. On the bundled tasks, they rank the
rewards of the scripted agents only as well as the weakness does (shortening is hard for `random`
and easy for `careful`). Among tasks of one weakness, no correlation holds for both task sets and
all agents. Hence there is no single score.
"""

import math
from typing import NamedTuple

from resume_gym.document import wrapped_lines
from resume_gym.tasks import Task
from resume_gym.text.reference import Reference, make_reference

PAGE_LINES = 55
PAGE_WIDTH = 165


class Difficulty(NamedTuple):
    """Measures of the work in a task.

    Attributes:
        weak_bullets: number of bullets that a fix rewrites.
        lines_over: number of wrapped lines beyond the page.
        distractors: number of dispensable lines: deleted by a fix, or without a figure, a name or
            a connection to the job (see `Reference.spare`).
        job_distance: share of the job description's word stems, weighted by rarity, that the
            resume lacks; in [0, 1].
    """

    weak_bullets: int
    lines_over: int
    distractors: int
    job_distance: float


def difficulty(
    task: Task, page_lines: int = PAGE_LINES, page_width: int = PAGE_WIDTH
) -> Difficulty:
    """Measure the difficulty of a task.

    Args:
        task: the task; only its texts and fixes matter.
        page_lines: lines per page.
        page_width: characters per line.
    """
    reference = make_reference(task)
    return Difficulty(
        weak_bullets=_weak_bullets(task, reference),
        lines_over=max(0, wrapped_lines(task.resume, page_width) - page_lines),
        distractors=len(reference.spare),
        job_distance=_job_distance(reference),
    )


def _weak_bullets(task: Task, reference: Reference) -> int:
    rewritten = [fix.old.strip() for fix in task.fixes if fix.new.strip()]
    bullets = [line.raw for line in reference.lines if line.kind == "bullet"]
    return sum(any(old in raw for old in rewritten) for raw in bullets)


def _job_distance(reference: Reference) -> float:
    weights = reference.job_weights
    shown = {stem for line in reference.lines for stem in line.content.stems}
    whole = math.fsum(weights.values())
    if not whole:
        return 1.0  # No resume matches a job description without significant words.
    return 1.0 - math.fsum(weight for stem, weight in weights.items() if stem in shown) / whole
