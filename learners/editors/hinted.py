"""Hints about a page and the calls that follow them."""

from functools import lru_cache
from random import Random
from typing import NamedTuple

from learners.editors.apprentice import apprentice
from learners.editors.edits import BULLET, choose, clean, first_line, repairs_of
from resume_gym import Session
from resume_gym.agents.edit_kinds import invention
from resume_gym.episode import hints
from resume_gym.judges.critique import Defect, defects
from resume_gym.synthesis.procedural import generate_task

_FOREIGN = 0.1  # share of hints that quote a line of another page
_ABOUT_FAILURE = 0.85  # share of hints about the last call, if it failed


class HintedCall(NamedTuple):
    """A hint at the end of an observation, and the call that follows it."""

    hint: str
    call: str


def hinted(session: Session, rng: Random, intended: str = "") -> HintedCall | None:
    """Return a hint about the current page, and the editor's next call; None if no hint fits.

    The call acts on the hint. One hint in ten quotes a line of another page; the call ignores it.

    Args:
        session: running session.
        rng: random generator.
        intended: the intended text of the last call if it failed; empty if it did not fail.
    """
    form = rng.randrange(1 << 16)
    if rng.random() < _FOREIGN:
        line = rng.choice(_foreign_lines())
        if line in session.resume:
            return None
        defect = Defect(rng.choice(hints.WEAK_KINDS), line)
        ending = " ".join(line.split(" ")[-3:])
        hint = rng.choice(
            (
                hints.good_line(line, form),
                hints.weak_line(defect, form),
                hints.unsupported(line, ending, form),
            )
        )
        return HintedCall(hint, apprentice(session, rng))
    if intended and rng.random() < _ABOUT_FAILURE:
        text, step = session.state.transcript[-1]
        old = hints.quotation(text)
        return HintedCall(hints.failed_call(step.error, session.resume, old, form), intended)
    for make in rng.sample(_HINTS, len(_HINTS)):
        if found := make(session, rng, form):
            return found
    return None


def _about_good_line(session: Session, rng: Random, form: int) -> HintedCall | None:
    """Hint that a line is good; the edit that follows leaves it alone."""
    page, first = session.resume.split("\n"), first_line(session)
    repairs = repairs_of(session.resume, session.task)
    weak = {one.line for many in repairs.values() for one in many}
    good = [n for n in range(first, len(page)) if BULLET.match(page[n]) and n not in weak]
    if not good:
        return None
    number = rng.choice(good)
    edit = choose(session, rng, barred=[number])
    return HintedCall(hints.good_line(page[number], form), edit.call) if edit else None


def _about_claim(session: Session, rng: Random, form: int) -> HintedCall | None:
    """Hint that an invented claim has no support; the edit that follows removes the claim."""
    page, before = session.resume.split("\n"), session.original.split("\n")
    invented = [n for n, line in enumerate(page) if invention(line) and line not in before]
    if not invented:
        return None
    line = page[rng.choice(invented)]
    claim = invention(line)
    edit = clean(session.resume, line, line.replace(claim, ""), session.task)
    return HintedCall(hints.unsupported(line, claim, form), edit.call) if edit else None


def _about_weak_line(session: Session, rng: Random, form: int) -> HintedCall | None:
    """Hint at a line that is still weak, above or below the last edit; a repair of it follows."""
    page, repairs = session.resume.split("\n"), repairs_of(session.resume, session.task)
    edits = [one for many in repairs.values() for one in many]
    seen = [one for one in defects(session.task, session.resume) if one.kind in hints.WEAK_KINDS]
    pairs = [(one, edit) for one in seen for edit in edits if page[edit.line] == one.line]
    if not pairs:
        return None
    defect, edit = rng.choice(pairs)
    return HintedCall(hints.weak_line(defect, form), edit.call)


def _about_faults_left(session: Session, rng: Random, form: int) -> HintedCall | None:
    """Hint that faults are left; a repair follows, not a submit."""
    edit = choose(session, rng, repairs=1)
    return HintedCall(hints.faults_left(form), edit.call) if edit else None


_HINTS = (_about_good_line, _about_claim, _about_weak_line, _about_faults_left)


@lru_cache(maxsize=1)
def _foreign_lines() -> list[str]:
    """Return the list items of 100 generated pages."""
    pages = (generate_task(0, number, "train", "mini").resume for number in range(100))
    return [line for page in pages for line in page.split("\n") if BULLET.match(line)]
