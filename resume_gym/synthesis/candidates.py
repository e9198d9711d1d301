"""Random candidates with a consistent career, for a given role, level and vertical (industry).

`make_candidate` draws names, employers, dates and education; the jobs have no bullets yet.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from resume_gym.episode.tasks import Fix
from resume_gym.synthesis.content import (
    LEVELS,
    Region,
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
BACHELOR = ("BA", "BS", "BFA", "BBA", "MA", "MS", "MEd")  # degrees of universities
UNRELATED = -2  # the level of a first job in another field
# years from the degree until a candidate reaches a level
EXPERIENCE = {TRAINEE: 0, 0: 0, 1: 2, 2: 5, 3: 8, 4: 8, 5: 11}
STEP_UP = 0.35  # probability that a candidate applies for a job of the next level
GAP = 0.2  # probability that a career is drawn with a gap; see `_career`
LONG = 6  # minimum length, in months, of a gap that the resume explains
CHANGE = 0.12  # probability that the oldest job was in another role
OLDER = 0.5  # probability that older jobs are listed with a line or two
FIRST = {True: 0.25, False: 0.4}  # probability that a first job is listed, by `brief`


@dataclass(slots=True)
class Job:
    """One job of a career.

    Attributes:
        title: job title on the resume.
        role: role of the candidate in the job; the bullets describe work in this role.
        level: level of the job, as an index into `LEVELS`, `TRAINEE` or `UNRELATED`.
        company: employer.
        city: place of work.
        start: first month of the job, as a number of months since year 0.
        end: month after the job's last month, in the unit of `start`; `NOW` for the present job.
        vertical: industry of the company; its words fill the templates of the bullets.
        bullets: text and fixes of each bullet; the fixes are in the order to apply them.
        gap: template of the line that explains a gap of at least `LONG` months before this job;
            otherwise empty.
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
    """A job applicant; `wanted_*` describe the job applied for.

    `jobs` has the latest job first. Before them, the candidate had the jobs in `former`, about
    which the resume says only a plain line or two.
    """

    role: Role
    level: int
    vertical: Vertical
    first_name: str
    last_name: str
    contact: str
    degree: str
    education: str
    jobs: Sequence[Job]
    former: Sequence[Job]
    wanted_title: str
    wanted_company: str
    wanted_level: int

    @property
    def name(self) -> str:
        """Return the candidate's first and last name."""
        return f"{self.first_name} {self.last_name}"

    @property
    def history(self) -> list[Job]:
        """Return all jobs, the latest first."""
        return [*self.jobs, *self.former]

    @property
    def years(self) -> int:
        """Return the number of years since the candidate began to work in the role."""
        related = [job for job in self.history if job.level > UNRELATED]
        return (NOW - min(job.start for job in related if job.role is self.role)) // 12

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
    role: Role,
    level: int,
    vertical: Vertical,
    split: str,
    jobs: tuple[int, int],
    rng: Random,
    brief: bool = False,
) -> Candidate:
    """Draw a candidate.

    Args:
        role: role of the candidate.
        level: level of the present job, as an index into `LEVELS`.
        vertical: industry of the present job.
        split: split of the names and texts.
        jobs: minimum and maximum number of jobs in `Candidate.jobs`.
        rng: random generator.
        brief: whether the contact data are on one line and at most one former job is listed.
    """
    people = load_people(split)
    region = rng.choice(people.regions)
    name = rng.choice(region.people)
    employer, wanted = rng.sample(vertical.companies[split], 2)
    # Most careers have the maximum number of jobs. No career has more jobs than levels reached so
    # far.
    count = jobs[1] if rng.random() < 0.75 else rng.randint(*jobs)
    count = min(count, max(level + 1, jobs[0]))
    # The present employer comes first; every employer is from a different vertical.
    suitable = [other for other in suitable_verticals(role.key) if other is not vertical]
    others = rng.sample(suitable, min(count, len(suitable)))
    employers = [(other, rng.choice(other.companies[split])) for other in others]
    # A career changes only between roles with the same degrees.
    family = [one for one in load_roles() if people.degrees[one.key] is people.degrees[role.key]]
    career = _career(role, family, level, [(vertical, employer), *employers[: count - 1]], rng)
    for job, earlier in pairwise(career):
        if job.start - earlier.end >= LONG:
            job.gap = rng.choice(load_frames(split)["gap"])
    former = _former(career[-1], employers[-1], split, brief, rng)
    for job in (*career, *former):
        job.city = region.city if job is career[0] else rng.choice([region.city, *region.near])
    began = min((job.start, job.level) for job in (*career, *former) if job.level > UNRELATED)
    graduated = began[0] // 12 - EXPERIENCE[began[1]] - rng.randint(0, 1)
    degree = rng.choice(people.degrees[role.key])
    next_level = level + (level < len(LEVELS) - 1 and rng.random() < STEP_UP)
    return Candidate(
        role=role,
        level=level,
        vertical=vertical,
        first_name=name.split(" ", 1)[0],
        last_name=name.split(" ", 1)[1],
        contact=_contact(region, name, people.hosts, graduated - 22, brief, rng),
        degree=degree,
        education=_education(region, degree, graduated, brief, rng),
        jobs=career,
        former=former,
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
        start = end - _tenure(level, rng)
        jobs.append(Job(_title(role, level), role, level, company, "", start, end, vertical))
        end = start - (rng.randint(8, 16) if number == gap else rng.choice((0, 1, 1, 2)))
        # Staff and lead are parallel tracks: a lead was a senior before, a head was staff or lead.
        level -= 2 if level == 4 or (level == 5 and rng.random() < 0.3) else 1
    others = [other for other in family if other is not role]
    if others and len(jobs) > 1 and jobs[-1].level >= 0 and rng.random() < CHANGE:
        other = rng.choice(others)
        jobs[-1] = replace(jobs[-1], role=other, title=_title(other, jobs[-1].level))
    return jobs


def _tenure(level: int, rng: Random) -> int:
    """Draw the months of a job; people stay longer at higher levels."""
    if level == TRAINEE:
        return rng.randint(10, 14)
    return rng.randint(14, 44) if level < 2 or rng.random() < 0.6 else rng.randint(40, 90)


def _former(
    oldest: Job, employer: tuple[Vertical, str], split: str, brief: bool, rng: Random
) -> list[Job]:
    """Draw the jobs before the oldest job that the resume describes in detail."""
    role, lines = oldest.role, oldest.role.lines[split]
    jobs: list[Job] = []
    level, end = oldest.level, oldest.start - rng.choice((0, 1, 1, 2))
    if not brief and level > 0 and rng.random() < OLDER:
        level = rng.randint(0, min(level, 2) - 1) if level < 3 else rng.randint(1, 2)
        start = end - _tenure(level, rng)
        texts = rng.sample(lines.core, rng.randint(1, 2))
        vertical, company = employer
        jobs.append(Job(_title(role, level), role, level, company, "", start, end, vertical))
        jobs[-1].bullets = [(text, ()) for text in texts]
        end = start - rng.choice((0, 1, 1, 2))
    if rng.random() < FIRST[brief]:
        post = rng.choice(lines.early)
        start = end - rng.randint(9, 40)
        other = Job(post.title, role, UNRELATED, post.employer, "", start, end, oldest.vertical)
        other.bullets = [(text, ()) for text in (post.lines[:1] if brief else post.lines)]
        # nobody becomes a manager after a summer as a cook
        if level < LEVELS.index("senior"):
            jobs.append(other)
    return jobs


def _contact(
    region: Region, name: str, hosts: Sequence[str], born: int, brief: bool, rng: Random
) -> str:
    """Draw contact data; `born` is the year of birth."""
    first, last = (re.sub("[^a-z]", "", part.lower()) for part in name.split(" ", 1))
    forms = load_forms()
    names = {"first": first, "last": last, "f": first[0], "l": last[0], "yy": f"{born % 100:02d}"}
    address = _usual(forms["addresses"], rng).format(**names, n=rng.randint(1, 99))
    contacts = [one for one in forms["contacts"] if not (brief and "\n" in one)]
    return _usual(contacts, rng).format(
        **names,
        city=region.city,
        zip=region.zip,
        number=rng.randint(4, 4800),
        street=rng.choice(region.streets),
        phone=re.sub("#", lambda _: str(rng.randrange(10)), region.phone),
        mail=f"{address}@{_usual(hosts, rng)}",
    )


def _education(region: Region, degree: str, year: int, brief: bool, rng: Random) -> str:
    short = degree.split(" ")[0] not in BACHELOR
    school = region.schools[-1] if short else rng.choice(region.schools[:-1])
    forms = [one for one in load_forms()["education"] if not (brief and "\n" in one)]
    return _usual(forms, rng).format(degree=degree, school=school, year=year)


def _usual(forms: Sequence[str], rng: Random) -> str:
    """Draw one of the forms; the first ones are the most frequent."""
    return rng.choices(forms, range(len(forms), 0, -1))[0]


def _title(role: Role, level: int) -> str:
    return role.trainee if level == TRAINEE else role.titles[level]
