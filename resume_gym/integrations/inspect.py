"""Adapter for Inspect: an environment as an Inspect task, for all models that Inspect supports.

    pip install -e . inspect-ai
    inspect eval resume_gym/resume_edit --model openai/gpt-5 -T env_id=ResumeEditMini-v0 --limit 10
    inspect eval resume_gym/resume_edit --model hf/Qwen/Qwen3-4B -T tasks=procedural:1:20 --epochs 4
    inspect view

Each sample is a task of the environment. The solver plays an episode within its limit of turns. The
scorer reports the reward, the score and each reward term, with their standard errors; a sample's
explanation has the judge's reasons and a diff. The samples of a log can be scored again, also by
another judge: the scorer replays the actions that the solver has stored.

A judge without a verdict is an error of the sample. An episode that a limit of Inspect or the
model's context cuts off is not scored, since it has no final document. Most model providers return
parsed calls, so several calls in one turn and calls with invalid JSON count as malformed, with the
usual penalty. Tested with inspect-ai 0.3.285.
"""

import difflib
import json
from typing import Any

import gymnasium as gym
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolCall, ToolInfo

from resume_gym.episode.tools import with_calls

_RECORD = "record"  # key of the session's record in the sample's store
_CONTEXT = 1  # number of unchanged lines around a change in the diff


@task  # type: ignore[untyped-decorator]
def resume_edit(env_id: str = "ResumeEdit-v0", split: str = "eval", **options: Any) -> Task:
    """Return an Inspect task: an environment's tasks as samples, a solver and a scorer.

    Args:
        env_id: ID of the environment, as for `gym.make`.
        split: split of its tasks, "train" or "eval".
        options: further arguments of `gym.make`, such as `judge` and `tasks`.
    """
    env = _make(env_id, {"split": split, **options})
    sessions = (env.new_session(task.task_id) for task in env.tasks)
    samples = [Sample(session.prompt, id=session.task.task_id) for session in sessions]
    return Task(
        dataset=samples,
        solver=play(env_id, split=split, **options),
        scorer=ledger(env_id, split=split, **options),
    )


@solver  # type: ignore[untyped-decorator]
def play(env_id: str, **options: Any) -> Solver:
    """Return a solver that plays an episode on the sample's task; see `resume_edit`."""
    env = _make(env_id, options)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        session = env.new_session(str(state.sample_id))
        tools = [ToolInfo(**tool["function"]) for tool in session.tools]
        prompts = ChatMessageSystem(content=session.system_prompt), state.messages[0]
        state.messages = list[ChatMessage](prompts)
        while not session.done:
            state.output = await get_model().generate(state.messages, tools)
            if state.output.stop_reason == "model_length":
                break
            message = state.output.message
            step = session.step(_text(message))
            state.store.set(_RECORD, session.record())
            state.messages += [message, *_replies(message, step.observation)]
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})  # type: ignore[untyped-decorator]
def ledger(env_id: str, **options: Any) -> Scorer:
    """Return a scorer that asks the judge for a verdict on the final document; see `resume_edit`.

    The value of a score has the reward of the episode (`reward`), `score`, and each reward term.
    """
    env = _make(env_id, options)

    async def score(state: TaskState, target: Target) -> Score:
        session = env.new_session(str(state.sample_id))
        if record := state.store.get(_RECORD):
            session = env.session_type.replay(session.task, record)
        if not session.done:
            return Score.unscored(explanation="The episode was cut off.")
        await env.agrade(session)
        verdict = session.state.verdict
        reasons = [
            f"- {field}: {why}" for field, why in (verdict.reasons if verdict else {}).items()
        ]
        old, new = session.original.splitlines(), session.text.splitlines()
        diff = list(difflib.unified_diff(old, new, n=_CONTEXT, lineterm=""))[2:]  # without names
        return Score(
            value={"reward": session.reward, "score": session.score, **session.ledger},
            answer=session.text,
            explanation="\n".join([*reasons, "", "```diff", *diff, "```"]),
            metadata={"session": session.record()},
        )

    return score


def _make(env_id: str, options: dict[str, Any]) -> Any:
    return gym.make(env_id, **options).unwrapped


def _text(message: ChatMessageAssistant) -> str:
    """Return the action: the text of a message, with its tool calls put back."""
    return with_calls(
        message.text, [(one.function, _json(one)) for one in message.tool_calls or ()]
    )


def _json(call: ToolCall) -> str:
    """Return a call's arguments as JSON, or "?", which is invalid, if Inspect cannot parse them."""
    return json.dumps(call.arguments, ensure_ascii=False) if call.parse_error is None else "?"


def _replies(message: ChatMessageAssistant, observation: str) -> list[ChatMessage]:
    """Return the observation as a message for each call or, without calls, as a user message."""
    calls = message.tool_calls or ()
    replies: list[ChatMessage] = [
        ChatMessageTool(content=observation, tool_call_id=call.id, function=call.function)
        for call in calls
    ]
    return replies or [ChatMessageUser(content=observation)]
