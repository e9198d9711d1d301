"""Scripted agents: what an episode is worth to nobody, to chance, to care, and to hindsight.

An agent is a function from a session to the text of its next action. Each is made for one episode
with a seed; see `make_agent`. All but the oracle use nothing that a model could not read.
"""

from collections.abc import Callable, Mapping
from random import Random

from resume_gym.careful import next_edit
from resume_gym.document import wrapped_lines
from resume_gym.session import Session
from resume_gym.tasks import Fix
from resume_gym.tools import tool_call

Agent = Callable[[Session], str]
"""The text of the next action in a running session."""

_SUBMIT, _REVIEW = tool_call("submit"), tool_call("review")


def make_agent(name: str, seed: int = 0) -> Agent:
    """The agent of one episode.

    Args:
        name: one of `AGENTS`.
        seed: the same seed acts the same; only `random` draws.

    Raises:
        ValueError: there is no such agent.
    """
    if name not in AGENTS:
        raise ValueError(f"agent: expected one of {', '.join(AGENTS)}; got {name!r}")
    return AGENTS[name](seed)


def noop(session: Session) -> str:
    """Hand in the resume as it is."""
    return _SUBMIT


def oracle(session: Session) -> str:
    """Review, repair the planted weakness, best repair first, and submit."""
    if not session.state.turns:
        return _REVIEW
    resume, width = session.resume, session.rules.page_width
    too_long = session.state.document.lines > session.rules.page_lines
    # where a repair adds to a line, the weak text still stands in the strong one
    made = {text for text, _ in session.state.transcript}
    fixes = [fix for fix in session.task.fixes if _repair(fix) not in made]
    ready = [fix for fix in fixes if resume.count(fix.old) == 1]
    if not ready or _turns_left(session) == 1:
        return _SUBMIT
    # The repairs of a resume that is too long delete; the longest brings it nearest to the page.
    fix = max(ready, key=lambda fix: wrapped_lines(fix.old, width)) if too_long else ready[0]
    return _repair(fix)


def _repair(fix: Fix) -> str:
    return tool_call("str_replace", old=fix.old, new=fix.new)


def random_agent(seed: int) -> Agent:
    """Any call, good or broken, with spans of the resume drawn at random."""
    rng = Random(seed)

    def act(session: Session) -> str:
        words = session.resume.split(" ")
        start = rng.randrange(len(words))
        old = " ".join(words[start : start + rng.randint(1, 6)])
        new = " ".join(rng.sample(words, min(len(words), rng.randint(0, 6))))
        edit = tool_call("str_replace", old=old, new=new)
        choices = {
            edit: 10,
            tool_call("str_replace", old=old + new, new=old): 3,
            tool_call("str_replace", old=old): 1,
            tool_call("replace", old=old, new=new): 1,
            edit[: len(edit) // 2]: 1,
            edit + edit: 1,
            old: 1,
            _REVIEW: 2,
            _SUBMIT: 2,
        }
        return rng.choices(list(choices), list(choices.values()))[0]

    return act


def careful(session: Session) -> str:
    """Edit as a careful stranger would: by the text alone, and inventing nothing.

    It reviews, edits until one turn is left (see `careful.next_edit`), and submits.
    """
    turns_left = _turns_left(session)
    if not session.state.turns:
        return _REVIEW
    if turns_left > 1:
        job = session.prompt.partition("\n\n# Resume\n")[0]
        excess = session.state.document.lines - session.rules.page_lines
        edit = next_edit(session.resume, job, excess, turns_left - 1, session.rules.page_width)
        if edit:
            return tool_call("str_replace", old=edit[0], new=edit[1])
    return _SUBMIT


AGENTS: Mapping[str, Callable[[int], Agent]] = {
    "noop": lambda seed: noop,
    "random": random_agent,
    "careful": lambda seed: careful,
    "oracle": lambda seed: oracle,
}
"""What `make_agent` makes, by name."""


def _turns_left(session: Session) -> int:
    return session.rules.max_turns - session.state.turns
