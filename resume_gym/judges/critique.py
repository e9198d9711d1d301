"""Critique: short natural-language feedback on a draft, for the agent that writes the draft.

The feedback quotes lines of the draft and states their defects as a recruiter would. The feedback
never reveals the grading criteria, the weakness that was planted in the resume, the text of a fix,
or a figure that the draft lacks.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from resume_gym.episode.tasks import Task
from resume_gym.judges import JudgeRefused
from resume_gym.judges.rubric.signals import measure
from resume_gym.judges.vetoes import find_veto
from resume_gym.text.alignment import align
from resume_gym.text.lines import Content, Line, parse
from resume_gym.text.reference import Reference, make_reference
from resume_gym.text.style import fillers, format_faults, habits, head, is_weak

_REMARKS: Mapping[str, str] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
_MARKER = re.compile(r"^\s*(?:[-*+\u2022]|\d{1,2}[.)]|#{1,6})\s+")
_MOST = 3  # maximum number of remarks in one feedback
_QUOTE = 70  # maximum length of a quotation in characters
_TOLD = 0.5  # a line states a fact if it has at least this share of the fact's stems
_FAULTY = 0.25  # a line with more formatting faults than this gets a remark


def feedback(task: Task, revised: str) -> str:
    """Return the most important remarks on a draft, on one line; see `remarks`."""
    if fault := unreadable(task, revised):
        return f"The draft cannot be read: it {fault}."
    try:
        return " ".join(remarks(task, revised)[:_MOST]) or _REMARKS["nothing"]
    except JudgeRefused as refusal:
        return f"The draft is too long to read: {refusal}."


def unreadable(task: Task, revised: str) -> str:
    """Return why a draft is not parsed, since this could take too long; empty if it is parsed."""
    found = find_veto(task, revised)
    faults = {"padding": "has grown too much", "hidden": "has hidden characters"}
    return faults.get(found.kind, "") if found else ""


def remarks(task: Task, revised: str) -> list[str]:
    """Return remarks by the rubric judge's rules, at most one per line and per kind of defect."""
    return [
        _REMARKS[one.kind].format(line=quoted(one.line), claim=f'"{one.claim}"')
        for one in defects(task, revised)
    ]


class Defect(NamedTuple):
    """A defect of a line that the rubric judge's rules find.

    Attributes:
        kind: a key of `critique.toml`.
        line: the line, as the draft has it.
        claim: part of the line that nothing supports; only for the kind "claim".
    """

    kind: str
    line: str
    claim: str = ""


def defects(task: Task, revised: str) -> list[Defect]:
    """Return the most important defects of a draft, at most one per line and per kind.

    Raises:
        JudgeRefused: The draft is too long to read.
    """
    kinds, lines = set[str](), set[int]()
    found: list[Defect] = []
    for place, defect in all_defects(task, revised):
        kind = defect.kind.removeprefix("line_")  # a claim has this prefix if it is not quoted
        if kind not in kinds and place not in lines:
            found.append(defect)
            kinds.add(kind)
            lines.add(place)
    return found


def all_defects(task: Task, revised: str) -> list[tuple[int, Defect]]:
    """Return all defects of a draft with the indices of their lines, the most important kind first.

    Raises:
        JudgeRefused: The draft is too long to read.
    """
    reference = make_reference(task)
    claims = measure(revised, reference).findings  # raises if the text is too long
    lines = parse(revised)
    found: list[tuple[int, Defect]] = []
    for claim in claims:
        raw = lines[claim.line].raw
        # The quotation of a claim is normalized. If the raw line does not contain it, only the line
        # is quoted.
        is_there = claim.quote in raw and '"' not in claim.quote
        defect = Defect("claim", raw, claim.quote) if is_there else Defect("line_claim", raw)
        found.append((claim.line, defect))
    for kind, places in _places(lines, align(lines, reference), reference):
        found += [(place, Defect(kind, lines[place].raw)) for place in places]
    return found


def _places(
    lines: Sequence[Line], origins: Sequence[tuple[int, ...]], reference: Reference
) -> Iterator[tuple[str, list[int]]]:
    """Yield each kind of defect and the indices of its lines, the most important kind first."""
    spare, usual = reference.spare, habits(lines)
    facts = [[fact for u in units for fact in reference.facts.get(u, ())] for units in origins]
    idle = [i for i, units in enumerate(origins) if units and spare.issuperset(units)]
    bullets = [i for i, line in enumerate(lines) if line.kind == "bullet" and i not in idle]
    if reference.aside:
        # a bullet hides its achievement if it states none of the facts behind it
        planted = [i for i in bullets if facts[i]]
        yield "aside", [i for i in planted if _share(lines[i], facts[i]) < _TOLD]
        # Only weak openings get a remark; hedges such as "Helped with" do not, since they may be
        # true.
    weak = [i for i in bullets if is_weak(lines[i].content)]
    yield "opening", [i for i in weak if head(lines[i].content).kind == "weak"]
    yield "vague", [i for i in bullets if fillers(lines[i].body)]
    bare = [i for i in bullets if not lines[i].content.figures]
    yield "figure", [i for i in bare if any(fact.figures for fact in facts[i])]
    yield "spare", idle
    yield "form", [i for i, line in enumerate(lines) if format_faults(line, usual) > _FAULTY]


def _share(line: Line, facts: Sequence[Content]) -> float:
    stems = line.content.stems
    return max(len(stems & fact.stems) / max(1, len(fact.stems)) for fact in facts)


def quoted(raw: str) -> str:
    """Shorten and quote a line; if it has quotation marks, quote the longest part without them.

    The quotation omits the marker of a bullet or heading.
    """
    text = max(_MARKER.sub("", raw).split('"'), key=len).strip()
    if len(text) > _QUOTE:
        text = text[: _QUOTE - 3].rsplit(" ", 1)[0] + "..."
    return f'"{text}"'
