"""Folders for the viewer's tests: a run whose every text is hostile, and an evaluation."""

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import asdict, replace
from gzip import decompress
from itertools import combinations
from pathlib import Path
from typing import Any

import gymnasium
from conftest import JOB, RESUME

from resume_gym import Rules, Session, Task, Verdict, tool_call
from resume_gym.apps.viewer.data import FolderContents
from resume_gym.episode.rewards import VERDICT_FIELDS
from resume_gym.episode.tasks import write_jsonl
from resume_gym.evaluation import Episode, summarise
from resume_gym.folders.writer import FolderWriter
from resume_gym.support.trust import remember

EVIL = (
    "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=2>"
    "\"'`><svg onload=window.pwned=3>\u2028{{data}}<!--\u202e"
)
RULES = Rules(max_turns=6, page_lines=9, page_width=40)
STEPS, GROUP = 3, 4
MIXED = ("ResumeEditNetMini-v0", "ResumeEditEvidenceMini-v0")


def evil_task(number: int) -> Task:
    resume = RESUME + f"- {EVIL}\n- a line that is too long for a page of forty characters\n"
    return Task(f"{number} {EVIL}", f"{JOB} {EVIL}", resume, "weak_verbs")


def verdict(value: int, reason: str) -> Verdict:
    reasons = dict.fromkeys(VERDICT_FIELDS, reason)
    return Verdict(1, value, value, value, value, value, reasons, {"clarity": 0.5})


def play(task: Task, member: int, rules: Rules = RULES) -> Session:
    """Members differ: 0 does all well, 1 fails an edit, 2 says nothing useful, 3 does nothing."""
    session = Session(task, rules)
    actions = {
        0: [
            tool_call("review"),
            f"<think>{EVIL}</think>" + tool_call("str_replace", old="Helped build", new=EVIL),
            tool_call("str_replace", old="- Worked on reports; Helped with audits\n", new=""),
            tool_call("submit"),
        ],
        1: [
            tool_call("str_replace", old=EVIL[:20] + "!", new=EVIL),
            tool_call("str_replace", old="Python", new="Rust"),
            tool_call("submit"),
        ],
        2: [EVIL] * 5 + [tool_call("str_replace", old="SQL", new="SQL, dbt")],
        3: [tool_call("submit")],
    }[member]
    for action in actions:
        session.step(action)
    if session.needs_verdict:
        session.grade(verdict(1 if member == 0 else -1, EVIL))
    return session


def write_run(folder: Path) -> Path:
    """A run of three steps of one group, started here; its tasks lie beside it."""
    (folder / "trajectories").mkdir(parents=True)
    tasks = [evil_task(number) for number in range(STEPS)]
    write_jsonl(folder / "tasks.jsonl", tasks)
    settings = {"env": "ResumeEditMini-v0", "tasks": str(folder / "tasks.jsonl"), "model": EVIL}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    (folder / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    remember(folder, settings)
    played = []
    with (folder / "metrics.jsonl").open("w") as metrics:
        for step, task in enumerate(tasks, start=1):
            rows = []
            for member in range(GROUP):
                session = play(task, member)
                record = {"group": step, "member": member, **session.record()}
                rows.append(json.dumps(record) + "\n")
                played.append(Episode.of(session))
            file = folder / "trajectories" / f"step-{step:06d}.jsonl"
            file.write_text("".join(rows), encoding="utf-8")
            figures = {"step": step, "reward": step / 2, "reward_std": 1.0, "submit_rate": 0.5}
            metrics.write(json.dumps({**figures, "verdict_clarity": 0.1, EVIL: 1.0}) + "\n")
    (folder / "before.json").write_text(json.dumps(asdict(summarise(played))))
    (folder / "journal.md").write_text(f"# Journal\n\n- 2026-11-22 {EVIL}\n", encoding="utf-8")
    return folder


def write_mixed_run(folder: Path) -> Path:
    """A run in which both environments of `MIXED` have played a task of the same id."""
    (folder / "trajectories").mkdir(parents=True)
    env = ",".join(f"{name}:1" for name in MIXED)
    (folder / "config.toml").write_text(f'env = "{env}"\n')
    writer = FolderWriter(folder)
    for group, name in enumerate(MIXED):
        made: Any = gymnasium.make(name).unwrapped
        session = made.new_session("mini-train-0-000005")
        session.step(tool_call("str_replace", old="Evaluating capital", new="Evaluated capital"))
        session.step(tool_call("submit"))
        session.grade(made.judge.judge(session.task, session.text))
        record = {"group": group, "member": 0, "env": name, **session.record()}
        writer.append_row("trajectories/step-000001.jsonl", record)
    return folder


def write_evaluation(
    folder: Path, rollouts: int = 2, agents: Mapping[str, int] = {"good": 0, "bad": 1}
) -> Path:
    """Agents, which play as a member of `play` each, on three tasks.

    One episode of the last agent got no verdict. Rollouts of an agent on a task are alike.
    """
    folder.mkdir(parents=True)
    tasks = [replace(evil_task(number), task_id=f"task-{number}") for number in range(3)]
    played: dict[str, list[Episode]] = {}
    with (folder / "episodes.jsonl").open("w") as file:
        for name, member in agents.items():
            for task in tasks:
                session = play(task, member)
                played.setdefault(name, []).extend([Episode.of(session)] * rollouts)
                line = {
                    "weakness": task.weakness,
                    "score": session.score,
                    **session.record(),
                    "agent": name,
                }
                for rollout in range(rollouts):
                    file.write(json.dumps({**line, "rollout": rollout}) + "\n")
        failed = {"graded": False, "score": None, "verdict": None, "failure": f"no verdict: {EVIL}"}
        file.write(json.dumps({**line, **failed, "rollout": rollouts}) + "\n")
    told = {
        "format": 1, "env": "ResumeEdit-v0", "tasks": "nowhere.jsonl", "judge": "rubric",
        "agents": {
            name: {"spec": name, "summary": asdict(summarise(some)),
                   "statistics": {"wins": 1, "interval": [-1.25, 0.5]}}
            for name, some in played.items()
        },
        "comparisons": [
            {"first": first, "second": second, "tasks": 3, "wins": 0, "ties": 1, "losses": 2,
             "figures": {
                 name: {"mean": -5.0, "interval": [-6.0, -4.0], "p": 0.25}
                 for name in ("reward", "words")
             }}
            for first, second in combinations(agents, 2)
        ],
    }  # fmt: skip
    (folder / "evaluation.json").write_text(json.dumps(told))
    return folder


def read(folder: Path, trusted: bool = False) -> FolderContents:
    results = FolderContents(folder, trusted)
    results.refresh()
    return results


def packed(file: Path, name: str) -> Any:
    """What an exported file holds under a name."""
    text = file.read_text()
    found = re.search(rf'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]*)</script>', text)
    assert found
    return json.loads(decompress(b64decode(found[1])))
