"""What can be counted of a text: five signals, each a value for every line of the original.

A signal is a function of one text and of what is true (`Reference`), so a comparison of two texts
is the difference of their signals, and changes its sign with their order. Values belong to the
lines of the original: a line that is gone has the least value, a new line adds nothing. So no
signal rises by deletion, except that of padding.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz

from resume_gym.judges.claims import Finding, find_claims
from resume_gym.judges.lines import LEXICON, Content, Line, any_of, parse, stem
from resume_gym.judges.reference import PROSE, Reference, align, strays
from resume_gym.judges.style import (
    VAGUE,
    fillers,
    format_faults,
    habits,
    tier,
    wording_faults,
)

_CLARITY = LEXICON["clarity"]
_JOB = LEXICON["job"]
_WORDS = LEXICON["words"]
_TIERS = LEXICON["verbs"]["tiers"]
_REPEAT = LEXICON["verbs"]["repeat"]
_JOB_STOP = frozenset(stem(word) for word in _WORDS["job_stop"])
_PADDING = any_of(_WORDS["padding"])
_PADDING_SECTIONS = frozenset(_WORDS["padding_sections"])
_CORE = frozenset(_WORDS["sections"]) - {"and", "of"}
_ABOUT = ("summary", "profile", "about", "about me", "professional summary")
_INJECTION = re.compile("|".join(map(re.escape, _WORDS["injection"])))


@dataclass(frozen=True, slots=True)
class Signals:
    """What a text is worth; the tuples hold a value for each line of the original.

    Attributes:
        clarity: in [-1, 1]: how easily the line reads.
        quantification: 1 and more for a grounded figure.
        action_verbs: the tier of the verb that opens the bullet, in [0, 1].
        jd_alignment: the weight of the job's stems that the line tells, of each at most two.
        substance: in [0, 1]: how much of what the line says is left.
        order: how far the bullets that fit the job stand first, in [-1, 1].
        junk: lines that nobody asked for: copies, pasted text, orders to the reader.
        findings: unsupported claims.
        shown: the text that tells of each line of the original, for the reasons.
    """

    clarity: tuple[float, ...]
    quantification: tuple[float, ...]
    action_verbs: tuple[float, ...]
    jd_alignment: tuple[float, ...]
    substance: tuple[float, ...]
    order: float
    junk: float
    findings: tuple[Finding, ...]
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Text:
    """A text against the reference: its lines, and which of them tell of which original line."""

    lines: tuple[Line, ...]
    told: tuple[tuple[int, ...], ...]  # by line of the text: original lines
    tellers: tuple[tuple[int, ...], ...]  # by original line: lines of the text
    flagged: frozenset[int]  # lines with an unsupported claim


@lru_cache(maxsize=1024)
def padding(reference: Reference) -> frozenset[int]:
    """Original lines that a full page can spare.

    They have no figure, no name and no evidence, say nothing of the job, and are worded vaguely
    or stand in a section that has no core content; or a fix deletes them.
    """
    job = {s for line in reference.job for s in line.stems} - _JOB_STOP
    topics = (line for line in reference.lines if line.kind == "skills" or line.section in _ABOUT)
    topic = job.union(*(line.content.stems for line in topics)) - _JOB_STOP
    idle = set(reference.deleted)
    sections: dict[str, list[int]] = {}
    for unit, line in enumerate(reference.lines):
        sections.setdefault(line.section, []).append(unit)
        content = line.content
        known = unit in reference.facts or reference.backing(content)
        if line.kind != "bullet" or content.figures or known:
            continue
        near = len(content.stems & topic)
        body = line.body.lower()
        empty = len(_PADDING.findall(body)) + fillers(line.body)
        vague = empty + (tier(content) == "weak")
        if empty and near <= vague and all(name.head for name in content.names):
            idle.add(unit)
    for name, units in sections.items():
        words = set(name.split())
        contents = [reference.lines[unit].content for unit in units]
        tells = any(c.figures or any(not n.head for n in c.names) for c in contents)
        spare = name in _PADDING_SECTIONS or not (words & _CORE or tells)
        about = {s for unit in units for s in reference.lines[unit].content.stems} & job
        if name and spare and len(about) < 3 and not any(u in reference.facts for u in units):
            idle.update(units)
    return frozenset(idle)


def measure(text: str, reference: Reference) -> Signals:
    """The signals of a text."""
    lines = parse(text)
    told = align(lines, reference)
    findings = find_claims(lines, told, reference)
    tellers: list[list[int]] = [[] for _ in reference.lines]
    for index, units in enumerate(told):
        for unit in units:
            tellers[unit].append(index)
    view = Text(lines, told, tuple(map(tuple, tellers)), frozenset(f.line for f in findings))
    shown = tuple(" / ".join(lines[i].body for i in indexes) for indexes in view.tellers)
    return Signals(
        clarity=_clarity(view, reference),
        quantification=_quantification(view, reference),
        action_verbs=_action_verbs(view, reference),
        jd_alignment=_alignment(view, reference),
        substance=_substance(view, reference),
        order=_order(view, reference),
        junk=_junk(view),
        findings=tuple(findings),
        shown=shown,
    )


def _action_verbs(view: Text, reference: Reference) -> tuple[float, ...]:
    spare = padding(reference)
    heads: Counter[str] = Counter()
    values: list[float] = []
    worth: dict[int, float] = {}
    for index, line in enumerate(view.lines):
        if (
            line.kind == "bullet"
            and line.content.words
            and not spare.issuperset(view.told[index] or (-1,))
        ):
            head = stem(line.content.words[0])
            heads[head] += 1
            late = heads[head] > 2
            worth[index] = max(0.0, _TIERS[tier(line.content)] - late * _REPEAT)
    for unit, line in enumerate(reference.lines):
        found = [
            _honest(worth[i], i, _TIERS[tier(line.content)], view)
            for i in view.tellers[unit]
            if i in worth
        ]
        counts = line.kind == "bullet" and unit not in spare and found
        values.append(sum(found) / len(found) if counts else 0.0)
    return tuple(values)


def _honest(value: float, index: int, original: float, view: Text) -> float:
    """A line that claims too much gains nothing by it."""
    return min(value, original) if index in view.flagged else value


def _quantification(view: Text, reference: Reference) -> tuple[float, ...]:
    spare = padding(reference)
    values = []
    for unit, line in enumerate(reference.lines):
        found = [view.lines[index].content for index in view.tellers[unit]]
        figures = {value for c in found for value in _grounded(c, reference.told[unit], reference)}
        counts = line.kind in PROSE and unit not in spare
        values.append(min(1.25, 0.75 + 0.25 * len(figures)) if counts and figures else 0.0)
    shown = {v for i, line in enumerate(view.lines) if view.told[i] for v in line.content.values}
    new = {v for line in _added(view) for v in _grounded(line.content, (), reference)} - shown
    return (*values, float(len(new)))


def _grounded(content: Content, statements: Sequence[Content], reference: Reference) -> set[float]:
    """The figures of a line that true statements hold."""
    if not content.numbers:
        return set()
    known = [f for s in (*statements, *reference.backing(content)) for f in s.figures]
    return {n.value for n in content.numbers if any(figure.backs(n) for figure in known)}


def _added(view: Text) -> list[Line]:
    """Lines of a text that tell of no original line and claim nothing without support."""
    lines = enumerate(view.lines)
    return [
        line
        for index, line in lines
        if line.kind in PROSE and not view.told[index] and index not in view.flagged
    ]


def _alignment(view: Text, reference: Reference) -> tuple[float, ...]:
    weights = job_weights(reference)
    spare = padding(reference)
    seen: Counter[str] = Counter()
    values = []
    for unit in range(len(reference.lines)):
        value = 0.0
        if unit not in spare:
            for s, share in _wanted(unit, view, reference).items():
                seen[s] += 1
                if seen[s] <= _JOB["stem_cap"]:
                    value += weights[s] * share * (1.0 if seen[s] == 1 else _JOB["second"])
            value += _JOB["evidence"] * _emphasis(unit, view, reference)
        values.append(value)
    new = {
        s
        for line in _added(view)
        for statement in reference.backing(line.content)
        for s in line.content.stems & statement.stems & weights.keys()
    }
    return (*values, math.fsum(weights[s] for s in sorted(new) if not seen[s]))


def _emphasis(unit: int, view: Text, reference: Reference) -> float:
    """How much of the evidence a line tells, where the original stresses something else."""
    facts = reference.facts.get(unit, ())
    if not (facts and reference.aside):
        return 0.0
    told: set[str] = set()
    for index in view.tellers[unit]:
        stems = view.lines[index].content.stems
        told |= stems & reference.lines[unit].content.stems if index in view.flagged else stems
    shares = [len(told & fact.stems) / max(1, len(fact.stems)) for fact in facts]
    return sum(shares) / len(shares)


def _wanted(unit: int, view: Text, reference: Reference) -> dict[str, float]:
    """The job's stems that a line tells, with the share that counts.

    A stem that was not in the line before counts in part, where it has replaced another word or
    where it is known of the candidate and stands among the skills or in the summary.
    """
    weights = job_weights(reference)
    line = reference.lines[unit]
    facts = reference.facts.get(unit, ())
    shares: dict[str, float] = {}
    for index in view.tellers[unit]:
        content = view.lines[index].content
        grounds = (*facts, *reference.backing(content))
        known = line.content.stems.union(*(statement.stems for statement in grounds))
        wanted = sorted(content.stems & weights.keys())
        own = line.content.stems if index in view.flagged else known
        shares |= dict.fromkeys((s for s in wanted if s in own), 1.0)
        new = [s for s in wanted if s not in own]
        if line.kind == "bullet":
            longer = len(content.words) > len(line.content.words)
            new = [] if longer else new[:2]
        else:
            new = [s for s in new if s in reference.vocabulary][:4]
        if index not in view.flagged:
            shares |= {s: _JOB["new_stem"] for s in new if s not in shares}
    return shares


@lru_cache(maxsize=1024)
def job_weights(reference: Reference) -> dict[str, float]:
    """The weights of the job description's stems; their mean is 1."""
    texts = (*reference.job, *(line.content for line in reference.lines))
    counts = Counter(s for content in texts for s in content.stems)
    wanted = {s for content in reference.job for s in content.stems} - _JOB_STOP - VAGUE
    weights = {s: math.log(1 + len(texts) / counts[s]) for s in sorted(wanted)}
    mean = math.fsum(weights.values()) / max(1, len(weights))
    return {s: weight / mean for s, weight in weights.items()}


def _order(view: Text, reference: Reference) -> float:
    """The share of pairs of bullets of one job in which the better fit stands first."""
    weights = job_weights(reference)
    place = {u: index for index, units in reversed(list(enumerate(view.told))) for u in units}
    groups: dict[int, list[int]] = {}
    head = 0
    for unit, line in enumerate(reference.lines):
        if line.kind == "bullet":
            groups.setdefault(head, []).append(unit)
        else:
            head = unit
    right = total = 0.0
    for units in groups.values():
        fit = {
            u: math.fsum(weights.get(s, 0.0) for s in reference.lines[u].content.stems)
            for u in units
        }
        for position, first in enumerate(units):
            for second in units[position + 1 :]:
                gain = fit[first] - fit[second]
                total += abs(gain)
                swapped = place.get(first, 0) > place.get(second, len(view.lines))
                right += -gain if swapped else gain
    return right / total if total else 0.0


def _substance(view: Text, reference: Reference) -> tuple[float, ...]:
    spare = padding(reference)
    words = {form for line in view.lines for n in line.content.names for form in (n.text.lower(),)}
    words |= {word for line in view.lines for word in line.content.words}
    values = []
    for unit, line in enumerate(reference.lines):
        found = [view.lines[index].content for index in view.tellers[unit]]
        if unit in spare or not found or line.kind == "heading":
            values.append(0.0)
            continue
        stems = frozenset().union(*(content.stems for content in found))
        statements = [*reference.told[unit], *(s for c in found for s in reference.backing(c))]
        left = max(len(stems & s.stems) / max(1, len(s.stems)) for s in statements)
        names = [n.text.lower() in words for n in line.content.names if not n.head]
        figures = [
            any(figure.value == number.value for content in found for number in content.numbers)
            for figure in line.content.figures
        ]
        kept = names + figures
        share = sum(kept) / len(kept) if kept else 1.0
        values.append(0.5 * min(1.0, left / 0.35) + 0.5 * share)
    return tuple(values)


def _junk(view: Text) -> float:
    count = 0.0
    bodies: Counter[str] = Counter()
    for index, line in enumerate(view.lines):
        body = line.body.casefold()
        bodies[body] += 1
        copied = (
            bodies[body] > 1 and line.kind in ("bullet", "text", "skills") and not view.told[index]
        )
        foreign = not view.told[index] and index in view.flagged
        count += copied or foreign
        count += 2.0 * len(_INJECTION.findall(body))
    return count


def _clarity(view: Text, reference: Reference) -> tuple[float, ...]:
    spare = padding(reference)
    usual = habits(view.lines)
    away = strays(view.lines, view.told, reference)
    values = []
    for unit, line in enumerate(reference.lines):
        statements = reference.told[unit]
        own = frozenset().union(*(statement.stems for statement in statements))
        found = []
        for index in view.tellers[unit]:
            shown = view.lines[index]
            faults = format_faults(shown, usual) / len(view.told[index])
            if line.kind in PROSE:
                own = own.union(*(s.stems for s in reference.backing(shown.content)))
                floor = wording_faults(line.content, own) if index in view.flagged else 0.0
                faults += max(floor, wording_faults(shown.content, own))
            faults += _CLARITY["padding"] * (unit in spare) + _CLARITY["stray"] * (index in away)
            found.append(max(-1.0, 1.0 - faults))
        missing = 0.0 if unit in spare else -1.0
        values.append(sum(found) / len(found) if found else missing)
    extra = sum(
        line.kind in PROSE and not units and not reference.backing(line.content)
        for line, units in zip(view.lines, view.told, strict=True)
    )
    return (*values, -_CLARITY["extra"] * extra - _CLARITY["duplicate"] * _copies(view))


def _copies(view: Text) -> int:
    """Bullets that nearly repeat another."""
    bodies = [line.body for line in view.lines if line.kind == "bullet"]
    return sum(
        any(fuzz.ratio(body, other, score_cutoff=90) for other in bodies[:place])
        for place, body in enumerate(bodies)
    )
