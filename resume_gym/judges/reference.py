"""What is true of a candidate, and which line of a text tells of which line of the original."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from rapidfuzz import fuzz

from resume_gym.judges.lines import LEXICON, Content, Line, Number, parse, parts, plain, read, stem
from resume_gym.tasks import Evidence, Fix, Task

PROSE = ("bullet", "text")

_SIMILARITY: Mapping[str, float] = LEXICON["similarity"]
_ALIASES: Mapping[str, str] = LEXICON["claims"]["aliases"]
_ENTRY_WORDS = 14


@dataclass(frozen=True, slots=True)
class Teller:
    """A true statement: a line of the original, a fact with its line, a sentence of evidence."""

    content: Content
    unit: int  # index of a line of the original; -1 if it belongs to none


@dataclass(frozen=True, eq=False)
class Reference:
    """What is true of the candidate, and the job to be won.

    `aside` says that the original stresses side aspects: the planted weakness, wrong_emphasis.
    `deleted` are the lines that a fix deletes.
    """

    lines: tuple[Line, ...]
    tellers: tuple[Teller, ...]
    job: tuple[Content, ...]
    aside: bool
    deleted: frozenset[int]

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Every word and stem of the true statements."""
        return frozenset(
            form
            for teller in self.tellers
            for word in (*teller.content.words, *(n.text.lower() for n in teller.content.names))
            for piece in parts(word)
            for form in (piece, stem(piece), _ALIASES.get(piece, piece))
        )

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word of the true statements, as it stands there, lower case."""
        return frozenset(word for teller in self.tellers for word in teller.content.words)

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
    def run(self) -> Mapping[int, int]:
        """For each line that is no bullet: the number of its run of such lines."""
        table: dict[int, int] = {}
        number, inside = -1, False
        for unit, line in enumerate(self.lines):
            other = line.kind in ("bullet", "skills")
            number += not other and not inside
            inside = not other
            if inside:
                table[unit] = number
        return table

    @cached_property
    def home(self) -> Mapping[int, int]:
        """For each bullet: the run of lines that heads it, -1 for none."""
        table: dict[int, int] = {}
        head = -1
        for unit, line in enumerate(self.lines):
            head = self.run.get(unit, head)
            if line.kind == "bullet":
                table[unit] = head
        return table

    @cached_property
    def weights(self) -> Mapping[str, float]:
        """How much a stem says about which line it is from."""
        # Evidence aside: a document more does not make two lines of a resume more alike.
        placed = (teller for teller in self.tellers if teller.unit >= 0)
        counts = Counter(s for teller in placed for s in teller.content.stems)
        return {s: math.log(1 + len(self.lines) / n) for s, n in counts.items()}

    @cached_property
    def owners(self) -> Mapping[float, Sequence[tuple[Number, Teller]]]:
        """Who tells a number."""
        table: dict[float, list[tuple[Number, Teller]]] = {}
        for teller in self.tellers:
            for number in teller.content.numbers:
                table.setdefault(number.value, []).append((number, teller))
        return table

    @cached_property
    def facts(self) -> Mapping[int, tuple[Content, ...]]:
        """The facts that belong to a line, by its index."""
        table: dict[int, tuple[Content, ...]] = {}
        for teller in self.tellers[len(self.lines) :]:
            table[teller.unit] = (*table.get(teller.unit, ()), teller.content)
        return table

    @cached_property
    def told(self) -> tuple[tuple[Content, ...], ...]:
        """Each original line with the facts that belong to it."""
        return tuple(
            (line.content, *self.facts.get(unit, ())) for unit, line in enumerate(self.lines)
        )

    @cached_property
    def places(self) -> Mapping[str | float, frozenset[int]]:
        """The original lines that a stem or a number tells of."""
        table: dict[str | float, set[int]] = {}
        for unit, statements in enumerate(self.told):
            for content in statements:
                keys: tuple[str | float, ...] = (*content.stems, *content.values)
                for key in keys:
                    table.setdefault(key, set()).add(unit)
        return {key: frozenset(units) for key, units in table.items()}

    @cached_property
    def loose(self) -> tuple[Content, ...]:
        """The true statements that belong to no line."""
        return tuple(teller.content for teller in self.tellers if teller.unit < 0)

    @cached_property
    def backings(self) -> dict[str, tuple[Content, ...]]:
        """A memory for `backing`, by body."""
        return {}

    def backing(self, content: Content) -> tuple[Content, ...]:
        """The statements without a line of their own that a line tells of."""
        if not self.loose:
            return ()
        known = self.backings.get(content.body)
        if known is None:
            if len(self.backings) > 4096:
                self.backings.clear()
            found = (s for s in self.loose if tells(content, s, self))
            known = self.backings[content.body] = tuple(found)
        return known

    def near(self, content: Content) -> set[int]:
        """The original lines that share a stem or a number with a line."""
        keys: tuple[str | float, ...] = (*content.stems, *content.values)
        found: set[int] = set()
        for key in keys:
            found.update(self.places.get(key, ()))
        return found

    @cached_property
    def job_names(self) -> frozenset[str]:
        """Names in the job description, lower case."""
        return frozenset(n.text.lower() for line in self.job for n in line.names if not n.head)

    @cached_property
    def rare(self) -> float:
        """The weight of a stem that no true statement contains."""
        return math.log(1 + len(self.lines))

    @cached_property
    def masses(self) -> dict[str, float]:
        """A memory for `mass`, by body."""
        return {}

    def mass(self, content: Content) -> float:
        """The weight of all the stems of a line."""
        known = self.masses.get(content.body)
        if known is None:
            if len(self.masses) > 4096:
                self.masses.clear()
            known = self.masses[content.body] = self.weigh(content.stems)
        return known

    def weigh(self, stems: Iterable[str]) -> float:
        """The weight of a set of stems."""
        weights, rare = self.weights, self.rare
        # An exact sum, since the order of a set changes from process to process.
        return math.fsum([weights.get(s, rare) for s in stems])

    def knows(self, word: str) -> bool:
        """Whether the true statements contain this lower-case word, in any form."""
        known = self.vocabulary
        if word in known or stem(word) in known or _ALIASES.get(word, word) in known:
            return True
        pieces = parts(word)[1:]
        return bool(pieces) and all(p in known or stem(p) in known for p in pieces)


def make_reference(task: Task) -> Reference:
    """The reference of a task; cached, since its many revisions share it."""
    aside = task.weakness == "wrong_emphasis"
    return _reference(task.resume, task.job, task.fixes, task.evidence, aside)


@lru_cache(maxsize=256)
def _reference(
    resume: str, job: str, fixes: tuple[Fix, ...], evidence: tuple[Evidence, ...], aside: bool
) -> Reference:
    lines = parse(resume)
    tellers = [Teller(line.content, unit) for unit, line in enumerate(lines)]
    for fix in fixes:
        unit = next((i for i, line in enumerate(lines) if fix.old.strip() in line.raw), -1)
        tellers += [Teller(read(plain(fact)), unit) for fact in fix.facts]
    facts = [teller.content for teller in tellers[len(lines) :]]
    tellers += [Teller(content, -1) for content in _statements(evidence, facts)]
    sentences = (s for line in job.split("\n") for s in re.split(r"(?<=[.;:!?])\s+", plain(line)))
    wanted = tuple(read(sentence.strip("-#* ")) for sentence in sentences if sentence.strip("-#* "))
    gone = {raw for fix in fixes if not fix.new for raw in fix.old.split("\n") if raw.strip()}
    deleted = frozenset(unit for unit, line in enumerate(lines) if line.raw in gone)
    return Reference(lines, tuple(tellers), wanted, aside, deleted)


def _statements(evidence: Iterable[Evidence], facts: Sequence[Content]) -> Iterator[Content]:
    """The sentences of documents, without those that a fact says already."""
    lines = (line for document in evidence for line in document.text.split("\n"))
    bodies = (plain(line.strip().lstrip("-* ")) for line in lines if not line.startswith("#"))
    for sentence in (s for body in bodies for s in re.split(r"(?<=[.!?])\s+", body) if s):
        content = read(sentence)
        if not any(content.stems <= f.stems and content.values <= f.values for f in facts):
            yield content


def tells(content: Content, statement: Content, reference: Reference, figures: bool = True) -> bool:
    """Whether a line tells of a statement; `figures`: whether those that both have speak for it."""
    return similarity(content, statement, reference, figures) >= _SIMILARITY["aligned"]


def similarity(a: Content, b: Content, reference: Reference, figures: bool = True) -> float:
    """How much of the shorter of two lines the longer one tells, in [0, 1]."""
    shared = a.stems & b.stems
    numbers = a.values & b.values if figures else frozenset()
    if not shared and not numbers:
        return 0.0
    # Two lines are not alike because each has the same single word.
    least = max(min(reference.mass(a), reference.mass(b)), 3 * reference.rare)
    overlap = (reference.weigh(shared) + reference.rare * len(numbers) / 2) / least
    if overlap < _SIMILARITY["aligned"]:
        overlap = max(overlap, (fuzz.ratio(a.body, b.body, score_cutoff=55) - 40) / 60)
    return min(1.0, overlap)


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
    scores = {
        index: {
            unit: max(similarity(lines[index].content, s, reference) for s in reference.told[unit])
            for unit in sorted(free & reference.near(lines[index].content))
            if (reference.lines[unit].kind in PROSE) == (lines[index].kind in PROSE)
        }
        for index in changed
    }
    best: dict[int, float] = {}
    for found in scores.values():
        for unit, score in found.items():
            best[unit] = max(score, best.get(unit, 0.0))
    told = {}
    for index, found in scores.items():
        ranked = sorted(found, key=lambda unit: (-found[unit], unit))
        near = [
            unit
            for unit in ranked
            if found[unit] >= _SIMILARITY["aligned"]
            and (unit == ranked[0] or found[unit] == best[unit])
        ]
        if not near and ranked and found[ranked[0]] >= _SIMILARITY["best"]:
            near = ranked[:1]
        if near:
            told[index] = tuple(sorted(near[:3]))
    return told


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
    jobs = set(reference.home.values()) - {-1}
    found: dict[int, bool] = {}
    here: int | None = -1
    for index, line in enumerate(lines):
        runs = [reference.run[unit] for unit in told[index] if unit in reference.run]
        if runs:
            here = max(runs)
        elif line.kind in ("entry", "heading"):
            here = None
        elif here is not None:
            homes = {reference.home[unit] for unit in told[index] if unit in reference.home}
            if homes and here not in homes:
                found[index] = here in jobs
    return found
