"""Edits that a page allows, by kind, and the random choice among them."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

from learners.demonstrations import shortened
from resume_gym import Fix, Session, Task, tool_call
from resume_gym.agents.careful import line_edits
from resume_gym.agents.edit_kinds import (
    INVENTED_TOOLS,
    INVENTIONS,
    SWAPS,
    SYNONYMS,
    figures,
    is_in_order,
    kind_of,
)

REPAIRS = 0.55
"""Probability of a repair; about half of all edits are repairs, since some pages allow none."""
BULLET = re.compile(r"[-*+\u2022] +(?=\S)")
"""Pattern of the marker of a list item."""
_DELETED = 75  # maximum length of a deleted line; models garble longer quotations
_QUOTED = 160  # maximum length of any other quotation
_WEIGHTS = {"swap": 1.0, "synonym": 1.0, "delete": 0.8, "cut": 1.3, "invent": 1.0}
_DIFF = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")


class Edit(NamedTuple):
    """An edit that the page allows.

    Attributes:
        kind: kind of the edit; see `edit_kinds.kind_of`.
        line: index of its first line on the page.
        old: text to replace, which occurs once on the page.
        new: text that replaces it.
    """

    kind: str
    line: int
    old: str
    new: str

    @property
    def call(self) -> str:
        """The tool call that makes the edit."""
        return tool_call("str_replace", old=self.old, new=self.new)


def choose(
    session: Session, rng: Random, repairs: float = REPAIRS, barred: Iterable[int] = ()
) -> Edit | None:
    """Draw a random edit of a line below the last edit.

    Args:
        session: running session.
        rng: random generator.
        repairs: probability of a repair; with 1, no other edit is made.
        barred: indices of lines that must not be edited.

    Returns:
        The edit, or None if none is possible.
    """
    resume, task = session.resume, session.task
    first, barred = first_line(session), set(barred)
    lines = [n for n in range(first, resume.count("\n") + 1) if n not in barred]
    most = max(1, session.rules.max_turns - session.turns - 1)
    found = {
        kind: [one for one in many if one.line in lines]
        for kind, many in repairs_of(resume, task).items()
    }
    useful = [kind for kind, many in found.items() if many]
    if useful and rng.random() < repairs:
        return _topmost(found[rng.choice(useful)], most, rng)
    if repairs == 1:
        return None
    kinds = list(_WEIGHTS)
    while kinds:
        kind = rng.choices(kinds, [_WEIGHTS[one] for one in kinds])[0]
        if edits := list(_others(kind, resume, task, lines, rng)):
            return _topmost(edits, most, rng)
        kinds.remove(kind)
    return _topmost(found[rng.choice(useful)], most, rng) if useful else None


def _topmost(edits: Sequence[Edit], most: int, rng: Random) -> Edit:
    """Return the topmost of up to `most` random edits, so that others can follow below."""
    drawn = rng.sample(edits, min(len(edits), rng.randint((most + 1) // 2, most)))
    return min(drawn, key=lambda one: one.line)


def first_line(session: Session) -> int:
    """Return the index of the first line below the last successful edit."""
    for _, step in reversed(session.state.transcript):
        if found := _DIFF.match(step.observation):
            first, lines = int(found[1]), int(found[2] or 1)  # for 0 lines, this is the line above
            return first + max(0, lines - 1)
    return 0


def clean(resume: str, old: str, new: str, task: Task) -> Edit | None:
    """Return the edit with a short, unique quotation; None if it is ambiguous or too long."""
    quote, instead = shortened(resume, old, new)
    longest = _QUOTED if instead else _DELETED
    if resume.count(quote) != 1 or not quote.strip() or len(quote.lstrip("\n")) > longest:
        return None
    above = resume[: resume.index(quote)] + quote[: len(quote) - len(quote.lstrip("\n"))]
    return Edit(kind_of(resume, quote, instead, task), above.count("\n"), quote, instead)


def repairs_of(resume: str, task: Task) -> dict[str, list[Edit]]:
    """Return the repairs that a page allows, by kind, without those that need a search."""
    found: dict[str, list[Edit]] = {}
    for edit in _repairs_on(resume, task.job, task.fixes):
        found.setdefault(edit.kind, []).append(edit)
    return found


@lru_cache(maxsize=64)
def _repairs_on(resume: str, job: str, fixes: tuple[Fix, ...]) -> tuple[Edit, ...]:
    task = Task("page", job, resume, "weak_verbs", fixes=fixes)
    ready = [
        (fix.old, fix.new)
        for fix in fixes
        # A fix that only extends `old` leaves `old` on the page.
        if not fix.needs_evidence
        and resume.count(fix.old) == 1
        and not (fix.new and fix.new in resume)
    ]
    edits = dict.fromkeys(
        edit
        for old, new in (*ready, *line_edits(resume, job))
        for part in _parts(resume, old, new)
        if (edit := clean(resume, old, part, task))
        # no reordering and no new figures: from them, small models learn to garble and to invent
        and (
            edit.kind in ("format", "padding")
            or (
                edit.kind in ("verb", "trim")
                and is_in_order(old, new)
                and figures(new) <= figures(old)
            )
        )
    )
    return tuple(edits)


def _parts(resume: str, old: str, new: str) -> Iterator[str]:
    """Yield `new`; or if the format of a list item changes, `old` with one change at a time.

    The changes are those of the marker and of the text. One edit of both ends of a line would have
    to quote the whole line.
    """
    marker, other = BULLET.match(old), BULLET.match(new)
    if "\n" in old or not marker or not other or kind_of(old, old, new) != "format":
        yield new
        return
    body, body_now = old[marker.end() :], new[other.end() :]
    if marker[0] != other[0]:
        yield other[0] + body
    if body != body_now:
        yield marker[0] + body_now


def _others(
    kind: str, resume: str, task: Task, lines: Sequence[int], rng: Random
) -> Iterator[Edit]:
    """Yield a useless or harmful edit of this kind for each of these lines that allows one."""
    page = resume.split("\n")
    for number in lines:
        line = page[number]
        if not (marker := BULLET.match(line)):
            continue
        made = _MAKERS[kind](line[marker.end() :], rng) if kind != "delete" else None
        if kind == "delete":
            edit = clean(resume, f"\n{line}", "", task) if number else None
        else:
            edit = clean(resume, line, marker[0] + made, task) if made else None
        if edit and edit.kind == kind:
            yield _led(edit, resume) if kind in ("swap", "synonym", "invent") else edit


def _led(edit: Edit, resume: str) -> Edit:
    """Return the edit with its quotation extended by the word before it on the same line, if any.

    Models guess a quotation that begins with a common word, but have to copy a name or a noun.
    """
    above = resume[: resume.index(edit.old)].split("\n")[-1]
    word = re.search(r"(?<=\S) \S+$", above) if edit.old.startswith(" ") else None
    return edit._replace(old=word[0] + edit.old, new=word[0] + edit.new) if word else edit


def _swapped(body: str, rng: Random) -> str:
    pairs = [(old, new) for old, new in SWAPS if f" {old} " in body]
    if not pairs:
        return ""
    old, new = rng.choice(pairs)
    return body.replace(f" {old} ", f" {new} ", 1)


def _renamed(body: str, rng: Random) -> str:
    words = body.split(" ")
    places = [n for n, word in enumerate(words) if word.lower() in SYNONYMS]
    if not places:
        return ""
    place = rng.choice(places)
    other = SYNONYMS[words[place].lower()]
    words[place] = other.capitalize() if words[place][0].isupper() else other
    return " ".join(words)


def _cut(body: str, rng: Random) -> str:
    words = body.split(" ")
    most = min(6, len(words) - 4)
    return " ".join(words[: -rng.randint(2, most)]).rstrip(",;") if most >= 2 else ""


def _invented(body: str, rng: Random) -> str:
    bare = body.rstrip(".")
    ending = rng.choice(INVENTIONS).format(n=rng.randint(2, 99), tool=rng.choice(INVENTED_TOOLS))
    return bare + ending + body[len(bare) :] if bare[-1:].isalpha() else ""


_MAKERS: dict[str, Callable[[str, Random], str]] = {
    "swap": _swapped,
    "synonym": _renamed,
    "cut": _cut,
    "invent": _invented,
}
