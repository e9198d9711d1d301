r"""Adapter for verl: a token-in, token-out agent loop.

    from resume_gym.integrations.verl import write_dataset
    write_dataset("train.parquet", "ResumeEdit-v0", split="train", judge="gemini")
    write_dataset("val.parquet", "ResumeEdit-v0", split="eval", judge="gemini")

    python -m verl.trainer.main_ppo data.train_files=train.parquet data.val_files=val.parquet \
        actor_rollout_ref.model.external_lib=resume_gym.integrations.verl \
        data.max_prompt_length=4096 data.max_response_length=8192 actor_rollout_ref.rollout.n=8 ...

`external_lib` registers the loop in every worker, and the column `agent_name` selects it; no
reward function and no option of `rollout.multi_turn` is needed. `max_prompt_length` limits the
tokens of the prompt with its tools, and `max_response_length` the tokens of all turns and tool
replies. `reward_extra_info` holds the reward terms (for validation metrics and dumped rollouts),
and `turn_scores` the rewards of the turns. verl assigns the sum of rewards to the last token. If
the judge fails, an error is raised. verl then continues without the episode; with
`trainer.use_v1=False`, it stops.

Images and the replay of expert routing are not supported. verl derives the tokens between turns
from `model_type` in config.json; for an unknown type, verl warns and omits a newline. Tested with
verl 0.9.1.
"""

import json
from functools import lru_cache
from typing import Any
from uuid import uuid4

import gymnasium as gym
import pyarrow as pa
import pyarrow.parquet as pq
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
from verl.utils.profiler import simple_timer


@lru_cache(maxsize=8)
def _make(spec: str) -> Any:
    return gym.make(**json.loads(spec)).unwrapped


def write_dataset(path: str, env_id: str = "ResumeEdit-v0", **kwargs: object) -> None:
    """Write verl's Parquet dataset, one row per task; `kwargs` are JSON values for `gym.make`."""
    spec = json.dumps({"id": env_id, **kwargs})
    rows = []
    for index, task in enumerate(_make(spec).tasks):
        session = _make(spec).new_session(task.task_id)
        row = {
            "prompt": session.messages,
            "agent_name": "resume_gym",
            "data_source": env_id,
            "reward_model": {"style": "rule", "ground_truth": task.task_id},
            "extra_info": {"index": index, "task_id": task.task_id, "env": spec},
        }
        rows.append(row)
    pq.write_table(pa.Table.from_pylist(rows), path)


@register("resume_gym")
class GymAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """An agent loop that plays the episode of a dataset row from `write_dataset`."""

    async def run(self, sampling_params: dict[str, object], **row: Any) -> AgentLoopOutput:
        """Play and grade an episode; once the response length is used up, all actions are empty.

        Raises:
            ValueError: the prompt is too long; verl would cut off its beginning.
            JudgeError: the judge gave no verdict.
        """
        env, task_id = _make(row["extra_info"]["env"]), row["extra_info"]["task_id"]
        session, key, timing = env.new_session(task_id), uuid4().hex, dict[str, float]()
        chat, tools = list(row["raw_prompt"]), [dict(tool) for tool in session.tools]
        ids = prompt = self.continuous_token_builder.build_initial_tokens(chat, tools=tools)
        longest, room = self.rollout_config.prompt_length, self.rollout_config.response_length
        if len(prompt) > longest:
            raise ValueError(f"{task_id}: {len(prompt)} tokens, max_prompt_length is {longest}")
        mask, logprobs, rewards, sampled_turns = list[int](), list[float](), list[float](), 0
        extra = dict[str, Any]()
        while not session.done:
            # an episode that is cut off must not avoid the penalties of its remaining turns
            if len(mask) >= room:
                rewards.append(session.step("").reward)
                continue
            with simple_timer("generate_sequences", timing):
                turn = await self.server_manager.generate(
                    request_id=key, prompt_ids=ids, sampling_params=sampling_params
                )
            sampled_turns += 1
            # keep the first turn's value of each extra field, except the policy version: take the
            # latest
            latest = turn.extra_fields.get("max_global_steps")
            extra = turn.extra_fields | extra | {"max_global_steps": latest}
            # Cut off tokens beyond the response length: verl drops them, so they must earn nothing
            spoken = turn.token_ids[: room - len(mask)]
            ids, mask = ids + spoken, mask + [1] * len(spoken)
            logprobs = logprobs + (turn.log_probs or [0.0] * len(spoken))[: len(spoken)]
            text = self.tokenizer.decode(spoken).removesuffix(self.tokenizer.eos_token)
            step = session.step(text)
            rewards.append(step.reward)
            chat = [*chat, {"role": "assistant", "content": text}]
            with_reply = [*chat, {"role": "tool", "content": step.observation}]
            if not step.done:
                merged = await self.ct_merge_context_msg(
                    chat, with_reply, ids, mask, logprobs, tools
                )
                chat, ids, mask, logprobs = with_reply, merged[0].token_ids, merged[1], merged[2]
        with simple_timer("compute_score", timing):
            rewards[-1] += sum((await env.agrade(session)).values())
        # verl needs the same keys in `reward_extra_info` of all episodes
        ledger = {**dict.fromkeys(session.terms_of(env.tasks), 0.0), **session.ledger}
        info = {f"reward_{name}": value for name, value in ledger.items()}
        info |= {"silent_turns": float(len(rewards) - sampled_turns), "text": session.text}
        # Drop tool replies after the last sampled token: verl gives the reward to the last token,
        # and trains critics on sampled tokens only
        size = max(i + 1 for i, sampled in enumerate(mask[:room]) if sampled)
        return AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=ids[len(prompt) :][:size],
            response_mask=mask[:size],
            response_logprobs=logprobs[:size] if turn.log_probs else None,
            reward_score=sum(rewards),
            num_turns=2 * sampled_turns,
            metrics=timing,
            extra_fields=extra
            | {"turn_scores": rewards, "tool_rewards": [], "reward_extra_info": info},
        )
