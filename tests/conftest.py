"""Small handmade tasks, the order of the tests, and skips where a component is missing."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from components import missing
from hypothesis import settings

from resume_gym import Task, Verdict
from resume_gym.episode.tasks import write_jsonl

# Workers share the cores. A thread that waits for another must sleep: if it spins, a matrix product
# takes ten times as long. Not OMP_THREAD_LIMIT: PyTorch's results are wrong beyond it.
os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
# no deadline for an example: the machine may be busy
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

HEAVY = ("slow", "browser", "distributed", "vllm")

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


@pytest.fixture(autouse=True, scope="session")
def _state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep runs that tests start out of the user's own list."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: some tests wait for a server, a clock or another process."""
    return min(8, (os.cpu_count() or 1) + 1)


def pytest_configure(config: pytest.Config) -> None:
    """Hide the GPUs, except with `-m gpu`."""
    if config.getoption("markexpr") != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker ends long after the others.

    By far the longest is test_faults.py. Tests that need a GPU are left out where they see none. Of
    the slow tests, a run with the variable PART (0 to 6) plays a seventh.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        items[:] = [item for item in items if item.get_closest_marker("gpu") is None]
    slow = [item for item in items if item.get_closest_marker("slow")]
    if part := os.environ.get("PART"):
        left_out = {item for place, item in enumerate(slow) if place % 7 != int(part)}
        items[:] = [item for item in items if item not in left_out]
    heavy = {
        item.path for item in items for name in HEAVY if item.get_closest_marker(name) is not None
    }
    items.sort(key=lambda item: (item.path.stem != "test_faults", item.path not in heavy))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, why in missing().items():
        if item.get_closest_marker(marker):
            reason = f"{marker} tests: {why}"
            if os.environ.get("CI") == "true":
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the skipped tests last, where they are seen."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker of pytest-xdist
        return
    skipped = Counter(report.longrepr[2] for report in reporter.stats.get("skipped", []))
    if skipped:
        reasons = (reason.replace("Skipped:", f"Skipped {n}") for reason, n in skipped.items())
        reporter.write_line("; ".join(reasons), yellow=True)


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
    """Arguments of `gym.make` for those tasks, without a judge."""
    return {"tasks": tasks_file, "judge": None}


@pytest.fixture
def env(options: dict[str, Any]) -> Iterator[gym.Env[str, str]]:
    with gym.make("ResumeEdit-v0", **options) as made:
        yield made
