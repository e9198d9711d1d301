"""TRL: GRPO on episodes played as tokens (`rollout_func`), or in TRL's own loop of tool calls.

    from trl import GRPOConfig, GRPOTrainer
    from resume_gym.integrations.trl import Game
    game = Game("ResumeEdit-v0", judge="gemini")
    GRPOTrainer(model, reward_funcs=game.reward, args=GRPOConfig(...), train_dataset=game.dataset(),
                rollout_func=game.rollout).train()  # or environment_factory=game.environment

Checked with TRL 1.16.0, generation by transformers, in one process. An episode that does not fit
`max_completion_length`, tools' replies included, is cut, and the turns left cost what silence
costs. `rollout` takes models that write Hermes calls, and is faithful. TRL's loop takes a tokenizer
with a `response_template`, and keeps failures from the environment: it ends an episode at a message
without a call, answers calls that fit no tool, and takes several calls of a message for as many
turns. `reward` plays the conversation again, so that the first two cost what they cost; but the
agent, when it made a call that fits no tool, was not told of the turn it lost. In that loop TRL's
`log_completions` fails if no call of a batch has arguments.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import gymnasium as gym
from datasets import Dataset

from resume_gym import TOOLS, tool_call
from resume_gym.tools import with_calls

# TRL asks no more of an agent only if a tool's reply does not fit, which it then takes back
_NO_ROOM = "over " * 65_536


class Tools:
    """An episode in TRL's loop; its public methods are the tools."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def reset(self, task_id: str, **row: Any) -> None:
        """Start an episode on the task of a dataset's row."""
        self._session = self._env.new_session(task_id)

    def str_replace(self, old: str, new: str, count: int = 1) -> str:
        """Replace text in the resume. `old` must match exactly and occur `count` times.

        Args:
            old: text in the resume
            new: its replacement; empty deletes
            count: how often `old` occurs
        """
        return self._call("str_replace", old=old, new=new, count=count)

    def review(self) -> str:
        """Show the whole resume and the end of the page."""
        return self._call("review")

    def submit(self) -> str:
        """Hand in the resume and end the episode."""
        return self._call("submit")

    def _call(self, name: str, **arguments: Any) -> str:
        step = self._session.step(tool_call(name, **arguments))
        return _NO_ROOM if step.done else str(step.observation)


class Game:
    """An environment as GRPOTrainer takes it; the keyword arguments are `gymnasium.make`'s."""

    def __init__(self, env_id: str = "ResumeEdit-v0", **kwargs: Any) -> None:
        self.env: Any = gym.make(env_id, **kwargs).unwrapped
        self._task_ids: dict[str, str] = {}

    def dataset(self) -> Dataset:
        """A row for each task: "prompt" and "task_id"."""
        rows = []
        for task in self.env.tasks:
            session = self.env.new_session(task.task_id)
            rows.append({"prompt": session.messages, "task_id": task.task_id})
            self._task_ids[session.prompt] = task.task_id
        return Dataset.from_list(rows)

    def environment(self) -> Tools:
        """An `environment_factory`, for a `max_completion_length` of less than 65,536.

        Raises:
            ValueError: the tools are not those of resumes, for which it has methods.
        """
        if self.env.session_type.toolbox.schemas != TOOLS:
            raise ValueError("expected an environment with the tools of resumes; use `rollout`")
        return Tools(self.env)

    def rollout(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """A `rollout_func`: plays an episode for each prompt of `dataset`, all at once."""
        chat, limit = trainer.processing_class, trainer.max_completion_length
        ids, mask, logprobs, actions = ([list[Any]() for _ in prompts] for _ in range(4))
        # of a row, TRL hands on the prompt only
        texts = [prompt[-1]["content"] for prompt in prompts]
        if strangers := [text for text in texts if text not in self._task_ids]:
            told = f"got {strangers[0][:60]!r}..."
            raise ValueError(f"expected prompts of this `Game`'s `dataset`, {told}")
        tasks = [self._task_ids[text] for text in texts]
        sessions = [self.env.new_session(task_id) for task_id in tasks]
        options = {"add_generation_prompt": True, "tokenize": False, **trainer.chat_template_kwargs}
        asked = [
            chat.apply_chat_template(prompt, list(session.tools), **options)
            for prompt, session in zip(prompts, sessions, strict=True)
        ]
        asked = [chat.encode(text, add_special_tokens=False) for text in asked]
        running = list(range(len(prompts)))
        while running:
            # it samples with whatever backend the user chose, and has no public name
            context = [asked[i] + ids[i] for i in running]
            turns, logps = trainer._generate_single_turn(context, None, {}, 1)
            playing, running = running, []
            for i, turn, logp in zip(playing, turns, logps or repeat([]), strict=False):
                turn = turn[: limit - len(ids[i])]
                whole = turn[-1] in trainer.eos_token_ids
                text = chat.decode(turn[:-1] if whole else turn)
                step = sessions[i].step(text)
                reply = [] if step.done else _reply(chat, step.observation, options, whole)
                if reply and len(ids[i]) + len(turn) + len(reply) < limit:
                    running.append(i)
                else:
                    reply = []
                ids[i] += turn + reply
                mask[i] += [1] * len(turn) + [0] * len(reply)
                logprobs[i] += [*logp[: len(turn)], *[0.0] * len(reply)]
                actions[i].append(text)
        spoken = {"prompt_ids": asked, "completion_ids": ids, "env_mask": mask, "actions": actions}
        return {**spoken, "logprobs": None if logps is None else logprobs}

    async def reward(
        self,
        completions: Sequence[Any],
        task_id: Sequence[str],
        log_metric: Callable[[str, float], None],
        log_extra: Callable[[str, list[Any]], None],
        actions: Sequence[Sequence[str]] | None = None,
        **row: Any,
    ) -> list[float]:
        """The reward function: the episodes' rewards; the judge is asked about all at once.

        Logs the terms of the ledger as metrics, and the turns' rewards beside the completions.

        Raises:
            JudgeError: a verdict could not be had.
        """
        said = actions or [_actions(messages) for messages in completions]
        played = [self._play(*episode) for episode in zip(task_id, said, strict=True)]
        verdicts = await asyncio.gather(*[self.env.agrade(session) for session, _ in played])
        for (session, rewards), verdict in zip(played, verdicts, strict=True):
            rewards[-1] += sum(verdict.values())
            for name, value in session.ledger.items():
                log_metric(f"ledger/{name}", value)
        log_extra("step_rewards", [rewards for _, rewards in played])
        return [session.reward for session, _ in played]

    def _play(self, task_id: str, actions: Sequence[str]) -> tuple[Any, list[float]]:
        """The episode in which the agent says this and then no more, and its turns' rewards."""
        session, said, rewards = self.env.new_session(task_id), chain(actions, repeat("")), []
        while not session.done:
            rewards.append(session.step(next(said)).reward)
        return session, rewards


def _reply(chat: Any, observation: str, options: Mapping[str, Any], whole: bool) -> list[int]:
    """What the chat template writes between two turns of the agent, a tool's reply in it."""
    said = (("user", "question"), ("assistant", "answer"), ("tool", observation))
    messages = [{"role": role, "content": content} for role, content in said]
    text, turn = chat.apply_chat_template(messages, **options), f"answer{chat.eos_token}"
    ids = chat.encode(text[text.index(turn) + len(turn) :], add_special_tokens=False)
    return [*ids] if whole else [chat.eos_token_id, *ids]


def _actions(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the agent said, as the environment takes it: a text for each call, or for none."""
    texts: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            calls = [call["function"] for call in message.get("tool_calls") or ()]
            made = [(call["name"], json.dumps(call["arguments"])) for call in calls]
            texts += [with_calls("", [call]) for call in made] or [message["content"]]
    return texts
