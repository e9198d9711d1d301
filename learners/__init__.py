"""Learners: reinforcement learning of resume-editing policies. Start at `aipo.py`."""
