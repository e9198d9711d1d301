"""Join the words of a PDF page to runs: words that are close together on one line."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from resume_gym.corpus.recognition import clean, link, split_bullet

LOST = re.compile(r"\(cid:\d+\)|\ufffd")
"""Matches a glyph that the fonts of the file do not map to text."""
_BOLD = re.compile("bold|black|heavy|semib|demi", re.IGNORECASE)
_ICON_SIZE = 8.0  # font size for the address of an icon's link


class Run(NamedTuple):
    """A word, or adjacent words on one line; coordinates in points from the top left."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    size: float
    bold: bool
    address: str = ""  # of the link that a word belongs to


def page_runs(page: Any, links: Sequence[Any]) -> Iterator[Run]:
    """Yield the runs of a page line by line; words with small gaps between them form one run."""
    found = page.extract_words(x_tolerance_ratio=0.15, return_chars=True)
    words = [
        Run(
            clean(_spelled(word["chars"])).replace("\x00", "\ufffd"),
            word["x0"],
            word["x1"],
            word["top"],
            word["bottom"],
            round(word["chars"][0]["size"], 1),
            bool(_BOLD.search(word["chars"][0]["fontname"])),
        )
        for word in found
    ]
    words = list(_linked(words, links))
    for line in by_line([*words, *_drawn_bullets(page, words)]):
        group = line[:1]
        for word in line[1:]:
            # A bullet marker may be far from its text.
            marker = len(group) == 1 and _is_marker(group[0].text)
            if word.x0 - group[-1].x1 > word.size and not marker:
                yield _merge(group)
                group = []
            group.append(word)
        yield _merge(group)


def _linked(words: Sequence[Run], links: Sequence[Any]) -> Iterator[Run]:
    """Yield the words with the addresses of their links; a link without words becomes a word."""
    used: set[str] = set()
    for word in words:
        x, y = (word.x0 + word.x1) / 2, (word.top + word.bottom) / 2
        over = (one for one in links if one["x0"] <= x <= one["x1"])
        inside = next((one for one in over if one["top"] <= y <= one["bottom"]), None)
        worded = any(map(str.isalnum, word.text))  # not the bar between two links
        address = inside["uri"].strip() if inside and worded else ""
        used.add(address)
        yield word._replace(address=address)
    text = " ".join(word.text for word in words)
    for one in links:
        address = one["uri"].strip()
        if address not in used and link(text, address) != text:  # the link of an icon
            used.add(address)
            place = (one["x0"], one["x1"], one["top"], one["bottom"])
            yield Run(address.removeprefix("mailto:"), *place, _ICON_SIZE, bold=False)


def _spelled(chars: Sequence[Any]) -> str:
    """Return the text of a word, with "^" before small raised digits, such as exponents."""
    text: str = chars[0]["text"]
    for left, char in pairwise(chars):
        small = char["text"].isdecimal() and char["size"] < 0.8 * left["size"]
        up = small and char["bottom"] < left["bottom"] - 0.1 * left["size"]
        text += "^" * up + char["text"]
    return text


def _is_marker(word: str) -> bool:
    return bool(LOST.fullmatch(word) or split_bullet(f"{word} x")[0])


def _drawn_bullets(page: Any, words: Sequence[Run]) -> Iterator[Run]:
    """Yield the bullets that are drawn as shapes, as in PDF files printed by browsers."""
    shapes: dict[Run, list[Any]] = {}
    for shape in (*page.curves, *page.rects):
        middle = (shape["top"] + shape["bottom"]) / 2
        beside = [
            word
            for word in words
            if word.top < middle < word.bottom
            and 0 < word.x0 - shape["x1"] < 2 * word.size
            and 0.15 < shape["height"] / word.size < 0.5
            and 0.15 < shape["width"] / word.size < 0.5
        ]
        if beside:
            shapes.setdefault(min(beside, key=lambda word: word.x0), []).append(shape)
    for word, (shape, *others) in shapes.items():
        if not others:  # several shapes beside a word are an icon or a rating
            yield word._replace(text="•", x0=shape["x0"], x1=shape["x1"])


def by_line(runs: Iterable[Run]) -> list[list[Run]]:
    """Group runs into lines by bottom edge, which varies less with font size than the top."""
    lines: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: (run.bottom, run.x0)):
        if lines and run.bottom - lines[-1][0].bottom <= 0.3 * run.size:
            lines[-1].append(run)
        else:
            lines.append([run])
    return [sorted(line, key=lambda run: run.x0) for line in lines]


def _merge(words: Sequence[Run]) -> Run:
    sizes: Counter[float] = Counter()
    for word in words:
        sizes[word.size] += len(word.text)
    # A glyph that decodes to no character is usually a bullet if it begins a line.
    first = words[0]._replace(text="•") if LOST.fullmatch(words[0].text) else words[0]
    texts: list[str] = []
    for address, linked in groupby([first, *words[1:]], key=lambda word: word.address):
        text = _spaced([*linked])
        texts.append(link(text, address) if address else text)
    return Run(
        " ".join(texts),
        words[0].x0,
        words[-1].x1,
        min(word.top for word in words),
        max(word.bottom for word in words),
        sizes.most_common(1)[0][0],
        all(word.bold for word in words),
    )


def _spaced(words: Sequence[Run]) -> str:
    """Join words with blanks; between spaced-out letters, a wide gap becomes two blanks."""
    gaps = [right.x0 - left.x1 for left, right in pairwise(words)]
    letters = len(words) > 3 and all(len(word.text) == 1 for word in words)
    widest = 1.5 * min(gaps) if letters else float("inf")
    blanks = ("  " if gap > widest else " " for gap in gaps)
    return "".join(f"{blank}{word.text}" for blank, word in zip(("", *blanks), words, strict=True))
