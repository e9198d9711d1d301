"""Analysis of an episode's edits: their diffs, effects, reasons and unsupported claims."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from resume_gym.episode.session import Session
from resume_gym.episode.tasks import Task
from resume_gym.episode.tools import split_thought
from resume_gym.judges.rubric import compare, moved
from resume_gym.judges.rubric.accusations import cut
from resume_gym.judges.rubric.signals import excess, measure
from resume_gym.text.lines import parse
from resume_gym.text.reference import make_reference


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
        excess: limit that the text before or after the edit exceeds, so that rules give no grade
            and look for no claims; empty if it exceeds none.
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
    excess: str

    @property
    def rows(self) -> list[str]:
        """The non-blank rows of the diff that start with + or -.

        A line that is both removed and added is one row, which starts with "moved".
        """
        rows = [row for row in self.diff.split("\n") if row[:1] in ("+", "-") and row[1:].strip()]
        removed, added = ({row[1:] for row in rows if row[0] == sign} for sign in "-+")
        merged: list[str] = []
        done: set[str] = set()
        for sign, line in ((row[0], row[1:]) for row in rows):
            if line not in removed & added:
                merged.append(sign + line)
            elif line not in done:
                merged.append(f"moved {'up' if sign == '+' else 'down'}: {line}")
                done.add(line)
        return merged


def analyse(session: Session) -> tuple[tuple[AppliedEdit, ...], tuple[FlaggedClaim, ...]]:
    """Replay an episode; this takes seconds for a long resume.

    Returns:
        The successful edits in order, and the unsupported claims of the final text that are not
        in the original; no claims if the final text is too long for the rules (see `excess`).
    """
    task = session.task
    twin = type(session)(task, session.rules)
    original = claims = _claims(task, twin.text)
    edits: list[AppliedEdit] = []
    added_by: dict[tuple[str, str], int] = {}  # kind and quote of a claim -> edit that added it
    for turn, (action, _) in enumerate(session.state.transcript, start=1):
        before = twin.text
        if "edit" not in twin.step(action).ledger:
            continue
        over = excess(before) or excess(twin.text)
        number, now = len(edits) + 1, claims if excess(twin.text) else _claims(task, twin.text)
        new = (claim._replace(edit=number) for key, claim in now.items() if key not in claims)
        thought, said = words(action)
        edits.append(
            AppliedEdit(
                number,
                turn,
                unified(before, twin.text, 1),
                said,
                thought,
                _reordered(before.split(), twin.text.split()),
                *(({}, {}) if over else _effects(task, before, twin.text)),
                tuple(new),
                over,
            )
        )
        # a claim keeps its edit if a later edit changes other words of its line
        known = {key[:2] for key in claims}
        added_by |= {key[:2]: number for key in now if key[:2] not in known}
        claims = now
    if excess(twin.text):
        return tuple(edits), ()
    left = ((key, claim) for key, claim in claims.items() if key not in original)
    return tuple(edits), tuple(claim._replace(edit=added_by.get(key[:2], 0)) for key, claim in left)


def _reordered(before: list[str], after: list[str]) -> bool:
    return before != after and sorted(before) == sorted(after)


def unified(before: str, after: str, context: int) -> str:
    """Return a unified diff without file names; empty if the texts are equal."""
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    rows = difflib.unified_diff(old, new, n=context, lineterm="")
    return "\n".join(list(rows)[2:])  # without the two header rows with file names


def words(action: str) -> tuple[str, str]:
    """Split an action into the agent's thought and its text outside the tool call."""
    thought, said = split_thought(action)
    thought = thought.replace("<think>", "").removesuffix("</think>").strip()
    before, _, rest = said.partition("<tool_call>")
    after = rest.rpartition("</tool_call>")[2]
    return thought, f"{before}{after}".strip()


def _claims(task: Task, text: str) -> Mapping[tuple[str, str, str], FlaggedClaim]:
    """Return the unsupported claims of a text by kind, quote and line."""
    lines = parse(text)
    signals = measure(text, make_reference(task))
    claims: dict[tuple[str, str, str], FlaggedClaim] = {}
    for claim in (*signals.findings, *signals.doubts):
        key = claim.kind, claim.quote, lines[claim.line].body
        claims[key] = FlaggedClaim(*key, claim.reason, claim.confidence)
    return claims


def _effects(task: Task, before: str, after: str) -> tuple[Mapping[str, int], Mapping[str, str]]:
    """Return the nonzero grades that rules give an edit, and their reasons, each by verdict field.

    Grades compare the texts before and after the edit; claims need support in the original resume.
    """
    grades = {name: grade for name, grade in compare(task, before, after).items() if grade}
    alone = measure(after, make_reference(replace(task, resume=before)))
    rules = {name: moved(alone, name, grade) for name, grade in grades.items()}
    return grades, {name: rule[0] for name, rule in rules.items() if rule}
