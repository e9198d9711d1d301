"""Adapter for TRL: GRPO with a token-level `rollout_func`, or with TRL's own tool loop.

    from trl import GRPOConfig, GRPOTrainer
    from resume_gym.integrations.trl import Game
    game = Game("ResumeEdit-v0", judge="gemini")
    GRPOTrainer(model, reward_funcs=game.reward, args=GRPOConfig(...), train_dataset=game.dataset(),
                rollout_func=game.rollout).train()  # or environment_factory=game.environment

An episode that exceeds `max_completion_length`, tool replies included, is truncated, and each
remaining turn has the penalty of an empty action. `Game.rollout` needs a model that writes Hermes
tool calls, and plays episodes exactly as `env.step` does. TRL's tool loop needs a tokenizer with a
`response_template`, and differs from `env.step`: a message without a call ends the episode, TRL
itself replies to invalid calls, and each of several calls in a message takes a turn. `Game.reward`
replays the conversation in a session, so messages without a call and invalid calls have the same
penalties as in `env.step`. An invalid call takes a turn, too, but TRL's reply to the call does not
say so. TRL's option `log_completions` fails on a tool-loop batch in which no call has arguments.
Tested with TRL 1.16.0 in one process, with generation by transformers.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import gymnasium as gym
from datasets import Dataset

from resume_gym import TOOLS, tool_call
from resume_gym.episode.tools import with_calls

# Reply to the last call of an episode: TRL leaves its tool loop only when a reply exceeds the
# completion length, and then drops this reply
_NO_ROOM = "over " * 65_536


class Tools:
    """An episode in TRL's tool loop; all public methods but `reset` are tools.

    TRL derives the tool schemas from signatures and docstrings, which must match `TOOLS`.
    """

    def __init__(self, env: Any) -> None:
        self._env = env

    def reset(self, task_id: str, **row: object) -> None:
        """Start an episode on the task of a dataset row."""
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

    def _call(self, name: str, **arguments: object) -> str:
        step = self._session.step(tool_call(name, **arguments))
        return _NO_ROOM if step.done else str(step.observation)


class Game:
    """An environment for GRPOTrainer, created by `gymnasium.make(env_id, **kwargs)`."""

    def __init__(self, env_id: str = "ResumeEdit-v0", **kwargs: Any) -> None:
        self.env: Any = gym.make(env_id, **kwargs).unwrapped
        self._task_ids: dict[str, str] = {}

    def dataset(self) -> Dataset:
        """Return the dataset, one row per task, with columns "prompt" and "task_id"."""
        rows = []
        for task in self.env.tasks:
            session = self.env.new_session(task.task_id)
            rows.append({"prompt": session.messages, "task_id": task.task_id})
            self._task_ids[session.prompt] = task.task_id
        return Dataset.from_list(rows)

    def environment(self) -> Tools:
        """Create an episode for `environment_factory`; needs `max_completion_length` below 65,536.

        Raises:
            ValueError: the environment has other tools than those that `Tools` implements.
        """
        if (tools := self.env.session_type.toolbox.schemas) != TOOLS:
            got = ", ".join(tool["function"]["name"] for tool in tools)
            raise ValueError(
                f"expected the tools str_replace, review, submit; got {got}; use `rollout`"
            )
        return Tools(self.env)

    def rollout(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play an episode for each prompt, as one batch. Pass this method as `rollout_func`.

        Raises:
            ValueError: a prompt is not from `dataset`.
        """
        chat, limit = trainer.processing_class, trainer.max_completion_length
        ids, mask, logprobs, actions = ([list[Any]() for _ in prompts] for _ in range(4))
        # TRL passes only the prompt of a row, so the prompt identifies the task
        texts = [prompt[-1]["content"] for prompt in prompts]
        if strangers := [text for text in texts if text not in self._task_ids]:
            got = f"got {strangers[0][:60]!r}..."
            raise ValueError(f"expected prompts of this `Game`'s `dataset`, {got}")
        tasks = [self._task_ids[text] for text in texts]
        sessions = [self.env.new_session(task_id) for task_id in tasks]
        options = {"add_generation_prompt": True, "tokenize": False, **trainer.chat_template_kwargs}
        prompt_ids = [
            chat.apply_chat_template(prompt, list(session.tools), **options)
            for prompt, session in zip(prompts, sessions, strict=True)
        ]
        prompt_ids = [chat.encode(text, add_special_tokens=False) for text in prompt_ids]
        running = list(range(len(prompts)))
        while running:
            # Call a private method, since no public method of TRL samples with the user's backend
            context = [prompt_ids[i] + ids[i] for i in running]
            turns, logps = trainer._generate_single_turn(context, None, {}, 1)
            playing, running = running, []
            for i, turn, logp in zip(playing, turns, logps or repeat([]), strict=False):
                turn = turn[: limit - len(ids[i])]
                whole = turn[-1] in trainer.eos_token_ids
                text = chat.decode(turn[:-1] if whole else turn)
                step = sessions[i].step(text)
                reply = [] if step.done else _reply(chat, step.observation, options, whole)
                # Add the tool's reply only if the completion has room for another turn
                if reply and len(ids[i]) + len(turn) + len(reply) < limit:
                    running.append(i)
                else:
                    reply = []
                ids[i] += turn + reply
                mask[i] += [1] * len(turn) + [0] * len(reply)
                logprobs[i] += [*logp[: len(turn)], *[0.0] * len(reply)]
                actions[i].append(text)
        spoken = {
            "prompt_ids": prompt_ids,
            "completion_ids": ids,
            "env_mask": mask,
            "actions": actions,
        }
        return {**spoken, "logprobs": None if logps is None else logprobs}

    async def reward(
        self,
        completions: Sequence[Any],
        task_id: Sequence[str],
        log_metric: Callable[[str, float], None],
        log_extra: Callable[[str, list[Any]], None],
        actions: Sequence[Sequence[str]] | None = None,
        **row: object,
    ) -> list[float]:
        """Judge the episodes concurrently; return the rewards. Pass this method as `reward_funcs`.

        Log the reward terms as metrics, and the turn rewards in the table of completions.

        Raises:
            JudgeError: the judge gave no verdict.
        """
        texts = actions or [_actions(messages) for messages in completions]
        played = [self._play(*episode) for episode in zip(task_id, texts, strict=True)]
        verdicts = await asyncio.gather(*[self.env.agrade(session) for session, _ in played])
        for (session, rewards), verdict in zip(played, verdicts, strict=True):
            rewards[-1] += sum(verdict.values())
            for name, value in session.ledger.items():
                log_metric(f"ledger/{name}", value)
        log_extra("step_rewards", [rewards for _, rewards in played])
        return [session.reward for session, _ in played]

    def _play(self, task_id: str, actions: Sequence[str]) -> tuple[Any, list[float]]:
        """Play the actions, then empty texts until the episode ends; return session and rewards."""
        session, texts, rewards = self.env.new_session(task_id), chain(actions, repeat("")), []
        while not session.done:
            rewards.append(session.step(next(texts)).reward)
        return session, rewards


def _reply(chat: Any, observation: str, options: Mapping[str, object], whole: bool) -> list[int]:
    """Return the tokens of a tool's reply, after an end-of-turn token if the turn lacks one."""
    # Tokenize a dummy chat: tokenizing the real chat again could change the sampled tokens
    turns = (("user", "question"), ("assistant", "answer"), ("tool", observation))
    messages = [{"role": role, "content": content} for role, content in turns]
    text, turn = chat.apply_chat_template(messages, **options), f"answer{chat.eos_token}"
    ids = chat.encode(text[text.index(turn) + len(turn) :], add_special_tokens=False)
    return [*ids] if whole else [chat.eos_token_id, *ids]


def _actions(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Convert messages to actions, one per tool call or per message without calls."""
    texts: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            calls = [call["function"] for call in message.get("tool_calls") or ()]
            made = [(call["name"], json.dumps(call["arguments"])) for call in calls]
            texts += [with_calls("", [call]) for call in made] or [message["content"]]
    return texts
