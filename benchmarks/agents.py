"""What the scripted agents earn on the held-out tasks of both environments.

python benchmarks/agents.py

The oracle makes the repairs that need the resume alone. "oracle with evidence" first makes those
that add figures from the evidence, which agents do not see.
"""

import sys
from dataclasses import asdict, replace
from functools import partial

import gymnasium as gym
from record import Figure, finish, options

from resume_gym.agents import AGENTS, make_agent
from resume_gym.evaluation import evaluate, summarise
from resume_gym.judges import make_judge
from resume_gym.session import Rules
from resume_gym.sources import load_tasks
from resume_gym.tasks import Task

WANTED = {("ResumeEdit-v0", "oracle"): 7.0, ("ResumeEdit-v0", "careful"): 4.5}
EVIDENCE = "oracle with evidence"


def evidence_first(task: Task) -> Task:
    """The task with the fixes first that need evidence."""
    fixes = sorted(task.fixes, key=lambda fix: not fix.needs_evidence)
    return replace(task, fixes=tuple(fixes))


def main() -> int:
    """Play, print, record; 1 if a figure is not as wanted."""
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
    return finish("agents", args, figures, {"summaries": summaries}, ("rapidfuzz",))


if __name__ == "__main__":
    sys.exit(main())
