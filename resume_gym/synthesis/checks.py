"""Find faults in drafts of tasks by a language model, and describe the faults to the model.

`find_miscounts` checks the lengths of a draft's lists; `find_faults` checks the draft's content and
the task composed from it. All functions are pure. The checks use the parser of the rubric judge but
not the judge, since tasks that the judge selects would inherit the errors of the judge.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, NamedTuple

from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.tasks import SPLITS, Task, repair, repaired
from resume_gym.support.json_lines import strings
from resume_gym.synthesis.content import load_verticals
from resume_gym.synthesis.drafts import LIMITS, PROMPTS, Draft, PaddedDraft, SpoiltBullet
from resume_gym.synthesis.personas import Persona
from resume_gym.text.lines import Content, any_of, plain, read
from resume_gym.text.reference import make_reference
from resume_gym.text.style import head, is_weak

_DUTIES, _REQUIREMENTS, _SKILLS = 5, 6, 4  # numbers of list items that prompts.toml asks for
_LEAKS = any_of(PROMPTS["leaks"]["words"])
# Matches the numbers of list items. They are removed, since `read` would take them for figures.
_NUMBERED = re.compile(r"^\s*\d{1,2}[.)]\s+", re.MULTILINE)


class Fault(NamedTuple):
    """A defect of a draft.

    Attributes:
        kind: shape, length, weakness, facts, match, leak, names, fixes, duplicate or malformed.
        text: the defect in words, as feedback for the model.
    """

    kind: str
    text: str


def find_miscounts(persona: Persona, draft: Draft[Any]) -> list[Fault]:
    """Return faults for lists of the wrong length, and for repeated duties or requirements."""
    counts = [
        ("duties", len(draft.duties), _DUTIES),
        ("requirements", len(draft.requirements), _REQUIREMENTS),
        ("skills", len(draft.skills), _SKILLS),
        ("jobs", len(draft.jobs), len(persona.shares)),
    ]
    # A wrong number of jobs is already a fault ("jobs" above), so `zip` need not be strict.
    for job, share in zip(draft.jobs, persona.shares, strict=False):
        counts.append((f"bullets of {job.company}", len(job.bullets), share))
    if isinstance(draft, PaddedDraft):
        counts.append(("padding", len(draft.padding), persona.padding))
        counts.append(("sections", len(draft.sections), persona.sections))
    faults = [
        Fault("shape", f"{name}: {wanted} are wanted, not {count}.")
        for name, count, wanted in counts
        if count != wanted
    ]
    for name, lines in (("duties", draft.duties), ("requirements", draft.requirements)):
        if len(set(lines)) < len(lines):
            faults.append(Fault("shape", f"{name}: a line occurs twice."))
    return faults


def find_faults(
    persona: Persona, draft: Draft[Any], task: Task, seen: AbstractSet[str] = frozenset()
) -> list[Fault]:
    """Return the faults of a draft that passed `find_miscounts`, and of the composed task.

    `seen` has the keys (see `bullet_keys`) of the bullets of other tasks, which must not recur.
    """
    faults = [
        *_weakness(persona, draft),
        *_facts(draft),
        *_names(persona, draft),
        *_leaks(persona, draft),
        *_duplicates(draft, seen),
    ]
    # `_length` and `_match` judge the repaired resume, so they need fixes that all apply.
    if broken := list(_unfixable(task)):
        return [*faults, *broken]
    return [*faults, *_length(task), *_match(task)]


def bullet_keys(bullets: Sequence[str]) -> frozenset[str]:
    """Return a key for each bullet: its text in lower case, with every number replaced by 0."""
    return frozenset(re.sub(r"\d[\d,.]*", "0", text).casefold() for text in bullets)


def _weakness(persona: Persona, draft: Draft[Any]) -> Iterator[Fault]:
    """Check that weak forms show the weakness, and that no strong form opens with a weak verb."""
    for bullet in draft.bullets:
        if is_weak(read(bullet.strong)):
            yield Fault("weakness", f'strong "{bullet.strong}" opens with a weak verb.')
    for number, bullet in enumerate(draft.bullets):
        if number in persona.weak and isinstance(bullet, SpoiltBullet):
            weak, strong = read(bullet.weak), read(bullet.strong)
            # The results section states `result`, so the weak form may leave out the words of
            # `result`.
            shown = weak.stems | read(getattr(bullet, "result", "")).stems
            for problem in _not_spoilt(persona.weakness, weak, strong, shown):
                yield Fault("weakness", f'weak "{bullet.weak}" {problem}')


def _not_spoilt(
    weakness: str, weak: Content, strong: Content, shown: AbstractSet[str]
) -> Iterator[str]:
    """Yield the problems of a weak bullet.

    `shown` has the word stems of the weak bullet and of its line in the results section.
    """
    if len(weak.words) < 3:
        yield "is too short to be a bullet."
    if weak.words == strong.words and weak.values == strong.values:
        yield "is the same as its strong form."
    if weakness == "no_metrics":
        if weak.figures:
            yield f"holds a figure, {weak.figures[0].quote}: it holds none."
        if not strong.figures:
            yield f'belongs to a strong form without a figure: "{strong.body}".'
    elif weak.values != strong.values:
        yield f'has other figures than its strong form, "{strong.body}".'
    if weakness == "weak_verbs" and head(weak).kind != "weak":
        yield "does not open with a duty, as Responsible for does; helping is another claim."
    if weakness == "vague_bullets" and len(weak.words) < len(strong.words) + 2:
        yield f'has no filler: it is hardly longer than its strong form, "{strong.body}".'
    # The weak form must be about the same work, with enough stems to infer the strong form.
    if len(weak.stems & strong.stems) < LIMITS["kinship"] * len(weak.stems):
        yield f'tells of another deed than its strong form, "{strong.body}".'
    missing = strong.stems - shown
    if len(missing) > (1 - LIMITS["visible"]) * len(strong.stems):
        yield f'hides too much of its strong form, "{strong.body}".'


def _facts(draft: Draft[Any]) -> Iterator[Fault]:
    """Check that the figures of bullets, facts and documents agree."""
    documents = [read(plain(_NUMBERED.sub("", text))) for text in draft.documents]
    written = [number for document in documents for number in document.numbers]
    known = [number for bullet in draft.bullets for number in read(" ".join(bullet.facts)).numbers]
    for bullet in draft.bullets:
        facts = read(" ".join(bullet.facts))
        if not bullet.facts:
            yield Fault("facts", f'strong "{bullet.strong}" has no facts.')
        for text in (getattr(bullet, form, "") for form in ("strong", "weak", "result")):
            for figure in read(text).figures:
                if not any(number.backs(figure) for number in facts.numbers):
                    yield Fault("facts", f'"{text}": {figure.quote} does not stand in its facts.')
        for figure in facts.figures:
            if not any(number.backs(figure) for number in written):
                problem = f"{figure.quote} of {bullet.facts[0]!r} stands in none of the documents."
                yield Fault("facts", problem)
    for document in documents:
        for figure in document.figures:
            if not any(figure.value == number.value for number in known):
                yield Fault("facts", f"{figure.quote} stands in a document and in no fact.")


def _names(persona: Persona, draft: Draft[Any]) -> Iterator[Fault]:
    """Check which companies the texts name, and which texts name the candidate."""
    candidate = persona.candidate
    for job, written in zip(candidate.jobs, draft.jobs, strict=True):
        if written.company != job.company:
            yield Fault("names", f"jobs: {job.company!r} is wanted, not {written.company!r}.")
    of_job = {"about", "duties", "requirements"}
    about_job = "\n".join(strings(draft.model_dump(include=of_job)))
    about_candidate = "\n".join(strings(draft.model_dump(exclude=of_job)))
    employers = {job.company for job in candidate.jobs}
    for text, allowed in ((about_candidate, employers), (about_job, {candidate.wanted_company})):
        for company in sorted(set(_companies().findall(text)) - allowed):
            yield Fault("names", f"{company} stands where it does not belong.")
    names = any_of([candidate.first_name, candidate.last_name])
    if names.search(about_job):
        yield Fault("names", "The job description names the candidate.")
    if not names.search(draft.performance_review):
        yield Fault("names", f"The performance review does not name {candidate.first_name}.")


@lru_cache(maxsize=1)
def _companies() -> re.Pattern[str]:
    banks = (vertical.companies[split] for vertical in load_verticals() for split in SPLITS)
    return any_of(name for names in banks for name in names)


def _leaks(persona: Persona, draft: Draft[Any]) -> Iterator[Fault]:
    """Find phrases that reveal that the text is an exercise, such as "weak bullet"."""
    texts = [plain(text).lower() for text in strings(draft.model_dump())]
    # Only the exact word "too_long" is a leak, since any resume may say "too long".
    named = persona.weakness
    named = named if named == "too_long" else named.replace("_", "[ _-]")
    patterns = (_LEAKS, re.compile(named))
    hits = {hit for text in texts for pattern in patterns for hit in pattern.findall(text)}
    for hit in sorted(hits):
        yield Fault("leak", f"The words {hit!r} give the exercise away.")


def _duplicates(draft: Draft[Any], seen: AbstractSet[str]) -> Iterator[Fault]:
    earlier: set[str] = set()
    for strong in (bullet.strong for bullet in draft.bullets):
        for known, where in ((seen, "occurs in another resume"), (earlier, "occurs twice")):
            if known & (keys := bullet_keys([strong])):
                yield Fault("duplicate", f'"{strong}" {where}.')
        earlier |= keys


def _unfixable(task: Task) -> Iterator[Fault]:
    """Find the first fix whose `old` does not occur exactly once after all fixes before it."""
    for fix, (count, _) in zip(task.fixes, repair(task), strict=True):
        if count != 1:
            where = f"stands {count} times in the resume" if count else "is not in the resume"
            yield Fault("fixes", f"{fix.old.strip()!r} {where}; make it unlike all other lines.")
            return


def _length(task: Task) -> Iterator[Fault]:
    lines, most = wrapped_lines(task.resume, LIMITS["page_width"]), LIMITS["page_lines"]
    if task.weakness == "too_long" and lines <= most:
        yield Fault("length", f"The resume has {lines} lines; more than {most} are wanted.")
    elif task.weakness != "too_long" and not LIMITS["least_lines"] <= lines <= most:
        wanted = f"{LIMITS['least_lines']} to {most}"
        yield Fault("length", f"The resume has {lines} lines; {wanted} are wanted.")
    left = wrapped_lines(repaired(task, LIMITS["edits"]), LIMITS["page_width"])
    if left > most:
        yield Fault("length", f"After {LIMITS['edits']} edits {left} lines are left of {most}.")
    texts = [("The job description", task.job, "job_words")]
    texts += [(document.title, document.text, "document_words") for document in task.evidence]
    for name, text, limit in texts:
        words, (fewest, highest) = len(text.split()), LIMITS[limit]
        if not fewest <= words <= highest:
            yield Fault("length", f"{name} has {words} words; {fewest} to {highest} are wanted.")


def _match(task: Task) -> Iterator[Fault]:
    """Check that the repaired resume has enough stems of the job description, weighted by IDF."""
    weights = make_reference(task).job_weights
    shown = {stem for line in repaired(task).split("\n") for stem in read(plain(line)).stems}
    share = sum(w for stem, w in weights.items() if stem in shown) / (sum(weights.values()) or 1.0)
    if share < (least := LIMITS["job_match"]):
        yield Fault(
            "match",
            f"The resume tells {share:.0%} of what the job description asks for, at least "
            f"{least:.0%} is wanted: use its words in strong and skills.",
        )
