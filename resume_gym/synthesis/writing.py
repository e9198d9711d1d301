"""Markdown rendering of the resume and the job description, in a long and a short form.

`draw_wording` draws texts from the content bank, and `draw_look` draws a layout. The bullets of the
resume are stored in the candidate's jobs (`Job.bullets`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from resume_gym.synthesis.candidates import NOW, Candidate, Job
from resume_gym.synthesis.content import BANDS, fill, load_forms, load_frames
from resume_gym.text.lines import MONTH_NAMES

YEARS = (0, 2, 5, 8, 8, 11)  # years of experience that a job asks for, by level
LICENSED = 0.35  # share of resumes with a section on certificates; trades always have one

_FORMS = load_forms()
_USUAL = {section: names[0] for section, names in _FORMS["headings"].items()}


@dataclass(frozen=True)
class Wording:
    """Texts of a job description and a resume, except contact data, jobs and education.

    Attributes:
        summary: summary of the resume.
        skills: groups of skills as (name, comma-separated items).
        results: lines of the results section; empty if there is no such section.
        extra: superfluous sections with their headings.
        licenses: lines of the section on certificates; empty if there is no such section.
        about: one sentence about the employer.
        duties, must, nice: duties, requirements and optional requirements of the job.
        closing: last line of the job description; may be empty.
    """

    summary: str
    skills: Sequence[tuple[str, str]]
    about: str
    duties: Sequence[str]
    must: Sequence[str]
    nice: Sequence[str] = ()
    closing: str = ""
    results: Sequence[str] = ()
    extra: Sequence[str] = ()
    licenses: Sequence[str] = ()


class Dates(NamedTuple):
    """The style of dates: a template of a month, the dash or "to", and the word for today."""

    month: str
    dash: str
    now: str = "Present"

    def span(self, start: int, end: int) -> str:
        """Return the period between two months, given as in `Job`."""
        first, last = self._month(start), self.now if end == NOW else self._month(end)
        return first if first == last else f"{first} {self.dash} {last}"

    def _month(self, months: int) -> str:
        year, month = divmod(months, 12)
        name = MONTH_NAMES[month]
        return self.month.format(number=month + 1, short=name[:3], long=name, year=year)


def draw_dates(rng: Random, months: bool, not_month: str = "") -> Dates:
    """Draw a style of dates.

    Args:
        rng: random generator.
        months: whether the dates have to name months.
        not_month: template of a month that is not drawn.
    """
    weights = {
        month: weight
        for month, weight in _FORMS["months"].items()
        if month != not_month and not (months and month == "{year}")
    }
    month = rng.choices([*weights], [*weights.values()])[0]
    return Dates(month, rng.choice(_FORMS["dashes"]), rng.choice(_FORMS["now"]))


class Look(NamedTuple):
    """The layout of a resume.

    Attributes:
        order: names of the sections in their order.
        names: heading of each section.
        upper: whether the headings are in upper case.
        entry: header lines of a job.
        dates: style of the dates.
        grouped: whether each group of skills has its own line.
        style: template of a heading.
        marker: marker of the list items of the jobs.
        end: punctuation at the end of these items.
        odd: sections whose heading has the style `odd_style` and not that of the others.
        odd_style: template of such a heading; upper case if it has no markup.
        old: index of the job that has the layout `pasted`; -1 if none has.
        pasted: dates, marker and end of the items of the job `old`.
    """

    order: Sequence[str] = _FORMS["orders"][0]
    names: Mapping[str, str] = _USUAL
    upper: bool = False
    entry: Sequence[str] = _FORMS["entries"][0]
    dates: Dates = Dates("{short} {year}", "-")
    grouped: bool = True
    style: str = "## {}"
    marker: str = "-"
    end: str = ""
    odd: Sequence[str] = ()
    odd_style: str = ""
    old: int = -1
    pasted: "Look | None" = None

    def heading(self, section: str) -> str:
        """Return the heading line of a section."""
        name = self.names[section]
        if section in self.odd:
            return self.odd_style.format(name) if "*" in self.odd_style else name.upper()
        return self.style.format(name.upper() if self.upper else name)

    def of_job(self, number: int) -> "Look":
        """Return the layout of a job, given its index."""
        return self.pasted if self.pasted and number == self.old else self

    def items(self, job: Job) -> str:
        """Render the list of a job's bullets."""
        return "\n".join(
            f"{self.marker} {text}{'' if text.endswith('.') else self.end}"  # "etc."
            for text, _ in job.bullets
        )


def draw_look(rng: Random, months: bool = False) -> Look:
    """Draw a random layout; its dates name months if `months` is true."""
    return Look(
        order=rng.choice(_FORMS["orders"]),
        names={section: rng.choice(names) for section, names in _FORMS["headings"].items()},
        upper=rng.random() < 0.2,
        entry=rng.choice(_FORMS["entries"]),
        dates=draw_dates(rng, months),
        grouped=rng.random() < 0.5,
        style="## {}" if months or rng.random() < 0.75 else "**{}**",
        end="." if not months and rng.random() < 0.2 else "",
    )


def draw_wording(
    candidate: Candidate,
    deeds: str,
    results: Sequence[str],
    extra: Sequence[str],
    split: str,
    rng: Random,
) -> Wording:
    """Draw the texts for a candidate from the content bank.

    `deeds` is the text of all good bullets (`Story.told`). About half of the duties, requirements
    and skills are chosen because they have words in common with it. `results` and `extra` are
    stored unchanged.
    """
    lines, frames = candidate.role.lines[split], load_frames(split)
    words = candidate.vertical.words
    band = BANDS[candidate.wanted_level]
    field = candidate.degree.partition(" ")[2].lower()
    must = [*lines.must, *(lines.must_lead if band == "lead" else ())]
    licensed = bool(candidate.vertical.roles) or rng.random() < LICENSED
    return Wording(
        summary=_summary(candidate, split, rng),
        skills=[(name, _items(items, deeds, rng)) for name, items in lines.skills],
        about=candidate.vertical.about[split].replace("{company}", candidate.wanted_company),
        duties=[
            fill(duty, words)
            for duty in _fitting(lines.duties[band], deeds, rng.randint(4, 5), rng)
        ],
        must=[
            _years(candidate, frames, rng),
            *(fill(phrase, words) for phrase in _fitting(must, deeds, rng.randint(3, 4), rng)),
            *([rng.choice(frames["degree"]).format(field=field)] if rng.random() < 0.5 else []),
        ],
        nice=[fill(phrase, words) for phrase in rng.sample(lines.nice, rng.randint(2, 3))],
        closing=rng.choice(frames["closing"]),
        results=results,
        extra=extra,
        licenses=rng.sample(lines.licenses, rng.randint(1, 3)) if licensed else (),
    )


def long_resume(candidate: Candidate, wording: Wording, look: Look) -> str:
    """Render the long form of a resume; superfluous sections come last."""
    groups = [f"- {name}: {items}" for name, items in wording.skills]
    run = ", ".join(items for _, items in wording.skills)
    entries = [
        block
        for number, job in enumerate(candidate.history)
        for block in _entry(candidate, number, job, look.of_job(number))
    ]
    parts = {
        "summary": [wording.summary],
        "results": ["\n".join(f"- {text}" for text in wording.results)],
        "experience": entries,
        "licenses": ["\n".join(f"- {text}" for text in wording.licenses)],
        "skills": ["\n".join(groups) if look.grouped else run],
        "education": [candidate.education],
    }
    blocks = [f"# {candidate.name}", candidate.contact]
    for section in look.order:
        if parts[section] != [""]:
            blocks += [look.heading(section), *parts[section]]
    return "\n\n".join([*blocks, *wording.extra]) + "\n"


def short_resume(candidate: Candidate, wording: Wording, look: Look) -> str:
    """Render the short form of a resume: no summary, few blank lines."""
    jobs = (
        f"### {job.title}, {job.company} ({own.dates.span(job.start, job.end)})\n{own.items(job)}"
        for number, job in enumerate(candidate.history)
        for own in [look.of_job(number)]
    )
    skills = ", ".join(item for _, items in wording.skills for item in items.split(", ")[:2])
    parts = {
        "experience": "\n".join([look.heading("experience"), *jobs]),
        "skills": f"{look.heading('skills')}\n{skills}",
        "education": f"{look.heading('education')}\n{candidate.education}",
    }
    head = f"# {candidate.name}\n{candidate.contact}"
    if wording.results:
        head += f"\n{look.names['results']}: {'; '.join(wording.results)}"
    blocks = [head, *(parts[section] for section in look.order if section in parts)]
    return "\n\n".join([*blocks, *wording.extra]) + "\n"


def long_job(candidate: Candidate, wording: Wording, split: str, rng: Random) -> str:
    """Render a job description: sections for duties, requirements and optional requirements."""
    frames = load_frames(split)
    sections = (("duties", wording.duties), ("must", wording.must), ("nice", wording.nice))
    blocks = [f"# {candidate.wanted_title}, {candidate.wanted_company}", wording.about]
    for name, lines in sections:
        if lines:
            blocks += [f"## {rng.choice(frames[f'{name}_heading'])}"]
            blocks += ["\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(filter(None, [*blocks, wording.closing])) + "\n"


def short_job(candidate: Candidate, wording: Wording) -> str:
    """Render a job description on one line: a duty and three requirements."""
    head = f"{candidate.wanted_title} at {candidate.wanted_company}."
    years, first, second = wording.must[:3]
    return f"{head} {wording.duties[0]}. Requirements: {years}. {first}. {second}."


def _entry(candidate: Candidate, number: int, job: Job, look: Look) -> list[str]:
    """Render a job and, below it, a line that explains the career gap before the job, if any."""
    values = {"title": job.title, "company": job.company, "city": job.city}
    period = look.dates.span(job.start, job.end)
    blocks = [line.format(**values, period=period) for line in look.entry] + [look.items(job)]
    if job.gap:
        ended = candidate.history[number + 1].end
        blocks.append(job.gap.format(period=look.dates.span(ended, job.start)))
    return blocks


def _summary(candidate: Candidate, split: str, rng: Random) -> str:
    """Draw a summary; its number of years, if any, is that of the jobs in the role."""
    role, former = candidate.role, candidate.jobs[-1].role
    texts = role.lines[split].summary[BANDS[candidate.level]]
    able = [text for text in texts if candidate.years > 1 or "{years}" not in text]
    summary = fill(rng.choice(able), {**candidate.vertical.words, "years": str(candidate.years)})
    if former is role:
        return summary
    change = rng.choice(load_frames(split)["change"]).format(old=_lower(former.title))
    return f"{summary.rstrip('.')}; {change}."


def _lower(title: str) -> str:
    """Return a job title in lower case, except acronyms ("QA engineer")."""
    return " ".join(word if word.isupper() else word.lower() for word in title.split())


def _items(items: Sequence[str], deeds: str, rng: Random) -> str:
    """Draw skills from a group: up to four that the text `deeds` names, and two to four others."""
    named = [item for item in items if re.search(rf"\b{re.escape(item)}\b", deeds)]
    others = [item for item in items if item not in named]
    chosen = named[:4] + rng.sample(others, min(len(others), rng.randint(2, 4)))
    return ", ".join(rng.sample(chosen, len(chosen)))


def _years(candidate: Candidate, frames: Mapping[str, Sequence[str]], rng: Random) -> str:
    # The job asks for at most as many years of experience as the resume shows or, if that is less
    # than two, for at most two years.
    years = min(YEARS[candidate.wanted_level], max(2, candidate.years))
    template = rng.choice(frames["years" if years else "years_none"])
    return template.format(years=years, role=_lower(candidate.role.title))


def _fitting(phrases: Sequence[str], deeds: str, count: int, rng: Random) -> list[str]:
    """Draw `count` phrases: half have the most words in common with `deeds`, half are random."""
    words = _long_words(deeds)
    mixed = rng.sample(phrases, len(phrases))
    near = sorted(mixed, key=lambda phrase: -len(words & _long_words(phrase)))
    best = near[: (count + 1) // 2]
    others = [phrase for phrase in mixed if phrase not in best]
    return rng.sample(best + others[: count - len(best)], count)


def _long_words(text: str) -> set[str]:
    return set(re.findall(r"\w{4,}", text.lower()))
