"""Train the bundled nano policy with TRL on a CPU: two GRPO steps on whole episodes.

    pip install torch==2.13.0 && pip install trl==1.16.0 "transformers>=5.19,<5.40" -e .
    python examples/trl_grpo.py

TRL prints its metrics; the last lines are from this example:

    step 1: reward 2.25, of it edits +0.69, failures -0.38
    step 2: reward 4.12, of it edits +0.62, failures -0.44

For real training, use `Game("ResumeEdit-v0", judge=...)` and a model that writes tool calls in the
Hermes format, such as Qwen, and remove `use_cpu`, `generation_kwargs` and `max_steps`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from trl import GRPOConfig, GRPOTrainer

from resume_gym.integrations.trl import Game
from resume_gym.support.command_line import parse_nothing

NANO = str(Path(__file__).parents[1] / "learners" / "nano" / "policy")


def make_trainer(folder: str) -> GRPOTrainer:
    game = Game("ResumeEditMini-v0", judge="rubric")
    config = GRPOConfig(
        output_dir=folder,
        max_steps=2,
        num_generations=4,
        per_device_train_batch_size=4,
        max_completion_length=1024,  # tokens of an episode, tool replies included
        generation_kwargs={"max_new_tokens": 96},  # tokens of one turn of the policy
        temperature=0.7,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
    )
    return GRPOTrainer(
        NANO,
        reward_funcs=game.reward,
        args=config,
        train_dataset=game.dataset(),
        rollout_func=game.rollout,
    )


def main() -> GRPOTrainer:
    with TemporaryDirectory() as folder:
        trainer = make_trainer(folder)
        trainer.train()
    for log in trainer.state.log_history[:-1]:
        failures = log["ledger/failed_edit"] + log["ledger/malformed"]
        terms = f"edits {log['ledger/edit']:+.2f}, failures {failures:+.2f}"
        print(f"step {log['step']}: reward {log['reward']:.2f}, of it {terms}")
    return trainer


if __name__ == "__main__":
    parse_nothing(__doc__)
    main()
