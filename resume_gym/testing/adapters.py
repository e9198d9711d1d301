"""`check_adapter`: checks that a library's adapter plays the same episodes as the environment."""

import traceback
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym

from resume_gym.env import EditEnv
from resume_gym.episode.rewards import Verdict
from resume_gym.episode.session import Session
from resume_gym.episode.sources import load_tasks
from resume_gym.episode.tasks import Task
from resume_gym.episode.tools import tool_call
from resume_gym.judges import JudgeUnavailable
from resume_gym.testing.expectations import broken, expect, failure

ENV = "ResumeEditMini-v0"
"""ID of the environment in which scripts are played by default."""
UNAVAILABLE = f"{__name__}:FailingJudge"
"""Specification of a judge that always fails; adapters can create the judge in any process."""

_DOWN = "the judge is down"


class Script(NamedTuple):
    """A scripted episode: the agent's text in each turn of a task.

    `env_id` and `options` are arguments of `gymnasium.make`.
    """

    name: str
    task_id: str
    actions: tuple[str, ...]
    env_id: str = ENV
    options: Mapping[str, Any] = {}


class Played(NamedTuple):
    """The result of an episode as the library received it.

    Attributes:
        task_id: task that was played.
        rewards: reward of each turn; the last reward includes the verdict's terms.
        total: reward of the episode.
        text: final document of the episode.
        ledger: total of each reward term.
    """

    task_id: str
    rewards: list[float]
    total: float
    text: str
    ledger: Mapping[str, float]

    @classmethod
    def of(cls, session: Session, rewards: list[float], total: float) -> "Played":
        """Create a result from an adapter's session and the rewards that the library received."""
        return cls(session.task.task_id, rewards, total, session.text, session.ledger)


Play = Callable[[Script, str], Played]
"""Function that plays a script through an adapter, given the script and a judge specification."""


class FailingJudge:
    """A judge that always fails."""

    name = "unavailable"

    def judge(self, task: Task, revised: str) -> Verdict:
        """Raise JudgeUnavailable."""
        raise JudgeUnavailable(_DOWN)


def edits(task: Task, count: int) -> tuple[str, ...]:
    """Return the actions that make the first `count` fixes of a task."""
    return tuple(tool_call("str_replace", old=fix.old, new=fix.new) for fix in task.fixes[:count])


@cache
def scripts() -> tuple[Script, ...]:
    """Return scripts with one well-formed call per turn, for libraries that parse calls."""
    task, other = _tasks()
    review, submit = tool_call("review"), tool_call("submit")
    thought = f"<think>\nfirst look\n</think>\n\nI look at it.\n{review}"
    unknown = tool_call("delete_all")
    misses = tool_call("str_replace", old="these words are not in it", new='é 语言 "quoted"')
    no_end = (review, *edits(task, 2), misses, review, review)
    return (
        Script("repairs", task.task_id, (review, *edits(task, 2), submit)),
        Script("thinks first", other.task_id, (thought, *edits(other, 1), submit)),
        Script("changes nothing", task.task_id, (review, submit)),
        Script("edits fail", other.task_id, (misses, *edits(other, 1), misses, submit)),
        Script("wrong calls", task.task_id, (unknown, *edits(task, 1), submit)),
        Script("never submits", task.task_id, no_end),
    )


@cache
def malformed_scripts() -> tuple[Script, ...]:
    """Return scripts with turns that contain no call, invalid JSON or several calls."""
    task, other = _tasks()
    review, submit = tool_call("review"), tool_call("submit")
    bad_json = '<tool_call>\n{"name": "review", "arguments": {\n</tool_call>'
    return (
        Script("no call", task.task_id, ("I would rather not.", *edits(task, 1), submit)),
        Script("no JSON", other.task_id, (bad_json, review, *edits(other, 1), submit)),
        Script("two calls", task.task_id, (review + submit, *edits(task, 1), submit)),
        Script("only talk", task.task_id, ("",) * 6),
    )


def _tasks() -> tuple[Task, Task]:
    tasks = load_tasks("mini", "train")
    return tasks[0], tasks[7]


def play_bare(script: Script, judge: str = "rubric") -> Played:
    """Play a script in the environment itself, until the episode ends."""
    env = gym.make(script.env_id, judge=judge, **script.options).unwrapped
    assert isinstance(env, EditEnv)
    env.reset(options={"task_id": script.task_id})
    session = env.session
    assert isinstance(session, Session)
    actions = iter(script.actions)
    rewards: list[float] = []
    while not session.done:
        rewards.append(env.step(next(actions))[1])
    return Played.of(session, rewards, session.reward)


def check_adapter(play: Play, calls_only: bool = False) -> None:
    """Check that an adapter plays episodes as the bare environment does.

    On ten scripted episodes, some with malformed calls, the task, the rewards of the turns, the
    total reward, the final document and the ledger must equal those of the environment. The agent
    must not be asked for actions after an episode's end. `play` must raise if the judge fails.

    Args:
        play: function that takes a script and a judge specification. It plays the script with the
            library's own rollout code, in which the script replaces only the model, and raises an
            exception if the library asks for more actions than the script has.
        calls_only: True if the library parses calls itself and passes to the environment only turns
            with exactly one call; the scripts with malformed calls are then skipped.

    Raises:
        AssertionError: A contract is broken.
    """
    for script in (*scripts(), *(() if calls_only else malformed_scripts())):
        _compare(f"script {script.name!r}", play, script, script)
    script = scripts()[0]
    longer = script._replace(actions=(*script.actions, script.actions[0], script.actions[-1]))
    _compare("script that goes on after submit", play, longer, script)
    try:
        played = play(script, UNAVAILABLE)
    except Exception as error:
        if _DOWN in "".join(traceback.format_exception(error)):
            return
        expected = f"an exception with the message {_DOWN!r}"
        raise broken("judge that fails", expected, failure(error)) from error
    raise broken("judge that fails", "an exception", f"an episode with reward {played.total}")


def _compare(what: str, play: Play, script: Script, as_script: Script) -> None:
    wanted = play_bare(as_script)
    try:
        played = play(script, "rubric")
    except Exception as error:
        raise broken(what, "an episode", failure(error)) from error
    for name in Played._fields:
        expect(f"{what}: {name}", getattr(wanted, name), getattr(played, name))
