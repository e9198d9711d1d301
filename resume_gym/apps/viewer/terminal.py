"""Terminal viewer: a table of episodes by reward, and a screen that shows one episode."""

import json
import math
from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container, VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from resume_gym.apps.viewer.data import FolderContents, UnreadableError, unreadable
from resume_gym.episode.document import overflow_delimiter
from resume_gym.episode.render import REPLY_STYLES
from resume_gym.support.printing import visible
from resume_gym.support.user_errors import number_of

_RESULTS = {"edit": "edited", "shown": "document shown", "submit": "submitted"}
_LONG = 300  # a reply that shows a document is left out if it has more characters


class EpisodeBrowser(App[None]):
    """Textual app: a table of episodes, highest reward first; Enter opens the selected episode.

    Args:
        results: contents of the folder whose episodes are shown.

    Raises:
        TaskError: the metrics or summaries of the folder are invalid.
    """

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    .heading { max-height: 8; padding: 0 1; background: $panel; }
    DataTable, VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }
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
        """Yield the heading with notes on the folder, the table and the footer."""
        count = number_of(len(self.order), "episode")
        told = f"{count} of {self.results.path}, sorted by reward; Enter opens an episode"
        yield Static(_shown("\n".join([told, *self._notes])), classes="heading")
        yield DataTable[Text](cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        """Fill the table with a row per episode."""
        table = self.query_one(DataTable)
        table.add_columns("task", "step" if self.results.is_run else "agent", "reward", "flags")
        for number in self.order:
            row = self.results.rows[number]
            who = row.agent if row.step is None else row.step
            cells = row.task, who, _signed(row.reward), ", ".join(row.flags)
            table.add_row(*(_shown(str(cell).replace("\n", "␊")) for cell in cells))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the episode of the selected row."""
        self.push_screen(_EpisodeScreen(self.results, self.order, event.data_table))


class _EpisodeScreen(Screen[None]):
    """Screen that shows the turns, grades and final document of the episode at the cursor."""

    BINDINGS = [  # noqa: RUF012
        Binding("n", "go(1)", "Next"),
        Binding("p", "go(-1)", "Previous"),
        Binding("escape", "dismiss", "Back"),
    ]

    def __init__(self, results: FolderContents, order: list[int], table: DataTable[Text]) -> None:
        super().__init__()
        self._results, self._order, self._table = results, order, table

    def compose(self) -> ComposeResult:
        yield Static(id="outcome", classes="heading")
        with VerticalScroll(), Container(id="parts"):
            yield Static(id="turns")
            yield Static(id="grades")
        yield Footer()

    def on_mount(self) -> None:
        self.action_go(0)

    def action_go(self, by: int) -> None:
        """Move the cursor by `by` rows, but not past the table's ends, and show that episode."""
        self._table.move_cursor(row=self._table.cursor_row + by)
        place = self._table.cursor_row
        row = self._results.rows[self._order[place]]
        who = row.agent if row.step is None else f"step {row.step}"
        facts = f"{place + 1}/{len(self._order)}", row.task, row.weakness, who, row.outcome
        total = f"reward {_signed(row.reward)}"
        heading = "  ".join(filter(None, (*facts, total, ", ".join(row.flags))))
        try:
            with unreadable():
                detail = self._results.episode(self._order[place])
                turns, grades = _turns(detail), _grades(detail)
        except (UnreadableError, OSError) as problem:
            turns, grades = _shown(f"This episode cannot be read: {problem}", "red"), Table.grid()
        self.query_one("#outcome", Static).update(_shown(heading, "bold"))
        self.query_one("#turns", Static).update(turns)
        self.query_one("#grades", Static).update(grades)
        self.query_one(VerticalScroll).scroll_home(animate=False)


def _shown(value: object, style: str = "") -> Text:
    return Text(visible(str(value)), style)


def _signed(value: float | None) -> str:
    return "none" if value is None else f"{value:+.2f}"


def _amount(value: float, form: str = "+.2f") -> Text:
    return Text(format(value, form), "green" if value > 0 else "red" if value < 0 else "dim")


def _named(values: Mapping[str, object]) -> list[Text]:
    told = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    return [_shown(f"{name}: {value}", "dim") for name, value in told.items()]


def _turns(detail: Mapping[str, Any]) -> Text:
    """Return an episode's notes, and the tool, result, reward, arguments and reply of each turn."""
    rows = [_shown(note, "yellow") for note in (*detail["notes"], detail["failure"]) if note]
    for place, turn in enumerate(detail["turns"], 1):
        kind, reply, earned = turn["kind"], turn["reply"], turn["reward"]
        name = turn["tool"] or ("action" if kind == "text" else "no readable call")
        result = f"failed: {turn['error']}" if kind == "error" else _RESULTS.get(kind, "")
        head = _shown(f"{place}. {name} ", "bold"), _shown(f"{result} ", "dim")
        rows.append(Text.assemble(*head, "" if earned is None else _amount(earned)))
        said = turn["said"] if turn["tool"] else turn["action"]
        rows += [*([_shown(said, "italic")] if said else []), *_named(turn["arguments"])]
        if kind in ("edit", "error"):
            rows += [_shown(line, REPLY_STYLES.get(line[:1], "dim")) for line in reply.split("\n")]
        elif kind == "text" or (kind == "shown" and len(reply) <= _LONG):
            rows.append(_shown(reply))
        rows.append(_shown(f"{turn['status']}\n", "dim"))
    return Text("\n").join(rows)


def _grades(detail: Mapping[str, Any]) -> Table:
    """Return a table of the reward terms, the verdict with its reasons, and the final document."""
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_row("", Text("ledger", "bold"))
    for term in detail["ledger"]:
        if term["value"]:
            table.add_row(_amount(term["value"]), _shown(term["term"]))
    total = _signed(detail["reward"] if detail["graded"] else None)
    table.add_row(Text(total, "bold"), Text("reward" if detail["graded"] else "not graded"))
    verdict = detail["verdict"] or {"fields": [], "other": {}}
    table.add_row("", Text("\nverdict" if detail["verdict"] else "\nno verdict", "bold"))
    for field in verdict["fields"]:
        reason = _shown(f"  {field.get('reasons', '')}", "dim")
        table.add_row(_amount(field["value"], "+g"), Text.assemble(_shown(field["field"]), reason))
    for line in _named(verdict["other"]):
        table.add_row("", line)
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
