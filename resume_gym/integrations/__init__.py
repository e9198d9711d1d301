"""Adapters to RL libraries, one module per library; no other module imports that library.

Adapters play sessions (`env.unwrapped.new_session(task_id)`); those of GEM and Stable-Baselines3
play the environment. The members of a group share a task, no action raises an error, failed tool
calls keep their penalties, and a judge's failure raises an error instead of producing a score.
"""
