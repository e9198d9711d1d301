"""Revision of a resume by an agent: the episode, its edits and their unsupported claims."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from resume_gym.apps.revise.diffs import unified
from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.rewards import Verdict
from resume_gym.episode.session import Session
from resume_gym.episode.tasks import Task
from resume_gym.episode.tools import split_thought
from resume_gym.evaluation.players import Player
from resume_gym.judges import Judge
from resume_gym.judges.rubric import compare, moved
from resume_gym.judges.rubric.accusations import cut
from resume_gym.judges.rubric.signals import measure
from resume_gym.judges.vetoes import find_veto
from resume_gym.text.lines import parse
from resume_gym.text.reference import make_reference

_PROGRESS_S = 0.2  # seconds between two progress reports


class FlaggedClaim(NamedTuple):
    """Claim in a revision for which rules find no support in the original; it may still be true.

    Attributes:
        kind: "number", "name", "title", "hedge" or another kind of `judges.rubric`.
        quote: words of the revision that make the claim.
        line: line of the revision that holds the claim, without markup.
        reason: why the claim is unsupported, in one sentence.
        confidence: the rule's confidence that the claim is unsupported, in [0, 1].
        edit: number of the edit that added the claim, from 1; 0 if no single edit did.
    """

    kind: str
    quote: str
    line: str
    reason: str
    confidence: float
    edit: int = 0

    @property
    def short(self) -> str:
        """`reason` without the quoted line, for display beside the line itself."""
        return self.reason.replace(f' in "{cut(self.line)}"', "")


@dataclass(frozen=True)
class AppliedEdit:
    """Successful edit of an episode.

    Attributes:
        number: number among the successful edits, from 1.
        turn: turn of the episode, from 1.
        diff: unified diff of the edit, with one line of context.
        said: text of the agent's turn outside the thought and the tool call; may be empty.
        thought: the agent's thought in this turn; may be empty.
        moved: whether the edit only reorders words.
        grades: nonzero grades that rules give to this edit alone, -1 or 1, by verdict field.
        reasons: short reason for a grade, by verdict field; some grades have no reason.
        claims: unsupported claims that the edit adds; a later edit may have removed them.
    """

    number: int
    turn: int
    diff: str
    said: str
    thought: str
    moved: bool
    grades: Mapping[str, int]
    reasons: Mapping[str, str]
    claims: tuple[FlaggedClaim, ...]

    @property
    def rows(self) -> list[str]:
        """Lines of the diff that start with + or -."""
        return [row for row in self.diff.split("\n") if row.startswith(("+", "-"))]


@dataclass(frozen=True)
class Revision:
    """Finished episode on a user's resume.

    Attributes:
        session: finished session of the episode.
        judge: name of the judge that graded the episode.
        no_verdict: error of the judge; empty if there is a verdict or none is needed.
    """

    session: Session
    judge: str
    no_verdict: str = ""

    @property
    def task(self) -> Task:
        """Task of the episode, with the original resume and the job."""
        return self.session.task

    @property
    def text(self) -> str:
        """The revised resume."""
        return self.session.text

    @property
    def verdict(self) -> Verdict | None:
        """The judge's verdict; None if there is none."""
        return self.session.verdict

    @cached_property
    def changed(self) -> bool:
        """Whether more than blank lines and invisible characters differ from the original."""
        veto = find_veto(self.task, self.text)
        return veto is None or veto.kind != "unchanged"

    @cached_property
    def _edits(self) -> "list[_Edit]":
        return list(_edits(self.session))

    @cached_property
    def changes(self) -> tuple[AppliedEdit, ...]:
        """Successful edits of the episode, in order."""
        pairs = enumerate(pairwise(self._edits), start=1)
        return tuple(_change(self.task, number, *pair) for number, pair in pairs)

    @cached_property
    def claims(self) -> tuple[FlaggedClaim, ...]:
        """Claims of the revision that the original does not support."""
        history = [edit.claims for edit in self._edits]
        claims = []
        for key, claim in history[-1].items():
            if key in history[0]:
                continue
            # find the edit that added the claim; ignore the line, which may have changed since
            edit = len(self._edits) - 1
            while edit and any(earlier[:2] == key[:2] for earlier in history[edit - 1]):
                edit -= 1
            claims.append(claim._replace(edit=edit))
        return tuple(claims)

    @property
    def flagged(self) -> dict[str, list[FlaggedClaim]]:
        """Unsupported claims, grouped by line."""
        lines: dict[str, list[FlaggedClaim]] = {}
        for claim in self.claims:
            lines.setdefault(claim.line, []).append(claim)
        return lines

    @property
    def diff(self) -> str:
        """Unified diff of all edits together, with three lines of context."""
        return unified(self.task.resume, self.text, 3)

    @property
    def lines(self) -> int:
        """Number of lines of the revision, after wrapping."""
        return wrapped_lines(self.text, self.session.rules.page_width)

    @property
    def fits(self) -> bool:
        """Whether the revision fits on the page."""
        return self.lines <= self.session.rules.page_lines

    @property
    def failed_calls(self) -> int:
        """Number of turns whose tool call failed."""
        return sum(step.error != "none" for _, step in self.session.state.transcript)

    @property
    def warnings(self) -> list[str]:
        """Warnings that the user must read before using the revision."""
        warnings = []
        if self.claims:
            count = len(self.flagged)
            lines = "1 line claims" if count == 1 else f"{count} lines claim"
            warnings.append(f"{lines} what your original does not support: check that it is true")
        verdict = self.verdict
        if verdict and verdict.hallucination < 0:
            reason = verdict.reasons.get("hallucination", "it gives no reason")
            # the user sees the reasons of all claims: do not repeat one as the judge's objection
            if not any(reason.startswith(claim.reason) for claim in self.claims):
                warnings.append(f"The judge ({self.judge}) objects: {reason}")
        if verdict and verdict.preference < 0:
            warnings.append(f"The judge ({self.judge}) would rather have your original")
        if self.no_verdict:
            warnings.append(f"The judge ({self.judge}) gave no verdict: {self.no_verdict}")
        if not self.session.state.submitted:
            warnings.append("The agent ran out of turns: its revision may be unfinished")
        return warnings


async def play(player: Player, session: Session, seed: int, turn: Callable[[int], object]) -> None:
    """Play an episode to its end.

    Args:
        player: player of the episode; closed at the end.
        session: new session, played by this function.
        seed: seed of the episode, as in `Player.play`.
        turn: progress callback, periodically called with the number of turns played.

    Raises:
        ModelError: the player cannot continue.
    """
    playing = asyncio.create_task(player.play(session, seed))
    try:
        while not playing.done():
            await asyncio.wait({playing}, timeout=_PROGRESS_S)
            turn(session.turns)
        await playing
    finally:
        playing.cancel()  # after an interrupt; has no effect on a finished task
        await player.close()


def graded(session: Session, judge: Judge) -> Revision:
    """Grade a finished session; `Revision.no_verdict` reports an error of the judge."""
    fault = ""
    try:
        if session.needs_verdict:
            session.grade(judge.judge(session.task, session.text))
    except Exception as problem:  # user-defined judges may raise anything
        fault = f"{type(problem).__name__}: {problem}"
    return Revision(session, judge.name, fault)


def restored(revision: Revision, task: Task, restore: Callable[[str], str]) -> Revision:
    """Restore the personal data in a revision of a masked resume.

    Args:
        revision: revision of the masked resume.
        task: task with the unmasked resume.
        restore: function that unmasks a text.

    Raises:
        ValueError: the same edits of the unmasked resume do not yield the unmasked revision.
    """
    session = revision.session
    twin = type(session)(task, session.rules)
    for action, _ in session.state.transcript:
        twin.step(restore(action))
    if twin.text != restore(session.text):
        raise ValueError("the edits have a different effect on the unmasked resume")
    verdict = revision.verdict
    if verdict:
        reasons = {name: restore(reason) for name, reason in verdict.reasons.items()}
        twin.grade(replace(verdict, reasons=reasons))
    return replace(revision, session=twin, no_verdict=restore(revision.no_verdict))


def words(action: str) -> tuple[str, str]:
    """Split an action into the agent's thought and its text outside the tool call."""
    thought, said = split_thought(action)
    thought = thought.replace("<think>", "").removesuffix("</think>").strip()
    before, _, rest = said.partition("<tool_call>")
    after = rest.rpartition("</tool_call>")[2]
    return thought, f"{before}{after}".strip()


class _Edit(NamedTuple):
    """State of the resume after a successful edit, or before the first edit."""

    text: str
    claims: Mapping[tuple[str, str, str], FlaggedClaim]  # claims by kind, quote and line
    turn: int = 0
    action: str = ""


def _edits(session: Session) -> Iterator[_Edit]:
    """Replay an episode; yield the resume at the start and after each successful edit."""
    twin = type(session)(session.task, session.rules)
    yield _Edit(twin.text, _claims(twin.task, twin.text))
    for turn, (action, _) in enumerate(session.state.transcript, start=1):
        if "edit" in twin.step(action).ledger:
            yield _Edit(twin.text, _claims(twin.task, twin.text), turn, action)


def _claims(task: Task, text: str) -> Mapping[tuple[str, str, str], FlaggedClaim]:
    lines = parse(text)
    signals = measure(text, make_reference(task))
    claims: dict[tuple[str, str, str], FlaggedClaim] = {}
    for claim in (*signals.findings, *signals.doubts):
        key = claim.kind, claim.quote, lines[claim.line].body
        claims[key] = FlaggedClaim(*key, claim.reason, claim.confidence)
    return claims


def _change(task: Task, number: int, old: _Edit, new: _Edit) -> AppliedEdit:
    # compare the texts before and after the edit, but look for support in the original resume
    compared = compare(task, old.text, new.text)
    grades = {name: grade for name, grade in compared.items() if grade}
    alone = measure(new.text, make_reference(replace(task, resume=old.text)))
    told = {name: moved(alone, name, grade) for name, grade in grades.items()}
    reasons = {name: rule[0] for name, rule in told.items() if rule}
    added = (claim for key, claim in new.claims.items() if key not in old.claims)
    claims = tuple(claim._replace(edit=number) for claim in added)
    thought, said = words(new.action)
    diff = unified(old.text, new.text, 1)
    reordered = sorted(old.text.split()) == sorted(new.text.split())
    return AppliedEdit(number, new.turn, diff, said, thought, reordered, grades, reasons, claims)
