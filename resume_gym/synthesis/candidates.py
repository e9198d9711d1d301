"""Candidates: a person of a role, a level and a vertical, with a career that fits together."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from resume_gym.synthesis.content import (
    LEVELS,
    Role,
    Vertical,
    load_frames,
    load_people,
    load_roles,
    load_verticals,
)
from resume_gym.tasks import Fix

NOW = 2026 * 12 + 2  # March 2026, the month in which every resume was written
TRAINEE = -1
EXPERIENCE = {TRAINEE: 0, 0: 0, 1: 2, 2: 5, 3: 8, 4: 8, 5: 11}  # years since the degree, at least
STEP_UP = 0.35  # how often somebody applies for the next level
GAP = 0.2  # how often a career has a gap
LONG = 6  # months without a job that a resume explains
CHANGE = 0.12  # how often it began in another role


@dataclass(slots=True)
class Job:
    """One job of a career.

    Attributes:
        title: as on the resume.
        role: whose deeds it holds.
        level: an index of `LEVELS`, or TRAINEE.
        company: the employer.
        city: where.
        start: a month, counted from year 0.
        end: the month after the last; `NOW` for the present job.
        vertical: of the company; its words fill the deeds.
        bullets: as written, each with the fixes that it needs, in order.
        note: a line below the head of the job; empty for none.
        gap: what the candidate did between the job before and this one, if that was long.
    """

    title: str
    role: Role
    level: int
    company: str
    city: str
    start: int
    end: int
    vertical: Vertical
    bullets: list[tuple[str, tuple[Fix, ...]]] = field(default_factory=list)
    note: str = ""
    gap: str = ""


@dataclass(slots=True)
class Candidate:
    """Who a resume is of, with the job that it is for; `jobs` from the present one back."""

    role: Role
    level: int
    vertical: Vertical
    first_name: str
    last_name: str
    contact: str
    degree: str
    education: str
    jobs: Sequence[Job]
    wanted_title: str
    wanted_company: str
    wanted_level: int

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first_name} {self.last_name}"

    @property
    def persona(self) -> dict[str, str]:
        """What a task says of the candidate."""
        return {
            "role": self.role.key,
            "level": LEVELS[self.level],
            "vertical": self.vertical.name,
            "name": self.name,
            "company": self.jobs[0].company,
        }


def make_candidate(
    role: Role, level: int, vertical: Vertical, split: str, jobs: tuple[int, int], rng: Random
) -> Candidate:
    """Somebody of this role, level and vertical; `jobs` is the range of the number of jobs."""
    people = load_people(split)
    first, last = rng.choice(people.first), rng.choice(people.last)
    employer, wanted = rng.sample(vertical.companies[split], 2)
    count = _count(level, jobs, rng)
    career = _career(role, level, _employers(vertical, employer, count, split, rng), rng)
    for job, before in pairwise(career):
        if job.start - before.end >= LONG:
            job.gap = rng.choice(load_frames(split)["gap"])
    home = rng.choice(people.cities)
    for job in career:
        job.city = home if job is career[0] or rng.random() < 0.5 else rng.choice(people.cities)
    mail = f"{first}.{last}@{rng.choice(people.domains)}".lower()
    graduated = career[-1].start // 12 - EXPERIENCE[career[-1].level] - rng.randint(0, 1)
    degree = rng.choice(people.degrees[role.key])
    next_level = level + (level < len(LEVELS) - 1 and rng.random() < STEP_UP)
    return Candidate(
        role=role,
        level=level,
        vertical=vertical,
        first_name=first,
        last_name=last,
        contact=f"{home} | {mail} | 555-01{rng.randrange(100):02d}",
        degree=degree,
        education=f"{degree}, {rng.choice(people.schools)}, {graduated}",
        jobs=career,
        wanted_title=role.titles[next_level],
        wanted_company=wanted,
        wanted_level=next_level,
    )


def _count(level: int, jobs: tuple[int, int], rng: Random) -> int:
    """How many jobs: no more than a career of this level holds, seldom few of a long one."""
    least, most = jobs
    count = most if rng.random() < 0.75 else rng.randint(least, most)
    return min(count, max(level + 1, least))


def _employers(
    vertical: Vertical, employer: str, count: int, split: str, rng: Random
) -> list[tuple[Vertical, str]]:
    """The present employer and earlier ones, each of another vertical."""
    others = rng.sample([item for item in load_verticals() if item is not vertical], count - 1)
    return [(vertical, employer), *((item, rng.choice(item.companies[split])) for item in others)]


def _career(
    role: Role, level: int, employers: list[tuple[Vertical, str]], rng: Random
) -> list[Job]:
    """A job at each employer; each earlier one is of a lower level."""
    jobs: list[Job] = []
    end = NOW
    gap = rng.randrange(len(employers)) if rng.random() < GAP else None
    for number, (vertical, company) in enumerate(employers):
        start = end - (rng.randint(10, 14) if level == TRAINEE else rng.randint(16, 46))
        jobs.append(Job(_title(role, level), role, level, company, "", start, end, vertical))
        end = start - (rng.randint(8, 16) if number == gap else rng.choice((0, 1, 1, 2)))
        # Staff and lead are parallel: a lead was a senior before, a head either of the two.
        level -= 2 if level == 4 or (level == 5 and rng.random() < 0.3) else 1
    if len(jobs) > 1 and jobs[-1].level >= 0 and rng.random() < CHANGE:
        other = rng.choice([item for item in load_roles() if item is not role])
        jobs[-1] = replace(jobs[-1], role=other, title=_title(other, jobs[-1].level))
    return jobs


def _title(role: Role, level: int) -> str:
    return f"Trainee {role.title}" if level == TRAINEE else role.titles[level]
