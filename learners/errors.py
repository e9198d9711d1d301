"""Errors that several packages of learners raise."""


class ConfigError(ValueError):
    """Invalid configuration; the message states the expected and the actual value."""
