import re
import sys
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from resume_gym.episode import document
from resume_gym.episode.document import (
    Match,
    find,
    make_document,
    page,
    replace,
    wrap,
    wrapped_lines,
)

# Words, blanks, a tab, wide, combining and astral characters, other line separators
ALPHABET = "ab -\t\n語é🙂e\u0301\u2028\x0b"
texts = st.text(ALPHABET, max_size=120)
widths = st.integers(1, 15)


def slow_wrap(line: str, width: int) -> list[str]:
    """The wrap rule word by word; rows without trailing spaces."""
    rows, row, gap = [], "", ""
    for token in re.findall(" +|[^ ]+", line):
        if token[0] == " ":
            gap = token
            continue
        if len(row) + len(gap) + len(token) <= width:
            row += gap + token
        else:
            rows += [row] if row else []
            rows += [token[at : at + width] for at in range(0, len(token), width)]
            row = rows.pop()
        gap = ""
    return [*rows, row]


def patched(text: str, diff: str) -> str:
    """Apply a unified diff without context."""
    lines, rows, result, at = text.split("\n"), diff.split("\n"), [], 0
    while rows:
        header = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", rows.pop(0))
        assert header
        old, new = header.group(1, 2), header.group(3, 4)
        removed, added = (int(length) if length else 1 for length in (old[1], new[1]))
        start = int(old[0]) - (removed > 0)
        result += lines[at:start]
        assert len(result) == int(new[0]) - (added > 0)
        assert rows[:removed] == ["-" + line for line in lines[start : start + removed]]
        assert all(row.startswith("+") for row in rows[removed : removed + added])
        result += [row[1:] for row in rows[removed : removed + added]]
        rows, at = rows[removed + added :], start + removed
    return "\n".join([*result, *lines[at:]])


def lines_run(function: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """Return what a function returns, and how many lines of Python it runs, a bound on its time."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        return function(*arguments), count
    finally:
        sys.settrace(before)


def check_edit(text: str, old: str, new: str, width: int) -> str:
    before = make_document(text, width)
    spans = find(text, old, "exact")
    assume(len(spans) < 2 or spans[-1][0] >= spans[-2][1])  # no overlap
    edit = replace(before, spans, new, width)
    assert edit.document.text == text.replace(old, new)
    assert edit.document == make_document(edit.document.text, width)
    if edit.document.text != text:
        assert patched(text, edit.diff) == edit.document.text
    return edit.document.text


@given(st.text(ALPHABET.replace("\n", ""), max_size=80), widths)
def test_wrap_follows_the_rule(line: str, width: int) -> None:
    rows = wrap(line, width)
    assert [row.rstrip(" ") for row in rows] == [row.rstrip(" ") for row in slow_wrap(line, width)]
    assert all(len(row) <= width for row in rows)


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("\n\na", 3), ("a" * 11, 2)],
)
def test_wrapped_lines_ignores_a_final_newline(text: str, lines: int) -> None:
    assert wrapped_lines(text, 10) == lines


@given(st.data(), texts.filter(bool), widths)
def test_an_edit_measures_as_from_scratch_and_its_diff_applies(
    data: st.DataObject, text: str, width: int
) -> None:
    for _ in range(3):
        start = data.draw(st.integers(0, len(text) - 1))
        stop = data.draw(st.integers(start + 1, min(len(text), start + 20)))
        text = check_edit(text, text[start:stop], data.draw(texts), width)
        if not text:
            break


@pytest.mark.parametrize("match", ["exact", "fuzzy"])
@given(text=st.text("ab\n", max_size=12), old=st.text("ab\n", min_size=1, max_size=4))
def test_an_overlap_is_found_and_ends_the_list(match: Match, text: str, old: str) -> None:
    spans = find(text, old, match)
    starts = [n for n in range(len(text)) if text.startswith(old, n)]
    gaps = [b - a for a, b in pairwise(starts)]
    overlap = any(gap < len(old) for gap in gaps)
    if starts:
        assert (len(spans) > 1 and spans[-1][0] < spans[-2][1]) == overlap
        assert overlap or [start for start, _ in spans] == starts


def test_hunks_are_written_as_diff_writes_them() -> None:
    doc = make_document("one\ntwo\nthree\n", 80)
    diffs = {
        ("two", "2"): "@@ -2 +2 @@\n-two\n+2",
        ("two\n", ""): "@@ -2 +1,0 @@\n-two",
        ("two", "two\n2.5"): "@@ -2,0 +3 @@\n+2.5",
        ("one\ntwo\n", "1\n"): "@@ -1,2 +1 @@\n-one\n-two\n+1",
    }
    for (old, new), diff in diffs.items():
        assert replace(doc, find(doc.text, old, "exact"), new, 80).diff == diff


@pytest.mark.parametrize(
    ("old", "found"),
    [
        ("Built\tx", ["Built\tx"]),  # exact wins, the looser one stays unseen
        ("Built y\nLed z", ["Built y   \n    Led z"]),  # indentation and trailing blanks
        ("  Built y  \n Led z ", ["Built y   \n    Led z"]),
        ("Built y Led z", ["Built y   \n    Led z"]),  # any white space
        ("Built x", ["Built  x", "Built\tx"]),
        ("builty", []),
        (" \n\n ", []),
        ("", []),
    ],
)
def test_fuzzy_cascade(old: str, found: list[str]) -> None:
    text = "- Built  x\nBuilt y   \n    Led z\nBuilt\tx\n"
    assert [text[start:stop] for start, stop in find(text, old, "fuzzy")] == found
    assert (old != "" and old in text) == bool(find(text, old, "exact"))


def test_fuzzy_keeps_the_margin_of_the_document() -> None:
    text = "  - Built x\n  - Led y\n"
    old, new = document.without_margin(text, "- Built  x\n\n", "- Cut x\n\n")
    assert (old, new) == ("- Built  x", "- Cut x")
    assert document.without_margin(text, "x\n", "y\n") == ("x\n", "y\n")


@pytest.mark.parametrize(
    ("text", "old"),
    [
        (lambda n: "a\n" + " \t" * n, lambda n: "a\n\n\n\n\nb"),
        (lambda n: "a" + " " * n + "b", lambda n: "a\nb c"),
        # beginnings of what is wanted, everywhere
        (lambda n: " a\n" * n, lambda n: "a\n" * (n // 2) + "b"),
        (lambda n: "a  " * n, lambda n: "a " * (n // 2) + "b"),
    ],
)
def test_fuzzy_is_linear(
    text: Callable[[int], str], old: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # an expression of all lines, made for the search, would begin anew at each line
    monkeypatch.setattr(document, "re", None)
    (found, once), (_, twice) = (lines_run(find, text(n), old(n), "fuzzy") for n in (500, 1000))
    assert found == []
    assert twice <= 2 * once


def test_page_shows_where_it_ends() -> None:
    text = "one\ntwo two two\nthree\n"
    assert page(make_document(text, 5), 5, 5) == text.rstrip()
    rows = page(make_document(text, 5), 4, 5).split("\n")
    assert rows == ["one", "two two two", document.overflow_delimiter(4), "three"]
    # a source line is not torn: it stands wholly behind the page's end
    rows = page(make_document(text, 5), 2, 5).split("\n")
    assert rows == ["one", document.overflow_delimiter(2), "two two two", "three"]
