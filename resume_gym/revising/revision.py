"""What an agent makes of a resume: its edits one by one, and what nothing in the original backs."""

import asyncio
import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from resume_gym.evaluation.players import Player
from resume_gym.judges import Judge
from resume_gym.judges.lines import parse
from resume_gym.judges.reference import make_reference
from resume_gym.judges.rubric import RubricJudge, compare
from resume_gym.judges.signals import measure
from resume_gym.judges.vetoes import find_veto
from resume_gym.rewards import GRADED_FIELDS, Verdict
from resume_gym.session import Session
from resume_gym.tasks import Task

_LOOK_S = 0.2


class Claim(NamedTuple):
    """What a revision says and the original does not support, as far as rules can tell.

    Attributes:
        kind: "number", "name", "title" and others of `judges.claims` and `judges.licences`;
            "hedge" for one that is gone and may have been true.
        quote: what is claimed.
        line: of the revision, without its markup.
        reason: a sentence.
        confidence: in [0, 1].
        edit: number of the edit that brought it, from 1; 0 if no single one did.
    """

    kind: str
    quote: str
    line: str
    reason: str
    confidence: float
    edit: int = 0


@dataclass(frozen=True)
class Change:
    """A successful edit.

    Attributes:
        number: among the edits, from 1.
        turn: of the episode, from 1.
        diff: unified, with a line around it.
        said: the agent's words in that turn, outside of thought and call; may be empty.
        thought: what it thought; may be empty.
        moved: whether it only puts the same words in another order.
        grades: of `GRADED_FIELDS`, those that this edit alone changes by rule: -1 or 1.
        reasons: a sentence for some of them.
        claims: that it brought and the original does not support; a later edit may have mended it.
    """

    number: int
    turn: int
    diff: str
    said: str
    thought: str
    moved: bool
    grades: Mapping[str, int]
    reasons: Mapping[str, str]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Revision:
    """A finished episode on a user's resume.

    Attributes:
        session: the episode.
        judge: name of who graded it.
        no_verdict: why there is no verdict; empty if there is one, or none is needed.
    """

    session: Session
    judge: str
    no_verdict: str = ""

    @property
    def task(self) -> Task:
        """The resume and the job."""
        return self.session.task

    @property
    def verdict(self) -> Verdict | None:
        """What the judge says, if it was asked and has answered."""
        verdict: Verdict | None = self.session.state.verdict
        return verdict

    @cached_property
    def changed(self) -> bool:
        """Whether the resume reads otherwise than before."""
        veto = find_veto(self.task, self.session.text)
        return veto is None or veto.kind != "unchanged"

    @cached_property
    def _edits(self) -> "list[_Edit]":
        return list(_edits(self.session))

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The edits that succeeded, in order."""
        pairs = enumerate(pairwise(self._edits), start=1)
        return tuple(_change(self.task, number, *pair) for number, pair in pairs)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The claims of the revision that the original does not support."""
        known = [one.claims for one in self._edits]
        found = []
        for key, claim in known[-1].items():
            if key in known[0]:
                continue
            since = len(known) - 1
            while since and any(one[:2] == key[:2] for one in known[since - 1]):
                since -= 1
            found.append(claim._replace(edit=since))
        return tuple(found)

    @property
    def flagged(self) -> dict[str, list[Claim]]:
        """The lines with such claims, and what they claim."""
        lines: dict[str, list[Claim]] = {}
        for claim in self.claims:
            lines.setdefault(claim.line, []).append(claim)
        return lines

    @property
    def diff(self) -> str:
        """Unified, of all edits together."""
        return unified(self.task.resume, self.session.text, 3)

    @property
    def fits(self) -> bool:
        """Whether it fits the page."""
        return self.session.state.document.lines <= self.session.rules.page_lines

    @property
    def failed_calls(self) -> int:
        """Turns whose call did nothing."""
        return sum(step.error != "none" for _, step in self.session.state.transcript)

    @property
    def warnings(self) -> list[str]:
        """What the user must know before the revision is of any use."""
        told = []
        if self.claims:
            count = len(self.flagged)
            what = "1 line claims" if count == 1 else f"{count} lines claim"
            told.append(f"{what} what your original does not support: see whether it is true")
        verdict = self.verdict
        if verdict and verdict.hallucination < 0:
            reason = verdict.reasons.get("hallucination", "it gives no reason")
            if not any(reason.startswith(one.reason) for one in self.claims):
                told.append(f"The judge ({self.judge}) objects: {reason}")
        if verdict and verdict.preference < 0:
            told.append(f"The judge ({self.judge}) would rather have your original")
        if self.no_verdict:
            told.append(f"The judge ({self.judge}) gave no verdict: {self.no_verdict}")
        if not self.session.state.submitted:
            told.append("The agent ran out of turns and did not hand it in: it may be half done")
        return told


async def play(
    player: Player, session: Session, seed: int, turn: Callable[[int], object]
) -> Session:
    """Play an episode to its end.

    Args:
        player: plays; it is closed afterwards.
        session: new.
        seed: see `Player.play`.
        turn: told now and then how many turns have been played.

    Raises:
        ModelError: the player could not go on.
    """
    try:
        playing = asyncio.create_task(player.play(session, seed))
        try:
            while not playing.done():
                await asyncio.wait({playing}, timeout=_LOOK_S)
                turn(session.turns)
        finally:
            playing.cancel()  # if this was interrupted; else it changes nothing
        await playing
    finally:
        await player.close()
    return session


def graded(session: Session, judge: Judge) -> Revision:
    """Ask the judge about a finished episode. That it fails is told, and loses nothing."""
    try:
        if session.needs_verdict:
            session.grade(judge.judge(session.task, session.text))
    except Exception as problem:  # a judge of one's own may raise anything
        return Revision(session, judge.name, f"{type(problem).__name__}: {problem}")
    return Revision(session, judge.name)


def unified(before: str, after: str, context: int) -> str:
    """A unified diff without file names; empty if the texts are equal."""
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    rows = difflib.unified_diff(old, new, n=context, lineterm="")
    return "\n".join(list(rows)[2:])


def words(action: str) -> tuple[str, str]:
    """What an agent thought in a turn, and what it said beside its call."""
    thought, closed, said = action.partition("</think>")
    if not closed:
        thought, said = "", action
    before, _, rest = said.partition("<tool_call>")
    after = rest.rpartition("</tool_call>")[2]
    return thought.replace("<think>", "").strip(), f"{before}{after}".strip()


class _Edit(NamedTuple):
    """The resume after a successful edit, or before any."""

    text: str
    claims: Mapping[tuple[str, str, str], Claim]  # by kind, quote and line
    turn: int = 0
    action: str = ""


def _edits(session: Session) -> Iterator[_Edit]:
    twin = type(session)(session.task, session.rules)
    yield _Edit(twin.text, _claims(twin.task, twin.text))
    for turn, (action, _) in enumerate(session.state.transcript, start=1):
        if "edit" in twin.step(action).ledger:
            yield _Edit(twin.text, _claims(twin.task, twin.text), turn, action)


def _claims(task: Task, text: str) -> Mapping[tuple[str, str, str], Claim]:
    """The claims of a text that the original does not support."""
    lines = parse(text)
    signals = measure(text, make_reference(task))
    found = [
        Claim(one.kind, one.quote, lines[one.line].body, one.reason, one.confidence)
        for one in (*signals.findings, *signals.doubts)
    ]
    return {one[:3]: one for one in found}


def _change(task: Task, number: int, old: _Edit, new: _Edit) -> Change:
    # the text to compare with is the last one; what is true stays what the original says
    comparison = compare(task, old.text, new.text)
    grades = {name: comparison.grade(name) for name in GRADED_FIELDS}
    grades = {name: grade for name, grade in grades.items() if grade}
    alone = RubricJudge().judge(replace(task, resume=old.text), new.text)
    reasons = {
        name: alone.reasons[name] for name, grade in grades.items() if getattr(alone, name) == grade
    }
    fresh = (claim for key, claim in new.claims.items() if key not in old.claims)
    claims = tuple(claim._replace(edit=number) for claim in fresh)
    thought, said = words(new.action)
    diff = unified(old.text, new.text, 1)
    moved = sorted(old.text.split()) == sorted(new.text.split())
    return Change(number, new.turn, diff, said, thought, moved, grades, reasons, claims)
