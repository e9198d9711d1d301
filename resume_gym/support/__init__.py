"""Helpers for files, terminals, command lines and messages.

All other parts use them, so this package does not import `resume_gym.episode`, `resume_gym.text` or
any other part.
"""
