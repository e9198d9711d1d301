"""Detectors of problems in a set of tasks, with their thresholds; `check` runs all detectors."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from resume_gym.corpus.duplicates import SimilarPair, bare, bare_resume, near_duplicates
from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.editing import Rules
from resume_gym.episode.rewards import WEAKNESS_METRIC
from resume_gym.episode.tasks import SPLITS, WEAKNESSES, Fix, Task
from resume_gym.judges import Judge, JudgeRefused
from resume_gym.text.languages import is_english
from resume_gym.text.lines import Line, Number, parse, plain, read

NEAR_LIMIT = 0.05
"""Maximum share of near-duplicate resumes in a split, and of eval's bullets that are in train."""
BULLET_WORDS = 5
"""Bullets of fewer words are not compared, since train and eval may share them by chance."""
_WIDTH = Rules().page_width
_ASIDE = ("language", "reference")  # sections whose lines recur in many resumes
_NAMED = re.compile(rf"(?<![a-z])(?:{'|'.join(WEAKNESSES)})(?![a-z])", re.IGNORECASE)
_EXAMPLES = 5


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of problem and its occurrences.

    Attributes:
        severity: "error" if the problem makes the tasks unfit for training, else "warning".
        kind: stable identifier, for programs.
        count: number of tasks, rows or texts affected.
        text: description of the affected tasks, rows or texts, in the plural.
        examples: some of the affected tasks or texts, or all invalid rows.
    """

    severity: Severity
    kind: str
    count: int
    text: str
    examples: tuple[str, ...] = ()

    @property
    def shown(self) -> list[str]:
        """The examples, and a line such as "and 7 more" if there are other occurrences."""
        more = self.count - len(self.examples)
        return [*self.examples, *([f"and {more} more"] if more and self.examples else [])]


def blank_texts(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Find tasks with a blank ID, job or resume."""
    places = [(task, name) for task in tasks for name in ("task_id", "job", "resume")]
    blank = [f"{x.task_id!r}: {name}" for x, name in places if not getattr(x, name).strip()]
    yield from _finding("error", "blank", blank, "blank values of task_id, job or resume")


def unfit_pages(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Find tasks whose resume the rubric judge cannot grade: no bullets, or not in English."""
    blank = [task.task_id for task in tasks if not any(_bullet_lines(task.resume))]
    text = "tasks not fit for the rubric judge: the resume has no bullets"
    yield from _finding("error", "no_bullets", blank, text)
    foreign = [task.task_id for task in tasks if not is_english(task.resume)]
    text = "tasks not fit for the rubric judge: the resume is not in English"
    yield from _finding("error", "not_english", foreign, text)


def named_weaknesses(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Find tasks whose job, resume or evidence contains the name of a weakness."""
    matches = []
    for task in tasks:
        documents = (text for document in task.evidence for text in (document.title, document.text))
        if match := _NAMED.search("\n".join((task.job, task.resume, *documents))):
            matches.append(f"{task.task_id}: {match[0]}")
    text = "tasks with the name of a weakness in job, resume or evidence"
    yield from _finding("error", "named_weakness", matches, text)


def similar_texts(tasks: Sequence[Task], threshold: float) -> Iterator[Finding]:
    """Find repeated tasks, similar resumes within a split, and similar texts across splits."""
    resumes = {task.task_id: bare_resume(task.resume, _names(task)) for task in tasks}
    jobs = {task.task_id: bare(task.job) for task in tasks}
    first: dict[tuple[str, str], str] = {}
    owners = {key: first.setdefault((resumes[key], jobs[key]), key) for key in resumes}
    again = [f"{key} and {owner}" for key, owner in owners.items() if owner != key]
    yield from _finding("error", "same_task", again, "tasks with job and resume of an earlier task")
    # Compare equal resumes only once, since an import may pair one resume with many jobs.
    once: dict[tuple[str, str], Task] = {}
    for task in tasks:
        once.setdefault((task.split, task.resume), task)
    repeated = [task.task_id for task in tasks if once[task.split, task.resume] is not task]
    text = "tasks with exactly the same resume as an earlier task of their split"
    yield from _finding("warning", "repeated_resume", repeated, text)
    parts = [[task for task in once.values() if task.split == split] for split in SPLITS]
    train, held_out = ({task.task_id: resumes[task.task_id] for task in part} for part in parts)
    within, leaked = near_duplicates(train, held_out, threshold)
    for split, near, size in (
        ("train", within, len(train)),
        ("eval", near_duplicates(held_out, {}, threshold)[0], len(held_out)),
    ):
        text = f"near-duplicates of an earlier resume, among {size} resumes of {split} "
        text += f"(more than {NEAR_LIMIT:.0%} is an error)"
        severity: Severity = "error" if len(near) > NEAR_LIMIT * size else "warning"
        yield from _finding(severity, f"near_resume_{split}", _pairs(near), text)
    text = "resumes of eval that are near-duplicates of a resume of train"
    yield from _finding("error", "leaked_resume", _pairs(leaked), text)
    # An import may use one job in both splits, so similar jobs are only a warning.
    parts = [[task for task in tasks if task.split == split] for split in SPLITS]
    train, held_out = ({task.task_id: jobs[task.task_id] for task in part} for part in parts)
    leaked = near_duplicates(train, held_out, threshold)[1]
    text = "jobs of eval that are near-duplicates of a job of train"
    yield from _finding("warning", "leaked_job", _pairs(leaked), text)


def _names(task: Task) -> list[str]:
    """Return the names of candidate and employer that a task's persona contains."""
    found = (task.persona.get(key) for key in ("name", "company"))
    return [name for name in found if isinstance(name, str)]


def _pairs(pairs: Sequence[SimilarPair]) -> list[str]:
    ordered = sorted(pairs, key=lambda pair: -pair.similarity)
    return [f"{p.task_id} and {p.other_id} ({p.similarity:.2f})" for p in ordered]


def shared_bullets(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Find bullets in both splits; a share of eval's bullets above `NEAR_LIMIT` is an error."""
    owners: dict[str, dict[str, str]] = {split: {} for split in SPLITS}
    for task in tasks:
        for text in _bullets(task):
            owners[task.split].setdefault(text, task.task_id)
    train, evaluation = owners["train"], owners["eval"]
    both = sorted(train.keys() & evaluation.keys())
    shown = [f'"{text}" in {train[text]} and {evaluation[text]}' for text in both]
    text = f"bullets that are also in train, among {len(evaluation)} bullets of eval with at least "
    text += f"{BULLET_WORDS} words (more than {NEAR_LIMIT:.0%} is an error)"
    severity: Severity = "error" if len(both) > NEAR_LIMIT * len(evaluation) else "warning"
    yield from _finding(severity, "shared_bullet", shown, text)


def _bullets(task: Task) -> set[str]:
    """Return the normalized bullets to compare, from a task's resume before and after its fixes."""
    texts = (task.resume, apply(task)[0])
    lines = [line for text in texts for line in _bullet_lines(text)]
    bullets = (bare(line.body) for line in lines if not any(w in line.section for w in _ASIDE))
    return {text for text in bullets if text.count(" ") >= BULLET_WORDS - 1}


def _bullet_lines(resume: str) -> Iterator[Line]:
    return (line for line in parse(resume) if line.kind == "bullet")


def page_fit(tasks: Sequence[Task], page_lines: int) -> Iterator[Finding]:
    """Find tasks with the weakness too_long that fit the page, and other tasks that overflow it."""
    long, short = list[str](), list[str]()
    for task in tasks:
        lines, planted = wrapped_lines(task.resume, _WIDTH), task.weakness == "too_long"
        if planted != (lines > page_lines):
            (short if planted else long).append(f"{task.task_id}: {lines}")
    yield from _finding("error", "fits", short, f"too_long tasks with at most {page_lines} lines")
    text = f"tasks with more than {page_lines} lines and a weakness other than too_long"
    yield from _finding("error", "overflows", long, text)


def broken_fixes(tasks: Sequence[Task], page_lines: int) -> Iterator[Finding]:
    """Find tasks whose fixes are missing, fail, change nothing or leave the resume too long."""
    broken, long, none, idle = [], [], [], []
    for task in tasks:
        same = [n for n, fix in enumerate(task.fixes) if fix.old == fix.new]
        idle += [f"{task.task_id}: fixes[{n}]: {task.fixes[n].old[:60]!r}" for n in same]
        text, problem = apply(task)
        lines = wrapped_lines(text, _WIDTH)
        if problem:
            broken.append(f"{task.task_id}: {problem}")
        elif not task.fixes:
            none.append(task.task_id)
        elif lines > page_lines:
            long.append(f"{task.task_id}: {lines}")
    yield from _finding("error", "fix", broken, "tasks whose fixes cannot all be applied in order")
    yield from _finding("error", "no_op_fix", idle, "fixes that change nothing")
    text = f"tasks with more than {page_lines} lines even after all fixes"
    yield from _finding("error", "fixed_overflows", long, text)
    yield from _finding(
        "warning", "no_fixes", none, "tasks without fixes, in which the oracle agent only submits"
    )


def apply(task: Task) -> tuple[str, str]:
    """Apply all fixes; return the resume, and a message about the first failed fix ("" if none)."""
    text, problem = task.resume, ""
    for number, fix in enumerate(task.fixes):
        count = text.count(fix.old) if fix.old else 0
        if count == 1:
            text = text.replace(fix.old, fix.new)
        elif not problem:
            problem = f"fixes[{number}].old: expected once, found {count} times: {fix.old[:60]!r}"
    return text, problem


def idle_repairs(tasks: Sequence[Task], judge: Judge) -> Iterator[Finding]:
    """Find tasks whose fixes do not improve the metric of the task's weakness."""
    idle, repaired = [], 0
    for task in tasks:
        text, problem = apply(task)
        if problem or text == task.resume:
            continue
        try:
            verdict = judge.judge(task, text)
        except JudgeRefused:
            continue  # the resume is too long for the judge
        repaired += 1
        metric = WEAKNESS_METRIC[task.weakness]
        if getattr(verdict, metric) != 1:
            idle.append(f"{task.task_id}: {task.weakness}, {metric}")
    text = "tasks whose fixes do not improve the rubric judge's grade for their weakness"
    yield from _finding("warning", "idle_repair", idle, f"{text}, among {repaired} graded tasks")


def ungrounded_figures(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Find tasks whose fixes add figures that their evidence does not contain."""
    invented, hidden, silent = list[str](), list[str](), list[str]()
    for task in tasks:
        added = [(number, fix) for fix in task.fixes for number in _added(fix)]
        evidence = task.evidence if added else ()
        # Only values are compared, not units: the evidence may write "8 screens" as "8 of them".
        values = {number.value for document in evidence for number in _figures(document.text)}
        unseen = [(number, fix) for number, fix in added if number.value not in values]
        unknown = [
            number
            for number, fix in unseen
            if not _backed(number, [n for fact in fix.facts for n in _figures(fact)])
        ]
        if unseen:
            group = invented if unknown else hidden if task.evidence else silent
            quotes = (number.quote for number in unknown or [number for number, _ in unseen])
            group.append(f"{task.task_id}: {', '.join(quotes)}")
    text = "tasks whose fixes add figures that are neither in the facts nor in the evidence"
    yield from _finding("error", "invented_figure", invented, text)
    text = "tasks whose fixes add figures that are in the facts but not in the evidence"
    yield from _finding("error", "evidence_figure", hidden, text)
    text = "tasks without evidence whose fixes add figures, which no agent can know"
    yield from _finding("warning", "no_evidence", silent, text)


def _figures(text: str) -> list[Number]:
    lines = [line for line in text.split("\n") if any(map(str.isdigit, line))]
    return [number for line in lines for number in read(plain(line)).figures]


def _added(fix: Fix) -> list[Number]:
    """Return the figures that a fix adds."""
    known = _figures(fix.old)
    return [number for number in _figures(fix.new) if not _backed(number, known)]


def _backed(number: Number, known: Sequence[Number]) -> bool:
    return any(other.backs(number) for other in known)


def _finding(
    severity: Severity, kind: str, occurrences: Sequence[str], text: str
) -> Iterator[Finding]:
    """Yield a finding if there are occurrences."""
    if occurrences:
        yield Finding(severity, kind, len(occurrences), text, tuple(occurrences[:_EXAMPLES]))
