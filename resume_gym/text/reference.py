"""True statements about a candidate, with which the lines of a revision are compared.

`make_reference` collects the statements of a task. In the code, `unit` always means the index of a
line in the original, counted without blank lines.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from resume_gym.episode.tasks import Evidence, Fix, Task
from resume_gym.text.lines import (
    ENTRY_WORDS,
    LEXICON,
    Content,
    Line,
    parse,
    parts,
    plain,
    read,
    stem,
)
from resume_gym.text.passages import statements
from resume_gym.text.style import (
    VAGUE,
    Formatting,
    empties,
    fillers,
    habits,
    is_chore,
    is_past,
    is_weak,
)
from resume_gym.text.thresholds import ALIKE, FEW

PROSE = ("bullet", "text")

_ALIASES: Mapping[str, str] = LEXICON["claims"]["aliases"]
_JOB_STOP = frozenset(stem(word) for word in LEXICON["words"]["job_stop"])
_PADDING = re.compile("|".join(f"(?:{one})" for one in LEXICON["words"]["padding"]))
_PADDING_SECTIONS = frozenset(LEXICON["words"]["padding_sections"])
_LEISURE = _PADDING_SECTIONS | frozenset(LEXICON["words"]["leisure_sections"])
_CORE = frozenset(LEXICON["words"]["sections"]) - {"and", "of"}


@dataclass(frozen=True, eq=False)
class Reference:
    """True statements about the candidate, and the job description.

    Attributes:
        lines: non-blank lines of the original; the keys and values called `unit` are indices into
            `lines`.
        fixed: for each original line that fixes change, by its index: the content of the line after
            the first of these fixes, after the second, and so on.
        told: for each original line that fixes change, by its index: the facts that support these
            fixes.
        deleted: indices of the original lines that a fix deletes.
        mended: for each original line that fixes change, by its index: the line, with markup, after
            the first of these fixes, after the second, and so on.
        aside: whether the planted weakness is wrong_emphasis: bullets that mention their main point
            only in passing.
        name: name of the candidate.
        documents: documents with evidence about the candidate.
        wanted: text of the job description.
    """

    lines: tuple[Line, ...]
    fixed: Mapping[int, tuple[Content, ...]]
    told: Mapping[int, tuple[str, ...]]
    deleted: frozenset[int]
    mended: Mapping[int, tuple[str, ...]]
    aside: bool
    name: str
    documents: tuple[Evidence, ...]
    wanted: str

    # Evidence and job are parsed on demand, since many verdicts need neither of them.

    @cached_property
    def evidence(self) -> tuple[Content, ...]:
        """The statements about the candidate in the evidence documents."""
        return tuple(statements(self.documents, self.name))

    @cached_property
    def job(self) -> tuple[Content, ...]:
        """The sentences of the job description."""
        bodies = (plain(line).strip("-#* ") for line in self.wanted.split("\n"))
        parts = (part for body in bodies for part in re.split(r"(?<=[.;:!?])\s+", body))
        return tuple(read(part) for part in parts if part)

    @cached_property
    def facts(self) -> Mapping[int, tuple[Content, ...]]:
        """The parsed facts that support the fixes of an original line, by the line's index."""
        return {unit: tuple(read(plain(one)) for one in own) for unit, own in self.told.items()}

    @cached_property
    def statements(self) -> tuple[Content, ...]:
        """All true statements: the original, fixes, facts and evidence."""
        own = (s for table in (self.fixed, self.facts) for known in table.values() for s in known)
        return (*(line.content for line in self.lines), *own, *self.evidence)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """All words of the true statements, with their stems and aliases."""
        words = {word for content in self.statements for word in content.words}
        words |= {name.text.lower() for content in self.statements for name in content.names}
        pieces = {piece for word in words for piece in parts(word)}
        aliases = {_ALIASES[piece] for piece in pieces & _ALIASES.keys()}
        return frozenset(pieces | aliases | set(map(stem, pieces)))

    @cached_property
    def form(self) -> Formatting:
        """The formatting that most lines of the original share after its fixes."""
        kept = (unit for unit in range(len(self.lines)) if unit not in self.deleted)
        raws = (self.mended.get(unit, (self.lines[unit].raw,))[-1] for unit in kept)
        return habits(parse("\n".join(raws)))

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Map from the `key` of an original line, or of its mended texts, to the line's own key."""
        own = {
            key(parse(raw)[0]): key(self.lines[unit])
            for unit, raws in self.mended.items()
            for raw in raws
        }
        return own | {key(line): key(line) for line in self.lines}

    def has(self, line: Line) -> bool:
        """Return whether a line equals an original line or the mended text of one."""
        return key(line) in self.names

    @cached_property
    def original(self) -> str:
        """The lines of the original and their mended texts, with markup, without blank lines."""
        mended = (raw for raws in self.mended.values() for raw in raws)
        return "\n".join([*(line.raw for line in self.lines), *mended])

    @cached_property
    def spelt(self) -> frozenset[str]:
        """All words and parts of words of the true statements and the job, as they are spelt."""
        texts = (*self.statements, *self.job)
        words = {word for content in texts for word in content.words}
        words |= {name.text.lower() for content in texts for name in content.names}
        return frozenset(piece for word in words for piece in parts(word))

    @cached_property
    def attested(self) -> frozenset[str]:
        """The words of the job, of the evidence, and of at least two lines of the original."""
        lines = Counter(word for line in self.lines for word in {*line.content.words})
        texts = (*self.job, *self.evidence)
        return frozenset(word for word, number in lines.items() if number > 1).union(
            *(content.words for content in texts)
        )

    @cached_property
    def bodies(self) -> frozenset[str]:
        """The lines of the original, case-folded and without markup."""
        return frozenset(line.body.casefold() for line in self.lines)

    @cached_property
    def heads(self) -> tuple[tuple[Content, ...], ...]:
        """For each short line that is no list item: it and the run of such lines directly below."""
        runs: list[tuple[Content, ...]] = []
        run: tuple[Content, ...] = ()
        for line in reversed(self.lines):
            prose = line.kind in ("bullet", "skills") or len(line.content.words) > ENTRY_WORDS
            run = () if prose else (line.content, *run)
            runs.append(run)
        return tuple(run for run in reversed(runs) if run)

    @cached_property
    def runs(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Two maps from line index to group number: for headings and entries, and for bullets.

        Consecutive headings and entries form a group, such as the header lines of a job, and the
        bullets below belong to the same group. Bullets before the first heading or entry have the
        number -1.
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
    def weights(self) -> Mapping[str, float]:
        """IDF weight of each stem in the lines of the original and in their fixed versions."""
        placed = [line.content for line in self.lines]
        placed += [statement for own in self.fixed.values() for statement in own]
        counts = Counter(s for content in placed for s in content.stems)
        return {s: math.log(1 + len(self.lines) / n) for s, n in counts.items()}

    @cached_property
    def job_names(self) -> frozenset[str]:
        """The names in the job description, in lower case, except those that start a sentence."""
        return frozenset(n.text.lower() for line in self.job for n in line.names if not n.head)

    @cached_property
    def job_weights(self) -> Mapping[str, float]:
        """IDF weights of the job description's stems, scaled to a mean of 1."""
        texts = (*self.job, *(line.content for line in self.lines))
        counts = Counter(s for content in texts for s in content.stems)
        wanted = {s for content in self.job for s in content.stems} - _JOB_STOP - VAGUE
        weights = {s: math.log(1 + len(texts) / counts[s]) for s in sorted(wanted)}
        mean = math.fsum(weights.values()) / max(1, len(weights))
        return {s: weight / mean for s, weight in weights.items()}

    @cached_property
    def rare(self) -> float:
        """The IDF weight of a stem that no line of the original contains."""
        return math.log(1 + len(self.lines))

    def weigh(self, stems: Iterable[str]) -> float:
        """Return the total IDF weight of a set of stems."""
        # fsum is exact; a plain sum would depend on the set order, which varies between processes
        return math.fsum([self.weights.get(s, self.rare) for s in stems])

    @cached_property
    def _about(self) -> tuple[frozenset[int], ...]:
        """For each statement of the evidence, the indices of the original lines it is about."""
        known = [
            (u, (x.content, *self.fixed.get(u, ()), *self.facts.get(u, ())))
            for u, x in enumerate(self.lines)
        ]
        return tuple(
            frozenset(unit for unit, about in known if any(self.tells(s, one) for one in about))
            for s in self.evidence
        )

    def sources(self, unit: int, new: Content) -> tuple[Content, ...]:
        """Return the true statements that may support the new content of an original line.

        These are the line's fixes and their facts; statements of the evidence, and other lines of
        the original, that restate the line; and statements of the evidence that match the new
        content and are about no line of the original. For a line of kind "text", such as a summary,
        bullets and entries that match the new content are included, too. The line itself is not
        included.
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
        loose = (s for s, units in zip(self.evidence, self._about, strict=True) if not units)
        return (*fixed, *known, *(s for s in loose if self.tells(new, s)), *drawn)

    def tells(self, content: Content, statement: Content) -> bool:
        """Return whether a line says about the same as a statement."""
        return self.similarity(content, statement) >= ALIKE

    def similarity(self, a: Content, b: Content) -> float:
        """Return the share of the shorter line, weighted by IDF, that the other line contains."""
        shared = a.stems & b.stems
        numbers = a.values & b.values
        if not shared and not numbers:
            return 0.0
        # due to this minimum, two short lines are not similar if they share only one word
        least = max(min(self.weigh(a.stems), self.weigh(b.stems)), 3 * self.rare)
        return min(1.0, (self.weigh(shared) + self.rare * len(numbers) / 2) / least)

    def knows(self, word: str) -> bool:
        """Return whether the true statements contain a lower-case word in any form."""
        known = self.vocabulary
        if word in known or stem(word) in known or _ALIASES.get(word, word) in known:
            return True
        pieces = parts(word)[1:]
        return bool(pieces) and all(p in known or stem(p) in known for p in pieces)

    @cached_property
    def spare(self) -> frozenset[int]:
        """The indices of the original lines that can be deleted without loss.

        Four kinds of lines can be deleted without loss: vague bullets, padding, the lines of idle
        sections, and lines that a fix deletes. A bullet is vague if it has fillers or a weak
        opening, contains no figure and no name, is not changed by a fix, and has at most as many
        stems from the job description and the skills as it has fillers and weak openings. A line is
        padding if no fix changes it, if it has at most one of these stems, and if it states a
        routine task ("Attended staff meetings") or is a line without a figure in a leisure section.
        A section is idle if no fix changes it, if fewer than three of its stems occur in the job
        description, and if it looks like padding. A section looks like padding if its heading names
        padding ("Hobbies"), or if it has no standard heading ("Experience"), no figure and no name.
        """
        skills = (line.content.stems for line in self.lines if line.kind == "skills")
        topic = frozenset(self.job_weights).union(*skills)
        idle = set(self.deleted)
        sections: dict[str, list[int]] = {}
        for unit, line in enumerate(self.lines):
            sections.setdefault(line.section, []).append(unit)
            empty = fillers(line.body) - empties(line.body) + is_weak(line.content)
            vague = line.kind == "bullet" and empty and not _specific(line.content)
            if vague and unit not in self.fixed and len(line.content.stems & topic) <= empty:
                idle.add(unit)
            leisure = line.section in _LEISURE and not line.content.figures
            leisure = leisure and line.kind not in ("heading", "entry")
            if (
                unit not in self.fixed
                and (leisure or _is_padding(line))
                and len(line.content.stems & topic) < 2
            ):
                idle.add(unit)
        for name, units in sections.items():
            contents = [self.lines[unit].content for unit in units]
            needed = not _CORE.isdisjoint(name.split()) or any(map(_specific, contents))
            about = frozenset().union(*(c.stems for c in contents)) & self.job_weights.keys()
            if name and (name in _PADDING_SECTIONS or not needed) and len(about) < FEW:
                idle.update(units if self.fixed.keys().isdisjoint(units) else ())
        return frozenset(idle)


def _is_padding(line: Line) -> bool:
    """Return whether a line states only what any employee does: "Attended staff meetings"."""
    if line.kind not in PROSE:
        return False
    if is_chore(line.body):
        return True
    if not _PADDING.fullmatch(line.body.lower().rstrip(" .")):
        return False
    # in "Attended meetings and rewrote the policy", the second verb may name an achievement
    deeds = sum(map(is_past, line.content.tokens))
    return deeds < 2 or (deeds == 2 and len(line.content.tokens) <= 2 * FEW)


def _specific(content: Content) -> bool:
    """Return whether a line contains a figure or a name."""
    return bool(content.figures) or any(not name.head for name in content.names)


def make_reference(task: Task) -> Reference:
    """Return the true statements about a task's candidate; they are the same for all revisions."""
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
    mended: dict[int, tuple[str, ...]] = {}
    # fixes apply in order, since a fix may match the result of an earlier fix
    told = {unit: line.raw for unit, line in enumerate(lines)}
    for fix in fixes:
        unit = next((unit for unit, raw in told.items() if fix.old.strip() in raw), -1)
        if unit < 0 or not fix.new:
            continue
        told[unit] = told[unit].replace(fix.old.strip(), fix.new.strip())
        mended[unit] = (*mended.get(unit, ()), told[unit])
        fixed[unit] = (*fixed.get(unit, ()), read(plain(told[unit].strip().lstrip("-*+ "))))
        facts[unit] = (*facts.get(unit, ()), *fix.facts)
    gone = {raw for fix in fixes if not fix.new for raw in fix.old.split("\n") if raw.strip()}
    deleted = frozenset(unit for unit, line in enumerate(lines) if line.raw in gone)
    known = evidence, job
    return Reference(lines, fixed, facts, deleted, mended, aside, name, *known)


def key(line: Line) -> str:
    """Return a line's case-folded text without final marks; lines with equal keys are equal."""
    return line.body.casefold().rstrip(" .;")
