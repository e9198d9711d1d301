"""Adapters to RL libraries; a library is imported only by its adapter.

Adapters play sessions (`env.unwrapped.new_session(task_id)`), except the adapters for GEM and
Stable-Baselines3, which step an environment. In all adapters, a group's members share a task, no
action raises an error, failed tool calls keep their penalties, and a failed judge raises an error.
"""
