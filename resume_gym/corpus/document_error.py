"""The exception for unreadable documents."""


class DocumentError(Exception):
    """A file is not a readable document; the message states the reason without the file name."""
