"""Adapters to RL libraries; a library is imported only by its adapter.

The adapters for GEM and Stable-Baselines3 call `env.step`; all others play an episode in a session
from `env.unwrapped.new_session(task_id)`. In all adapters, the episodes of a group share a task, an
invalid action gets its penalty but raises no error, and a failure of the judge raises an error.

An adapter needs only an environment: this package does not import `learners` or `resume_gym.apps`.
"""
