"""Targeted textual feedback: hints for the bad turns of graded rollouts.

Rules alone choose the turns and write the hints, from what the environment knows. A hint is put at
the end of the observation before the bad turn, so it quotes the page as it was then, and nothing
else. Training compares the policy's probabilities of the turn with and without the hint.
"""

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any, NamedTuple
from zlib import crc32

from learners.rollouts.drafts import changes, drafts
from learners.rollouts.rollout import Rollout
from learners.rollouts.tokens import ChatTokens
from learners.training.rows import Hinted
from resume_gym import Session
from resume_gym.episode import hints
from resume_gym.episode.editing import Ledger
from resume_gym.judges import JudgeRefused
from resume_gym.judges.critique import all_defects, unreadable


class Mark(NamedTuple):
    """A bad turn and its hint.

    Attributes:
        turn: index of the turn.
        kind: name of the function in `hints` that made the hint.
        hint: sentence about the page before the turn.
    """

    turn: int
    kind: str
    hint: str


def marks(
    session: Session,
    earned: Sequence[Ledger],
    most: int = 1,
    kinds: Collection[str] = hints.KINDS,
) -> list[Mark]:
    """Return the bad turns of a finished, graded session, those that earned least first.

    A turn is bad if its call failed, if its edit lowered the worth of the document, or if it
    submitted although planted faults and turns were left. A turn that no hint fits is left out.

    Args:
        session: the session.
        earned: what each turn earned, by reward term; see `drafts.earned`.
        most: maximum number of turns.
        kinds: kinds of hints to use; see `hints.KINDS`.
    """
    pages = [one.text for one in drafts(session)]
    order = sorted(range(len(earned)), key=lambda turn: sum(earned[turn].values()))
    found = (_mark(session, turn, earned[turn], *pages[turn : turn + 2]) for turn in order)
    return list(islice((one for one in found if one and one.kind in kinds), most))


def hinted(
    rollout: Rollout, chat: ChatTokens, most: int, kinds: Collection[str]
) -> tuple[Hinted, ...]:
    """Return the contexts with hints of at most `most` bad turns of a rollout; see `marks`."""
    session: Any = rollout.session
    found = marks(session, rollout.earned or (), most, kinds)
    return tuple(with_hint(rollout, chat, one.turn, one.hint) for one in found)


def with_hint(rollout: Rollout, chat: ChatTokens, turn: int, hint: str) -> Hinted:
    """Return the context of a turn with a hint at the end of the observation before the turn.

    Only this observation, or the prompt of the first turn, is encoded again; the tokens before it
    are copied.
    """
    session: Any = rollout.session
    sampled, response = rollout.sampled, rollout.response
    starts = [n for n, own in enumerate(sampled) if own and not (n and sampled[n - 1])]
    start = starts[turn]
    if turn == 0:
        prompt = hints.beneath(session.prompt, hint)
        return Hinted(start, chat.prompt(session.system_prompt, prompt))
    before = response[: start - sampled[start - 1 :: -1].index(True)]
    ending = [] if before[-1] == chat.end else [chat.end]
    observation = session.state.transcript[turn - 1][1].observation
    reply = chat.reply(hints.beneath(observation, hint))
    return Hinted(start, [*rollout.prompt, *before, *ending, *reply])


def _mark(session: Session, turn: int, earned: Ledger, page: str, after: str) -> Mark | None:
    """Return a bad turn's mark, given the pages before and after the turn; else None."""
    call, step = session.state.transcript[turn]
    key = f"{session.task.task_id}:{turn}:{call}"
    form = crc32(key.encode(errors="surrogatepass"))  # any number, but the same in a resumed run
    if step.error != "none":
        hint = hints.failed_call(step.error, page, hints.quotation(call), form)
        return Mark(turn, "failed_call", hint)
    if sum(changes([earned])) < 0:
        return _about_edit(session, turn, page, after, form)
    if "submit" in earned and turn + 1 < session.rules.max_turns:
        faults = [fix.old for fix in session.task.fixes if not fix.needs_evidence]
        if any(fault in page for fault in faults):
            return Mark(turn, "faults_left", hints.faults_left(form))
    return None


def _about_edit(session: Session, turn: int, page: str, after: str, form: int) -> Mark | None:
    """Return a hint about a line that an edit changed: that it was good, or what it lacked.

    If the edit changed no line, since it only added text, the hint is about another line.
    """
    task, kept = session.task, after.split("\n")
    if unreadable(task, page):
        return None
    try:
        defects = [defect for _, defect in all_defects(task, page)]
    except JudgeRefused:
        return None
    changed = [line for line in page.split("\n") if line.strip() and line not in kept]
    # the judge's rules do not see each planted fault
    planted = [part for fix in task.fixes for part in fix.old.split("\n") if part.strip()]
    weak = {defect.line for defect in defects}
    for line in changed:
        fault = line in weak or any(part in line for part in planted)
        if not fault and line in session.original.split("\n"):
            return Mark(turn, "good_line", hints.good_line(line, form))
    for defect in defects:
        if changed and defect.line not in changed:
            continue
        if defect.kind == "claim":
            hint = hints.unsupported(defect.line, defect.claim, form)
            return Mark(turn, "unsupported", hint)
        if defect.kind in hints.WEAK_KINDS:
            return Mark(turn, "weak_line", hints.weak_line(defect, form))
    return None
