"""Synthetic tasks, which `generate_task` and `generate_tasks` build from the texts in `bank/`."""

from resume_gym.synthesis.procedural import generate_task, generate_tasks

__all__ = ["generate_task", "generate_tasks"]
