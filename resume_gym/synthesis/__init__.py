"""Synthetic tasks, which `generate_task` and `generate_tasks` build from the texts in `bank/`.

A task exists before its episodes, so this package does not import `resume_gym.env` or
`resume_gym.agents`.
"""

from resume_gym.synthesis.procedural import generate_task, generate_tasks

__all__ = ["generate_task", "generate_tasks"]
