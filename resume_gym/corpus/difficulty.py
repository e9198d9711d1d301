"""What there is to do in a task, in figures that can be had without playing it.

They describe and do not predict. On the bundled tasks they rank the rewards of the scripted
agents only as the weakness does (to shorten is hard for `random` and easy for `careful`); among
tasks of one weakness no correlation holds for both sets and all agents. So there is no single
score.
"""

import math
from typing import NamedTuple

from resume_gym.document import wrapped_lines
from resume_gym.judges.reference import Reference, make_reference
from resume_gym.tasks import Task

PAGE_LINES = 55
PAGE_WIDTH = 165


class Difficulty(NamedTuple):
    """How much there is to do.

    Attributes:
        weak_bullets: bullets of the resume that a fix rewrites.
        lines_over: lines after wrapping that do not fit the page.
        distractors: lines that a page can spare: those that a fix deletes, and others without
            figure, name or tie to the job (see `Reference.spare`).
        job_distance: share of the job description's words, weighted by how rare they are, that
            the resume does not have in any form; in [0, 1].
    """

    weak_bullets: int
    lines_over: int
    distractors: int
    job_distance: float


def difficulty(
    task: Task, page_lines: int = PAGE_LINES, page_width: int = PAGE_WIDTH
) -> Difficulty:
    """The difficulty of a task.

    Args:
        task: only its texts and its fixes count.
        page_lines: lines of the page.
        page_width: characters of a line.
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
    told = {stem for line in reference.lines for stem in line.content.stems}
    whole = math.fsum(weights.values())
    if not whole:
        return 1.0  # a job description without a word that counts is told by nothing
    # an exact sum, since the order of a set changes from process to process
    return 1.0 - math.fsum(weight for stem, weight in weights.items() if stem in told) / whole
