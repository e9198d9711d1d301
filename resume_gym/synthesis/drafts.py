"""Schemas of the drafts that a language model writes, and the conversion of drafts to tasks.

The model writes facts, bullets in a strong form (for most weaknesses, also in a weak form), and
documents that state the facts (`Draft`). `read_draft` validates the answer; `compose` builds the
task. This program, not the model, determines counts, names, dates, layout and fixes, and which
bullets are weak.
"""

import tomllib
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from resume_gym.episode.document import unix_lines
from resume_gym.episode.tasks import EVIDENCE_KINDS, Evidence, Fix, Task
from resume_gym.episode.tools import text_fault
from resume_gym.synthesis.candidates import Job
from resume_gym.synthesis.personas import SPOILING, WEAK_SHARE, Persona
from resume_gym.synthesis.weaknesses import deletion, differences, disorder
from resume_gym.synthesis.writing import Look, Wording, draw_look, long_job, long_resume
from resume_gym.text.lines import plain

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
    # Reject brackets: they mark placeholders that the model did not fill, such as "[company]".
    if brackets := {"{", "}", "[", "]"} & set(line):
        raise ValueError(f"holds {min(brackets)!r}: {line[:80]!r}")
    return line


def _line(text: str) -> str:
    line = _sentence(text).lstrip("-+#>• ").rstrip(". ")
    most = LIMITS["line_chars"]
    if len(line) > most:
        raise ValueError(f"has {len(line)} characters, at most {most} are wanted: {line[:60]!r}...")
    return _sentence(line)  # check again, since the line may be empty without its marker and period


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
    """A piece of the candidate's work: its facts and a good bullet."""

    # The model writes fields in this order: the facts before the bullet that they support.
    facts: tuple[Sentence, ...]
    strong: Line


class SpoiltBullet(Bullet):
    """A bullet in a strong and a weak form."""

    weak: Line


class MeasuredBullet(SpoiltBullet):
    """A bullet in a strong and a weak form; `result` is its metric, for the results section."""

    result: Line


B = TypeVar("B", bound=Bullet)


class DraftJob(_Strict, Generic[B]):
    """The bullets that a model writes for one job."""

    company: str
    bullets: tuple[B, ...]


class SkillGroup(_Strict):
    """A named group of skills; `items` is one comma-separated line."""

    name: Line
    items: Line


class Section(_Strict):
    """A superfluous section of an overlong resume."""

    heading: Line
    lines: tuple[Line, ...]


class Draft(_Strict, Generic[B]):
    """A model's draft of a task; the task's weakness determines the type `B` of the bullets."""

    about: Sentence
    duties: tuple[Line, ...]
    requirements: tuple[Line, ...]
    jobs: tuple[DraftJob[B], ...]
    project_notes: Document
    performance_review: Document
    portfolio: Document
    summary: Sentence
    skills: tuple[SkillGroup, ...]

    @property
    def bullets(self) -> tuple[B, ...]:
        """Return the bullets of all jobs of the draft."""
        return tuple(bullet for job in self.jobs for bullet in job.bullets)

    @property
    def documents(self) -> tuple[str, ...]:
        """Return the evidence documents in the order of `EVIDENCE_KINDS`."""
        return (self.project_notes, self.performance_review, self.portfolio)


class PaddedDraft(Draft[Bullet]):
    """A draft for the weakness too_long, with superfluous bullets and sections."""

    padding: tuple[Line, ...]
    sections: tuple[Section, ...]


def draft_of(weakness: str) -> type[Draft[Any]]:
    """Return the draft class for a weakness."""
    if weakness in SPOILING:
        return Draft[MeasuredBullet] if weakness == "no_metrics" else Draft[SpoiltBullet]
    return PaddedDraft if weakness == "too_long" else Draft[Bullet]


def read_draft(text: str, weakness: str) -> Draft[Any]:
    """Parse and validate a model's answer as a draft.

    Raises:
        ValueError: The answer does not match the schema; the message has a line per invalid field.
    """
    try:
        return draft_of(weakness).model_validate_json(text)
    except ValidationError as problem:
        lines = (
            f"{'.'.join(map(str, error['loc'])) or 'the answer'}: {error['msg']}"
            for error in problem.errors(include_url=False, include_input=False)
        )
        raise ValueError("\n".join(lines)) from None


def compose(persona: Persona, draft: Draft[Any]) -> Task:
    """Compose a task from a draft that passed `find_miscounts`."""
    rng = Random(f"{persona.task_id}-layout")
    candidate = replace(persona.candidate, jobs=_jobs(persona, draft))
    untidy = persona.weakness == "formatting_inconsistent"
    look = draw_look(rng, months=untidy)
    if any("\n" in line for line in look.entry):  # the model cannot shorten the layout
        look = look._replace(entry=Look().entry)
    extra: list[str] = []
    if isinstance(draft, PaddedDraft):
        extra = [
            "\n".join([look.style.format(section.heading), "", *(f"- {x}" for x in section.lines)])
            for section in draft.sections
        ]
        for text in draft.padding:
            job = rng.choice(candidate.jobs)
            fix = deletion(f"- {text}{look.end}")
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
    resume = long_resume(candidate, wording, look)
    if untidy:
        mixed = disorder(look, candidate.jobs, round(WEAK_SHARE * len(draft.bullets)), rng)
        messy = long_resume(candidate, wording, mixed)
        resume, fixes = messy, list(differences(messy, resume))
    return Task(
        task_id=persona.task_id,
        job=long_job(candidate, wording, persona.split, rng),
        resume=resume,
        weakness=persona.weakness,
        split=persona.split,
        fixes=tuple(fixes),
        persona=candidate.persona,
        evidence=tuple(
            Evidence(kind, f"{kind.replace('_', ' ').capitalize()}, {candidate.name}", f"{text}\n")
            for kind, text in zip(EVIDENCE_KINDS, draft.documents, strict=True)
        ),
    )


def _jobs(persona: Persona, draft: Draft[Any]) -> list[Job]:
    """Return the candidate's jobs with the draft's bullets; each weak bullet has a fix."""
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
