"""Adapters: one file a library, each of which imports its library and nobody else does.

All play `Session`s of an environment (`env.unwrapped.new_session(task_id)`), so that the members
of a group get the same task, no text raises, failures cost what they cost, and a judge that gives
no verdict raises instead of scoring.
"""
