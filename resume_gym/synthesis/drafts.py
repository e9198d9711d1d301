"""What a language model writes of a task, and the task that code makes of it.

The model writes each bullet twice, well and with the weakness, with the facts behind it, and the
documents that hold those facts (`Draft`). Which bullets the resume tells badly, how many there
are, names, dates, layout and fixes are not left to it (`compose`).
"""

import tomllib
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from resume_gym.document import unix_lines
from resume_gym.judges.lines import plain
from resume_gym.synthesis.candidates import Job
from resume_gym.synthesis.personas import SPOILING, WEAK_SHARE, Persona
from resume_gym.synthesis.weaknesses import deletion, disorder
from resume_gym.synthesis.writing import Look, Wording, draw_look, long_job, long_resume
from resume_gym.tasks import EVIDENCE_KINDS, Evidence, Fix, Task
from resume_gym.tools import text_fault

PROMPTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8")
)
LIMITS = PROMPTS["limits"]


def _sentence(text: str) -> str:
    line = plain(text)
    if not line:
        raise ValueError("is empty")
    if fault := text_fault(line):
        raise ValueError(fault)
    if found := {"{", "}", "[", "]"} & set(line):
        raise ValueError(f"holds {min(found)!r}: {line[:80]!r}")
    return line


def _line(text: str) -> str:
    line = _sentence(text).lstrip("-+#>• ").rstrip(". ")
    most = LIMITS["line_chars"]
    if len(line) > most:
        raise ValueError(f"has {len(line)} characters, at most {most} are wanted: {line[:60]!r}...")
    return _sentence(line)


def _document(text: str) -> str:
    text = "\n".join(line.rstrip() for line in unix_lines(text).strip().split("\n"))
    if fault := text_fault(text):
        raise ValueError(fault)
    return text


Line = Annotated[str, AfterValidator(_line)]
"""One line without markup, list marker or final period."""
Sentence = Annotated[str, AfterValidator(_sentence)]
Document = Annotated[str, AfterValidator(_document)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Bullet(_Strict):
    """A piece of work: what is true of it, and how a good resume tells it."""

    facts: tuple[Sentence, ...]
    strong: Line


class SpoiltBullet(Bullet):
    """The same, and how a bad resume tells it."""

    weak: Line


class MeasuredBullet(SpoiltBullet):
    """The same, with its figures as an item of a list of results."""

    result: Line


class DraftJob(_Strict):
    """The work done in one job."""

    company: str
    bullets: tuple[Bullet, ...]


class SpoiltJob(DraftJob):
    """The same, told twice."""

    bullets: tuple[SpoiltBullet, ...]


class MeasuredJob(DraftJob):
    """The same, with a list of results."""

    bullets: tuple[MeasuredBullet, ...]


class SkillGroup(_Strict):
    """Skills of one kind."""

    name: Line
    items: Line


class Section(_Strict):
    """A section that nobody needs."""

    heading: Line
    lines: tuple[Line, ...]


class Draft(_Strict):
    """What a model writes, in this order; for a weakness that code makes."""

    about: Sentence
    duties: tuple[Line, ...]
    requirements: tuple[Line, ...]
    jobs: tuple[DraftJob, ...]
    project_notes: Document
    performance_review: Document
    portfolio: Document
    summary: Sentence
    skills: tuple[SkillGroup, ...]

    @property
    def bullets(self) -> tuple[Bullet, ...]:
        """The bullets of all jobs."""
        return tuple(bullet for job in self.jobs for bullet in job.bullets)

    @property
    def documents(self) -> tuple[str, ...]:
        """The evidence, in the order of `EVIDENCE_KINDS`."""
        return (self.project_notes, self.performance_review, self.portfolio)


class SpoiltDraft(Draft):
    """For a weakness of single bullets."""

    jobs: tuple[SpoiltJob, ...]


class MeasuredDraft(Draft):
    """For a resume whose bullets have lost their figures to a section of results."""

    jobs: tuple[MeasuredJob, ...]


class PaddedDraft(Draft):
    """For a resume that is too long."""

    padding: tuple[Line, ...]
    sections: tuple[Section, ...]


def draft_of(weakness: str) -> type[Draft]:
    """What the model writes for a weakness."""
    if weakness in SPOILING:
        return MeasuredDraft if weakness == "no_metrics" else SpoiltDraft
    return PaddedDraft if weakness == "too_long" else Draft


def read_draft(text: str, weakness: str) -> Draft:
    """The draft in a model's answer.

    Raises:
        ValueError: it is no such JSON object; a line of the message for each field.
    """
    try:
        return draft_of(weakness).model_validate_json(text)
    except ValidationError as problem:
        found = (
            f"{'.'.join(map(str, one['loc'])) or 'the answer'}: {one['msg']}"
            for one in problem.errors(include_url=False, include_input=False)
        )
        raise ValueError("\n".join(found)) from None


def compose(persona: Persona, draft: Draft) -> Task:
    """The task that a draft makes; its counts are those of the persona."""
    rng = Random(f"{persona.task_id}-layout")
    candidate = replace(persona.candidate, jobs=_jobs(persona, draft))
    extra: list[str] = []
    if isinstance(draft, PaddedDraft):
        extra = [_section(section) for section in draft.sections]
        for text in draft.padding:
            job = rng.choice(candidate.jobs)
            fix = deletion(f"- {text}")
            job.bullets.insert(rng.randint(0, len(job.bullets)), (text, (fix,)))
    weak = [bullet for number, bullet in enumerate(draft.bullets) if number in persona.weak]
    wording = Wording(
        summary=draft.summary,
        skills=[(group.name, group.items) for group in draft.skills],
        about=draft.about,
        duties=draft.duties,
        must=draft.requirements,
        results=[bullet.result for bullet in weak if isinstance(bullet, MeasuredBullet)],
        extra=extra,
    )
    fixes = [deletion("\n" + section) for section in extra]
    fixes += [fix for job in candidate.jobs for _, mends in job.bullets for fix in mends]
    untidy = persona.weakness == "formatting_inconsistent"
    resume = long_resume(candidate, wording, Look() if untidy else draw_look(rng))
    if untidy:
        resume, fixes = disorder(resume, round(WEAK_SHARE * len(draft.bullets)), rng)
    return Task(
        task_id=persona.task_id,
        job=long_job(candidate, wording, persona.split, rng),
        resume=resume,
        weakness=persona.weakness,
        split=persona.split,
        fixes=tuple(fixes),
        persona=candidate.persona,
        evidence=_evidence(persona, draft),
    )


def _jobs(persona: Persona, draft: Draft) -> list[Job]:
    """The career with its bullets, each as the resume tells it, and the edit that repairs it."""
    number = 0
    jobs = []
    for job, written in zip(persona.candidate.jobs, draft.jobs, strict=True):
        bullets: list[tuple[str, tuple[Fix, ...]]] = []
        for bullet in written.bullets:
            if isinstance(bullet, SpoiltBullet) and number in persona.weak:
                bullets.append((bullet.weak, (Fix(bullet.weak, bullet.strong, bullet.facts),)))
            else:
                bullets.append((bullet.strong, ()))
            number += 1
        jobs.append(replace(job, bullets=bullets))
    return jobs


def _section(section: Section) -> str:
    return "\n".join([f"## {section.heading}", "", *(f"- {line}" for line in section.lines)])


def _evidence(persona: Persona, draft: Draft) -> tuple[Evidence, ...]:
    name = persona.candidate.persona["name"]
    titles = (f"{kind.replace('_', ' ').capitalize()}, {name}" for kind in EVIDENCE_KINDS)
    documents = zip(EVIDENCE_KINDS, titles, draft.documents, strict=True)
    return tuple(Evidence(kind, title, f"{text}\n") for kind, title, text in documents)
