"""The procedural task generator: a pure function from a seed and an index to a task.

`generate_task` draws a candidate, chooses pieces of work (`content.Deed`) for each job and applies
faults, most of them of one weakness. If a draft violates the rules of the task's size (`Size`), a
new draft is drawn.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import NamedTuple

from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.tasks import SPLITS, WEAKNESSES, Fix, Task, repair, repaired
from resume_gym.synthesis.candidates import TRAINEE, Candidate, Job, make_candidate
from resume_gym.synthesis.content import (
    FORMS,
    LEVELS,
    Deed,
    load_general,
    load_padding,
    load_people,
    load_roles,
    tell,
    without_metric,
)
from resume_gym.synthesis.evidence import Done, write_evidence
from resume_gym.synthesis.personas import draw_career
from resume_gym.synthesis.weaknesses import HEDGES, deletion, differences, disorder, weaken
from resume_gym.synthesis.writing import (
    Look,
    draw_look,
    draw_wording,
    long_job,
    long_resume,
    short_job,
    short_resume,
)

PAGE_WIDTH = 165  # width of the page in characters
SHORT = 18  # maximum number of words in a short bullet
ATTEMPTS = 500  # number of drafts of a task before the generator gives up
TOP_LEVEL = 5
"""The highest level of difficulty; the lowest is 1."""
# from this difficulty level on, one or two bullets say that the candidate only helped
HEDGED_FROM = 3
# Of the tasks without a difficulty level, one in this many has one or two bullets with a hedge
# ("Helped with").
HELPED = 5
CORRECTED = 0.2  # probability that the evidence corrects a figure of the resume
BARE = 0.4  # probability that a bullet leaves out its metric without being worse for it
STOCK = 0.25  # share of the superfluous bullets of a first job that suit any role
ALIKE = 0.5  # two pieces of work with this share of words in common are not on the same resume
# Relative frequencies of the faults that occur in addition to the planted weakness.
BESIDE = {"vague_bullets": 3, "wrong_emphasis": 1, "weak_verbs": 3}
# the id of a generated task; the level is missing from most ids
_ID = re.compile(
    rf"(full|mini)-({'|'.join(SPLITS)})-([0-9]{{1,20}})-([0-9]{{6,20}})(?:-level-([1-{TOP_LEVEL}]))?"
)
PRESENT = 0.25  # probability that bullets about continuing duties are in the present tense

Range = tuple[int, int]


class Size(NamedTuple):
    """The rules of a task size; ranges include both ends.

    Attributes:
        page_lines: height of the page in lines.
        lines: number of wrapped lines of a resume that is not overlong.
        too_long: number of wrapped lines of an overlong resume.
        bullets: total number of good and weak bullets of a resume that is not overlong.
        kept: number of good bullets of an overlong resume.
        padding: number of superfluous bullets of an overlong resume.
        sections: number of superfluous sections of an overlong resume.
        core: number of lines about routine work (`Lines.core`), in addition to the bullets.
        general: probability of a bullet about a piece of work that suits many roles; there are
            more if the content bank has too few pieces of work for the role.
        jobs: number of jobs of a career.
        fixes: number of fixes that need no evidence. Some episodes allow only as many edits as the
            minimum of this range, so the resume must fit the page after so many fixes.
        job_words: number of words of the job description.
        brief: whether tasks are short: short bullets are preferred, no verb is used twice, and
            resume and job description are rendered in their short forms.
    """

    page_lines: int
    lines: Range
    too_long: Range
    bullets: Range
    kept: Range
    padding: Range
    sections: Range
    core: Range
    general: float
    jobs: Range
    fixes: Range
    job_words: Range
    brief: bool


SIZES = {
    "full": Size(
        page_lines=55, lines=(36, 55), too_long=(57, 70), bullets=(12, 16), kept=(8, 10),
        padding=(9, 14), sections=(1, 2), core=(3, 6), general=0.4, jobs=(2, 3), fixes=(8, 14),
        job_words=(110, 240), brief=False,
    ),
    "mini": Size(
        page_lines=20, lines=(12, 20), too_long=(21, 24), bullets=(6, 7), kept=(4, 4),
        padding=(4, 6), sections=(0, 1), core=(1, 2), general=0.35, jobs=(1, 2), fixes=(4, 7),
        job_words=(15, 60), brief=True,
    ),
}  # fmt: skip


def size_of(name: str, level: int | None = None) -> Size:
    """Return the rules of a size; a level changes `fixes`, `too_long`, `kept` and `padding`."""
    size = SIZES[name]
    if level is None:
        return size
    if size.brief:
        over = (size.page_lines + max(1, level - 1), size.page_lines + max(2, level))
        return size._replace(
            fixes=(level + 1, level + 2),
            too_long=over,
            kept=(4, 6),
            padding=(level, level + 2),
        )
    return size._replace(
        fixes=(2 * level, 2 * level + 2),
        too_long=(size.page_lines + 2 * level, size.page_lines + 2 * level + 5),
        kept=(14 - level, 16 - level),
        padding=(2 * level, 2 * level + 4),
    )


class TaskPlan(NamedTuple):
    """The properties of a task that are the same in all drafts that the generator tries."""

    task_id: str
    number: int
    weakness: str
    split: str
    size: Size
    level: int | None = None

    @property
    def untidy(self) -> bool:
        """Whether the planted weakness is an inconsistent formatting."""
        return self.weakness == "formatting_inconsistent"

    @property
    def hedged(self) -> bool:
        """Whether one or two good bullets say that the candidate only helped ("Helped with")."""
        if self.level:
            return self.level >= HEDGED_FROM
        return self.number // len(WEAKNESSES) % HELPED == HELPED - 1


def generate_task(
    seed: int, index: int, split: str = "train", size: str = "full", level: int | None = None
) -> Task:
    """Generate task `index` of the infinite sequence for `seed`.

    The sequence is balanced: every block of 6 indices has each of the 6 weaknesses once. The roles
    and levels are balanced in the same way, and so are the verticals (industries) of each role. If
    the tasks of one role are counted from 0, tasks 2n and 2n + 1 share few deeds (pieces of work).

    Args:
        seed: seed of the sequence.
        index: index of the task, from 0; the index modulo 6 selects the weakness.
        split: "train" or "eval", which share no name, company, bullet or line of a job description.
        size: "full" (a page of 55 lines) or "mini" (20 lines).
        level: difficulty from 1 to `TOP_LEVEL`, which determines the number of flaws or excess
            lines; from level 3 on, one or two bullets open with a hedge ("Helped with"). Without a
            level, the ranges of `SIZES` apply.

    Raises:
        ValueError: The split, size or level is unknown, or the index is negative.
    """
    if split not in SPLITS or size not in SIZES or index < 0:
        raise ValueError(
            f"expected a split from {SPLITS}, a size from {tuple(SIZES)} and an index >= 0, "
            f"got {split!r}, {size!r}, {index!r}"
        )
    if level is not None and not 1 <= level <= TOP_LEVEL:
        raise ValueError(f"expected a level from 1 to {TOP_LEVEL}, got {level!r}")
    key = f"{size}-{split}-{seed}"
    task_id = f"{key}-{index:06d}" + (f"-level-{level}" if level else "")
    weakness = WEAKNESSES[index % len(WEAKNESSES)]
    plan = TaskPlan(task_id, index, weakness, split, size_of(size, level), level)
    # an earlier job is to look as if pasted from another document, so at least two are needed
    jobs = (2, plan.size.jobs[1]) if plan.untidy else plan.size.jobs
    for attempt in range(ATTEMPTS):
        rng = Random(f"{task_id}-{attempt}")
        career = draw_career(key, index)
        candidate = make_candidate(*career, split, jobs, rng, plan.size.brief)
        task = _draft(plan, candidate, key, rng)
        if task and is_sound(task, plan.size):
            return task
    raise AssertionError(f"the content bank is too small for {task_id}")


@lru_cache(maxsize=10_000)
def task_of(task_id: str) -> Task:
    """Return the task that `generate_task` made under this id.

    Raises:
        KeyError: the id is not that of a generated task.
    """
    found = _ID.fullmatch(task_id)
    if found is None:
        raise KeyError(task_id)
    size, split, seed, index, level = found.groups()
    return generate_task(int(seed), int(index), split, size, int(level) if level else None)


def weakness_of(task_id: str) -> str:
    """Return the weakness that `generate_task` plants in this task; empty for other tasks."""
    found = _ID.fullmatch(task_id)
    return WEAKNESSES[int(found[4]) % len(WEAKNESSES)] if found else ""


def load(source: str, split: str | None = None) -> Iterator[Task]:
    """Return an iterator over the tasks of "procedural[-mini]:SEED:COUNT".

    Args:
        source: source of the tasks; COUNT is the number of tasks per split.
        split: split of the tasks; None selects both splits.
    """
    return load_with(generate_task, source, split)


def load_with(
    make: Callable[[int, int, str, str], Task], source: str, split: str | None
) -> Iterator[Task]:
    """Return an iterator over the tasks of "KIND:SEED:COUNT" or "KIND-mini:SEED:COUNT".

    Args:
        make: function that returns a task, given seed, index, split and size.
        source: source of the tasks; COUNT is the number of tasks per split.
        split: split of the tasks; None selects both splits.
    """
    kind, seed, count = source.split(":")
    size = "mini" if kind.endswith("-mini") else "full"
    for one in (split,) if split else SPLITS:
        yield from (make(int(seed), index, one, size) for index in range(int(count)))


def generate_tasks(
    seed: int, count: int, split: str = "train", size: str = "full"
) -> Iterator[Task]:
    """Return an iterator over the first `count` tasks of the sequence for `seed`."""
    return (generate_task(seed, index, split, size) for index in range(count))


def is_sound(task: Task, size: Size) -> bool:
    """Return whether a task follows the rules of its size and its fixes apply in order."""
    least, most = size.too_long if task.weakness == "too_long" else size.lines
    if not least <= wrapped_lines(task.resume, PAGE_WIDTH) <= most:
        return False
    if not size.job_words[0] <= len(task.job.split()) <= size.job_words[1]:
        return False
    steps = list(repair(task))
    if any(count != 1 for count, _ in steps):
        return False
    # An episode may allow only `size.fixes[0]` edits. From this number of edits on, the resume must
    # fit the page.
    late = (text for _, text in steps[size.fixes[0] - 1 :])
    if any(wrapped_lines(text, PAGE_WIDTH) > size.page_lines for text in late):
        return False
    visible = sum(not fix.needs_evidence for fix in task.fixes)
    # adjacent bullets must not open with the same word
    echo = re.search(r"^- (\w+)\b.*\n- \1\b", repaired(task), re.MULTILINE)
    return size.fixes[0] <= visible <= size.fixes[1] and not echo


def _draft(plan: TaskPlan, candidate: Candidate, key: str, rng: Random) -> Task | None:
    """Draw a task, which `is_sound` may reject; None if there are too few suitable deeds."""
    size, split = plan.size, plan.split
    chosen = _choose(plan, candidate, key, rng)
    done = _write_bullets(plan, candidate, chosen, rng) if chosen else None
    if done is None:
        return None
    stories = " ".join(deed.story.told for deed in done)
    results = [deed.story.text(deed.story.deed.figure) for deed in done if deed.shown]
    results = [text[0].upper() + text[1:] for text in rng.sample(results, len(results))]
    weak = sum(deed.weak for deed in done)
    look = draw_look(rng, months=plan.untidy)
    extra = _pad(plan, candidate, look, weak, rng) if plan.weakness == "too_long" else []
    wording = draw_wording(candidate, stories, results, extra, split, rng)
    render = short_resume if size.brief else long_resume
    limit = (size.too_long if plan.weakness == "too_long" else size.lines)[1]
    room = limit - wrapped_lines(render(candidate, wording, look), PAGE_WIDTH)
    _add_core(plan, candidate, min(rng.randint(*size.core), max(room, 0)), rng)
    resume = render(candidate, wording, look)
    fixes = [deletion("\n" + section) for section in extra]
    fixes += [fix for held in candidate.jobs for _, fixes in held.bullets for fix in fixes]
    if plan.untidy:
        mixed = disorder(look, candidate.jobs, size.fixes[1] - weak, rng)
        messy = render(candidate, wording, mixed)
        resume, fixes = messy, [*differences(messy, resume), *fixes]
    job = short_job(candidate, wording) if size.brief else long_job(candidate, wording, split, rng)
    return Task(
        task_id=plan.task_id,
        job=job,
        resume=resume,
        weakness=plan.weakness,
        split=split,
        # deletions first, so that the page soon fits
        fixes=tuple(sorted(fixes, key=lambda fix: (fix.needs_evidence, fix.new != ""))),
        persona=candidate.persona,
        evidence=write_evidence(candidate, done, split, Random(f"{plan.task_id}-evidence")),
    )


class _Fault(NamedTuple):
    """The faults of a weak bullet: the arguments `form` and `metric` of `weaken`."""

    form: str = ""
    metric: str = ""


def _draw_faults(plan: TaskPlan, total: int, rng: Random) -> list[_Fault]:
    """Draw the faults of the weak bullets among `total` bullets."""
    least, most = plan.size.fixes
    others = [form for form in FORMS if form != plan.weakness]

    def beside(count: int) -> list[str]:
        return rng.choices(others, [BESIDE[form] for form in others], k=count)

    if plan.weakness in FORMS:
        weak = rng.randint(least, max(least, min(most, total - 3)))
        other = rng.randint(weak // 4, weak * 2 // 5)
        return [_Fault(form) for form in (*[plan.weakness] * (weak - other), *beside(other))]
    if plan.weakness == "no_metrics":
        # Metrics that the resume states elsewhere can be added without the evidence. Of the other
        # bullets without their metric, many have a weak form, too, which an agent can repair.
        elsewhere, alone = round(0.35 * least), least // 6
        both = beside(least - elsewhere - alone)
        return [
            *[_Fault(metric="elsewhere")] * max(1, elsewhere),
            *(_Fault(form, "missing") for form in both),
            *(_Fault(form) for form in beside(alone)),
        ]
    return [_Fault(form) for form in beside(rng.randint(1, max(2, least // 3)) if least > 3 else 0)]


class _Chosen(NamedTuple):
    """A piece of work, its job, and the faults of the bullet about it."""

    job: Job
    deed: Deed
    fault: _Fault


def _choose(plan: TaskPlan, candidate: Candidate, key: str, rng: Random) -> list[_Chosen] | None:
    """Choose a deed for each bullet, in the order of the resume; None if too few deeds fit."""
    size = plan.size
    total = rng.randint(*(size.kept if plan.weakness == "too_long" else size.bullets))
    if candidate.level == 0 and not size.brief:  # few pieces of work suit a first job
        total = min(total, size.bullets[0])
    faults = _draw_faults(plan, total, rng)
    # older jobs have more weak bullets
    weak = sorted(range(total), key=lambda place: rng.random() - place / total)[: len(faults)]
    fault_at = dict(zip(weak, rng.sample(faults, len(faults)), strict=True))
    general_places = {rng.randrange(total)} if rng.random() < size.general else set()
    shares = zip(candidate.jobs, _shares(total, candidate.jobs), strict=True)
    places = [job for job, share in shares for _ in range(share)]
    turn = plan.number // len(load_roles())
    special = {
        job.role.key: _turn(job.role.deeds, plan.split, f"{key}-{job.role.key}", turn)
        for job in candidate.jobs
    }
    general = _turn(load_general(), plan.split, f"{key}-general", 0)
    start = plan.number % len(general)
    general = general[start:] + general[:start]
    verbs: Counter[str] = Counter()
    picked: list[_Chosen] = []
    # Begin with the oldest job, since the fewest deeds suit its low level.
    for place in reversed(range(total)):
        job, of_role = places[place], special[places[place].role.key]
        fault = fault_at.get(place, _Fault())
        # Prefer deeds with short bullets only among the deeds of the role; use general deeds
        # equally often.
        brief = size.brief and place not in general_places
        hedged = plan.hedged and place not in fault_at
        deeds = general + of_role if place in general_places else of_role + general
        able = (
            deed
            for deed in deeds
            if deed.suits(job.role.key, max(job.level, 0), job.vertical.name)
            and verbs[deed.verb] < (1 if size.brief else 2)
            and (deed.has_metric or not fault.metric)
        )
        ranked = sorted(
            able,
            key=lambda deed: (
                hedged and not deed.one_verb,
                brief and len(deed.told.split()) > SHORT,
            ),
        )
        fresh = (one for one in ranked if not any(_alike(one, choice.deed) for choice in picked))
        best = next(fresh, None)
        if best is None:
            return None
        verbs[best.verb] += 1
        picked.append(_Chosen(job, best, fault))
    return picked[::-1]


def _alike(deed: Deed, other: Deed) -> bool:
    """Return whether two deeds are the same or nearly so."""
    least = min(len(deed.words), len(other.words))
    return deed is other or len(deed.words & other.words) >= ALIKE * least


def _turn(deeds: Sequence[Deed], split: str, key: str, turn: int) -> list[Deed]:
    """Return the deeds of a split in the order of preference for a role's task number `turn`."""
    # Tasks 2n and 2n + 1 read the same order from opposite ends, so they share few deeds.
    of_split = [deed for deed in deeds if deed.split == split]
    order = Random(f"{key}-{turn // 2}").sample(of_split, len(of_split))
    return order[::-1] if turn % 2 else order


def _write_bullets(
    plan: TaskPlan, candidate: Candidate, chosen: Sequence[_Chosen], rng: Random
) -> list[Done] | None:
    """Write the bullets of each job and return a record of the work behind each bullet.

    Return None if `plan.hedged` is true but no good bullet can open with a hedge ("Helped with").
    """
    present = rng.random() < PRESENT
    hedges = iter(rng.sample(HEDGES, len(HEDGES)))
    strong = [number for number, choice in enumerate(chosen) if choice.fault == _Fault()]
    helped: list[int] = []
    corrected = -1
    if plan.hedged:
        able = [n for n in strong if chosen[n].deed.one_verb]
        if not able:
            return None
        helped = rng.sample(able, min(len(able), rng.randint(1, 2)))
    elif rng.random() < CORRECTED:
        corrected = rng.choice([n for n in strong if chosen[n].deed.has_metric] or [-1])
    done = []
    for number, (job, deed, fault) in enumerate(chosen):
        story = tell(deed, job.vertical.words, rng)
        untold = bool(fault.form and not fault.metric and deed.has_metric) and rng.random() < BARE
        if untold:
            fault = fault._replace(metric="untold")
        entry = Done(job, story, fault != _Fault(), shown=fault.metric == "elsewhere", bare=untold)
        text = story.told
        fixes: tuple[Fix, ...] = ()
        if entry.weak:
            told = story.plain if untold else story.told
            fact = f"At {job.company}, {candidate.first_name} {told[0].lower()}{told[1:]}."
            text, fixes = weaken(story, *fault, fact, rng)
        elif number in helped:
            region = rng.choice(load_people(plan.split).regions)
            entry = replace(entry, lead=rng.choice(region.people))
            text = f"{next(hedges)} {deed.gerund} {story.told.split(' ', 1)[1]}"
        elif number == corrected:
            # The figures of the bullet are replaced by wrong ones; the evidence corrects only the
            # last one.
            other = tell(deed, job.vertical.words, rng)
            pairs = list(zip(story.told.split(), other.told.split(), strict=True))
            if differing := [pair for pair in pairs if pair[0] != pair[1]]:
                right, wrong = (word.strip(",.;") for word in differing[-1])
                entry = replace(entry, wrong=wrong, right=right)
                text = other.told
        elif present and job is candidate.jobs[0] and deed.now:
            text = story.text(deed.now)
            entry = replace(entry, bare=deed.has_metric)
        else:
            template = rng.choice((deed.told, *deed.also))
            if deed.has_metric and rng.random() < BARE:
                template = without_metric(template)
                entry = replace(entry, bare=True)
            text = story.text(template)
        job.bullets.append((text, fixes))
        done.append(entry)
    return done


def _add_core(plan: TaskPlan, candidate: Candidate, count: int, rng: Random) -> None:
    """Insert at most `count` lines about routine work (`Lines.core`) into the jobs."""
    jobs = rng.choices(candidate.jobs, [len(job.bullets) for job in candidate.jobs], k=count)
    opened = {text.split(" ", 1)[0] for job in candidate.history for text, _ in job.bullets}
    for job in jobs:
        lines = job.role.lines[plan.split]
        heads = LEVELS.index("lead")
        pool = [
            *(lines.core if job.level <= heads else ()),
            *(lines.core_lead if job.level >= heads else ()),
        ]
        # no two lines of a page open with the same word
        fresh = [text for text in pool if text.split(" ", 1)[0] not in opened]
        if fresh:
            text = rng.choice(fresh)
            opened.add(text.split(" ", 1)[0])
            job.bullets.insert(rng.randint(0, len(job.bullets)), (text, ()))


def _shares(total: int, jobs: Sequence[Job]) -> list[int]:
    """Return the number of bullets per job: most for the latest job, few for a traineeship."""
    if len(jobs) == 1:
        return [total]
    oldest = round(total * (0.3 if jobs[-1].level == TRAINEE else 0.4 if len(jobs) == 2 else 0.25))
    middle = [round(total * 0.3)] * (len(jobs) - 2)
    return [total - sum(middle) - oldest, *middle, oldest]


def _pad(plan: TaskPlan, candidate: Candidate, look: Look, weak: int, rng: Random) -> list[str]:
    """Insert superfluous bullets into the jobs and return superfluous sections for the resume."""
    size = plan.size
    stock, sections = load_padding(plan.split)
    # a brief resume has only one line of a section, below its heading
    extra = [
        f"{look.style.format(heading)}\n- {lines[0]}"
        if size.brief
        else "\n".join([look.style.format(heading), "", *(f"- {line}" for line in lines)])
        for heading, lines in rng.sample(sections, rng.randint(*size.sections))
    ]
    # each fix deletes one bullet or section, or repairs one of the `weak` bullets
    beside = len(extra) + weak
    count = min(max(rng.randint(*size.padding), size.fixes[0] - beside), size.fixes[1] - beside)
    # the oldest job gets the most; the head of a department does not list such duties
    lower = [job for job in candidate.jobs if job.level < LEVELS.index("lead")] or candidate.jobs
    jobs = rng.choices(lower, range(1, len(lower) + 1), k=count)
    unused = {
        job.role.key: rng.sample(own, len(own))
        for job in candidate.jobs
        for own in [job.role.lines[plan.split].padding]
    }
    spare = rng.sample(stock, len(stock))
    for job in jobs:
        own = unused[job.role.key]
        of_any_role = not own or (job.level < 1 and rng.random() < STOCK)
        text = (spare if of_any_role else own).pop()
        job.bullets.insert(
            rng.randint(0, len(job.bullets)), (text, (deletion(f"- {text}{look.end}"),))
        )
    return extra
