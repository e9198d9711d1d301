"""Error handling for all providers: exceptions for HTTP errors, and messages without API keys."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

from resume_gym.llm import Misconfigured, ModelError, Refused, Unavailable

_PASSING = {408, 409, 425, 429}  # temporary errors: timeout, conflict, too early, rate limit
_CHECK = {
    400: "the options, the length of the prompt and {key}",
    401: "{key}",
    403: "{key} and the permissions of this key",
    404: "the model's name, base_url and the version of the API",
}
_OF_ONE_PROMPT = re.compile(
    r"context.?(length|window)|maximum.{0,20}(length|tokens)|too (long|large|many tokens)"
    r"|token count|content_filter|content.management",
    re.IGNORECASE,
)
"""Pattern of error messages that concern the prompt, not the configuration, in 400 responses."""
_LONGEST = 300
"""Maximum length of a quoted message, in characters."""
_SECRET = 8  # minimum length of a real API key, in characters


def failed(
    status: int, message: str, headers: Mapping[str, str], body: object, key: str
) -> ModelError:
    """Return the exception for a response with an HTTP error status.

    Args:
        status: HTTP status of the response.
        message: the provider's name and the server's message, without the API key.
        headers: headers of the response.
        body: parsed JSON body of the response, if there is one.
        key: name of the environment variable of the API key, for the error message.
    """
    problem: ModelError
    if status in _PASSING or status >= 500:
        wait_s = retry_after(headers, body)
        asks = "" if wait_s is None else f"; the server asks for a pause of {wait_s:g} s"
        problem = Unavailable(message + asks, wait_s)
    elif status == 413 or (status == 400 and _OF_ONE_PROMPT.search(f"{message} {body}")):
        problem = Refused(message)
    else:
        problem = Misconfigured(
            f"{message}; check {_CHECK.get(status, 'base_url').format(key=key)}"
        )
    problem.status = status
    return problem


def retry_after(headers: Mapping[str, str], body: object = None) -> float | None:
    """Return the delay in seconds that the server requests, or None.

    Reads the `Retry-After` header (seconds or a date) or, if it is missing, Google's `RetryInfo`.
    """
    text = headers.get("retry-after", "")
    if re.fullmatch(r"\d+(\.\d*)?", text):
        return float(text)
    if text:
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    return _retry_info(body)


def _retry_info(body: object) -> float | None:
    error = body.get("error", body) if isinstance(body, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str) and re.fullmatch(r"\d+(\.\d+)?s", delay):
            return float(delay[:-1])
    return None


def masked(text: str, key: str) -> str:
    """Mask the API key in a server's text, even if JSON escapes parts of the key."""
    # a key of fewer than `_SECRET` characters is a placeholder for a local server
    return _escaped(key).sub("[key]", text) if len(key) >= _SECRET else text


@lru_cache(maxsize=16)
def _escaped(key: str) -> re.Pattern[str]:
    """Return a regex that also matches a key whose characters JSON has escaped, even repeatedly."""
    characters = (f"(?:{re.escape(char)}|u00(?i:{ord(char):02x}))" for char in key)
    # no match starts within a row of backslashes, so that the search takes linear time
    return re.compile(r"(?:(?<!\\)\\++)?" + r"(?:\\|u005[cC])*".join(characters))


def shown(text: object, key: str = "") -> str:
    """Shorten a message of a server or library to one line, and mask the API key."""
    # remove the link that Pydantic appends to every error
    line = re.sub(r" For further information visit \S+", "", " ".join(str(text).split()))
    line = masked(line, key)
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."
