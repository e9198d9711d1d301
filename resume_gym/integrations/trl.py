"""Adapter for TRL: GRPO with a token-level `rollout_func`, or with TRL's own tool loop.

    from trl import GRPOConfig, GRPOTrainer
    from resume_gym.integrations.trl import Game
    game = Game("ResumeEdit-v0", judge="gemini")
    GRPOTrainer(model, reward_funcs=game.reward, args=GRPOConfig(...), train_dataset=game.dataset(),
                rollout_func=game.rollout).train()  # or environment_factory=game.environment

An episode that exceeds `max_completion_length`, tool replies included, is truncated, and each
remaining turn has the penalty of an empty action. `Game.rollout` needs a model that writes Hermes
tool calls, and plays episodes exactly as `env.step` does. TRL's tool loop needs a tokenizer with a
`response_template`, and differs from `env.step`: a message without a call ends the episode, each of
several calls in a message takes a turn, and TRL itself replies to calls of unknown tools and to
arguments that are no object. `Game.reward` replays the conversation in a session, so that these
calls have the same penalties as in `env.step`, and take a turn, too. TRL's `get_reward` of an
environment sees none of these calls, awaits the judge for one episode after the other, and logs no
reward terms. A dataset names the tasks, because TRL resets each member of a group by itself:
without a dataset, members would have different tasks. TRL's option `log_completions` fails on a
tool-loop batch in which no call has arguments. Tested with TRL 1.16.0 in one process, with
generation by transformers.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, Signature
from itertools import repeat
from typing import Any

import gymnasium as gym
from datasets import Dataset

from resume_gym.episode.tools import with_calls

# Reply to the last call of an episode: TRL leaves its tool loop only when a reply exceeds the
# completion length, and then drops this reply
_NO_ROOM = "over " * 65_536


class Episode:
    """An episode in TRL's tool loop; `_episode_type` adds a method for each tool."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def reset(self, task_id: str, **row: object) -> None:
        """Start an episode on the task of a dataset row."""
        self._session = self._env.new_session(task_id)

    def _call(self, name: str, arguments: Mapping[str, object]) -> str:
        call = with_calls("", [(name, json.dumps(arguments, ensure_ascii=False))])
        step = self._session.step(call)
        return _NO_ROOM if step.done else str(step.observation)


@cache  # all episodes are of one class
def _episode_type(session_type: Any) -> type[Episode]:
    tools = [_tool(schema["function"]) for schema in session_type.toolbox.schemas]
    return type("Episode", (Episode,), {tool.__name__: tool for tool in tools})


def _tool(function: Mapping[str, Any]) -> Callable[..., str]:
    """Return a method that calls a tool, with the docstring and signature that TRL reads."""

    def call(self: Episode, /, **arguments: object) -> str:
        return self._call(function["name"], arguments)

    properties, required = function["parameters"]["properties"], function["parameters"]["required"]
    types = {name: {"string": str, "integer": int}[one["type"]] for name, one in properties.items()}
    lines = [f"    {name}: {one.get('description', name)}" for name, one in properties.items()]
    call.__name__, call.__annotations__ = function["name"], types
    call.__doc__ = "\n".join([function["description"], "", "Args:", *lines])
    parameters = [Parameter("self", Parameter.POSITIONAL_ONLY)]
    for name, kind in types.items():
        default = Parameter.empty if name in required else None
        parameters += [Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


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

    def environment(self) -> Episode:
        """Create an episode for TRL's tool loop; `max_completion_length` must be below 65,536."""
        return _episode_type(self.env.session_type)(self.env)

    def rollout(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play an episode for each prompt, as one batch. Pass this method as `rollout_func`.

        Raises:
            ValueError: a prompt is not from `dataset`.
        """
        chat, limit = trainer.processing_class, trainer.max_completion_length
        ids, mask, logprobs = ([list[Any]() for _ in prompts] for _ in range(3))
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
                step = sessions[i].step(chat.decode(turn[:-1] if whole else turn))
                reply = [] if step.done else _reply(chat, step.observation, options, whole)
                # Add the tool's reply only if the completion has room for another turn
                if reply and len(ids[i]) + len(turn) + len(reply) < limit:
                    running.append(i)
                else:
                    reply = []
                ids[i] += turn + reply
                mask[i] += [1] * len(turn) + [0] * len(reply)
                logprobs[i] += [*logp[: len(turn)], *[0.0] * len(reply)]
        spoken = {
            "prompt_ids": prompt_ids,
            "completion_ids": ids,
            "env_mask": mask,
            "session": sessions,
        }
        return {**spoken, "logprobs": None if logps is None else logprobs}

    async def reward(
        self,
        completions: Sequence[Any],
        task_id: Sequence[str],
        log_metric: Callable[[str, float], None],
        log_extra: Callable[[str, list[Any]], None],
        session: Sequence[Any] = (),
        **row: object,
    ) -> list[float]:
        """Judge the episodes concurrently; return the rewards. Pass this method as `reward_funcs`.

        Log the reward terms as metrics, and the turn rewards in the table of completions.

        Raises:
            JudgeError: the judge gave no verdict.
        """
        played = session or [*map(self._replay, task_id, completions)]
        for one in played:
            while not one.done:
                one.step("")
        verdicts = await asyncio.gather(*map(self.env.agrade, played))
        rewards = [[step.reward for _, step in one.state.transcript] for one in played]
        for one, turns, verdict in zip(played, rewards, verdicts, strict=True):
            turns[-1] += sum(verdict.values())
            for name, value in one.ledger.items():
                log_metric(f"ledger/{name}", value)
        log_extra("step_rewards", rewards)
        return [one.reward for one in played]

    def _replay(self, task_id: str, messages: Sequence[Mapping[str, Any]]) -> Any:
        """Play a conversation of TRL's tool loop; each call, or message without one, is a turn."""
        session = self.env.new_session(task_id)
        for message in messages:
            calls = [one["function"] for one in message.get("tool_calls") or ()]
            made = [(one["name"], json.dumps(one["arguments"])) for one in calls]
            texts = [with_calls("", [one]) for one in made] or [message["content"]]
            for text in texts if message["role"] == "assistant" else ():
                if not session.done:
                    session.step(text)
        return session


def _reply(chat: Any, observation: str, options: Mapping[str, object], whole: bool) -> list[int]:
    """Return the tokens of a tool's reply, after an end-of-turn token if the turn lacks one."""
    # Tokenize a dummy chat: tokenizing the real chat again could change the sampled tokens
    turns = (("user", "question"), ("assistant", "answer"), ("tool", observation))
    messages = [{"role": role, "content": content} for role, content in turns]
    text, turn = chat.apply_chat_template(messages, **options), f"answer{chat.eos_token}"
    ids = chat.encode(text[text.index(turn) + len(turn) :], add_special_tokens=False)
    return [*ids] if whole else [chat.eos_token_id, *ids]
