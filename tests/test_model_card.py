"""Model cards of runs in several domains, with and without results."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from huggingface_hub import ModelCard, ModelCardData

import resume_gym
from learners.build import make_workloads
from learners.config import Config, ConfigError
from learners.planning.machine import Machine
from learners.run import model_card
from learners.run.folder import RunFolder
from learners.run.model_card import make, write, write_facts
from resume_gym.evaluation import Returns, Summary
from resume_gym.support.json_lines import seal

SUMMARY: dict[str, Any] = {
    **{"episodes": 8, "tasks": 2, "reward_sd": 1.0, "score": 70.0, "tool_syntax": 1.0},
    **{"layout": 1.0, "content": 0.5, "edits": 2.0, "failed_edits": 1.0, "failed_share": 0.25},
    **{"malformed": 0.0, "lines": 18.0, "layout_pass_rate": 1.0, "unjudged": 0},
    "verdict": {"hallucination": 0.75, "clarity": 0.0},
    "by_weakness": {"too_long": 1.0},
}


class Echo(gymnasium.Env[str, str]):
    """A text environment with step rewards only."""

    observation_space = gymnasium.spaces.Text(9)
    action_space = gymnasium.spaces.Text(9)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return "say", {}

    def step(self, action: str) -> Any:
        return "done", 1.0, True, False, {}


gymnasium.register(id="CardEcho-v0", entry_point=f"{__name__}:Echo", max_episode_steps=2)


def a_run(path: Path, edited: bool = True, **settings: Any) -> RunFolder:
    """Make the folder of a finished run, with invented results."""
    config = Config(name=path.name, runs=path.parent, eval_tasks=2, eval_rollouts=4, **settings)
    run = RunFolder(path)
    run.configure(config)
    write_facts(run, config, make_workloads(config))
    for step in (1, 2):
        row = {"step": step, "reward": step / 2, "sampled_tokens": 1000.0, "entropy": 0.2}
        run.append({**row, "seconds_rollout": 30.0, "seconds_total": 200.0 * step})
    (path / "dashboard.png").write_bytes(b"a picture")
    errors = {"reward": 0.5, "submit_rate": 0.1, "by_weakness.too_long": 0.25}
    for when, reward, submitted in (("before", 1.25, 0.3), ("after", 2.123456, 0.9)):
        part = Summary(
            **SUMMARY, reward=reward, submit_rate=submitted, errors=errors if reward > 2 else {}
        )
        run.write_result(when, part if edited else Returns(8, 2, reward, 1.0))
    if edited:
        run.write_result("floor", Summary(**SUMMARY, reward=4.5, submit_rate=1.0))
    return run


def loaded(run: RunFolder, target: Path) -> tuple[ModelCardData, str]:
    target.mkdir()
    write(run, target)
    card = ModelCard.load(target / "README.md")
    return card.data, card.text


def test_a_card_of_the_nano_policy(tmp_path: Path) -> None:
    data, text = loaded(a_run(tmp_path / "one"), tmp_path / "model")
    assert data.base_model is None, "the nano policy is not on the Hub"
    assert (data.license, data.library_name) == ("apache-2.0", "transformers")
    assert {"ResumeEditNetMini-v0", "aipo", "reinforcement-learning"} <= set(data.tags or ())
    found = {one.metric_type: one.metric_value for one in data.eval_results or ()}
    assert (found["reward"], found["submit_rate"]) == (2.1235, 0.9)
    assert found["verdict_hallucination"] == 0.75
    for part in (
        "| | before training | after training | floor |",
        "| mean | 1.25 | 2.12 ± 0.50 | 4.50 |",
        "| submitted | 30% | 90% ± 10% | 100% |",
        "| too\\_long | 1.00 | 1.00 ± 0.25 | 1.00 |",
        "Floor: an agent that makes only harmless edits",
        "2 held-out tasks, 4 episodes each, temperature 0.3. After ±: two standard errors over",
        "Tasks: `mini`, new ones in each step for training, and 2 held-out.",
        "Judge: rubric, which applies rules and uses no language model.",
        "2 steps of 8 groups of 8 episodes; 128 episodes, 2,000 sampled tokens",
        "from -1 (invented facts) to 1 (none), is 0.75.",
        "about people who do not exist",
        "4.5 million parameters",
        "](dashboard.png)",
        "transformers 5.",
    ):
        assert part in text, part
    assert (tmp_path / "model" / "dashboard.png").read_bytes() == b"a picture"


def test_a_card_of_several_environments(tmp_path: Path) -> None:
    echo = f"{__name__}:CardEcho-v0"
    run = a_run(tmp_path / "mix", edited=False, env=f"ResumeEditMini-v0:3,{echo}:1")
    for step in (0, 2):
        rewards = {"reward": 2.0, "ResumeEditMini-v0/reward": 3.5 + step, f"{echo}/reward": 0.5}
        run.writer.append_row("evaluations.jsonl", {"step": step, **rewards}, synced=True)
    data, text = loaded(run, tmp_path / "model")
    assert {"ResumeEditMini-v0", "CardEcho-v0"} <= set(data.tags or ())
    for part in (
        f"in environments `ResumeEditMini-v0` (75 % of the groups), `{echo}` (25 % of the groups) "
        "of Resume Gym",
        "In `ResumeEditMini-v0`, the model revises a document (resume) through tool calls",
        f"In `{echo}`, actions and observations of the environment are texts.",
        "4 held-out tasks, 4 episodes each",
        "| mean reward | after step 0 | after step 2 |",
        "| ResumeEditMini-v0 | 3.50 | 5.50 |",
        "| test\\_model\\_card:CardEcho-v0 | 0.50 | 0.50 |",
        "resume-gym eval --agent FOLDER_OF_THIS_FILE --env ResumeEditMini-v0\n",
        "`ResumeEditMini-v0`:\n\nTasks: `mini`, new ones in each step for training",
        f"`{echo}`:\n\nEpisodes start from 4096 seeds",
        "No judge: the reward is the sum of the environment's step rewards.\n\n## Training",
    ):
        assert part in text, part
    assert json.loads((run.path / "facts.json").read_text())["judge"]["name"] == "rubric"


def test_a_card_tells_where_a_run_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").touch()
    answer = subprocess.CompletedProcess([], 0, "0a1b2c3-dirty\n")
    with monkeypatch.context() as during:
        during.setattr(subprocess, "run", lambda *_, **__: answer)
        assert model_card._commit(tmp_path) == ["(commit 0a1b2c3-dirty)"]
    assert model_card._commit(tmp_path) == [], "it only looks like a checkout"
    assert model_card._commit(tmp_path / "elsewhere") == []

    command = ["/bin/resume-gym", "train", "--runs", "/me/one", "--judge", '{"name": "rubric"}']
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(model_card, "_commit", lambda _: ["(commit 0a1b2c3)"])
    run = a_run(tmp_path / "one")
    facts = json.loads((run.path / "facts.json").read_text())
    shown = """resume-gym train --runs {}one --judge '{{"name": "rubric"}}'"""
    assert facts["command"] == shown.format("/me/")
    assert facts["versions"]["resume-gym"] == f"{resume_gym.__version__} (commit 0a1b2c3)"
    played = {"group": 8, "member": 0, "task_id": "t-1", "reward": 1.5, "graded": True}
    actions = ["a\n```\nb", "submit"]
    run.trajectories.path(2).write_text(seal({**played, "actions": actions}) + "\n")
    _, text = loaded(run, tmp_path / "model")
    assert f"tokens, 0:06:40 (h:mm:ss) on {Machine.here()}. One run" in text
    assert f"\nCommand:\n\n    {shown.format('')}\n\n" in text
    assert f"resume-gym {resume_gym.__version__} (commit 0a1b2c3), Python" in text
    assert "on task `t-1`, with reward 1.50:\n\n    a\n    ```\n    b\n\n    submit\n" in text

    facts["tasks"]["source"] = "my_resumes.jsonl"
    (run.path / "facts.json").write_text(json.dumps(facts))
    _, text = loaded(run, tmp_path / "other")
    assert "t-1" not in text, "the documents may be private"
    (run.path / "facts.json").write_text("{")
    with pytest.raises(ConfigError, match=r"facts\.json is damaged"):
        make(run)


def test_a_card_states_a_missing_evaluation(tmp_path: Path) -> None:
    run = a_run(tmp_path / "one")
    (run.path / "after.json").unlink()
    data, text = loaded(run, tmp_path / "model")
    assert data.eval_results is None
    assert "The model was not evaluated after training." in text
    assert "| mean | 1.25 |" in text


def test_a_card_of_another_domain(tmp_path: Path) -> None:
    run = a_run(tmp_path / "notes", env="examples.release_notes:ReleaseNotes-v0")
    data, text = loaded(run, tmp_path / "model")
    assert "ReleaseNotes-v0" in (data.tags or ())
    assert "The model revises a document (resume)" not in text
    assert "import examples.release_notes" in text
    assert "people who do not exist" not in text


def test_a_card_of_an_environment_of_texts(tmp_path: Path) -> None:
    run = a_run(tmp_path / "echo", edited=False, env="CardEcho-v0")
    data, text = loaded(run, tmp_path / "model")
    assert [one.metric_type for one in data.eval_results or ()] == ["reward"]
    assert "No judge: the reward is the sum of the environment's step rewards." in text
    assert "invent" not in text
    assert "observation" in text
    assert "resume-gym eval" not in text, "the command supports editing environments only"
    assert "tools" not in text


@pytest.mark.parametrize(
    ("where", "card", "hub", "license_"),
    [
        ("base", "---\nlicense: mit\n---\n\ntext\n", None, "mit"),
        ("base", None, None, "unknown"),
        ("base", "no metadata", None, "unknown"),
        ("models--Org--A-1/snapshots/0f", None, "Org/A-1", "unknown"),
    ],
)
def test_a_base_model_is_named_if_it_is_known(
    where: str, card: str | None, hub: str | None, license_: str, tmp_path: Path
) -> None:
    base = tmp_path / where
    base.parent.mkdir(parents=True, exist_ok=True)
    base.symlink_to(model_card.models.NANO)
    if card is not None:
        base.unlink()
        base.mkdir()
        for file in model_card.models.NANO.iterdir():
            (base / file.name).symlink_to(file)
        (base / "README.md").write_text(card)
    data, text = loaded(a_run(tmp_path / "one", model=str(base)), tmp_path / "model")
    assert (data.base_model, data.license) == (hub, license_)
    assert str(tmp_path) not in text, "paths of the machine are private"
    assert ("Unknown. The license of the base model" in text) == (license_ == "unknown")


def test_names_and_judges_cannot_break_a_card(tmp_path: Path) -> None:
    name = "a: `b` | [c](d) # <e> {{f}}"
    judge = json.dumps({"name": "rubric"})
    data, text = loaded(a_run(tmp_path / name, judge=judge), tmp_path / "model")
    assert data.model_name == name
    assert "\\[c\\](d)" in text
    (settings,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert tomllib.loads(settings)["judge"] == judge
    assert not {"runs", "engine_urls"} & set(tomllib.loads(settings))


def test_paths_in_options_are_omitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    judge = json.dumps({"name": "openai", "model": "org/a", "store": "/home/ada/answers.db"})
    run = a_run(tmp_path / "one", judge=judge, env="ResumeEditMini-v0", credit="episode")
    _, text = loaded(run, tmp_path / "model")
    assert "/home/ada" not in text
    assert "org/a" in text
    assert "answers.db" in text
