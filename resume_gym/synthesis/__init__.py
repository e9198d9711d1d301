"""Synthetic tasks, which `generate_task` and `generate_tasks` build from the texts in `bank/`.

`procedural` has both functions, `model_written` lets a model write tasks instead, and `task_file`
is the command `resume-gym data generate`.

A task exists before its episodes, so this package does not import `resume_gym.env` or
`resume_gym.agents`.
"""

from resume_gym.synthesis.procedural import generate_task, generate_tasks

__all__ = ["generate_task", "generate_tasks"]
