"""Terminal browser: a table of episodes by reward, and each episode turn by turn."""

import json
import math
from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container, VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from resume_gym.apps.viewer.data import FolderContents, UnreadableError, unreadable
from resume_gym.document import overflow_delimiter
from resume_gym.render import REPLY_STYLES, visible

_RESULTS = {"edit": "edited", "shown": "document shown", "submit": "submitted"}
_LONG = 300  # characters of a shown document beyond which it is left out


class EpisodeBrowser(App[None]):
    """Table of episodes, highest reward first; Enter opens an episode.

    Args:
        results: folder whose episodes are read.

    Raises:
        TaskError: the figures of the folder are invalid.
    """

    TITLE = "Resume Gym"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    .heading { padding: 0 1; background: $panel; }
    DataTable { height: 1fr; }
    DataTable, VerticalScroll { scrollbar-size-vertical: 1; }
    #parts { height: auto; layout: horizontal; }
    #parts Static { width: 1fr; height: auto; padding: 0 1; }
    .-narrow #parts { layout: vertical; }
    """
    BINDINGS = [Binding("q", "quit", "Quit")]  # noqa: RUF012

    def __init__(self, results: FolderContents) -> None:
        super().__init__()
        self.results = results
        rewards = [-math.inf if row.reward is None else row.reward for row in results.rows]
        self.order = sorted(range(len(rewards)), key=rewards.__getitem__, reverse=True)
        self._notes: list[str] = results.index()["notes"]

    def compose(self) -> ComposeResult:
        """Yield the heading with notes on the folder, and the table."""
        told = f"{len(self.order)} episodes of {self.results.path}, by reward; Enter opens one"
        yield Static(_shown("\n".join([told, *self._notes])), classes="heading")
        yield DataTable(cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        """Fill the table."""
        table = self.query_one(DataTable)
        table.add_columns("task", "step" if self.results.is_run else "agent", "reward", "flags")
        for number in self.order:
            row = self.results.rows[number]
            who = row.agent if row.step is None else row.step
            flags = ", ".join(row.flags)
            table.add_row(*map(_cell, (row.task, who, _signed(row.reward), flags)))

    @on(DataTable.RowSelected)
    def _selected(self, event: DataTable.RowSelected) -> None:
        screen = EpisodeScreen(self.results, self.order, event.cursor_row)
        self.push_screen(screen, lambda place: event.data_table.move_cursor(row=place))


class EpisodeScreen(Screen[int]):
    """Episode beside its grades and final document; returns the place of the last one shown.

    Args:
        results: folder of the episode.
        order: numbers of the episodes in the order of the table.
        place: index into `order`.
    """

    BINDINGS = [  # noqa: RUF012
        Binding("n", "go(1)", "Next"),
        Binding("p", "go(-1)", "Previous"),
        Binding("escape", "back", "Back"),
    ]

    def __init__(self, results: FolderContents, order: list[int], place: int) -> None:
        super().__init__()
        self._results, self._order, self._place = results, order, place

    def compose(self) -> ComposeResult:
        """Yield the heading, the turns, and the grades with the document."""
        yield Static(id="outcome", classes="heading")
        with VerticalScroll(), Container(id="parts"):
            yield Static(id="turns")
            yield Static(id="grades")
        yield Footer()

    def on_mount(self) -> None:
        """Show the episode."""
        self.action_go(0)

    def action_go(self, by: int) -> None:
        """Show the episode that many places further, if there is one."""
        if not 0 <= self._place + by < len(self._order):
            return
        self._place += by
        number = self._order[self._place]
        row = self._results.rows[number]
        who = row.agent if row.step is None else f"step {row.step}"
        facts = (f"{self._place + 1}/{len(self._order)}", row.task, row.weakness, who)
        outcome = (row.outcome, f"reward {_signed(row.reward)}", ", ".join(row.flags))
        heading = "  ".join(filter(None, (*facts, *outcome)))
        try:
            with unreadable():
                detail = self._results.episode(number)
                turns, grades = _turns(detail), _grades(detail)
        except (UnreadableError, OSError) as problem:
            turns, grades = _shown(f"This episode cannot be read: {problem}", "red"), Table.grid()
        self.query_one("#outcome", Static).update(_shown(heading, "bold"))
        self.query_one("#turns", Static).update(turns)
        self.query_one("#grades", Static).update(grades)
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_back(self) -> None:
        """Return to the table."""
        self.dismiss(self._place)


def _shown(value: object, style: str = "") -> Text:
    return Text(visible(str(value)), style)


def _cell(value: object) -> Text:
    return _shown(str(value).replace("\n", "␊"))


def _signed(value: float | None) -> str:
    return "none" if value is None else f"{value:+.2f}"


def _tone(value: float) -> str:
    return "green" if value > 0 else "red" if value < 0 else "dim"


def _turns(detail: Mapping[str, Any]) -> Text:
    """Return notes and turns: tool, result, reward, arguments, and the reply or its diff."""
    rows = [_shown(note, "yellow") for note in (*detail["notes"], detail["failure"]) if note]
    for place, turn in enumerate(detail["turns"], 1):
        kind, reply, earned = turn["kind"], turn["reply"], turn["reward"]
        name = turn["tool"] or ("action" if kind == "text" else "no readable call")
        result = f"failed: {turn['error']}" if kind == "error" else _RESULTS.get(kind, "")
        amount = _shown("" if earned is None else _signed(earned), _tone(earned or 0))
        head = _shown(f"{place}. {name} ", "bold"), _shown(f"{result} ", "dim"), amount
        rows.append(Text.assemble(*head))
        said = turn["said"] if turn["tool"] else turn["action"]
        rows += [_shown(said, "italic")] if said else []
        for argument, value in turn["arguments"].items():
            rows.append(_shown(f"{argument}: {json.dumps(value, ensure_ascii=False)}", "dim"))
        if kind in ("edit", "error"):
            rows += [_shown(line, REPLY_STYLES.get(line[:1], "dim")) for line in reply.split("\n")]
        elif kind == "text" or (kind == "shown" and len(reply) <= _LONG):
            rows.append(_shown(reply))
        rows.append(_shown(f"{turn['status']}\n", "dim"))
    return Text("\n").join(rows)


def _grades(detail: Mapping[str, Any]) -> Table:
    """Return the reward terms, the verdict with its reasons and the final document."""
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_row("", Text("ledger", "bold"))
    for term in detail["ledger"]:
        if value := term["value"]:
            table.add_row(_shown(_signed(value), _tone(value)), _shown(term["term"]))
    total = _signed(detail["reward"]) if detail["graded"] else "none"
    table.add_row(Text(total, "bold"), Text("reward" if detail["graded"] else "not graded"))
    verdict = detail["verdict"] or {"fields": [], "other": {}}
    table.add_row("", Text("\nverdict" if detail["verdict"] else "\nno verdict", "bold"))
    for field in verdict["fields"]:
        value, reason = field["value"], _shown(f"  {field.get('reasons', '')}", "dim")
        name = Text.assemble(_shown(field["field"]), reason)
        table.add_row(_shown(f"{value:+g}" if value else "0", _tone(value)), name)
    for name, value in verdict["other"].items():
        table.add_row("", _shown(f"{name}: {json.dumps(value, ensure_ascii=False)}"))
    table.add_row("", Text("\nfinal document (new lines in green)", "bold"))
    documents, limit = detail["documents"], detail["rules"].get("page_lines", math.inf)
    if not documents["after"]:
        table.add_row("", _shown(detail["text"]))
        return table
    first, last = documents["after"][0], documents["after"][-1]
    lines, wrapped = documents["lines"], documents["wrapped"]
    page = [(row, line) for line in last for row in wrapped.get(line, [lines[line]])]
    for number, (row, line) in enumerate(page, 1):
        if number == limit + 1:
            table.add_row("", Text(overflow_delimiter(limit), "bold red"))
        style = "red" if number > limit else "" if line in first else "green"
        table.add_row(Text(str(number), "dim"), _shown(row, style))
    return table
