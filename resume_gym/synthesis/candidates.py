"""Random candidates with a consistent career, for a given role, level and vertical (industry).

`make_candidate` draws names, employers, dates and education; the jobs have no bullets yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from resume_gym.episode.tasks import Fix
from resume_gym.synthesis.content import (
    LEVELS,
    Role,
    Vertical,
    load_forms,
    load_frames,
    load_people,
    load_roles,
    suitable_verticals,
)

NOW = 2026 * 12 + 2  # March 2026 in months since year 0; a fixed date keeps tasks reproducible
TRAINEE = -1  # the level below "junior"; "junior" is index 0 of LEVELS
# years from the degree until a candidate reaches a level
EXPERIENCE = {TRAINEE: 0, 0: 0, 1: 2, 2: 5, 3: 8, 4: 8, 5: 11}
STEP_UP = 0.35  # probability that a candidate applies for a job of the next level
GAP = 0.2  # probability that a career is drawn with a gap; see `_career`
LONG = 6  # minimum length, in months, of a gap that the resume explains
CHANGE = 0.12  # probability that the oldest job was in another role


@dataclass(slots=True)
class Job:
    """One job of a career.

    Attributes:
        title: job title on the resume.
        role: role of the candidate in the job; the bullets describe work in this role.
        level: level of the job, as an index into `LEVELS`, or `TRAINEE`.
        company: employer.
        city: place of work.
        start: first month of the job, as a number of months since year 0.
        end: month after the job's last month, in the unit of `start`; `NOW` for the present job.
        vertical: industry of the company; its words fill the templates of the bullets.
        bullets: text and fixes of each bullet; the fixes are in the order to apply them.
        gap: explanation of a gap of at least `LONG` months before this job; otherwise empty.
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
    gap: str = ""


@dataclass(slots=True)
class Candidate:
    """A job applicant; `jobs` has the latest job first, `wanted_*` describe the job applied for."""

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
        """Return the candidate's first and last name."""
        return f"{self.first_name} {self.last_name}"

    @property
    def years(self) -> int:
        """Return the number of years since the candidate began to work in the role."""
        return (NOW - min(job.start for job in self.jobs if job.role is self.role)) // 12

    @property
    def persona(self) -> dict[str, str]:
        """Return the candidate's data in the format of `Task.persona`."""
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
    """Draw a candidate; `jobs` has the minimum and the maximum number of jobs."""
    people = load_people(split)
    first, last = rng.choice(people.first), rng.choice(people.last)
    employer, wanted = rng.sample(vertical.companies[split], 2)
    # Most careers have the maximum number of jobs. No career has more jobs than levels reached so
    # far.
    count = jobs[1] if rng.random() < 0.75 else rng.randint(*jobs)
    count = min(count, max(level + 1, jobs[0]))
    # The present employer comes first; every employer is from a different vertical.
    suitable = [other for other in suitable_verticals(role.key) if other is not vertical]
    others = rng.sample(suitable, count - 1)
    former = [(other, rng.choice(other.companies[split])) for other in others]
    # A career changes only between roles with the same degrees.
    family = [one for one in load_roles() if people.degrees[one.key] is people.degrees[role.key]]
    career = _career(role, family, level, [(vertical, employer), *former], rng)
    for job, earlier in pairwise(career):
        if job.start - earlier.end >= LONG:
            job.gap = rng.choice(load_frames(split)["gap"])
    home = rng.choice(people.cities)
    for job in career:
        job.city = home if job is career[0] or rng.random() < 0.5 else rng.choice(people.cities)
    mail = f"{first}.{last}@{rng.choice(people.domains)}".lower()
    phone = f"555-01{rng.randrange(100):02d}"
    graduated = career[-1].start // 12 - EXPERIENCE[career[-1].level] - rng.randint(0, 1)
    degree = rng.choice(people.degrees[role.key])
    next_level = level + (level < len(LEVELS) - 1 and rng.random() < STEP_UP)
    return Candidate(
        role=role,
        level=level,
        vertical=vertical,
        first_name=first,
        last_name=last,
        contact=rng.choice(load_forms()["contacts"]).format(
            city=home, mail=mail, phone=phone, name=f"{first}-{last}".lower()
        ),
        degree=degree,
        education=f"{degree}, {rng.choice(people.schools)}, {graduated}",
        jobs=career,
        wanted_title=role.titles[next_level],
        wanted_company=wanted,
        wanted_level=next_level,
    )


def _career(
    role: Role,
    family: Sequence[Role],
    level: int,
    employers: list[tuple[Vertical, str]],
    rng: Random,
) -> list[Job]:
    """Draw a job for each employer: the latest job at `level`, each earlier job at a lower one.

    The oldest job may be in another role of `family`.
    """
    jobs: list[Job] = []
    end = NOW
    # `gap` is the index of the job that has a gap before it. A gap before the oldest job is never
    # visible, but the index of this job stays in the draw, since all generated tasks would change
    # otherwise.
    gap = rng.randrange(len(employers)) if rng.random() < GAP else None
    for number, (vertical, company) in enumerate(employers):
        start = end - (rng.randint(10, 14) if level == TRAINEE else rng.randint(16, 46))
        jobs.append(Job(_title(role, level), role, level, company, "", start, end, vertical))
        end = start - (rng.randint(8, 16) if number == gap else rng.choice((0, 1, 1, 2)))
        # Staff and lead are parallel tracks: a lead was a senior before, a head was staff or lead.
        level -= 2 if level == 4 or (level == 5 and rng.random() < 0.3) else 1
    others = [other for other in family if other is not role]
    if others and len(jobs) > 1 and jobs[-1].level >= 0 and rng.random() < CHANGE:
        other = rng.choice(others)
        jobs[-1] = replace(jobs[-1], role=other, title=_title(other, jobs[-1].level))
    return jobs


def _title(role: Role, level: int) -> str:
    return role.trainee if level == TRAINEE else role.titles[level]
