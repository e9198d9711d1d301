"""The apprentice's next action: an edit, a review, a search, a request for feedback or a submit."""

import re
from random import Random

from learners.editors.edits import BULLET, REPAIRS, Edit, choose, clean, first_line
from resume_gym import Session, ToolCall, tool_call
from resume_gym.agents.edit_kinds import figures

_FIRST_REVIEW, _LATER_REVIEW = 0.7, 0.04
_EARLY_SUBMIT, _LAST_SUBMIT, _IDLE_SUBMIT = 0.04, 0.5, 0.5
_SEARCH, _FEEDBACK = 0.5, 0.3
_FOLLOWED = 0.85  # probability that the reply to a search or to feedback is used


def apprentice(session: Session, rng: Random, useful: float = REPAIRS) -> str:
    """Return the next action of the apprentice; `useful` is the probability of a repair."""
    left = session.rules.max_turns - session.turns
    if session.turns == 0 and rng.random() < _FIRST_REVIEW:
        return tool_call("review")
    if rng.random() < (_LAST_SUBMIT if left == 1 else _EARLY_SUBMIT):
        return tool_call("submit")
    if rng.random() < _LATER_REVIEW:
        return tool_call("review")
    if call := _with_tools(session, rng):
        return call
    if edit := choose(session, rng, useful):
        return edit.call
    return tool_call("submit" if rng.random() < _IDLE_SUBMIT else "review")


def repairs(session: Session, rng: Random) -> str:
    """Return the next action of an apprentice whose edits are all repairs."""
    return apprentice(session, rng, useful=1)


def _with_tools(session: Session, rng: Random) -> str | None:
    """Return a call of `search` or `feedback`, or an edit based on its reply; None for neither."""
    tools = {tool["function"]["name"] for tool in session.tools}
    last = _last_call(session)
    if last and last.name in ("search", "feedback") and rng.random() < _FOLLOWED:
        edit = _with_figure(session) if last.name == "search" else _remarked(session, rng)
        if edit:
            return edit.call
    if session.rules.max_turns - session.turns < 3 or (last and last.name == "feedback"):
        return None
    if "search" in tools and rng.random() < _SEARCH and (query := _query(session, rng)):
        return tool_call("search", query=query)
    if "feedback" in tools and rng.random() < _FEEDBACK:
        return tool_call("feedback")
    return None


def _last_call(session: Session) -> ToolCall | None:
    """Return the last call, if there is one and it did not fail."""
    if not session.state.transcript:
        return None
    text, step = session.state.transcript[-1]
    call = session.toolbox.read(text)
    return call if isinstance(call, ToolCall) and step.error == "none" else None


def _query(session: Session, rng: Random) -> str:
    """Return words of a line below the last edit as a query; most such lines lack a figure."""
    resume, first = session.resume, first_line(session)
    calls = [session.toolbox.read(text) for text, _ in session.state.transcript]
    asked = [
        one.arguments["query"]
        for one in calls
        if isinstance(one, ToolCall) and "query" in one.arguments
    ]
    page = resume.split("\n")
    lacking = [
        line
        for fix in session.task.fixes
        if fix.needs_evidence
        for line in page[first:]
        if fix.old in line
    ]
    plain = [line for line in page[first:] if BULLET.match(line) and not figures(line)]
    lines = lacking if lacking and rng.random() < _FOLLOWED else plain
    lines = [line for line in lines if not any(query in line for query in asked)]
    if not lines:
        return ""
    words = BULLET.sub("", rng.choice(lines)).rstrip(".").split(" ")
    length = min(len(words), rng.randint(3, 6))
    start = rng.randint(0, len(words) - length)
    return " " + " ".join(words[start : start + length])


def _with_figure(session: Session) -> Edit | None:
    """Return an edit that adds a figure from the last search result to the line searched for."""
    text, step = session.state.transcript[-1]
    call = session.toolbox.read(text)
    query = call.arguments["query"] if isinstance(call, ToolCall) else ""
    resume, page = session.resume, session.resume.split("\n")
    # ignore the last lines of a reply, whose figures count the page's lines and the turns left
    known = figures("\n".join(re.findall(r"^\[.*", step.observation, re.MULTILINE)))
    for fix in session.task.fixes:
        added = figures(fix.new) - figures(fix.old)
        if fix.needs_evidence and resume.count(fix.old) == 1 and added <= known:
            edit = clean(resume, fix.old, fix.new, session.task)
            if (
                edit
                and edit.kind == "figure"
                and edit.line >= first_line(session)
                and query in page[edit.line]
            ):
                return edit
    return None


def _remarked(session: Session, rng: Random) -> Edit | None:
    """Return a repair of a line that the last feedback quotes."""
    reply = session.state.transcript[-1][1].observation
    quotes = [one.removesuffix("...") for one in re.findall(r'"([^"]+)"', reply)]
    page = session.resume.split("\n")
    quoted = [n for n, line in enumerate(page) if any(one in line for one in quotes)]
    return choose(session, rng, repairs=1, barred=set(range(len(page))) - set(quoted))
