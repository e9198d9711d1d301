"""Texts by strangers, made safe to show to a model and to quote from.

What a reader cannot see, a model shall not read. A document that is shown stands between two
lines that hold a code which its author could not know, each of its lines is marked, and no angle
bracket of its own is left, so that nothing in it can end it or pass for a chat's own tokens.
"""

import hmac
import os
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

KEY_VARIABLE = "RESUME_GYM_JUDGE_KEY"
"""Environment variable with another key for the codes; see `make_code`."""

_DEFAULT_KEY = "resume-gym"
# Besides the categories below: what Unicode calls default-ignorable, and the blank of Braille.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
_UNSEEN = ("Cc", "Cf", "Cn", "Co", "Cs")
_BREAKS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_ROLE = re.compile(r"\[(/?[A-Z_]{3,})\]")  # [INST], which some tokenizers read as one token
_ANGLES = str.maketrans("<>", "\u2039\u203a")
_TYPOGRAPHY = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "‹": "<", "›": ">"}
)
_GAP = re.compile(r"\n(?: *\n){3,}")
_MARK = "| "
_MARKUP = re.compile(r"^\s*\|\s|[*_`#]", re.MULTILINE)


@lru_cache(maxsize=1024)
def clean(text: str) -> str:
    """The text as a reader sees it: NFKC, nothing invisible, line feeds as line ends.

    Cleaning twice changes nothing more.
    """
    text = _BREAKS.sub("\n", text).replace("\t", " ")
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return unicodedata.normalize("NFKC", _seen(unicodedata.normalize("NFKC", _seen(text))))


def _seen(text: str) -> str:
    text = _IGNORABLE.sub("", text)
    return "".join(c for c in text if c == "\n" or unicodedata.category(c) not in _UNSEEN)


def neutral(text: str) -> str:
    """The cleaned text without angle brackets and role tokens."""
    return _ROLE.sub(r"(\1)", clean(text).translate(_ANGLES))


def make_code(texts: Sequence[str]) -> str:
    """A code that stands in none of the texts: their HMAC, 16 hexadecimal digits.

    The same texts have the same code, so that answers can be kept. Who writes one of them cannot
    know it, even with the key: it changes with every character, its own place included. A key of
    your own, in the environment variable `RESUME_GYM_JUDGE_KEY`, makes it a secret as well.
    """
    key = os.environ.get(KEY_VARIABLE, _DEFAULT_KEY).encode()
    code = hmac.digest(key, "\0".join(texts).encode(errors="replace"), "sha256").hex()
    while any(code[:16] in text for text in texts):
        code = hmac.digest(key, code.encode(), "sha256").hex()
    return code[:16]


def fence(name: str, text: str, code: str) -> str:
    """A document for a prompt: the neutral text, each line marked, between two lines of its own."""
    lines = _GAP.sub("\n\n\n", neutral(text)).strip("\n").split("\n")
    body = "\n".join(f"{_MARK}{line}".rstrip() for line in lines)
    return f"<{name} {code}>\n{body}\n</{name} {code}>"


@lru_cache(maxsize=1024)
def folded(text: str) -> str:
    """The text as quotations are compared: no markup, plain punctuation, one case, one line."""
    text = clean(_MARKUP.sub("", neutral(text)).translate(_TYPOGRAPHY))
    return " ".join(text.split()).casefold()


def stands_in(quote: str, text: str) -> bool:
    """Whether a quotation says something, and stands in the text word for word."""
    wanted = folded(quote)
    telling = len(wanted) > 2 or any(map(str.isdigit, wanted))
    return telling and wanted in folded(text)
