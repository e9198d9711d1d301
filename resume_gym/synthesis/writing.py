"""The two documents of a task in Markdown: the resume and the job description, long and short."""

import re
from collections.abc import Sequence
from random import Random

from resume_gym.synthesis.candidates import NOW, Candidate, Job
from resume_gym.synthesis.content import fill

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_JOB_HEADINGS = (
    ("What you will do", "What you bring"),
    ("The work", "You have"),
    ("Your tasks", "Your profile"),
)


def long_resume(candidate: Candidate, extra: Sequence[str], rng: Random) -> str:
    """A resume of one page; `extra` sections stand at its end."""
    role, words = candidate.role, candidate.vertical.words
    blocks = [
        f"# {candidate.first_name} {candidate.last_name}",
        candidate.contact,
        "## Summary",
        fill(rng.choice(role.summary), words, rng),
        "## Experience",
    ]
    for job in candidate.jobs:
        blocks += [f"### {job.title}, {job.company}", f"{job.city} | {_period(job)}", _list(job)]
    blocks += ["## Skills", "\n".join(f"- {name}: {items}" for name, items in role.skills)]
    blocks += ["## Education", candidate.degree, *extra]
    return "\n\n".join(blocks) + "\n"


def short_resume(candidate: Candidate, extra: Sequence[str]) -> str:
    """The same in a third of the lines: no summary, few blank lines."""
    jobs = (
        f"### {job.title}, {job.company} ({_period(job)})\n{_list(job)}" for job in candidate.jobs
    )
    skills = (", ".join(items.split(", ")[:2]) for _, items in candidate.role.skills)
    blocks = [
        f"# {candidate.first_name} {candidate.last_name}\n{candidate.contact}",
        "## Experience\n" + "\n".join(jobs),
        f"## Skills\n{'; '.join(skills)}",
        f"## Education\n{candidate.degree}",
        *extra,
    ]
    return "\n\n".join(blocks) + "\n"


def long_job(candidate: Candidate, wording: str, rng: Random) -> str:
    """A job description with duties and requirements; `wording` is what the resume could say."""
    role, words = candidate.role, candidate.vertical.words
    work, needs = rng.choice(_JOB_HEADINGS)
    duties = rng.sample(role.duties, rng.randint(4, 5))
    requirements = _fitting(role.requirements, wording, rng.randint(5, 6), rng)
    blocks = [
        f"# {candidate.wanted_title}, {candidate.wanted_company}",
        candidate.vertical.about.replace("{company}", candidate.wanted_company),
        f"## {work}",
        "\n".join(f"- {fill(duty, words, rng)}" for duty in duties),
        f"## {needs}",
        "\n".join(f"- {fill(phrase, words, rng)}" for phrase in requirements),
    ]
    return "\n\n".join(blocks) + "\n"


def short_job(candidate: Candidate, wording: str, rng: Random) -> str:
    """A job description in three sentences."""
    role = candidate.role
    first, second = _fitting(role.requirements, wording, 2, rng)
    text = (
        f"{candidate.wanted_title} at {candidate.wanted_company}. {rng.choice(role.duties)}. "
        f"Requirements: {first}. {second}."
    )
    return fill(text, candidate.vertical.words, rng)


def _list(job: Job) -> str:
    return "\n".join(f"- {text}" for text, _ in job.bullets)


def _period(job: Job) -> str:
    return f"{_month(job.start)} - {'Present' if job.end == NOW else _month(job.end)}"


def _month(month: int) -> str:
    return f"{MONTHS[month % 12]} {month // 12}"


def _fitting(phrases: Sequence[str], wording: str, count: int, rng: Random) -> list[str]:
    """Phrases in any order, half of them those that share most words with the resume."""
    known = _long_words(wording)
    mixed = rng.sample(phrases, len(phrases))
    near = sorted(mixed, key=lambda phrase: -len(known & _long_words(phrase)))
    best = near[: (count + 1) // 2]
    others = [phrase for phrase in mixed if phrase not in best]
    return rng.sample(best + others[: count - len(best)], count)


def _long_words(text: str) -> set[str]:
    return set(re.findall(r"\w{4,}", text.lower()))
