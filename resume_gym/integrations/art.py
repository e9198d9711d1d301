"""OpenPipe ART: episodes as trajectories, and groups of them on the same task.

    episodes = Episodes("ResumeEdit-v0", judge="rubric")
    groups = await episodes.gather(model, [task.task_id for task in episodes.env.tasks[:4]], size=8)
    await backend.train(model, groups)

ART trains on the episode's reward. `metrics` also hold each turn's (`turn/1`; the last has the
verdict's part) and all terms (`ledger/edit`); the only log is the episode's record.

An action is the text that was sampled: `tool_choice="none"` has vLLM, which ART starts, show the
tools and leave calls in the text. ART would render a parsed one again, behind its own tokens.
What is parsed all the same is put back; endpoints that insist on it (OpenAI's) cannot be used.
`LocalBackend` needs models with the `_internal_config` `{"chat_template_tool_schema_format":
"vllm_openai"}`: otherwise it writes the tools in another way than the prompts that were played.

Checked with openpipe-art 0.5.18, without its backends, which need a GPU or a service.
"""

import json
from typing import Any

import art
import gymnasium as gym

from resume_gym.tools import with_calls


class Episodes:
    """Plays the tasks of `gymnasium.make(env_id, **env_kwargs)` with ART's models."""

    def __init__(self, env_id: str = "ResumeEdit-v0", **env_kwargs: Any) -> None:
        self.env: Any = gym.make(env_id, **env_kwargs).unwrapped

    async def rollout(self, model: Any, task_id: str, **request: Any) -> art.Trajectory:
        """An episode; `request` is for every request, as `max_tokens`. Raises a `JudgeError`."""
        session, rewards = self.env.new_session(task_id), list[float]()
        tools, create = list(session.tools), model.openai_client().chat.completions.create
        trajectory = art.Trajectory(messages_and_choices=session.messages, tools=tools)
        # ART's own timeout, as long as this one, is an error of type with openai 3
        request = {"timeout": 1200, **request, "tool_choice": "none", "logprobs": True}
        request |= {"model": model.get_inference_name(), "tools": tools}
        while not session.done:
            choice = (await create(messages=trajectory.messages(), **request)).choices[0]
            choice.message.content, choice.message.tool_calls = _text(choice.message), None
            step = session.step(choice.message.content)
            rewards.append(step.reward)
            reply = {"role": "tool", "tool_call_id": str(len(rewards)), "content": step.observation}
            trajectory.messages_and_choices += [choice, reply]
        rewards[-1] += sum((await self.env.agrade(session)).values())
        trajectory.reward = session.reward
        trajectory.metrics = {f"turn/{turn}": each for turn, each in enumerate(rewards, 1)}
        trajectory.metrics |= {f"ledger/{term}": each for term, each in session.ledger.items()}
        trajectory.metadata = {"scenario_id": task_id}
        trajectory.log(json.dumps(session.record()))
        return trajectory.finish()

    async def gather(
        self, model: Any, task_ids: list[str], size: int, max_exceptions: float = 0, **request: Any
    ) -> list[art.TrajectoryGroup]:
        """`size` episodes on each task, all at once; see `rollout`.

        `max_exceptions` of them (a part of all, if below 1) may fail: they are in `exceptions` of
        their group, and in no mean. One more is raised.
        """
        groups = []
        for task_id in task_ids:
            members = [self.rollout(model, task_id, **request) for _ in range(size)]
            groups.append(art.TrajectoryGroup(members, metadata={"scenario_id": task_id}))
        limits = {"max_exceptions": max_exceptions, "max_metrics": 1}  # more do not fit the screen
        return list(await art.gather_trajectory_groups(groups, **limits))


def _text(message: Any) -> str:
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    return with_calls(message.content or "", calls)
