"""Adapters: each imports its library, and nobody else does.

They play sessions of an environment (`env.unwrapped.new_session(task_id)`), or, for GEM and
Stable-Baselines3, the environment itself. So the members of a group get the same task, no text
raises, failures cost what they cost, and a judge that gives no verdict raises instead of scoring.
"""
