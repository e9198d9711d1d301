"""Convert Markdown, and HTML inside Markdown, to the environment's Markdown."""

import re
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from html import unescape
from html.entities import html5
from itertools import pairwise

from resume_gym.corpus.recognition import (
    RAISED,
    bullet_symbols,
    clean,
    is_dated,
    link,
    split_bullet,
)

Block = tuple[list[str], int]
"""Lines of Markdown, and the number of lines of the source file that these lines replace."""

_BREAKING = (
    "address|article|aside|blockquote|body|br|center|dd|details|div|dl|dt|figcaption|figure|footer|"
    "form|h1|h2|h3|h4|h5|h6|header|hr|html|li|main|nav|ol|p|pre|section|summary|table|tbody|td|"
    "tfoot|th|thead|tr|ul"
)
_INLINE = (
    "a|abbr|b|big|cite|code|del|em|font|i|img|ins|kbd|link|mark|meta|q|s|samp|small|span|strike|"
    "strong|sub|sup|time|title|tt|u|var|wbr"
)
_BREAKS = frozenset(_BREAKING.split("|"))
_HIDDEN = ("head", "noscript", "script", "style", "svg", "template")
_STRUCK = ("s", "strike", "del")
_CLOSED = ("p", "li", *_HIDDEN)  # elements that cannot contain an element of the same tag
_UNSEEN = re.compile(r"\shidden(?![\w-])", re.IGNORECASE)
_UNSEEN_STYLE = re.compile(
    r"\sstyle\s{0,9}=\s{0,9}[\"']?[^\"']*?"
    r"(?:display\s{0,9}:\s{0,9}none|visibility\s{0,9}:\s{0,9}hidden)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_TILDES = re.compile(r" ?(?<![~\\])~~(?![\s~])([^~]{1,2000})(?<!\s)~~(?!~)")
# Attributes other than these six need a value, so that "<hr manager>" is text, not a tag.
_ATTRIBUTE = (
    r"\s{1,99}(?:open|hidden|reversed|download|async|defer"
    r"|[a-z_:][\w.:-]{0,99}\s{0,9}=\s{0,9}(?:\"[^\"]{0,9999}\"|'[^']{0,9999}'|[^\s\"'=<>`]{1,9999}))"
)
_TAG = re.compile(
    rf"<(/?)({_BREAKING}|{_INLINE}|{'|'.join(_HIDDEN)})((?:{_ATTRIBUTE}){{0,30}})\s{{0,99}}/?>",
    re.IGNORECASE,
)
_VOID = ("img", "link", "meta", "wbr")
_CELL = re.compile(r"(?<!\\)\|")
_HREF = re.compile(r"href\s{0,9}=\s{0,9}[\"']?([^\"'\s]{1,2000})", re.IGNORECASE)
_CHARACTER = re.compile(r"&(#?\w{1,31};)")
_AUTOLINK = re.compile(r"<(?:mailto:)?((?:https?://|[^\s<>@:]{1,64}@)[^\s<>]{1,2000})>")
_PREFIX = re.compile(r"\s{0,20}(?:(?:[-*+>]|\d{1,2}[.)]|#{1,6})\s{1,20})?")
EMBEDDED = re.compile(r"data:[\w.+/-]{1,80};base64,[\w+/=%-]*")
"""Matches a data URL, which contains an embedded file in Base64."""
_PICTURE = re.compile(r"!\[[^\]]{0,200}\]\(<?data:[^()]{0,200}\)")
_REFERENCE = re.compile(r"!?\[([^\]]{0,200})\]\[([^\]]{0,200})\]")
_DATA = re.compile(r"\s{0,3}\[([^\]]{1,200})\]:\s{0,9}<?data:")
_ATTRIBUTES = re.compile(r"(?<=\S)\s*\{[#.:][^{}]{1,200}\}\s*$")  # of a heading: "{#experience}"
# Escapes at the start of a line, or of "*", "`", "[" or "<", are kept: they change the meaning.
_ESCAPE = re.compile(r"(?<=[^\s\\])(\s*)\\([!\"#$%&'()+,./:;=>?@\]^{|}~-]|(?<=\w\\)_(?=\w))")
_KEY = re.compile(r"([\w-]{1,40}):(?:\s|$)")
_VALUE = re.compile(r"\s|- |#(?!#)|[\[\]{}\"']")  # a line of front matter that continues a value


class _Reader:
    """Converts HTML to rows, each a Markdown marker and a text, such as ("- ", "Led a team")."""

    def __init__(self, notes: Counter[str]) -> None:
        self.rows: list[tuple[str, str]] = []
        self._notes = notes
        self._text: list[str] = []
        self._marker = self._hidden = self._unseen = ""
        self._depth = self._cells = self._kept = self._nested = 0
        self._link: tuple[str, int] | None = None

    def start(self, tag: str, attributes: str) -> None:
        if tag in _HIDDEN:
            self._hide(tag, "")
            self._notes[f"<{tag}>"] += 1
        elif tag == "img":
            self._notes["pictures"] += 1
        elif tag == "a":
            address = _HREF.search(attributes)
            self._link = _unescaped(address[1]) if address else "", len(self._text)
        elif tag in ("td", "th"):
            self._text.append(" | " if self._cells or "".join(self._text).strip() else "")
            self._cells += 1
        elif tag in _BREAKS:
            self.end_row()
            self._depth += tag in ("ul", "ol")
            self._kept += tag == "pre"
            if tag == "li":
                self._marker = "  " * max(0, self._depth - 1) + "- "
            elif tag[1:].isdigit():
                self._marker = "#" * int(tag[1]) + " "

    def _hide(self, tag: str, what: str) -> None:
        """Leave out an element; unless `what` is empty, count its characters as `what`."""
        self._hidden, self._unseen, self._nested = tag, what, 1

    def _skip(self, text: str, tag: str, closing: str) -> None:
        """Leave out a text in a hidden element, and the tag after it."""
        if self._unseen:
            self._notes[self._unseen] += len(text.strip())
        if tag == self._hidden:
            self._nested += -1 if closing else tag not in _CLOSED
            self._hidden = self._hidden if self._nested else ""

    def end(self, tag: str) -> None:
        if tag == "a" and self._link:
            address, start = self._link
            self._text[start:] = [link("".join(self._text[start:]), address)]
            self._link = None
        elif tag in _BREAKS and tag not in ("td", "th"):
            self.end_row()
            self._kept = max(0, self._kept - (tag == "pre"))
            self._depth = max(0, self._depth - (tag in ("ul", "ol")))
            # Text after "</p>" in a list item belongs to the item, but text after "</li>" does not.
            self._marker = self._marker if tag == "p" else ""

    def data(self, text: str) -> None:
        first, *others = _unescaped(text).split("\n") if self._kept else [_unescaped(text)]
        self._text.append(first)
        for line in others:
            self.end_row()
            self._text.append(line)

    def end_row(self) -> None:
        """End the current row; add it to `rows` if it has any text."""
        if text := " ".join("".join(self._text).split()).rstrip("| "):
            if self._kept and (bullet := split_bullet(text))[0]:
                self._marker, text = "- ", bullet[1]
            self.rows.append((self._marker, text))
            self._marker = ""
        self._text = []
        self._cells = 0
        self._link = None

    def read(self, text: str) -> None:
        at = 0
        tags = [*_TAG.finditer(text)]
        ends = {match[2].lower(): match.start() for match in tags if match[1]}
        for match in tags:
            closing, tag = match[1], match[2].lower()
            if self._hidden:
                self._skip(text[at : match.start()], tag, closing)
                at = match.end()
                continue
            # A tag that is never closed counts as text: "vector<a>", "parser for <script> tags".
            lone = not closing and ends.get(tag, -1) < match.start()
            if lone and not (tag in _BREAKS or tag in _VOID or (match[3] and tag not in _HIDDEN)):
                continue
            self.data(text[at : match.start()])
            at = match.end()
            if closing:
                self.end(tag)
            elif not lone and (tag in _STRUCK or _is_unseen(match[3])):
                what = "struck-through" if tag in _STRUCK else "hidden"
                self._hide(tag, f"{what} characters")
            else:
                self.start(tag, match[3])
            if tag == "sup" and not closing and RAISED.match(text, at):
                self.data("^")
        if not self._hidden:
            self.data(text[at:])
        self.end_row()


def _is_unseen(attributes: str) -> bool:
    """Return whether the attributes of an element hide it."""
    found = _UNSEEN.search(_QUOTED.sub("", attributes)) or _UNSEEN_STYLE.search(attributes)
    return found is not None


def _unescaped(text: str) -> str:
    """Decode HTML character references; keep each "&" that does not start a reference."""
    return _CHARACTER.sub(
        lambda hit: clean(unescape(hit[0])) if hit[1] in html5 or hit[1][0] == "#" else hit[0], text
    )


def read_html(text: str, notes: Counter[str]) -> list[tuple[str, str]]:
    """Convert a text with HTML to rows, each a Markdown marker (empty for prose) and a text.

    A "<" or "&" that starts no tag or character reference is kept as text. The numbers of omitted
    elements are added to `notes`.
    """
    first, *others = text.split("<!--")
    pieces = [first]
    for piece in others:
        _, closed, rest = piece.partition("-->")
        notes["comments"] += bool(closed)
        pieces.append(rest if closed else "<!--" + piece)
    reader = _Reader(notes)
    reader.read(_AUTOLINK.sub(r"\1", "".join(pieces)))
    return reader.rows


def has_html(text: str) -> bool:
    """Return whether a text has HTML tags, comments, character references or autolinks."""
    return "<!--" in text or any(way.search(text) for way in (_TAG, _CHARACTER, _AUTOLINK))


def read_markdown(text: str) -> tuple[list[Block], list[str]]:
    """Return the blocks of a Markdown text, and notes on omitted or changed content.

    Underlined headings, HTML, tables and Unicode bullets are converted. Front matter, and
    backslashes at line ends, are dropped.
    """
    from markdown_it import MarkdownIt

    lines = text.split("\n")
    front, keys = front_matter(lines)
    notes: Counter[str] = Counter()
    body = _without_data(lines[front:], notes)
    symbols = bullet_symbols(line.lstrip() for line in body)
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    tokens = parser.parse("\n".join(body))
    blocks: list[Block] = [([], front)] if front else []
    done = tables = 0

    for token in tokens:
        if not token.map or token.map[0] < done:
            continue
        start, stop = token.map
        while stop > start and not body[stop - 1].strip():  # leave out blank lines below the block
            stop -= 1
        if token.type == "heading_open" and token.markup in ("=", "-") and stop - start == 2:
            line = "#" * int(token.tag[1]) + " " + body[start].strip()
            made = [(_line(line, symbols, notes)[0], 2)]
        elif token.type == "html_block" and not token.level:
            if not any(body[stop:]) and not body[stop - 1].rstrip().endswith(">"):
                continue  # most likely an unclosed comment, which would include all lines below it
            made = [(laid_out(read_html(token.content, notes)), stop - start)]
        elif token.type == "table_open" and not token.level:
            rows = [_cells(row, notes) for row in (body[start], *body[start + 2 : stop])]
            made = [(laid_out([_row(row) for row in rows if any(row)]), stop - start)]
            tables += 1
        elif token.type == "fence":
            made = [([line], 1) for line in body[start:stop]]
        else:
            continue
        blocks += [*(_line(line, symbols, notes) for line in body[done:start]), *made]
        done = stop
    blocks += [_line(line, symbols, notes) for line in body[done:]]
    known = [f"front matter left out: {', '.join(keys)}"] if front else []
    known += [f"tables converted to lines of text: {tables}"] if tables else []
    return blocks, known + told(notes)


def told(left: Counter[str]) -> list[str]:
    """Return a note on each kind of omitted content, with the number of omissions."""
    return [f"{what} left out: {count}" for what, count in (+left).items()]


def front_matter(lines: Sequence[str]) -> tuple[int, list[str]]:
    """Return the number of lines of a text's YAML or TOML front matter, and the keys in it."""
    mark = lines[0].rstrip()
    if mark not in ("---", "+++"):
        return 0, []
    ends = {mark, "..."} if mark == "---" else {mark}
    stop = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in ends), 0)
    inside = lines[1:stop]
    pattern = _KEY if mark == "---" else re.compile(r"([\w-]{1,40})\s?=")
    keys = [match[1] for line in inside if (match := pattern.match(line))]
    first = next((line for line in inside if line.strip() and line[0] != "#"), "")
    # Text with a heading, a paragraph, or a list that follows a blank line is no front matter.
    content = any(
        line.strip() and not pattern.match(line) and not (above.strip() and _VALUE.match(line))
        for above, line in pairwise(lines[:stop])
    )
    return (stop + 1, keys) if stop and pattern.match(first) and not content else (0, [])


def _without_data(lines: Sequence[str], notes: Counter[str]) -> list[str]:
    """Return the lines without embedded pictures, which are counted in `notes`."""
    defined = {match[1].lower() for line in lines if (match := _DATA.match(line))}
    notes["pictures"] += len(defined)

    def refer(match: re.Match[str]) -> str:
        return "" if (match[2] or match[1]).lower() in defined else match[0]

    kept = []
    for line in lines:
        text, count = _PICTURE.subn("", line)
        notes["pictures"] += count
        kept.append("" if _DATA.match(line) else _REFERENCE.sub(refer, text))
    return kept


def _line(line: str, symbols: AbstractSet[str], notes: Counter[str]) -> Block:
    """Return the block of one line, with its HTML and its list marker converted to Markdown."""
    line = line.removesuffix("\\")  # a backslash at the end of a line is a line break
    if line[:1] == "#":
        line, count = _ATTRIBUTES.subn("", line)
        notes["heading ids"] += count
    whole, line = line, _unstruck(line, notes)
    if line != whole and not line.strip("-*+># "):
        return [], 1
    if has_html(line):
        prefix = _PREFIX.match(line)
        mark = prefix[0] if prefix else ""
        # Text in code spans stays as it is, even if it looks like HTML.
        pieces = line[len(mark) :].split("`")
        if len(pieces) % 2:
            code = (one.replace("&", "&amp;").replace("<", "&lt;") for one in pieces[1::2])
            pieces[1::2] = code
        rows = [text for _, text in read_html("`".join(pieces), notes)]
        if mark.strip():
            rows = [" ".join(rows)] if rows else []
        return [mark + _unescaped_marks(text) for text in rows], 1
    body = line.lstrip()
    marker, text = split_bullet(body, symbols)
    if marker == "-" and body[0] not in "-*+•‣◦–—":  # the module `text.lines` knows these
        line = f"{line[: len(line) - len(body)]}- {text}"
    return [_unescaped_marks(line)], 1


def _unstruck(line: str, notes: Counter[str]) -> str:
    """Remove struck-through text ("~~text~~") from a line, except in code spans."""

    def cut(hit: re.Match[str]) -> str:
        notes["struck-through characters"] += len(hit[1])
        return ""

    pieces = line.split("`")
    pieces[::2] = [_TILDES.sub(cut, piece) for piece in pieces[::2]]
    return "`".join(pieces)


def _unescaped_marks(line: str) -> str:
    """Remove the backslashes before punctuation that needs none, except in code spans."""
    prefix = _PREFIX.match(line)
    start = prefix.end() if prefix else 0
    pieces = line[start:].split("`")
    pieces[::2] = [_ESCAPE.sub(r"\1\2", piece) for piece in pieces[::2]]
    return line[:start] + "`".join(pieces)


def _cells(line: str, notes: Counter[str]) -> list[str]:
    """Return the cells of a table row; a blank cell is an empty string."""
    pieces = _CELL.split(line.strip().removeprefix("|"))
    if len(pieces) > 1 and not pieces[-1].strip():
        pieces.pop()
    texts = (" ".join(text for _, text in read_html(piece, notes)) for piece in pieces)
    return [_unescaped_marks(text).replace("\\|", "|") for text in texts]


def _row(cells: Sequence[str]) -> tuple[str, str]:
    """Join a table row to (marker, text): ("- ", "label: value") or ("", "cell | cell | cell")."""
    if len(cells) == 2 and not any(map(is_dated, cells)):
        return "- ", ": ".join(filter(None, (cells[0].rstrip(":"), cells[1])))
    return ("" if any(cells[1:]) else "- "), " | ".join(cells).lstrip().rstrip(" |")


def laid_out(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return (marker, text) rows as lines, with blank lines between rows except in lists."""
    lines: list[str] = []
    for number, (marker, text) in enumerate(rows):
        above = rows[number - 1][0] if number else marker
        if number and not (marker.lstrip()[:1] == above.lstrip()[:1] == "-"):
            lines.append("")
        lines.append(marker + text)
    return lines
