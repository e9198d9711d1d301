"""Scripts through GRPOTrainer: one training step, with all of TRL but the model's sampling."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_template

from resume_gym import Session, Task, Verdict
from resume_gym.integrations.trl import Game
from resume_gym.judges import AsyncJudge
from resume_gym.testing import ENV, Played, Script

NANO = str(Path(__file__).parents[2] / "learners" / "nano" / "policy")


class Together(AsyncJudge):
    """Gives no verdict before two are asked for."""

    name = "together"

    def __init__(self) -> None:
        self.two = asyncio.Barrier(2)

    async def averdict(self, task: Task, revised: str) -> Verdict:
        async with asyncio.timeout(60):
            await self.two.wait()
        return Verdict(1, 1, 1, 1, 1, 1)


class Recorded(Game):
    """Keeps the sessions that it grades."""

    def __init__(self, judge: str = "rubric", env_id: str = ENV, **options: Any) -> None:
        super().__init__(env_id, judge=judge, **options)
        self.sessions: list[Session] = []
        self.env.agrade = partial(self.agrade, self.env.agrade)

    async def agrade(self, grade: Any, session: Session) -> Any:
        self.sessions.append(session)
        return await grade(session)


class Speaker(Qwen3ForCausalLM):
    """A model small enough for tests that says what scripts say, each on its own task."""

    def __init__(self, game: Game, scripts: Sequence[Script], tokenizer: Any) -> None:
        shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}
        super().__init__(Qwen3Config(vocab_size=len(tokenizer), **shape, **heads))
        self.tokenizer, self.asked = tokenizer, 0
        self.lines = {game.env.new_session(s.task_id).prompt: s.actions for s in scripts}

    def say(self, context: str) -> list[int]:
        [actions] = [actions for prompt, actions in self.lines.items() if prompt in context]
        self.asked += 1
        # an IndexError if the agent is asked once more after the end
        text = actions[context.count("<|im_start|>assistant\n") - 1]
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return [*ids, self.tokenizer.eos_token_id]

    def generate(self, input_ids: Any, attention_mask: Any, **options: Any) -> torch.Tensor:
        rows = zip(input_ids, attention_mask.bool(), strict=True)
        most = options["generation_config"].max_new_tokens
        said = [
            torch.tensor(self.say(self.tokenizer.decode(ids[real]))[:most]) for ids, real in rows
        ]
        padding = self.tokenizer.pad_token_id
        padded = torch.nn.utils.rnn.pad_sequence(said, batch_first=True, padding_value=padding)
        return torch.cat([input_ids, padded], dim=1)


def make_trainer(
    game: Game, how: str, scripts: Sequence[Script], folder: str, **options: Any
) -> GRPOTrainer:
    """A trainer that takes one step, on two episodes of each script."""
    tokenizer = AutoTokenizer.from_pretrained(NANO)
    if how == "environment_factory":
        tokenizer.response_template = qwen3_template
    rows, wanted = game.dataset(), [script.task_id for script in scripts]
    rows = rows.select([i for i, task_id in enumerate(rows["task_id"]) if task_id in wanted])
    cpu = {
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "disable_tqdm": True,
    }
    size = {"per_device_train_batch_size": 2 * len(scripts), "num_generations": 2, "max_steps": 1}
    logs = {"logging_steps": 1, "save_strategy": "no"}
    settings = {"max_completion_length": 4096, **cpu, **size, **logs, **options}
    args = GRPOConfig(folder, **settings)
    way = {"environment_factory": game.environment, "rollout_func": game.rollout}
    return GRPOTrainer(
        Speaker(game, scripts, tokenizer),
        game.reward,
        args,
        train_dataset=rows,
        processing_class=tokenizer,
        **{how: way[how]},
    )


def train(trainer: GRPOTrainer) -> tuple[dict[str, Any], list[list[float]]]:
    """One step; what TRL logs of it, and the turns' rewards from its table of completions."""
    trainer.train()
    [log] = [entry for entry in trainer.state.log_history if "reward" in entry]
    # as a file, the table fails if no call of a batch has arguments
    return log, list(trainer._logs["extra"]["step_rewards"])


def play(how: str, script: Script, judge: str, **options: Any) -> Played:
    game = Recorded(judge, script.env_id, **script.options)
    with TemporaryDirectory() as folder:
        trainer = make_trainer(game, how, [script], folder, **options)
        log, (rewards, others) = train(trainer)
    assert rewards == others
    assert log["reward_std"] == 0
    assert trainer.model.asked <= sum(session.state.turns for session in game.sessions)
    names = [name for name in log if name.startswith("ledger/")]
    ledger = {name.removeprefix("ledger/"): log[name] for name in names}
    return Played.of(game.sessions[0], rewards, log["reward"])._replace(ledger=ledger)


Player = Callable[[Script, str], Played]
PLAYERS: dict[str, Player] = {
    "environment_factory": partial(play, "environment_factory"),
    "rollout_func": partial(play, "rollout_func"),
}
CALLS_ONLY = ("environment_factory",)
