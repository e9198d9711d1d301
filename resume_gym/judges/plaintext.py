"""Sanitize untrusted text for prompts, and look up quotations in it.

`clean` removes characters that a human reader cannot see. `fence` puts a document between two
lines with a code that the document cannot contain, prefixes its lines, and replaces its angle
brackets. A fenced document cannot close its fence or imitate control tokens of a chat template.
"""

import hmac
import os
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from resume_gym.text.marks import stream_safe

KEY_VARIABLE = "RESUME_GYM_JUDGE_KEY"
"""Environment variable that overrides the HMAC key of `make_code`."""

_DEFAULT_KEY = "resume-gym"
# Matches code points that Unicode calls default-ignorable and that are not in the categories
# `_UNSEEN`, and the blank Braille pattern.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
_UNSEEN = ("Cc", "Cf", "Cn", "Co", "Cs")
_BREAKS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_ROLE = re.compile(r"\[(/?[A-Z_]{3,})\]")  # some tokenizers read [INST] as a control token
_ANGLES = str.maketrans("<>", "\u2039\u203a")
_TYPOGRAPHY = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "‹": "<", "›": ">"}
)
_GAP = re.compile(r"\n(?: *\n){3,}")
_MARK = "| "
_MARKUP = re.compile(r"^\s*\|\s|[*_`#]", re.MULTILINE)


@lru_cache(maxsize=1024)
def clean(text: str) -> str:
    """Return a text in NFKC, without invisible characters and with Unix line endings.

    Runs of combining marks are cut off; see `marks.stream_safe`.
    """
    text = _BREAKS.sub("\n", text).replace("\t", " ")
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return _normal(_normal(text))


def _normal(text: str) -> str:
    text = _IGNORABLE.sub("", text)
    seen = "".join(c for c in text if c == "\n" or unicodedata.category(c) not in _UNSEEN)
    return unicodedata.normalize("NFKC", stream_safe(seen))


def neutral(text: str) -> str:
    """Clean a text, and replace its angle brackets and role tokens such as [INST]."""
    return _ROLE.sub(r"(\1)", clean(text).translate(_ANGLES))


def make_code(texts: Sequence[str]) -> str:
    """Return a code for texts: the first 16 hexadecimal digits of their HMAC-SHA-256.

    The code is deterministic, so that a model's answers can be cached. Even an author who knows the
    key cannot insert the code into a text, since any change to the text changes the code. A private
    key in the environment variable `RESUME_GYM_JUDGE_KEY` also keeps the code secret.
    """
    key = os.environ.get(KEY_VARIABLE, _DEFAULT_KEY).encode()
    return hmac.digest(key, "\0".join(texts).encode(errors="replace"), "sha256").hex()[:16]


def fence(name: str, text: str, code: str) -> str:
    """Neutralize a document, prefix its lines, and enclose it in tags with name and code."""
    lines = _GAP.sub("\n\n\n", neutral(text)).strip("\n").split("\n")
    body = "\n".join(f"{_MARK}{line}".rstrip() for line in lines)
    return f"<{name} {code}>\n{body}\n</{name} {code}>"


@lru_cache(maxsize=1024)
def folded(text: str) -> str:
    """Return a text in a form for comparing quotations: without markup, case-folded, one line."""
    text = clean(_MARKUP.sub("", neutral(text)).translate(_TYPOGRAPHY))
    return " ".join(text.split()).casefold()


def stands_in(quote: str, text: str) -> bool:
    """Return whether a non-trivial quotation occurs in the text, ignoring markup and case.

    A quotation is non-trivial if it has more than two characters or a digit.
    """
    wanted = folded(quote)
    telling = len(wanted) > 2 or any(map(str.isdigit, wanted))
    return telling and wanted in folded(text)
