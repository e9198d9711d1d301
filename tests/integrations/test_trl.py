"""What else must hold when TRL trains on this environment."""

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from players_trl import NANO, Recorded, make_trainer, play, train
from scripts import OTHER, REVIEW, SCRIPTS, SUBMIT, TASK
from transformers import AutoModelForCausalLM
from transformers.utils import get_json_schema
from trl import GRPOTrainer, chat_template_utils

from resume_gym import tool_call
from resume_gym.integrations.trl import Game
from resume_gym.testing import ENV, Script, edits, play_bare

WAYS = ("environment_factory", "rollout_func")


def test_the_example_trains_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[2] / "examples" / "trl_grpo.py"
    spec = importlib.util.spec_from_file_location("trl_grpo", path)
    assert spec
    assert spec.loader
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    trainer = example.main()

    assert trainer.state.global_step == 2
    before = AutoModelForCausalLM.from_pretrained(NANO, dtype=torch.float32).state_dict()
    after = trainer.accelerator.unwrap_model(trainer.model).state_dict()
    assert any(not torch.equal(after[name].cpu(), before[name]) for name in before)
    steps = [log for log in trainer.state.log_history if "reward" in log]
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    shown = [line for line in str(example.__doc__).splitlines() if line.startswith("    step ")]
    assert len(steps) == len(printed) == len(shown) == 2
    # which tokens are drawn, and so the figures, is a matter of the processor
    for log, line in zip(steps, printed, strict=True):
        assert line.startswith(f"step {log['step']}: reward {log['reward']:.2f}, of it edits")


@pytest.mark.parametrize("how", WAYS)
def test_episodes_of_a_batch_are_played_apart_and_groups_share_their_task(
    how: str, tmp_path: Path
) -> None:
    game = Recorded()
    scripts = (SCRIPTS[0], Script("short", OTHER.task_id, (REVIEW, SUBMIT)))
    trainer = make_trainer(game, how, scripts, str(tmp_path))
    log, rewards = train(trainer)

    ids = [session.task.task_id for session in game.sessions]
    assert sorted(ids) == sorted([script.task_id for script in scripts for _ in range(2)])
    assert ids[0] == ids[1]
    wanted = {script.task_id: play_bare(script) for script in scripts}
    assert rewards == [wanted[task_id].rewards for task_id in ids]
    assert log["reward"] == sum(played.total for played in wanted.values()) / 2
    assert trainer.model.asked == 2 * sum(len(script.actions) for script in scripts)


@pytest.mark.parametrize("how", WAYS)
def test_the_judge_is_asked_about_all_at_once(how: str) -> None:
    assert play(how, SCRIPTS[0], "players_trl:Together").ledger["preference"] == 1


@pytest.mark.parametrize("how", WAYS)
def test_an_episode_that_does_not_fit_is_cut_and_silent_from_then_on(how: str) -> None:
    script = SCRIPTS[0]
    silent = script._replace(actions=(script.actions[0], *[""] * 5))
    # room for the call, and not for the page that it shows
    assert play(how, script, "rubric", max_completion_length=100) == play_bare(silent)


@pytest.mark.parametrize(
    "last", ["I am done.", '<tool_call>\n{"name": "submit", "arguments": {\n</tool_call>']
)
def test_trls_loop_ends_at_a_message_without_a_call_and_the_turns_left_cost(last: str) -> None:
    said = (REVIEW, *edits(TASK, 1), last)
    whole = Script("stops", TASK.task_id, (*said, *[""] * 3))
    assert play("environment_factory", whole, "rubric") == play_bare(whole)


@pytest.mark.parametrize(
    "bad",
    [
        tool_call("str_replace", old=1, new=None),
        tool_call("str_replace", old="Python"),
        tool_call("submit", self="</think>"),
        '<tool_call>\n{"name": "review", "arguments": {"name": "x"}}\n</tool_call>',
        '<tool_call>\n{"name": "review", "arguments": [1]}\n</tool_call>',
    ],
)
def test_invalid_calls_cost_in_trls_loop_what_they_cost(bad: str) -> None:
    script = Script("bad call", TASK.task_id, (bad, *edits(TASK, 1), SUBMIT))
    assert play("environment_factory", script, "rubric") == play_bare(script)


@pytest.mark.parametrize("env_id", ["ResumeEdit", "ResumeEditEvidence", "ResumeEditFeedback"])
def test_trl_derives_the_schemas_of_the_tools(env_id: str) -> None:
    game = Game(f"{env_id}Mini-v0")
    tools = game.env.session_type.toolbox.schemas
    assert type(game.environment()) is type(game.environment())
    for tool in tools:
        wanted = tool["function"]
        got = get_json_schema(getattr(game.environment(), wanted["name"]))["function"]
        assert got["description"] == wanted["description"]
        assert got["parameters"].get("required", []) == wanted["parameters"]["required"]
        for name, one in wanted["parameters"]["properties"].items():
            about = {"type": one["type"], "description": one.get("description", name)}
            assert got["parameters"]["properties"].pop(name) == about
        assert got["parameters"]["properties"] == {}


def test_several_calls_of_a_message_are_turns_in_trls_loop() -> None:
    first, second = edits(TASK, 2)
    played = play(
        "environment_factory", Script("two", TASK.task_id, (first + second, SUBMIT)), "rubric"
    )
    assert played == play_bare(Script("two", TASK.task_id, (first, second, SUBMIT)))


def test_tokens_are_those_that_were_sampled_and_the_mask_tells_which(tmp_path: Path) -> None:
    game, script = Recorded(), SCRIPTS[3]
    trainer = make_trainer(game, "rollout_func", [script], str(tmp_path))
    sample = GRPOTrainer._generate_single_turn

    def with_logprobs(*args: Any) -> Any:  # as vLLM gives them
        ids, _ = sample(trainer, *args)
        return ids, [[-0.5] * len(turn) for turn in ids]

    trainer._generate_single_turn = with_logprobs
    [row] = trainer.train_dataset
    spoken = game.rollout([row["prompt"]] * 2, trainer)

    chat = trainer.processing_class
    session = game.env.new_session(script.task_id)
    observations = [session.step(action).observation for action in script.actions]
    for prompt, ids, mask, logprobs in zip(
        spoken["prompt_ids"],
        spoken["completion_ids"],
        spoken["env_mask"],
        spoken["logprobs"],
        strict=True,
    ):
        assert len(ids) == len(mask) == len(logprobs)
        assert logprobs == [-0.5 * bit for bit in mask]
        said = [token for token, bit in zip(ids, mask, strict=True) if bit]
        heard = [token for token, bit in zip(ids, mask, strict=True) if not bit]
        turns = [f"{action}<|im_end|>" for action in script.actions]
        assert chat.decode(said) == "".join(turns)
        replies = [
            f"\n<|im_start|>user\n<tool_response>\n{text}\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n"
            for text in observations[:-1]
        ]
        assert chat.decode(heard) == "".join(replies)
        tools = list(session.tools)
        whole = chat.apply_chat_template(
            row["prompt"], tools=tools, tokenize=False, add_generation_prompt=True
        )
        assert chat.decode(prompt) == whole


def test_a_turn_that_is_cut_is_closed_by_a_token_that_is_not_the_models(tmp_path: Path) -> None:
    game, script = Recorded(), Script("cut", TASK.task_id, ("word " * 40, *SCRIPTS[2].actions))
    turn = {"max_new_tokens": 30}
    trainer = make_trainer(game, "rollout_func", [script], str(tmp_path), generation_kwargs=turn)
    [row] = trainer.train_dataset
    spoken = game.rollout([row["prompt"]], trainer)
    [ids], [mask] = spoken["completion_ids"], spoken["env_mask"]
    assert mask[:31] == [1] * 30 + [0]
    assert "word<|im_end|>\n<|im_start|>user\n" in trainer.processing_class.decode(ids)
    assert spoken["session"][0].turns == 3


def test_rollouts_with_a_template_that_rewrites_earlier_turns(tmp_path: Path) -> None:
    """Qwen3's does not keep what it wrote when a message follows."""
    game, script = Recorded(), SCRIPTS[0]
    trainer = make_trainer(game, "rollout_func", [script], str(tmp_path))
    trainer.processing_class.chat_template = chat_template_utils.qwen3_chat_template
    log, rewards = train(trainer)
    assert rewards == [play_bare(script).rewards] * 2
    assert log["reward"] == play_bare(script).total


def test_factory_and_reward_function_can_be_sent_to_other_processes() -> None:
    game = Game(ENV)
    game.dataset()
    tools = pickle.loads(pickle.dumps(game.environment))()
    tools.reset(task_id=TASK.task_id, prompt=[])
    assert "turns left: 5/6" in tools.review()
    assert pickle.loads(pickle.dumps(game.reward)).__name__ == "reward"
    assert pickle.loads(pickle.dumps(game.rollout)).__name__ == "rollout"


def test_the_rows_are_the_environments_tasks() -> None:
    rows = Game(ENV, split="eval").dataset()
    assert set(rows["task_id"]).isdisjoint(Game(ENV).dataset()["task_id"])
    assert [message["role"] for message in rows[0]["prompt"]] == ["system", "user"]
