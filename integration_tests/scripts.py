"""Scripted episodes, and what the bare environment makes of them."""

from typing import Any, NamedTuple

import gymnasium as gym

from resume_gym import Session, Task, Verdict, load_tasks, tool_call
from resume_gym.judges import JudgeUnavailable

ENV = "ResumeEditMini-v0"
TASK = load_tasks("mini", "train")[0]
OTHER = load_tasks("mini", "train")[7]
REVIEW, SUBMIT = tool_call("review"), tool_call("submit")


class Script(NamedTuple):
    """An episode: what the agent says on a task, turn by turn."""

    name: str
    task_id: str
    actions: tuple[str, ...]


class Played(NamedTuple):
    """What came of it.

    `rewards` are the turns', the last one with the verdict's terms; `ledger` holds all terms.
    """

    task_id: str
    rewards: list[float]
    total: float
    resume: str
    ledger: dict[str, float]

    @classmethod
    def of(cls, session: Session, rewards: list[float], total: float) -> "Played":
        """From the adapter's session, and the rewards that the library was given."""
        return cls(session.task.task_id, rewards, total, session.resume, session.ledger)


class Down:
    """A judge that cannot be reached: `judge="scripts:Down"`."""

    name = "down"

    def judge(self, task: Task, revised: str) -> Verdict:
        raise JudgeUnavailable("the judge is down")


def edits(task: Task, count: int) -> tuple[str, ...]:
    """Calls that make the first repairs of a task."""
    return tuple(tool_call("str_replace", old=fix.old, new=fix.new) for fix in task.fixes[:count])


_PROSE = f"<think>\nfirst look\n</think>\n\nI look at it.\n{REVIEW}"
_BAD_JSON = '<tool_call>\n{"name": "review", "arguments": {\n</tool_call>'
_UNKNOWN = tool_call("delete_all")
_MISSES = tool_call("str_replace", old="these words are not in it", new='é 语言 "quoted"')
SCRIPTS = (
    Script("repairs", TASK.task_id, (REVIEW, *edits(TASK, 2), SUBMIT)),
    Script("thinks first", OTHER.task_id, (_PROSE, *edits(OTHER, 1), SUBMIT)),
    Script("changes nothing", TASK.task_id, (REVIEW, SUBMIT)),
    Script("edits fail", OTHER.task_id, (_MISSES, *edits(OTHER, 1), _MISSES, SUBMIT)),
    Script("wrong calls", TASK.task_id, (_UNKNOWN, *edits(TASK, 1), SUBMIT)),
    Script("never submits", TASK.task_id, (REVIEW, *edits(TASK, 2), _MISSES, REVIEW, REVIEW)),
)
"""Episodes whose every action is a call that a library's own parser can read too."""
MALFORMED = (
    Script("no call", TASK.task_id, ("I would rather not.", *edits(TASK, 1), SUBMIT)),
    Script("no JSON", OTHER.task_id, (_BAD_JSON, REVIEW, *edits(OTHER, 1), SUBMIT)),
    Script("two calls", TASK.task_id, (REVIEW + SUBMIT, *edits(TASK, 1), SUBMIT)),
    Script("only talk", TASK.task_id, ("",) * 6),
)
"""Episodes with turns that are no call, or too many."""


def bare(script: Script) -> Played:
    """The script in the environment itself."""
    env: gym.Env[str, str] = gym.make(ENV)
    env.reset(options={"task_id": script.task_id})
    rewards: list[float] = []
    ended, info = False, dict[str, Any]()
    for action in script.actions:
        _, reward, ended, _, info = env.step(action)
        rewards.append(float(reward))
    assert ended
    session = env.unwrapped.session  # type: ignore[attr-defined]
    return Played.of(session, rewards, info["episode_reward"])
