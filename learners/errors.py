"""Errors that several packages of learners raise."""


class RunStopped(Exception):  # noqa: N818
    """An alarm ends the run, as its settings ask; the message says which."""


class ConfigError(ValueError):
    """Invalid configuration; the message states the expected and the actual value."""
