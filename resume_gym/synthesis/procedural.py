"""The procedural generator: a pure function from a seed and an index to a task.

A candidate is drawn, bullets of the content bank fill the jobs of the career, and a weakness
spoils some of them. A draft that breaks a rule of its size (see `Size`) is drawn again.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from resume_gym.document import wrapped_lines
from resume_gym.synthesis.candidates import TRAINEE, Candidate, Job, make_candidate
from resume_gym.synthesis.content import (
    LEVELS,
    Bullet,
    load_generic,
    load_padding,
    load_roles,
    load_verticals,
    senior_verbs,
    tell,
)
from resume_gym.synthesis.evidence import Deed, write_evidence
from resume_gym.synthesis.personas import stratum
from resume_gym.synthesis.weaknesses import OPENERS, deletion, disorder, suits, weaken
from resume_gym.synthesis.writing import long_job, long_resume, short_job, short_resume
from resume_gym.tasks import SPLITS, WEAKNESSES, Task

PAGE_WIDTH = 165
WEAK_SHARE = 0.6
SHORT = 14  # words of a bullet
ATTEMPTS = 500  # none of thousands of tasks took more than 60

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Size:
    """The rules of a size; ranges include both ends.

    Attributes:
        page_lines: lines of the page.
        lines: lines of a resume, wrapped.
        too_long: lines of a resume that has to be cut.
        bullets: bullets, good and weak.
        kept: the good bullets of a resume that has to be cut.
        sections: superfluous sections of a resume that has to be cut.
        general: bullets from the bank for any role to choose from, unless more are needed.
        jobs: jobs of a career.
        fixes: the least number of fixes; after so many of them the resume fits the page.
        job_words: words of the job description.
        brief: short bullets first, different verbs, the short documents of `writing`.
    """

    page_lines: int
    lines: Range
    too_long: Range
    bullets: Range
    kept: Range
    sections: Range
    general: int
    jobs: Range
    fixes: int
    job_words: Range
    brief: bool


SIZES = {
    "full": Size(
        page_lines=55,
        lines=(38, 53),
        too_long=(58, 68),
        bullets=(12, 14),
        kept=(8, 9),
        sections=(2, 3),
        general=3,
        jobs=(2, 3),
        fixes=8,
        job_words=(120, 180),
        brief=False,
    ),
    "mini": Size(
        page_lines=20,
        lines=(13, 19),
        too_long=(21, 23),
        bullets=(6, 7),
        kept=(4, 4),
        sections=(0, 1),
        general=1,
        jobs=(1, 2),
        fixes=4,
        job_words=(15, 44),
        brief=True,
    ),
}


class Plan(NamedTuple):
    """What a task shall be, before anything is drawn."""

    task_id: str
    weakness: str
    split: str
    size: Size


def generate_task(seed: int, index: int, split: str = "train", size: str = "full") -> Task:
    """Task number `index` of the endless sequence that `seed` gives.

    Weaknesses, roles, levels and verticals are balanced: each comes up once in every block of
    6, 19, 6 and 39 indexes.

    Args:
        seed: chooses the sequence.
        index: from 0; the weakness is number `index` modulo 6.
        split: train or eval; no name, company or bullet is in both.
        size: full (a page of 55 lines) or mini (20).

    Raises:
        ValueError: an unknown split or size, or a negative index.
    """
    if split not in SPLITS or size not in SIZES or index < 0:
        raise ValueError(
            f"expected a split of {SPLITS}, a size of {tuple(SIZES)} and an index from 0, "
            f"got {split!r}, {size!r}, {index!r}"
        )
    key = f"{size}-{split}-{seed}"
    plan = Plan(f"{key}-{index:06d}", WEAKNESSES[index % len(WEAKNESSES)], split, SIZES[size])
    role = stratum(load_roles(), f"{key}-role", index)
    level = stratum(range(len(LEVELS)), f"{key}-level", index)
    vertical = stratum(load_verticals(), f"{key}-vertical", index)
    for attempt in range(ATTEMPTS):
        rng = Random(f"{plan.task_id}-{attempt}")
        candidate = make_candidate(role, level, vertical, split, plan.size.jobs, rng)
        task = _draft(plan, candidate, rng)
        if task and is_sound(task, plan.size):
            return task
    raise AssertionError(f"the content bank is too small for {plan.task_id}")


def generate_tasks(
    seed: int, count: int, split: str = "train", size: str = "full"
) -> Iterator[Task]:
    """The first `count` tasks of a sequence."""
    return (generate_task(seed, index, split, size) for index in range(count))


def is_sound(task: Task, size: Size) -> bool:
    """Whether a task keeps the rules of its size and its fixes work in their order."""
    least, most = size.too_long if task.weakness == "too_long" else size.lines
    if not least <= wrapped_lines(task.resume, PAGE_WIDTH) <= most or _echoes(task.resume):
        return False
    if not size.job_words[0] <= len(task.job.split()) <= size.job_words[1]:
        return False
    text = task.resume
    for number, fix in enumerate(task.fixes, start=1):
        if text.count(fix.old) != 1:
            return False
        text = text.replace(fix.old, fix.new)
        if number >= size.fixes and wrapped_lines(text, PAGE_WIDTH) > size.page_lines:
            return False
    return len(task.fixes) >= size.fixes and not _echoes(text)


def _echoes(text: str) -> bool:
    """Whether two neighbouring bullets open with the same word."""
    return re.search(r"^[-*+] (\w+)\b.*\n[-*+] \1\b", text, re.MULTILINE) is not None


def _draft(plan: Plan, candidate: Candidate, rng: Random) -> Task | None:
    """A task that may still break a rule of its size; None if the bullets do not suffice."""
    deeds = _write_bullets(plan, candidate, rng)
    if deeds is None:
        return None
    wording = " ".join(deed.text for deed in deeds)
    extra = _pad(plan, candidate, rng) if plan.weakness == "too_long" else []
    fixes = [deletion("\n" + section) for section in extra]
    fixes += [fix for job in candidate.jobs for _, fix in job.bullets if fix]
    if plan.size.brief:
        resume, job = short_resume(candidate, extra), short_job(candidate, wording, rng)
    else:
        resume, job = long_resume(candidate, extra, rng), long_job(candidate, wording, rng)
    if plan.weakness == "formatting_inconsistent":
        bullets = sum(len(job.bullets) for job in candidate.jobs)
        resume, fixes = disorder(resume, round(WEAK_SHARE * bullets), rng)
    return Task(
        task_id=plan.task_id,
        job=job,
        resume=resume,
        weakness=plan.weakness,
        split=plan.split,
        fixes=tuple(fixes),
        persona=candidate.persona,
        evidence=write_evidence(candidate, deeds, Random(f"{plan.task_id}-evidence")),
    )


def _write_bullets(plan: Plan, candidate: Candidate, rng: Random) -> list[Deed] | None:
    """Give each job its bullets, the oldest first, who can claim least.

    Returns:
        What all of them tell; None if too few bullets are left for a job.
    """
    total = rng.randint(*(plan.size.kept if plan.weakness == "too_long" else plan.size.bullets))
    chosen = _choose(plan, candidate, total, rng)
    openers = rng.sample(OPENERS, total)
    deeds = []
    shares = _shares(total, candidate.jobs)
    for job, share in zip(reversed(candidate.jobs), reversed(shares), strict=True):
        able = [pair for pair in chosen if _can_claim(job, pair[0])][:share]
        if len(able) < share:
            return None
        for bullet, weak in able:
            chosen.remove((bullet, weak))
            story = tell(bullet, job.vertical.words, rng)
            deeds.append(Deed(job, story.strong, weak))
            if weak:
                deed = story.strong[0].lower() + story.strong[1:]
                record = f"At {job.company}, {candidate.first_name} {deed}."
                job.bullets.append(weaken(story, plan.weakness, openers.pop(), record))
            else:
                job.bullets.append((story.strong, None))
    return deeds


def _can_claim(job: Job, bullet: Bullet) -> bool:
    """Whether the bullet suits the level of the job; trainees do not even sound senior."""
    if job.level == TRAINEE:
        return bullet.verb not in senior_verbs()
    return bullet.level <= job.level


def _choose(plan: Plan, candidate: Candidate, total: int, rng: Random) -> list[tuple[Bullet, bool]]:
    """Up to `total` bullets for a candidate, in any order; True marks the weak ones."""
    size = plan.size
    whole_text = plan.weakness in ("too_long", "formatting_inconsistent")
    weak = 0 if whole_text else max(size.fixes, round(WEAK_SHARE * total))
    special, general = (
        [
            bullet
            for bullet in bank
            if bullet.split == plan.split and bullet.level <= candidate.level
        ]
        for bank in (candidate.role.bullets, load_generic())
    )
    spare = total + 2 - len(special)  # of beginners, some roles know too few bullets of their own
    pool = special + rng.sample(general, max(size.general, spare))
    rng.shuffle(pool)
    pool.sort(key=lambda bullet: size.brief and bullet.words > SHORT)
    picked: list[Bullet] = []
    for wanted in (weak, total):
        for bullet in pool:
            fresh = [other.verb for other in picked].count(bullet.verb) < (1 if size.brief else 2)
            fits = wanted == total or suits(bullet, plan.weakness)
            if len(picked) < wanted and bullet not in picked and fresh and fits:
                picked.append(bullet)
    marked = [(bullet, place < weak) for place, bullet in enumerate(picked)]
    return rng.sample(marked, len(marked))


def _shares(total: int, jobs: Sequence[Job]) -> list[int]:
    """Bullets for each job: most for the present one, few for a trainee."""
    if len(jobs) == 1:
        return [total]
    oldest = round(total * (0.2 if jobs[-1].level == TRAINEE else 0.4 if len(jobs) == 2 else 0.25))
    middle = [round(total * 0.3)] * (len(jobs) - 2)
    return [total - sum(middle) - oldest, *middle, oldest]


def _pad(plan: Plan, candidate: Candidate, rng: Random) -> list[str]:
    """Put padding between the good bullets, and return the superfluous sections."""
    bullets, sections = load_padding(plan.split)
    extra = rng.sample(sections, rng.randint(*plan.size.sections))
    kept = sum(len(job.bullets) for job in candidate.jobs)
    padding = round(kept * WEAK_SHARE / (1 - WEAK_SHARE))
    if plan.size.brief:  # a section is two lines and takes the place of two bullets
        extra = ["\n".join(section.replace("\n\n", "\n").split("\n")[:2]) for section in extra]
        padding -= 2 * len(extra)
    for text in rng.sample(bullets, padding):
        job = rng.choice(candidate.jobs)
        job.bullets.insert(rng.randint(0, len(job.bullets)), (text, deletion(f"- {text}")))
    return extra
