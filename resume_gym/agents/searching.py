"""Edits that add figures, which the tool `search` finds in documents about the candidate.

A figure of a passage is added to a bullet only if the passage is about the employer for whom the
bullet describes work, and if it shares more content words with this bullet than with any other
line. The edit appends the clause that contains the figure to the bullet.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from resume_gym.agents.careful import stems
from resume_gym.episode.session import Session
from resume_gym.episode.tools import FailedCall, ToolCall, tool_call

_BULLET = re.compile(r"[-*+\u2022] +(\S.*?)\.?")
_PASSAGE = re.compile(r"\[[\w ]+ \((.+)\)\] (.+)")  # the heading in parentheses names an employer
_FIGURE = r"[$€£]?\d[\d,.]*\d?(?:[KM]\b| million\b)?%?"
_CLAUSE = re.compile(r"[,;:.] |, (?:and|which|so) |\b(?:and|which|so that) ")
# a clause that would need the subject of the clause before it
_VERB_FIRST = re.compile(r"(?:has|have|had|is|are|was|were|now|went|fell|rose|came|took)\b")
_SHARED = 2  # minimum number of stems that a bullet and a passage must share


def next_search(session: Session, calls_left: int) -> str | None:
    """Return an edit that uses the last search's result, or else a new search, or else None."""
    calls = [session.toolbox.read(text) for text, _ in session.state.transcript]
    sought = [call.arguments["query"] for call in calls if _is_search(call)]
    if calls and _is_search(calls[-1]):
        reply = session.state.transcript[-1][1].observation
        for employer, bullet in _bullets(session.resume):
            if bullet == sought[-1] and session.resume.count(bullet) == 1:
                others = [line for line in session.resume.split("\n") if bullet not in line]
                for edited in _edits(bullet, employer, reply, others):
                    return tool_call("str_replace", old=bullet, new=edited)
    for _, bullet in _bullets(session.resume) if calls_left > 1 else ():
        if not re.search(r"\d", bullet) and bullet not in sought:
            return tool_call("search", query=bullet)
    return None


def _is_search(call: ToolCall | FailedCall) -> TypeGuard[ToolCall]:
    return isinstance(call, ToolCall) and call.name == "search"


def _bullets(resume: str) -> Iterator[tuple[str, str]]:
    """Yield (job header, bullet) for each bullet of a job; the header names the employer."""
    above = ""
    for line in resume.split("\n"):
        if bullet := _BULLET.fullmatch(line):
            if above.startswith(("### ", "**")):
                yield above, bullet[1]
        else:
            above = line if line.startswith(("#", "**")) else f"{above} {line}"


def _edits(bullet: str, employer: str, reply: str, others: Sequence[str]) -> Iterator[str]:
    """Yield copies of the bullet, each extended by a clause with a figure from the `reply`."""
    for line in reply.split("\n"):
        passage = _PASSAGE.fullmatch(line)
        if not passage or passage[1] not in employer:
            continue
        told = set(stems(passage[2]))
        most = max(len(told.intersection(stems(other))) for other in others)
        if len(told.intersection(stems(bullet))) < max(_SHARED, most + 1):
            continue
        for clause in _CLAUSE.split(passage[2].rstrip(".")):
            whole = re.match(r"[a-z\d$€£](?!.*\bI\b)", clause)
            again = len(set(stems(bullet)) & set(stems(clause)))
            if (
                whole
                and not _VERB_FIRST.match(clause)
                and re.search(_FIGURE, clause)
                and again < _SHARED
            ):
                yield f"{bullet}; {clause}"
