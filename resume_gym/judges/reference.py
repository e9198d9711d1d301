"""What is true of a candidate, and which line of a text tells of which line of the original."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from rapidfuzz import fuzz

from resume_gym.judges.lines import (
    LEXICON,
    Content,
    Line,
    any_of,
    parse,
    parts,
    plain,
    read,
    stem,
)
from resume_gym.judges.passages import statements
from resume_gym.judges.style import VAGUE, fillers, is_weak
from resume_gym.tasks import Evidence, Fix, Task

PROSE = ("bullet", "text")

_ALIASES: Mapping[str, str] = LEXICON["claims"]["aliases"]
_JOB_STOP = frozenset(stem(word) for word in LEXICON["words"]["job_stop"])
_PADDING_SECTIONS = frozenset(LEXICON["words"]["padding_sections"])
_CORE = frozenset(LEXICON["words"]["sections"]) - {"and", "of"}
_HELPING = any_of(LEXICON["words"]["helping"])
_HELPING_STEMS = frozenset(
    stem(part) for phrase in LEXICON["words"]["helping"] for part in phrase.split()
) | {stem(word) for word in LEXICON["words"]["glue"]}
_ENTRY_WORDS = 14
_MOST = 4096  # entries of a memory
_ALIGNED = 0.42  # similarity at which a line tells of another
_BEST = 0.25  # the same for the most similar line, when none is aligned
_RIVAL = 0.8  # share of a line's similarity at which another line competes with it
_RUNNER_UP = 0.65  # share of the greatest similarity that the second greatest may have
_MERGED = 3  # original lines that a line tells of, at most


@dataclass(frozen=True, eq=False)
class Reference:
    """What is true of the candidate, and the job to be won.

    Attributes:
        lines: the original.
        fixed: for each line, what fixes make of it.
        told: for each line, the facts behind that.
        deleted: the lines that a fix deletes.
        aside: whether the original hides its points: the planted weakness, wrong_emphasis.
        name: of the candidate.
        documents: about the candidate.
        wanted: the job description.
    """

    lines: tuple[Line, ...]
    fixed: Mapping[int, tuple[Content, ...]]
    told: Mapping[int, tuple[str, ...]]
    deleted: frozenset[int]
    aside: bool
    name: str
    documents: tuple[Evidence, ...]
    wanted: str

    # What follows is read when it is needed: many verdicts need neither evidence nor job.

    @cached_property
    def evidence(self) -> tuple[Content, ...]:
        """What documents say of the candidate."""
        return tuple(statements(self.documents, self.name))

    @cached_property
    def job(self) -> tuple[Content, ...]:
        """The sentences of the job description."""
        bodies = (plain(line).strip("-#* ") for line in self.wanted.split("\n"))
        parts = (part for body in bodies for part in re.split(r"(?<=[.;:!?])\s+", body))
        return tuple(read(part) for part in parts if part)

    @cached_property
    def facts(self) -> Mapping[int, tuple[Content, ...]]:
        """For each line, the facts behind its fixes."""
        return {unit: tuple(read(plain(one)) for one in own) for unit, own in self.told.items()}

    @cached_property
    def statements(self) -> tuple[Content, ...]:
        """Everything that is true."""
        own = (s for table in (self.fixed, self.facts) for known in table.values() for s in known)
        return (*(line.content for line in self.lines), *own, *self.evidence)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Every word and stem of the true statements."""
        return _forms(self.statements)

    @cached_property
    def _shown(self) -> frozenset[str]:
        """The same of the original and its fixes: most words that are looked up are there."""
        fixed = (statement for own in self.fixed.values() for statement in own)
        return _forms((*(line.content for line in self.lines), *fixed))

    @cached_property
    def bodies(self) -> frozenset[str]:
        """The original lines, case aside."""
        return frozenset(line.body.casefold() for line in self.lines)

    @cached_property
    def heads(self) -> tuple[tuple[Content, ...], ...]:
        """For each line that is no bullet: it and the ones that follow without a bullet between."""
        runs: list[tuple[Content, ...]] = []
        run: tuple[Content, ...] = ()
        for line in reversed(self.lines):
            prose = line.kind in ("bullet", "skills") or len(line.content.words) > _ENTRY_WORDS
            run = () if prose else (line.content, *run)
            runs.append(run)
        return tuple(run for run in reversed(runs) if run)

    @cached_property
    def runs(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """For each heading and head of a job, and for each bullet: the number of its run of heads.

        Heads that follow each other are one run; bullets before the first have number -1.
        """
        heads: dict[int, int] = {}
        bullets: dict[int, int] = {}
        number, inside = -1, False
        for unit, line in enumerate(self.lines):
            head = line.kind in ("entry", "heading")
            number += head and not inside
            inside = head
            if head or line.kind == "bullet":
                (heads if head else bullets)[unit] = number
        return heads, bullets

    @cached_property
    def _notes(self) -> tuple[frozenset[str], ...]:
        """What the resume and the evidence say that the candidate only helped with, as stems."""
        texts = [line.content for line in self.lines if line.kind == "text"]
        names = {stem(n.text.lower()) for c in (*texts, *self.evidence) for n in c.names}
        return tuple(
            content.stems - _HELPING_STEMS - names
            for content in (*texts, *self.evidence)
            if _HELPING.search(content.body.lower())
        )

    def helped(self, unit: int) -> bool:
        """Whether the resume or the evidence says that somebody else led what a line tells."""
        told = self.lines[unit].content.stems
        return any(n and len(n & told) >= 0.6 * len(n) for n in self._notes)

    @cached_property
    def weights(self) -> Mapping[str, float]:
        """How much a stem says about which line it is from."""
        placed = [line.content for line in self.lines]
        placed += [statement for own in self.fixed.values() for statement in own]
        counts = Counter(s for content in placed for s in content.stems)
        return {s: math.log(1 + len(self.lines) / n) for s, n in counts.items()}

    @cached_property
    def job_names(self) -> frozenset[str]:
        """Names in the job description, lower case."""
        return frozenset(n.text.lower() for line in self.job for n in line.names if not n.head)

    @cached_property
    def job_weights(self) -> Mapping[str, float]:
        """The weights of the job description's stems; their mean is 1."""
        texts = (*self.job, *(line.content for line in self.lines))
        counts = Counter(s for content in texts for s in content.stems)
        wanted = {s for content in self.job for s in content.stems} - _JOB_STOP - VAGUE
        weights = {s: math.log(1 + len(texts) / counts[s]) for s in sorted(wanted)}
        mean = math.fsum(weights.values()) / max(1, len(weights))
        return {s: weight / mean for s, weight in weights.items()}

    @cached_property
    def rare(self) -> float:
        """The weight of a stem that no line contains."""
        return math.log(1 + len(self.lines))

    def weigh(self, stems: Iterable[str]) -> float:
        """The weight of a set of stems."""
        # An exact sum, since the order of a set changes from process to process.
        return math.fsum([self.weights.get(s, self.rare) for s in stems])

    @cached_property
    def _about(self) -> tuple[frozenset[int], ...]:
        """For each statement of the evidence, the original lines that it tells of."""
        known = [
            (u, (x.content, *self.fixed.get(u, ()), *self.facts.get(u, ())))
            for u, x in enumerate(self.lines)
        ]
        return tuple(
            _clear({unit: max(self.similarity(s, one) for one in about) for unit, about in known})
            for s in self.evidence
        )

    def sources(self, unit: int, new: Content) -> tuple[Content, ...]:
        """What is true of a line beyond its own words; each of it may license a change alone.

        Its fix and facts, evidence that tells of the same, and other lines of the resume that do;
        and evidence that tells of no line of the original, but of the new one. A summary may draw
        on any bullet or job.
        """
        line = self.lines[unit]
        fixed = (*self.fixed.get(unit, ()), *self.facts.get(unit, ()))
        known = [s for s, units in zip(self.evidence, self._about, strict=True) if unit in units]
        others = (other.content for other in self.lines if other is not line)
        known += [c for c in others if any(self.tells(c, one) for one in (line.content, *fixed))]
        drawn = (
            other.content
            for other in self.lines
            if line.kind == "text" and other.kind in ("bullet", "entry")
            if other.content.values & new.values or self.tells(new, other.content)
        )
        return (*fixed, *known, *self.untold(new), *drawn)

    def untold(self, content: Content) -> tuple[Content, ...]:
        """What the evidence says of a line and no line of the original tells."""
        loose = (s for s, units in zip(self.evidence, self._about, strict=True) if not units)
        return tuple(statement for statement in loose if self.tells(content, statement))

    def tells(self, content: Content, statement: Content) -> bool:
        """Whether a line tells of a statement."""
        return self.similarity(content, statement) >= _ALIGNED

    def similarity(self, a: Content, b: Content) -> float:
        """How much of the shorter of two lines the longer one tells, in [0, 1]."""
        shared = a.stems & b.stems
        numbers = a.values & b.values
        if not shared and not numbers:
            return 0.0
        # Two lines are not alike because each has the same single word.
        least = max(min(self._mass(a), self._mass(b)), 3 * self.rare)
        return min(1.0, (self.weigh(shared) + self.rare * len(numbers) / 2) / least)

    @cached_property
    def _masses(self) -> dict[Content, float]:
        return {}

    def _mass(self, content: Content) -> float:
        """The weight of all the stems of a line."""
        known = self._masses.get(content)
        if known is None:
            if len(self._masses) > _MOST:
                self._masses.clear()
            known = self._masses[content] = self.weigh(content.stems)
        return known

    def knows(self, word: str) -> bool:
        """Whether the true statements contain this lower-case word, in any form."""
        if word in self._shown:
            return True
        known = self.vocabulary
        if word in known or stem(word) in known or _ALIASES.get(word, word) in known:
            return True
        pieces = parts(word)[1:]
        return bool(pieces) and all(p in known or stem(p) in known for p in pieces)

    @cached_property
    def spare(self) -> frozenset[int]:
        """Lines that a full page can spare.

        A fix deletes them; or they have no figure, no name and no evidence, say nothing of the
        job, and are vague or stand in a section without core content.
        """
        topic = set(self.job_weights)
        for line in self.lines:
            if line.kind == "skills":
                topic |= line.content.stems
        idle = set(self.deleted)
        sections: dict[str, list[int]] = {}
        for unit, line in enumerate(self.lines):
            sections.setdefault(line.section, []).append(unit)
            content = line.content
            if line.kind != "bullet" or content.figures or unit in self.fixed:
                continue
            named = any(not name.head for name in content.names)
            empty = fillers(line.body) + is_weak(content)
            if empty and not named and len(content.stems & topic) <= empty:
                idle.add(unit)
        for name, units in sections.items():
            contents = [self.lines[unit].content for unit in units]
            tells = any(c.figures or any(not n.head for n in c.names) for c in contents)
            unneeded = name in _PADDING_SECTIONS or not (set(name.split()) & _CORE or tells)
            about = set().union(*(c.stems for c in contents)) & self.job_weights.keys()
            if name and unneeded and len(about) < 3 and not any(u in self.fixed for u in units):
                idle.update(units)
        return frozenset(idle)


def _clear(scores: Mapping[int, float]) -> frozenset[int]:
    """The lines that a statement is about: all similar ones, or one far more similar than others.

    Documents tell deeds in other words than a resume does.
    """
    aligned = frozenset(unit for unit, score in scores.items() if score >= _ALIGNED)
    best, second, *_ = (*sorted(scores.values(), reverse=True), 0.0, 0.0)
    if aligned or best < _BEST or second > _RUNNER_UP * best:
        return aligned
    return frozenset({max(scores, key=lambda unit: scores[unit])})


def _forms(statements: Iterable[Content]) -> frozenset[str]:
    """Words, and their stems and other names."""
    words = {word for content in statements for word in content.words}
    words |= {name.text.lower() for content in statements for name in content.names}
    pieces = {piece for word in words for piece in parts(word)}
    aliases = {_ALIASES[piece] for piece in pieces & _ALIASES.keys()}
    return frozenset(pieces | aliases | set(map(stem, pieces)))


def make_reference(task: Task) -> Reference:
    """The reference of a task; cached, since its many revisions share it."""
    aside = task.weakness == "wrong_emphasis"
    name = task.persona.get("name") or task.resume.lstrip("# ").split("\n", 1)[0]
    return _reference(task.resume, task.job, task.fixes, task.evidence, name, aside)


@lru_cache(maxsize=256)
def _reference(
    resume: str,
    job: str,
    fixes: tuple[Fix, ...],
    evidence: tuple[Evidence, ...],
    name: str,
    aside: bool,
) -> Reference:
    lines = parse(resume)
    fixed: dict[int, tuple[Content, ...]] = {}
    facts: dict[int, tuple[str, ...]] = {}
    told = {unit: line.raw for unit, line in enumerate(lines)}
    for fix in fixes:
        unit = next((unit for unit, raw in told.items() if fix.old.strip() in raw), -1)
        if unit < 0 or not fix.new:
            continue
        told[unit] = told[unit].replace(fix.old.strip(), fix.new.strip())
        fixed[unit] = (*fixed.get(unit, ()), read(plain(told[unit].strip().lstrip("-*+ "))))
        facts[unit] = (*facts.get(unit, ()), *fix.facts)
    gone = {raw for fix in fixes if not fix.new for raw in fix.old.split("\n") if raw.strip()}
    deleted = frozenset(unit for unit, line in enumerate(lines) if line.raw in gone)
    return Reference(lines, fixed, facts, deleted, aside, name, evidence, job)


def align(lines: Sequence[Line], reference: Reference) -> tuple[tuple[int, ...], ...]:
    """For each line of a text, the original lines that it tells of.

    Equal lines first, then similar ones (a merged bullet tells of up to three), then a line that
    has taken the place of another between two known neighbours.
    """
    told: list[tuple[int, ...]] = [()] * len(lines)
    places: dict[str, list[int]] = {}
    for unit, known in reversed(list(enumerate(reference.lines))):
        places.setdefault(_key(known), []).append(unit)
    for index, line in enumerate(lines):
        if units := places.get(_key(line)):
            told[index] = (units.pop(),)
    free = {unit for units in places.values() for unit in units}
    changed = [index for index, units in enumerate(told) if not units]
    for index, near in _similar(lines, changed, free, reference).items():
        told[index] = near
        free.difference_update(near)
    _fill_gaps(lines, told, free, reference)
    return tuple(told)


def _key(line: Line) -> str:
    return line.body.casefold().rstrip(" .;")


def _similar(
    lines: Sequence[Line], changed: Sequence[int], free: set[int], reference: Reference
) -> dict[int, tuple[int, ...]]:
    """For changed lines, the lines of the original that they tell of, each told once."""
    pairs = [
        (_alike(lines[index].content, unit, reference), index, unit)
        for index in changed
        for unit in free
        if (reference.lines[unit].kind in PROSE) == (lines[index].kind in PROSE)
    ]
    told: dict[int, list[int]] = {}
    taken: set[int] = set()
    pairs.sort(reverse=True)
    # prefer one-to-one matches: merge only where no other unmatched line is about as similar
    for merging in (False, True):
        for (score, _), index, unit in pairs:
            enough = _ALIGNED if index in told else _BEST
            if score < enough or unit in taken or len(told.get(index, ())) == _MERGED:
                continue
            if index in told and not merging:
                rivals = (s for (s, _), one, u in pairs if u == unit and one not in told)
                if max(rivals, default=0.0) >= _RIVAL * score:
                    continue
            told.setdefault(index, []).append(unit)
            taken.add(unit)
    return {index: tuple(sorted(units)) for index, units in told.items()}


def _alike(content: Content, unit: int, reference: Reference) -> tuple[float, float]:
    """How far a line tells of an original line, and how far they are written alike."""
    original = reference.lines[unit].content
    statements = (original, *reference.fixed.get(unit, ()))
    told = max(reference.similarity(content, statement) for statement in statements)
    ratio = fuzz.ratio(content.body, original.body)
    return max(told, (ratio - 40) / 60), ratio


def _fill_gaps(
    lines: Sequence[Line], told: list[tuple[int, ...]], free: set[int], reference: Reference
) -> None:
    last = -1
    for index, line in enumerate(lines):
        if not told[index] and line.kind in (*PROSE, "heading"):
            ahead = (min(units) for units in told[index + 1 :] if units)
            before = next(ahead, len(reference.lines))
            gap = [unit for unit in range(last + 1, before) if unit in free]
            if gap and reference.lines[gap[0]].kind == line.kind:
                told[index] = (gap[0],)
                free.discard(gap[0])
        if told[index]:
            last = max(told[index])


def strays(
    lines: Sequence[Line], told: Sequence[tuple[int, ...]], reference: Reference
) -> dict[int, bool]:
    """Bullets that have left the head they stood under, and whether for the head of another job.

    A head that the original does not have, as "Key achievements", may take bullets in.
    """
    heads, bullets = reference.runs
    jobs = set(bullets.values()) - {-1}
    found: dict[int, bool] = {}
    here: int | None = -1
    for index, line in enumerate(lines):
        runs = [heads[unit] for unit in told[index] if unit in heads]
        if runs:
            here = max(runs)
        elif line.kind in ("entry", "heading"):
            here = None
        elif here is not None:
            homes = {bullets[unit] for unit in told[index] if unit in bullets}
            if homes and here not in homes:
                found[index] = here in jobs
    return found
