"""verl: tokens, groups, limits and what the trainers make of the reward."""

import ast
import asyncio
import math
import re
import subprocess
import sys
import time
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import players_verl as players
import pytest
import ray
import torch
import transfer_queue
from scripts import SCRIPTS, TASK
from transformers import AutoTokenizer
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.utils import tensordict_utils
from verl.utils.dataset.rl_dataset import collate_fn

from resume_gym.testing import ENV, UNAVAILABLE, Script, play_bare

REPAIRS, THINKS = SCRIPTS[:2]


def play_here(chosen: list[dict[str, Any]], *overrides: str) -> DataProto:
    """Through a worker in this process, with other settings than the manager's."""

    async def generate() -> DataProto:
        worker = AgentLoopWorker(players.config(*overrides), players.client())
        return await worker.generate_sequences(players.batch(chosen))

    return asyncio.run(generate())


def heard() -> list[tuple[list[int], list[int]]]:
    return ray.get(players.server().heard.remote())


def test_what_was_sampled_is_what_is_trained() -> None:
    out = players.manager().generate_sequences(players.batch(players.rows(THINKS)))
    calls = heard()
    assert len(calls) == len(THINKS.actions)
    for (asked, said), (then, _) in pairwise(calls):
        assert then[: len(asked) + len(said)] == asked + said
    sampled = [i for _, said in calls for i in said]
    length = len(calls[-1][0] + calls[-1][1]) - len(calls[0][0])
    mask = out.batch["response_mask"][0].bool()
    assert out.batch["responses"][0, :length].tolist() == [*calls[-1][0], *calls[-1][1]][-length:]
    assert out.batch["responses"][0, mask].tolist() == sampled
    assert mask.nonzero().max() == length - 1, "ends with a sampled token, which has the reward"
    assert out.batch["rm_scores"][0, length - 1] == play_bare(THINKS).total
    logprobs = torch.tensor([-math.log(i + 2) for i in sampled])
    assert torch.equal(out.batch["rollout_log_probs"][0, mask], logprobs)
    assert not out.batch["rollout_log_probs"][0, ~mask].any()


def test_the_conversation_reads_as_the_chat_template_writes_it() -> None:
    [row] = players.rows(THINKS)
    players.manager().generate_sequences(players.batch([row]))
    tokenizer = AutoTokenizer.from_pretrained(players.NANO)
    session = bare_session(THINKS)
    chat = [{"role": "system", "content": session.system_prompt}]
    chat.append({"role": "user", "content": session.prompt})
    for action, step in session.state.transcript[:-1]:
        chat.append({"role": "assistant", "content": action})
        chat.append({"role": "tool", "content": step.observation})
    tools = [dict(tool) for tool in session.tools]
    text = tokenizer.apply_chat_template(
        chat, tools=tools, tokenize=False, add_generation_prompt=True
    )
    assert tokenizer.decode(heard()[-1][0]) == text
    assert row["raw_prompt"] == chat[:2]


def bare_session(script: Script) -> Any:
    env = gym.make(ENV).unwrapped
    session = env.new_session(script.task_id)
    for action in script.actions:
        session.step(action)
    return session


def test_members_of_a_group_play_its_task_at_the_same_time() -> None:
    out = players.manager().generate_sequences(players.batch(players.rows(REPAIRS, THINKS), 4))
    for i, script in enumerate([REPAIRS] * 4 + [THINKS] * 4):
        assert players.played(out, i) == play_bare(script)
    turns = [2 * len(script.actions) for script in (REPAIRS, THINKS)]
    assert out.non_tensor_batch["__num_turns__"].tolist() == [turns[0]] * 4 + [turns[1]] * 4
    prompts = out.batch["prompts"]
    assert all(torch.equal(prompts[i], prompts[4 * (i // 4)]) for i in range(8))


@pytest.mark.parametrize(("said", "spare"), [(2, 0), (3, 10)], ids=["reply", "turn"])
def test_an_episode_without_room_pays_for_its_other_turns(said: int, spare: int) -> None:
    chosen = players.rows(SCRIPTS[-1])
    players.manager().generate_sequences(players.batch(chosen))
    calls = heard()
    room = len(calls[2][0]) - len(calls[0][0]) + spare
    players.rows(SCRIPTS[-1])
    out = play_here(chosen, f"data.max_response_length={room}")
    assert len(heard()) == said
    actions = list(SCRIPTS[-1].actions[:said])
    if spare:  # a token is a character
        actions[-1] = actions[-1][:spare]
    silent = (*actions, *("",) * (6 - said))
    assert players.played(out) == play_bare(SCRIPTS[-1]._replace(actions=silent))
    assert out.non_tensor_batch["silent_turns"].tolist() == [6 - said]
    there = out.batch["attention_mask"][0, -room:].bool()
    assert out.batch["response_mask"][0, there][-1] == 1
    assert out.batch["rm_scores"][0, there][-1] == players.played(out).total


def test_a_prompt_is_not_cut() -> None:
    with pytest.raises(ValueError, match=f"{TASK.task_id}: .* max_prompt_length is 300"):
        play_here(players.rows(REPAIRS), "data.max_prompt_length=300")


def test_default_trainer_gets_episodes_and_no_score_from_a_judge_that_fails() -> None:
    players.server()
    storage = "transfer_queue.backend.SimpleStorage.num_data_storage_units=1"
    config = players.config("actor_rollout_ref.rollout.n=2", storage)
    transfer_queue.init(config.transfer_queue)
    try:
        manager = AgentLoopManagerTQ.create(config, players.client())
        status, done = queue(manager, players.rows(REPAIRS))
        assert status == "finished"
        assert done["rm_scores"].sum(1).tolist() == [play_bare(REPAIRS).total] * 2
        assert [extra["turn_scores"] for extra in done["extra_fields"]] == [
            play_bare(REPAIRS).rewards
        ] * 2
        assert queue(manager, players.rows(REPAIRS, judge=UNAVAILABLE)) == ("failure", {})
    finally:
        transfer_queue.close()


def queue(manager: AgentLoopManagerTQ, chosen: list[dict[str, Any]]) -> tuple[str, Any]:
    """A group's status and episodes, as the trainer's replay buffer sees them."""
    uid = str(uuid.uuid4())
    batch = tensordict_utils.get_tensordict(
        {**collate_fn(chosen), "uid": np.array([uid], dtype=object)}
    )
    tensordict_utils.assign_non_tensor_data(batch, "global_steps", 0)
    tag = {"is_prompt": True, "status": "pending", "global_steps": 0}
    transfer_queue.kv_batch_put(keys=[uid], partition_id="train", tags=[tag])
    manager.generate_sequences(batch)
    while (tags := transfer_queue.kv_list("train")["train"])[uid]["status"] in (
        "pending",
        "running",
    ):
        time.sleep(0.1)
    keys = [key for key in tags if key.startswith(f"{uid}_")]
    fields = ["rm_scores", "extra_fields"]
    got = transfer_queue.kv_batch_get(keys, "train", select_fields=fields) if keys else {}
    return tags[uid]["status"], got


def test_example_prints_what_it_says() -> None:
    path = Path(__file__).parents[2] / "examples" / "verl_agent_loop.py"
    says = ast.get_docstring(ast.parse(path.read_text()))
    command = [sys.executable, str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    form = (
        r"(\S+): reward (\S+) = ([-+. \d]+)\n +(\d+) tokens, (\d+) of them sampled; advantage (\S+)"
    )
    shown, came = (re.findall(form, text) for text in (says, printed))
    assert [line[0] for line in came] == [line[0] for line in shown]
    for _, total, steps, tokens, sampled, _ in came:
        assert float(total) == sum(map(float, steps.split()))
        assert 0 < int(sampled) < int(tokens)
