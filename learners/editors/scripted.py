"""Editors that review, make one kind of edits from top to bottom, and submit."""

from random import Random

from learners.demonstrations import shortened
from resume_gym import Session, tool_call
from resume_gym.agents.careful import next_edit
from resume_gym.agents.edit_kinds import figures, is_in_order


def careful(session: Session, rng: Random) -> str:
    """Return the next action of the scripted agent `careful`, with short quotes."""
    rules = session.rules
    excess = session.state.document.lines - rules.page_lines
    # the last turn is reserved for submitting
    edits_left = max(1, rules.max_turns - session.turns - 1)
    edit = next_edit(session.resume, session.task.job, excess, edits_left, rules.page_width)
    return _action(session, edit if edit and is_in_order(*edit) else None)


def fixes(session: Session, rng: Random) -> str:
    """Return the next fix of the task that needs no search, or a review or submit."""
    resume = session.resume
    ready = [
        (fix.old, fix.new)
        for fix in session.task.fixes
        # Skip fixes that are already applied. A fix that only extends `old` leaves `old` in the
        # resume, so also check that `new` is not there yet.
        if not fix.needs_evidence
        and resume.count(fix.old) == 1
        and not (fix.new and fix.new in resume)
        # leave out fixes that add a figure: from them, small models learn to invent figures
        and figures(fix.new) <= figures(fix.old)
        and is_in_order(fix.old, fix.new)
    ]
    # in a fixed order, since policies that are trained on a random order often repeat a fix
    return _action(session, min(ready, key=lambda one: resume.index(one[0]), default=None))


def _action(session: Session, edit: tuple[str, str] | None) -> str:
    if session.turns == 0:
        return tool_call("review")
    if edit is None or session.turns == session.rules.max_turns - 1:
        return tool_call("submit")
    old, new = shortened(session.resume, *edit)
    return tool_call("str_replace", old=old, new=new)
