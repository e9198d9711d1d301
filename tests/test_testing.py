"""The checks for authors pass what is sound, and name the contract that something breaks."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import pytest
from conftest import BEST, make_task

from resume_gym import FailedCall, Session, Task, ToolCall, Verdict
from resume_gym.env import ResumeEditEnv
from resume_gym.episode.editing import Shown
from resume_gym.episode.tools import TOOLS, Toolbox, schema
from resume_gym.judges import AsyncJudge, JudgeError, JudgeMisconfigured
from resume_gym.testing import Played, Script, check_adapter, check_env, check_judge, play_bare

# Environments


def env_with(**parts: Any) -> type[ResumeEditEnv]:
    return type("Env", (ResumeEditEnv,), parts)


def stepping(change: Callable[..., Any]) -> type[ResumeEditEnv]:
    """An environment whose steps return what a function makes of them."""
    return env_with(step=lambda self, action: change(*ResumeEditEnv.step(self, action)))


def resetting(change: Callable[[Any, Any], Any]) -> type[ResumeEditEnv]:
    """An environment whose resets get other options."""

    def reset(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
        return ResumeEditEnv.reset(self, seed=seed, options=change(self, options))

    return env_with(reset=reset)


def playing(**parts: Any) -> type[ResumeEditEnv]:
    """An environment whose sessions have other parts."""
    return env_with(session_type=type("Own", (Session,), {"__slots__": (), **parts}))


def acting(act: Callable[[ToolCall], Any]) -> type[ResumeEditEnv]:
    """An environment whose tools do something else, where a function returns something."""
    return playing(act=lambda self, call: act(call) or Session.act(self, call))


def twice(source: str, split: str | None) -> Sequence[Task]:
    return [*ResumeEditEnv.load_tasks(source, split)] * 2


def fragile(call: ToolCall) -> None:
    if call.arguments.get("old") == "":
        raise KeyError("old")


@pytest.mark.parametrize(
    ("kind", "contract"),
    [
        (stepping(lambda text, reward, *rest: (text, reward + 0.1, *rest)),
         r"sum of info\['reward_\*'\]: expected -0.25; got -0.15"),
        (stepping(lambda text, reward, ended, _, info: (text, reward, False, ended, info)),
         "step: truncated: expected False; got True"),
        (stepping(lambda text, reward, end, *rest: ("" if end else text, reward, end, *rest)),
         "last line of the observation: expected 'turns left: 5/6 .*'; got ''"),
        (stepping(lambda *rest: (*rest[:-1], {**rest[-1], "diff": "+-"})),
         "info: keys and types at every step"),
        (resetting(lambda env, _: {"task_id": env.tasks[0].task_id}),
         "tasks of different seeds: expected several; got always"),
        (resetting(lambda env, _: None), r"task of options\['task_id'\]"),
        (env_with(load_tasks=staticmethod(twice)),
         "task_id: expected a unique id per task; got '.*' for 2 tasks"),
        (acting(lambda call: call.name == "review" and Shown(str(random.random()))),
         "determinism: steps after the same seed and actions"),
        (acting(fragile), r"step\(.*\): expected no exception; got KeyError: 'old'"),
        (acting(lambda call: FailedCall("not_found", "no", call.name)),
         "edits: expected one of .* calls of str_replace"),
        (playing(fork=lambda self: self), "record of a session after steps of a fork"),
        (playing(record=lambda self: {**Session.record(self), "actions": []}),
         "replay of a record: .*ends with a different text"),
        (playing(toolbox=Toolbox(schema("str_replace", "", {}, []), *TOOLS[1:])),
         "tool str_replace: description: expected a text for the agent"),
    ],
)  # fmt: skip
def test_an_environment_that_breaks_a_contract(kind: type[ResumeEditEnv], contract: str) -> None:
    with pytest.raises(AssertionError, match=contract):
        check_env(kind("mini", judge=None, max_turns=6, page_lines=20))


def test_other_objects_are_rejected() -> None:
    with pytest.raises(AssertionError, match="expected a subclass of EditEnv"):
        check_env(Session)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="expected a subclass of EditEnv"):
        check_env("CartPole-v1")


def test_an_edit_can_be_given() -> None:
    env = ResumeEditEnv("mini", judge=None)
    with pytest.raises(AssertionError, match=r"info\['edits'\] after the action of `edit`"):
        check_env(env, edit=lambda session: "no edit")


# Judges


class Says:
    """A judge by a function."""

    def __init__(self, says: Callable[[Task, str], Any], name: str = "says") -> None:
        self.name, self._says = name, says

    def judge(self, task: Task, revised: str) -> Any:
        return self._says(task, revised)


def graded(grade: Any = 0, **others: Any) -> Verdict:
    return Verdict(1, *[grade] * 5, **others)


def fails(task: Task, revised: str) -> Verdict:
    raise JudgeMisconfigured("no key")


def divides(task: Task, revised: str) -> Verdict:
    return graded(int(1 / len(revised) > 1))


async def later(task: Task, revised: str) -> Verdict:
    return graded()


def matches(task: Task, revised: str) -> Verdict:
    return graded(int(task.job in revised))


def matches_visibly(task: Task, revised: str) -> Verdict:
    return graded(int(task.job in revised and "<!--" not in revised))


class Reversing(AsyncJudge):
    """Answers groups in another order, and leaves some out if it is told to."""

    name = "reversing"

    def __init__(self, kept: int) -> None:
        self.kept = kept

    async def averdict(self, task: Task, revised: str) -> Verdict:
        return graded(reasons={"clarity": revised})

    async def averdicts(self, task: Task, group: Sequence[str]) -> list[Verdict | JudgeError]:
        said = [await self.averdict(task, text) for text in sorted(group)]
        return [*said][: self.kept]


class Scores(Says):
    """Scores groups as a function says."""

    def __init__(self, scores: Callable[[Sequence[str]], Any], weight: Any = 1.0) -> None:
        super().__init__(lambda task, revised: graded())
        self.scores, self.group_weight = scores, weight

    async def judge_group(self, task: Task, group: Sequence[str]) -> Any:
        return self.scores(group)


@pytest.mark.parametrize(
    ("judge", "contract"),
    [
        (Scores(lambda group: [0.0] * 3), "judge_group: number of scores: expected 4; got 3"),
        (Scores(lambda group: [math.nan] * len(group)), "scores: expected finite .*; got .nan"),
        (Scores(lambda group: [-1e308] * len(group)), "scores: expected finite .*; got .-1e.308"),
        (Scores(lambda group: [0.0] * len(group), None), "judge.group_weight: .* >= 0 .* got None"),
        (Scores(lambda group: [JudgeError("no")] * len(group)), "scores: expected finite"),
        (Scores(lambda group: 1 / 0), "a score for each revision; got ZeroDivisionError"),
        (Scores(lambda group: [*range(len(group))]), "text that is in the group twice: expected 0"),
        (
            Scores(lambda group: [float(group[0] == group[2])] * len(group)),
            "determinism on .*: scores of a group in another order: expected .1.0, .*; got .0.0",
        ),
        (Says(lambda task, revised: BEST), "unedited resume: expected no grade above 0; got .*cla"),
        (Says(lambda task, revised: graded(int("Grade" in revised))), "instruction to the judge"),
        (Says(lambda task, revised: graded(int(revised == ""))), "an empty resume"),
        (Says(matches), "a hidden job description"),
        (Says(matches_visibly), "a pasted job description"),
        (Says(lambda task, revised: asdict(BEST)), "expected a Verdict; got {'hallucination'"),
        (Says(lambda task, revised: graded(confidence={"clarity": 90.0})), "confidence: .*0 to 1"),
        (Says(lambda task, revised: graded(reasons={"style": "!"})), "reasons: .*fields of a verd"),
        (Says(later), "an asynchronous judge must be an AsyncJudge; got a coroutine"),
        (Says(divides), "empty resume: expected a Verdict, or a JudgeError; got ZeroDivisionError"),
        (Says(fails), "an ordinary revision: expected a verdict; got JudgeMisconfigured: no key"),
        (Says(lambda task, revised: graded(), name=""), "judge.name: expected a name"),
        (
            Says(lambda *_: graded(confidence={"clarity": random.random()})),
            "determinism on .*; pass deterministic=False .*: verdicts of threads",
        ),
        (Reversing(kept=2), "number of verdicts of three revisions: expected 3; got 2"),
        (Reversing(kept=3), "determinism on .*: verdicts of a group"),
    ],
)
def test_a_judge_that_breaks_a_contract(judge: Any, contract: str) -> None:
    with pytest.raises(AssertionError, match=contract):
        check_judge(judge)


def test_a_judge_that_samples_promises_no_determinism() -> None:
    sampled = Says(lambda *_: graded(confidence={"clarity": random.random()}))
    check_judge(sampled, [make_task()], deterministic=False)


# Adapters


def without_verdict(script: Script, judge: str) -> Played:
    played = play_bare(script, judge)
    verdict = sum(played.ledger[name] for name in ("hallucination", "preference"))
    return played._replace(rewards=[*played.rewards[:-1], played.rewards[-1] - verdict])


def unjudged(script: Script, judge: str) -> Played:
    try:
        return play_bare(script, judge)
    except Exception:
        return Played(script.task_id, [0.0], 0.0, "", {})


def quiet(script: Script, judge: str) -> Played:
    try:
        return play_bare(script, judge)
    except Exception:
        raise RuntimeError("rollout failed") from None


def patient(script: Script, judge: str) -> Played:
    """Asks for all actions, also after the end."""
    played = play_bare(script, judge)
    more = len(script.actions) - len(played.rewards)
    return played._replace(rewards=[*played.rewards, *[0.0] * more])


def trimmed(script: Script, judge: str) -> Played:
    played = play_bare(script, judge)
    return played._replace(ledger={name: value for name, value in played.ledger.items() if value})


def lenient(script: Script, judge: str) -> Played:
    """Leaves turns without a call out."""
    calls = tuple(text for text in script.actions if "<tool_call>" in text)
    return play_bare(script._replace(actions=calls), judge)


@pytest.mark.parametrize(
    ("play", "contract"),
    [
        (without_verdict, r"script 'repairs': rewards: expected \[1.0, 0.25, 0.25, 4"),
        (unjudged, "judge that fails: expected an exception; got an episode with reward 0.0"),
        (quiet, "judge that fails: expected an exception with .*; got RuntimeError: rollout"),
        (patient, "script that goes on after submit: rewards"),
        (trimmed, "script 'repairs': ledger: expected"),
        (lenient, "script 'no call': rewards"),
        (lambda script, judge: 1 / 0, "script 'repairs': expected an episode; got ZeroDivision"),
    ],
)
def test_an_adapter_that_breaks_a_contract(
    play: Callable[[Script, str], Played], contract: str
) -> None:
    with pytest.raises(AssertionError, match=contract):
        check_adapter(play)


def test_a_library_may_parse_calls_itself() -> None:
    with pytest.raises(AssertionError):
        check_adapter(lenient)
    check_adapter(lenient, calls_only=True)


def test_the_environment_is_an_adapter_of_itself() -> None:
    check_adapter(play_bare)
