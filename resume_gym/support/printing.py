"""Printing of text that may come from agents, models or files of others."""

import math
import sys

# Agents may write control characters, which a terminal would execute: show symbols instead.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"}
CONTROLS = _PICTURES | {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
"""Table for `str.translate` that replaces control characters, except tabs and line feeds."""
# `_SHOWN` also replaces tabs, marks that change the direction of text, and lone surrogates
_OTHERS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
_SHOWN = CONTROLS | {9: 0x2409} | dict.fromkeys(_OTHERS, 0xFFFD)


def visible(text: str) -> str:
    """Replace lone surrogates and all control characters but line feeds by visible symbols."""
    return text.translate(_SHOWN)


def amount(dollars: float, decimals: int = 2) -> str:
    """Format an amount of dollars with `decimals` decimals, or more for two significant digits.

    >>> amount(1234.5), amount(0.00123), amount(0)
    ('1,234.50', '0.0012', '0.00')
    """
    needed = 1 - math.floor(math.log10(dollars)) if dollars > 0 else 0
    return f"{dollars:,.{max(decimals, needed)}f}"


def say(text: object, error: bool = False) -> None:
    """Print a text, escaped by `visible`, to stdout or, if `error` is true, to stderr."""
    print(visible(str(text)), file=sys.stderr if error else sys.stdout, flush=True)
