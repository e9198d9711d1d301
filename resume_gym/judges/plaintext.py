"""Sanitize untrusted text for prompts, and look up quotations in it.

Characters that a human reader cannot see are removed. `fence` delimits a document by two lines
with a code that its author cannot know, prefixes each of its lines, and replaces its angle
brackets, so that the text can neither end its fence nor imitate the control tokens of a chat.
"""

import hmac
import os
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

KEY_VARIABLE = "RESUME_GYM_JUDGE_KEY"
"""Environment variable that overrides the key of the codes; see `make_code`."""

_DEFAULT_KEY = "resume-gym"
# Default-ignorable code points outside the categories below, and the blank Braille pattern.
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
    """Return the text as a reader sees it: NFKC, no invisible characters, line feeds only.

    The function is idempotent.
    """
    text = _BREAKS.sub("\n", text).replace("\t", " ")
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return unicodedata.normalize("NFKC", _seen(unicodedata.normalize("NFKC", _seen(text))))


def _seen(text: str) -> str:
    text = _IGNORABLE.sub("", text)
    return "".join(c for c in text if c == "\n" or unicodedata.category(c) not in _UNSEEN)


def neutral(text: str) -> str:
    """Clean a text, and replace its angle brackets and role tokens such as [INST]."""
    return _ROLE.sub(r"(\1)", clean(text).translate(_ANGLES))


def make_code(texts: Sequence[str]) -> str:
    """Return a code of texts: 16 hexadecimal digits of their HMAC-SHA-256.

    The code is deterministic, so that answers can be cached. An author cannot insert it into a
    text, even with the key, since it changes with every character. A private key in the
    environment variable `RESUME_GYM_JUDGE_KEY` also keeps it secret.
    """
    key = os.environ.get(KEY_VARIABLE, _DEFAULT_KEY).encode()
    return hmac.digest(key, "\0".join(texts).encode(errors="replace"), "sha256").hex()[:16]


def fence(name: str, text: str, code: str) -> str:
    """Format a document for a prompt: neutralized, each line prefixed, between two code lines."""
    lines = _GAP.sub("\n\n\n", neutral(text)).strip("\n").split("\n")
    body = "\n".join(f"{_MARK}{line}".rstrip() for line in lines)
    return f"<{name} {code}>\n{body}\n</{name} {code}>"


@lru_cache(maxsize=1024)
def folded(text: str) -> str:
    """Normalize a text for the comparison of quotations: no markup, no case, one line."""
    text = clean(_MARKUP.sub("", neutral(text)).translate(_TYPOGRAPHY))
    return " ".join(text.split()).casefold()


def stands_in(quote: str, text: str) -> bool:
    """Return whether a non-trivial quotation occurs in the text, ignoring markup and case.

    A quotation is non-trivial if it has more than two characters or a digit.
    """
    wanted = folded(quote)
    telling = len(wanted) > 2 or any(map(str.isdigit, wanted))
    return telling and wanted in folded(text)
