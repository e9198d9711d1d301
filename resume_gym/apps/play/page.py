"""Widget that lists the document's lines, marks the end of the page and lets users pick text."""

import re
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate

from rich.text import Text
from textual import on
from textual.binding import Binding
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from resume_gym.episode.document import wrap
from resume_gym.episode.editing import Rules
from resume_gym.support.printing import visible

_MARKER = re.compile(r"^(#+|\s*[-*+])\s+")


def changed_lines(diff: str) -> frozenset[int]:
    """Return the indices, in the new text, of lines added by a unified diff without context."""
    lines: set[int] = set()
    for first, count in re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", diff, re.MULTILINE):
        lines.update(range(int(first) - 1, int(first) - 1 + int(count or 1)))
    return frozenset(lines)


class Page(OptionList):
    """List of the document's lines; Enter or a click sends the text of a line to the form."""

    DEFAULT_CSS = "Page { height: 100%; overflow-y: scroll; scrollbar-size-vertical: 1; }"
    BINDINGS = [  # noqa: RUF012
        Binding("enter,space", "select", "Take text"),
        Binding("delete", "take_line", "Take line"),
    ]

    class Picked(Message):
        """Message that the user has picked a text of the document to fill into the form."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    def __init__(self, rules: Rules, id: str) -> None:  # noqa: A002
        super().__init__(id=id, markup=False)
        self._rules = rules
        self._text = ""
        self._changed: frozenset[int] = frozenset()
        self._ends: list[int] = []  # for each line, number of page lines up to its end
        self._edge = 0  # number of lines before wrapping that fit on the page

    @property
    def lines(self) -> list[str]:
        """Lines of the document before wrapping; a final newline does not start another line."""
        return self._text.removesuffix("\n").split("\n")

    @property
    def line(self) -> int:
        """Index of the highlighted line in `lines`."""
        place = self.highlighted or 0
        return min(place - (place > self._edge), len(self.lines) - 1)

    def show(self, text: str, changed: frozenset[int] = frozenset()) -> None:
        """Display a document and scroll to the first of its changed lines."""
        self._text, self._changed = text, changed
        room, before = self._rules.page_lines, self.line
        self._ends = [*accumulate(len(wrap(line, self._rules.page_width)) for line in self.lines)]
        self._edge = bisect(self._ends, room)
        left = room - self._ends[-1]
        edge = f"{left} of {room} lines left" if left >= 0 else f"the page ends here: {room} lines"
        options = [Option(prompt) for prompt in self._prompts(())]
        options.insert(self._edge, Option(Text(f"──── {edge} ────"), disabled=True))
        self.set_options(options)
        self._choose(min(changed, default=before))

    def mark(self, spans: Sequence[tuple[int, int]]) -> None:
        """Highlight (start, end) spans of characters and scroll to the first span."""
        for line, prompt in enumerate(self._prompts(spans)):
            self.replace_option_prompt_at_index(line + (line >= self._edge), prompt)
        if spans:
            self._choose(self._text.count("\n", 0, spans[0][0]))

    def _choose(self, line: int) -> None:
        self.highlighted = line + (line >= self._edge)

    def _prompts(self, spans: Sequence[tuple[int, int]]) -> list[Text]:
        """Return the styled lines, each preceded by its line number on the wrapped page."""
        prompts, start, before = [], 0, 0
        for line, (source, end) in enumerate(zip(self.lines, self._ends, strict=True)):
            text = Text(visible(source), "bold" if source.startswith("#") else "")
            if line >= self._edge:
                text.stylize("red")
            elif line in self._changed:
                text.stylize("green")
            for first, stop in spans:
                if first <= start + len(source) and stop > start:
                    text.stylize("reverse", max(0, first - start), stop - start)
            prompts.append(Text.assemble((f"{before + 1:>4} ", "dim"), text))
            start, before = start + len(source) + 1, end
        return prompts

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        text = _MARKER.sub("", self.lines[self.line])
        if text:
            self.post_message(self.Picked(text))

    def action_take_line(self) -> None:
        """Pick a whole line, with list marker and line break, so that a deletion leaves no gap."""
        text, is_last = self.lines[self.line], self.line + 1 == len(self.lines)
        if not is_last or self._text.endswith("\n"):
            text = f"{text}\n"
        elif self.line:
            text = f"\n{text}"  # no line break follows the last line: pick the one before that line
        self.post_message(self.Picked(text))
