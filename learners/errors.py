"""Exceptions that several packages of `learners` raise, and the exit status of a stopped run."""

STOPPED = 3
"""Exit status of a run that an alarm or a budget has ended."""


class RunStopped(Exception):  # noqa: N818
    """An alarm ended the run, as configured; the message names the step and the alarm."""


class ConfigError(ValueError):
    """Invalid configuration; the message states the expected and the actual value."""
