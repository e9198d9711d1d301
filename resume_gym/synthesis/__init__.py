"""Synthetic tasks: `generate_task` and `generate_tasks` build them offline from a content bank."""

from resume_gym.synthesis.procedural import generate_task, generate_tasks

__all__ = ["generate_task", "generate_tasks"]
