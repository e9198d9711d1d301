"""Measure the rewards of scripted agents on held-out tasks, in several environments.

python benchmarks/agents.py

The agent "oracle" applies a task's fixes, beginning with those that need only the resume. "oracle
with evidence" begins with the fixes that add figures from the evidence, which agents do not see.
"safe harbour" deletes one good line and submits. "one repair" applies a single fix and then makes
harmless swaps of words.
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from statistics import fmean
from typing import Any

import gymnasium as gym
from record import Figure, finish, options

from resume_gym.agents import AGENTS, make_agent
from resume_gym.env import make_edit_env
from resume_gym.episode.session import Rules
from resume_gym.episode.sources import load_tasks
from resume_gym.episode.tasks import Task
from resume_gym.evaluation import evaluate, summarise
from resume_gym.evaluation.attack import PARTIAL_REPAIRS, POLICIES, make_attacker
from resume_gym.judges import make_judge

WANTED = {("ResumeEdit-v0", "oracle"): 7.0, ("ResumeEdit-v0", "careful"): 4.5}
EVIDENCE = "oracle with evidence"
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ResumeEdit-v0": ("ResumeEdit-v0", {}),
    "pay by the line": ("ResumeEditNet-v0", {}),
    "continuous layout": ("ResumeEdit-v0", {"layout_reward": "continuous"}),
    "evidence": ("ResumeEditEvidence-v0", {}),
    "feedback": ("ResumeEditFeedback-v0", {}),
    "ladder": ("ResumeEdit-v0", {"tasks": "ladder:0"}),
    "omission": ("ResumeEditEvidence-v0", {"tasks": "omission:0:40"}),
}
PLAYERS: dict[str, Callable[[int], Any]] = {
    **{name: AGENTS[name] for name in ("noop", "floor")},
    "safe harbour": partial(make_attacker, POLICIES["safe harbour"]),
    "one repair": partial(make_attacker, PARTIAL_REPAIRS["one repair"]),
    **{name: AGENTS[name] for name in ("careful", "oracle")},
}


def evidence_first(task: Task) -> Task:
    """Return the task with its fixes reordered: fixes that need evidence documents come first."""
    fixes = sorted(task.fixes, key=lambda fix: not fix.needs_evidence)
    return replace(task, fixes=tuple(fixes))


def main() -> int:
    """Play all agents; print and record the figures; return 1 if a figure misses its target."""
    args = options(__doc__ or "")
    figures, summaries = [], {}
    for env in ("ResumeEdit-v0", "ResumeEditMini-v0"):
        settings = dict(gym.spec(env).kwargs)
        tasks = load_tasks(settings.pop("tasks", "default"), "eval")
        for name in (*AGENTS, EVIDENCE):
            agent = partial(make_agent, "oracle" if name == EVIDENCE else name)
            played = map(evidence_first, tasks) if name == EVIDENCE else tasks
            judge = make_judge("rubric")
            summary = summarise(evaluate(agent, list(played), Rules(**settings), judge))
            wanted = WANTED.get((env, name))
            figures.append(Figure(f"{env}, {name}: mean reward", summary.reward, wanted))
            summaries[f"{env}, {name}"] = asdict(summary)
    for variant, (env_id, given) in VARIANTS.items():
        made: Any = make_edit_env(env_id, split="eval", **given)
        for name, player in PLAYERS.items():
            rules, kind = made.rules, made.session_type
            rewards = evaluate(player, made.tasks, rules, made.judge, session_type=kind)
            reward = fmean(one.reward for one in rewards)
            figures.append(Figure(f"{variant}, {name}: mean reward", reward))
    return finish("agents", args, figures, {"summaries": summaries}, ("rapidfuzz",))


if __name__ == "__main__":
    sys.exit(main())
