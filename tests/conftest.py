"""Tasks made by hand, small enough to read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import settings

from resume_gym import Task, Verdict
from resume_gym.tasks import write_jsonl

# a busy machine is no failure
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

RESUME = """\
# Ada Moreno
ada@example.com | Lisbon

## Experience
### Ferry Lines, Data Engineer
- Helped build a booking pipeline for 12 harbours
- Worked on reports; Helped with audits
- Was responsible for on-call, 语言 and café menus

## Skills
Python, SQL
"""
JOB = "Data engineer. Python, SQL, pipelines."
BEST = Verdict(1, 1, 1, 1, 1, 1)
WORST = Verdict(-1, -1, -1, -1, -1, -1)


def make_task(number: int = 0, *, split: str = "train", resume: str = RESUME) -> Task:
    return Task(f"hand-{number}", f"{JOB} Opening {number}.", resume, "weak_verbs", split)


@pytest.fixture
def task() -> Task:
    return make_task()


@pytest.fixture(scope="session")
def tasks_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a JSONL file with three tasks to train on and one to evaluate."""
    path: Path = tmp_path_factory.mktemp("tasks") / "hand.jsonl"
    write_jsonl(path, [*map(make_task, range(3)), make_task(3, split="eval")])
    return str(path)


@pytest.fixture
def options(tasks_file: str) -> dict[str, Any]:
    """What `gym.make` takes to play those tasks without a judge."""
    return {"tasks": tasks_file, "judge": None}


@pytest.fixture
def env(options: dict[str, Any]) -> Iterator[gym.Env[str, str]]:
    with gym.make("ResumeEdit-v0", **options) as made:
        yield made
