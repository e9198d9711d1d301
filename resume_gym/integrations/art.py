"""Adapter for OpenPipe ART: episodes as trajectories, grouped by task.

    episodes = Episodes("ResumeEdit-v0", judge="rubric")
    groups = await episodes.gather(model, [task.task_id for task in episodes.env.tasks[:4]], size=8)
    await backend.train(model, groups)

ART trains on the reward of the episode. A trajectory's `metrics` also hold the reward of each turn
(`turn/1`; the last turn includes the verdict) and each reward term (`ledger/edit`). A trajectory's
log holds the output of `Session.record` as JSON.

An action is the whole text that the model sampled, including its tool call. Requests therefore have
the option `tool_choice="none"`: ART's vLLM server then shows the tools to the model, but leaves
calls in the text. (A parsed call would occur twice in ART's training tokens.) If a server parses a
call nevertheless, the adapter writes the call back into the text. Endpoints that never return calls
as text, such as OpenAI's, cannot be used. `LocalBackend` needs models with the `_internal_config`
`{"chat_template_tool_schema_format": "vllm_openai"}`: otherwise the tool schemas in ART's training
prompts differ from those in the server's prompts.

Tested with openpipe-art 0.5.18, without its backends, which need a GPU or a service.
"""

import json
from typing import Any

import art
import gymnasium as gym

from resume_gym.episode.tools import with_calls


class Episodes:
    """Plays episodes of ART's models in `gymnasium.make(env_id, **env_kwargs)`."""

    def __init__(self, env_id: str = "ResumeEdit-v0", **env_kwargs: Any) -> None:
        self.env: Any = gym.make(env_id, **env_kwargs).unwrapped

    async def rollout(self, model: Any, task_id: str, **request: object) -> art.Trajectory:
        """Play one episode; `request` holds completion options, such as `max_tokens`.

        Raises:
            JudgeError: the judge gave no verdict.
        """
        session, rewards = self.env.new_session(task_id), list[float]()
        tools, create = list(session.tools), model.openai_client().chat.completions.create
        trajectory = art.Trajectory(messages_and_choices=session.messages, tools=tools)
        # 1200 s is also ART's default, but ART passes it as an object that openai 3 rejects
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
        self,
        model: object,
        task_ids: list[str],
        size: int,
        max_exceptions: float = 0,
        **request: object,
    ) -> list[art.TrajectoryGroup]:
        """Play `size` episodes on each task concurrently; see `rollout`.

        `max_exceptions` is a number of episodes or, if below 1, a fraction of all episodes. If more
        episodes fail, an exception is raised; otherwise the means of a group exclude its failed
        episodes, whose errors are in the group's `exceptions`.
        """
        groups = []
        for task_id in task_ids:
            members = [self.rollout(model, task_id, **request) for _ in range(size)]
            groups.append(art.TrajectoryGroup(members, metadata={"scenario_id": task_id}))
        # show a single metric in ART's progress bar, which is too short for more
        limits = {"max_exceptions": max_exceptions, "max_metrics": 1}
        return list(await art.gather_trajectory_groups(groups, **limits))


def _text(message: Any) -> str:
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    return with_calls(message.content or "", calls)
