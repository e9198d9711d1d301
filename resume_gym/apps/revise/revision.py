"""Revision of a resume by an agent: play the episode, grade and analyse it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from resume_gym.apps.revise.edits import AppliedEdit, FlaggedClaim, analyse, unified
from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.session import Session
from resume_gym.evaluation.players import Player
from resume_gym.judges import Judge
from resume_gym.judges.rubric.progress import lost
from resume_gym.judges.rubric.signals import excess
from resume_gym.judges.vetoes import find_veto
from resume_gym.support.user_errors import number_of
from resume_gym.text.lines import Line, parse, read
from resume_gym.text.style import core
from resume_gym.text.thresholds import HALF

_PROGRESS_S = 0.2  # seconds between two progress reports
_MAX_GONE = 2


@dataclass(frozen=True)
class Revision:
    """Finished episode on a user's resume, with an analysis of its edits.

    Attributes:
        session: finished session of the episode, with the verdict if there is one.
        judge: name of the judge that graded the episode.
        no_verdict: error of the judge; empty if there is a verdict or none is needed.
        changes: successful edits of the episode, in order.
        claims: claims of the revision that the original does not support; none if the revision
            exceeds a limit of the rules.
    """

    session: Session
    judge: str
    no_verdict: str
    changes: tuple[AppliedEdit, ...]
    claims: tuple[FlaggedClaim, ...]

    @cached_property
    def changed(self) -> bool:
        """Whether the revision changes more than blank lines and invisible characters."""
        veto = find_veto(self.session.task, self.session.text)
        return veto is None or veto.kind != "unchanged"

    @cached_property
    def excess(self) -> str:
        """Limit of the rules that the revision exceeds, with its size; empty if it exceeds none."""
        return excess(self.session.text)

    @property
    def flagged(self) -> dict[str, list[FlaggedClaim]]:
        """Unsupported claims, grouped by line."""
        lines: dict[str, list[FlaggedClaim]] = {}
        for claim in self.claims:
            lines.setdefault(claim.line, []).append(claim)
        return lines

    @property
    def worse(self) -> dict[int, list[str]]:
        """Verdict fields that rules grade as worse for an edit alone, by the edit's number."""
        fields = {
            change.number: [field for field, grade in change.grades.items() if grade < 0]
            for change in self.changes
        }
        return {number: names for number, names in fields.items() if names}

    @property
    def diff(self) -> str:
        """Unified diff of all edits together, with three lines of context."""
        return unified(self.session.task.resume, self.session.text, 3)

    @cached_property
    def gutted(self) -> str:
        """Message about missing lines; empty if an agent may delete as many unasked.

        An agent may delete a tenth of the content lines, but at most two. Lines that had to go to
        fit a page limit do not count.
        """
        rules, original = self.session.rules, self.session.original
        lines, gone = missing_lines(original, self.session.text)
        height = sum(wrapped_lines(line.raw, rules.page_width) for line in gone)
        asked = max(0, wrapped_lines(original, rules.page_width) - rules.page_lines)
        count = min(len(gone), height - asked)
        if count <= min(_MAX_GONE, len(lines) / 10):
            return ""
        verb = "is" if len(gone) == 1 else "are"
        return f"{len(gone)} of {number_of(len(lines), 'line')} {verb} gone"

    @property
    def limit(self) -> int | None:
        """Number of lines of the page; None if the page has no end."""
        rules = self.session.rules
        return None if rules.endless else rules.page_lines

    @property
    def lines(self) -> int:
        """Number of lines of the revision, after wrapping."""
        return self.session.state.document.lines

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
        if self.gutted:
            warnings.append(f"{self.gutted}: put back what you need")
        if self.claims:
            count = len(self.flagged)
            lines = "1 line claims" if count == 1 else f"{count} lines claim"
            warnings.append(f"{lines} what your original does not support: check that it is true")
        if self.excess:
            warnings.append(
                f"No claim was checked: the revision exceeds the limit of {self.excess}"
            )
        verdict = self.session.verdict
        if verdict and verdict.hallucination < 0:
            reason = verdict.reasons.get("hallucination", "it gives no reason")
            # the user sees the reasons of all claims: do not repeat one as the judge's objection
            if not any(reason.startswith(claim.reason) for claim in self.claims):
                warnings.append(f"The judge ({self.judge}) objects: {reason}")
        if verdict and verdict.preference < 0:
            worse = ", ".join(f"edit {number}" for number in self.worse)
            blame = f"; worse by rule: {worse}" if worse else ""
            warnings.append(f"The judge ({self.judge}) would rather have your original{blame}")
        if self.no_verdict:
            warnings.append(f"The judge ({self.judge}) gave no verdict: {self.no_verdict}")
        if not self.session.state.submitted:
            warnings.append("The agent ran out of turns: its revision may be unfinished")
        return warnings


def missing_lines(original: str, revised: str) -> tuple[list[Line], list[Line]]:
    """Find the content lines of a text that a revision lacks.

    A content line is a line, other than a heading, that has more than vague words. It is missing if
    the revision lacks the line, and the new and changed lines of the revision together lack more
    than half of its core words (see `style.core`); synonyms count as the same word.

    Returns:
        All content lines of the original, and the missing ones.
    """
    old, new = parse(original), parse(revised)
    content = [line for line in old if line.kind != "heading" and core(line.content)]
    kept, known = ({line.body for line in lines} for lines in (new, old))
    words = read("\n".join(line.body for line in new if line.body not in known))
    return content, [
        line for line in content if line.body not in kept and lost(line.content, words) > HALF
    ]


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
    """Grade and analyse a finished episode; `Revision.no_verdict` reports an error of the judge."""
    fault = ""
    try:
        if session.needs_verdict:
            session.grade(judge.judge(session.task, session.text))
    except (Exception, SystemExit) as problem:  # user-defined judges may raise anything
        fault = f"{type(problem).__name__}: {problem}"
    return Revision(session, judge.name, fault, *analyse(session))
