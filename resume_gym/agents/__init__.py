"""Scripted baseline agents: no-op, random, harmless edits (`floor`), careful editor, and oracle.

`make_agent` creates an agent for one episode. The oracle reads the task's fixes; all other agents
use only what a model can read during the episode.

Agents cannot ask for a verdict: this package does not import `resume_gym.judges`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random

from resume_gym.agents.careful import has_padding, next_edit
from resume_gym.agents.edit_kinds import SWAPS
from resume_gym.agents.searching import next_search
from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.editing import AnySession
from resume_gym.episode.session import Session
from resume_gym.episode.tasks import Fix
from resume_gym.episode.tools import tool_call

Agent = Callable[[Session], str]
"""Function from a running session to the text of the agent's next action."""

_SUBMIT, _REVIEW = tool_call("submit"), tool_call("review")
_BULLET = re.compile(r"^[-*+] .+$", re.MULTILINE)


def make_agent(name: str, seed: int = 0) -> Agent:
    """Create an agent for one episode.

    Args:
        name: name of the agent, a key of `AGENTS`.
        seed: random seed, used only by `random` and `floor`.

    Raises:
        ValueError: no agent has this name.
    """
    if name not in AGENTS:
        raise ValueError(f"agent: expected one of {', '.join(AGENTS)}; got {name!r}")
    return AGENTS[name](seed)


def noop(session: Session) -> str:
    """Submit the resume unchanged."""
    return _SUBMIT


def oracle(session: Session) -> str:
    """Review, apply the task's fixes, and submit."""
    if not session.state.turns:
        return _REVIEW
    resume, width = session.resume, session.rules.page_width
    too_long = session.state.document.lines > session.rules.page_lines
    # Skip fixes that were made before: a fix that only extends a line leaves its `old` in the text.
    made = {text for text, _ in session.state.transcript}
    fixes = [fix for fix in session.task.fixes if _repair(fix) not in made]
    ready = [fix for fix in fixes if resume.count(fix.old) == 1]
    if not ready or _turns_left(session) == 1:
        return _SUBMIT
    # The fixes of a resume that is too long are deletions: the longest one comes first.
    fix = max(ready, key=lambda fix: wrapped_lines(fix.old, width)) if too_long else ready[0]
    return _repair(fix)


def _repair(fix: Fix) -> str:
    return tool_call("str_replace", old=fix.old, new=fix.new)


def random_agent(seed: int) -> Callable[[AnySession], str]:
    """Make an agent that calls the tools of any domain at random; some calls are malformed.

    Texts in the calls consist of words of the document, in their order or in a random order.
    """
    rng = Random(seed)

    def act(session: AnySession) -> str:
        words = session.text.split(" ")
        choices: dict[str, int] = {}
        for tool in (one["function"] for one in session.tools):
            name, parameters = tool["name"], tool["parameters"]
            kinds = {key: parameters["properties"][key]["type"] for key in parameters["required"]}
            arguments = {
                key: _random_value(kind, words, number, rng)
                for number, (key, kind) in enumerate(kinds.items())
            }
            if name in session.editors and arguments:
                choices |= _random_edits(name, arguments)
            else:
                choices[tool_call(name, **arguments)] = 2
        return rng.choices(list(choices), list(choices.values()))[0]

    return act


def _random_value(kind: str, words: Sequence[str], number: int, rng: Random) -> str | int:
    """Return a number or a text: an excerpt for a call's first argument, else random words."""
    if kind == "integer":
        return rng.randint(1, 9)
    if number:
        return " ".join(rng.sample(words, min(len(words), rng.randint(0, 6))))
    start = rng.randrange(len(words))
    return " ".join(words[start : start + rng.randint(1, 6)])


def _random_edits(name: str, arguments: Mapping[str, str | int]) -> dict[str, int]:
    """Map the texts of an edit and of its malformed variants to their sampling weights."""
    edit = tool_call(name, **arguments)
    first, *others = arguments
    told = str(arguments[first])
    longer = {first: "".join(map(str, arguments.values())), **dict.fromkeys(others, told)}
    return {
        edit: 10,
        tool_call(name, **longer): 3,
        tool_call(name, **{first: told}): 1,
        tool_call(f"{name}_all", **arguments): 1,
        edit[: len(edit) // 2]: 1,
        edit + edit: 1,
        told: 1,
    }


def editor(edit: Callable[[Session], tuple[str, str] | None]) -> Agent:
    """Make an agent that reviews, edits until one turn is left, and submits.

    Args:
        edit: function that returns the next edit (old, new), or None to submit.
    """

    def act(session: Session) -> str:
        if not session.state.turns:
            return _REVIEW
        change = edit(session) if _turns_left(session) > 1 else None
        return tool_call("str_replace", old=change[0], new=change[1]) if change else _SUBMIT

    return act


def floor(seed: int) -> Agent:
    """Make an agent whose edits are harmless but improve nothing (see `floor_edit`)."""
    rng = Random(seed)
    return editor(lambda session: floor_edit(session.resume, session.original, rng))


def bullets(text: str) -> list[str]:
    """Return the bullets that occur exactly once in the text, as `str_replace` requires."""
    found = [match[0] for match in _BULLET.finditer(text)]
    return [bullet for bullet in found if text.count(bullet) == 1]


def floor_edit(text: str, original: str, rng: Random) -> tuple[str, str] | None:
    """Return an edit that replaces a function word by another in a random unedited bullet.

    If no unedited bullet has such a word, the edit appends "too" to a bullet. A useful policy must
    earn more than an agent that makes these harmless edits.

    Returns:
        The edit as (old text, new text); None if every bullet has been edited.
    """
    fresh = [bullet for bullet in bullets(text) if bullet in original.split("\n")]
    for bullet in rng.sample(fresh, len(fresh)):
        for old, new in SWAPS:
            if f" {old} " in bullet:
                return bullet, bullet.replace(f" {old} ", f" {new} ", 1)
    return (fresh[0], f"{fresh[0]} too") if fresh else None


def careful(session: Session) -> str:
    """Edit the resume by heuristics that use only its text and the job, and invent nothing.

    The agent reviews, makes the edits of `careful.next_edit`, and submits. With the tool `search`,
    it also adds figures from documents before it submits (see `searching.next_search`). The last
    turn is always left for `submit`. If the page is still too long because nothing on it is
    padding, the text of the last action says this.
    """
    turns_left = _turns_left(session)
    if not session.state.turns:
        return _REVIEW
    job = session.prompt.partition("\n\n# Resume\n")[0]
    if turns_left > 1:
        excess = session.state.document.lines - session.rules.page_lines
        edit = next_edit(session.resume, job, excess, turns_left - 1, session.rules.page_width)
        if edit:
            return tool_call("str_replace", old=edit[0], new=edit[1])
        searches = any(tool["function"]["name"] == "search" for tool in session.tools)
        if call := searches and next_search(session, turns_left - 1):
            return call
    lines, limit = session.state.document.lines, session.rules.page_lines
    if lines <= limit or has_padding(session.resume, job):
        return _SUBMIT
    over = f"The page has {lines} lines, {lines - limit} over the limit; nothing on it is padding."
    return f"{over}\n{_SUBMIT}"


AGENTS: Mapping[str, Callable[[int], Agent]] = {
    "noop": lambda seed: noop,
    "random": random_agent,
    "floor": floor,
    "careful": lambda seed: careful,
    "oracle": lambda seed: oracle,
}
"""Agent factories by name; each takes a seed."""
ANY_DOMAIN = ("noop", "random")
"""Agents that play in environments of any domain; the others edit only resumes."""


def _turns_left(session: Session) -> int:
    return session.rules.max_turns - session.state.turns
