"""Errors that several packages of learners raise."""


class RunStopped(Exception):  # noqa: N818
    """An alarm ended the run, as configured; the message names the step and the alarm."""


class ConfigError(ValueError):
    """Invalid configuration; the message states the expected and the actual value."""
