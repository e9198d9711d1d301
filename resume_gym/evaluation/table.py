"""Tables of results, one column per agent: for the terminal (`table`) or in Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from resume_gym.evaluation.comparison import Comparison, Interval, Statistics
from resume_gym.evaluation.summary import BEHAVIOUR, FIGURES, REWARDS, Figure, Returns, Summary
from resume_gym.llm import Usage
from resume_gym.support.printing import amount

_NONE = "-"
_ITEMS = 20  # maximum number of rubric items shown; evaluation.json has all items
_FIGURE = 6  # characters of the widest figure: -12.34
LABELS, COLUMN = 33, _FIGURE + 3
"""Width of the labels, and minimum width of an agent's column, in characters."""


class TableSection(NamedTuple):
    """A section of the table: its title, and its rows (lists of cells) by their labels."""

    title: str
    rows: Mapping[str, Sequence[str]]


def sections(
    summaries: Mapping[str, Summary] | Mapping[str, Returns],
    statistics: Mapping[str, Statistics] | None = None,
    spent: Mapping[str, Mapping[str, Usage]] | None = None,
    details: bool = False,
    floor: bool = True,
    errors: bool = False,
) -> list[TableSection]:
    """Return the sections of the table; a plain `Returns` fills fewer rows than a `Summary`.

    Args:
        summaries: one summary per column, by the column's heading.
        statistics: statistics over tasks, by the column's heading.
        spent: usage of the models, by the column's heading; see `Entry.spent`.
        details: whether to include the rows of `_DETAILS` and the section "Over tasks".
        floor: whether to include the row with `Statistics.floor`, if it is known.
        errors: whether cells also show the error of a mean (`Returns.errors`): "1.00 ± 0.20".
    """
    columns = tuple(summaries.values())
    weaknesses = {name for column in columns for name in getattr(column, "by_weakness", ())}
    fields = dict.fromkeys(name for column in columns for name in getattr(column, "verdict", ()))
    items = dict.fromkeys(name for column in columns for name in getattr(column, "items", ()))
    tasks_by_k = [getattr(column, "tasks_by_best_of", {}) for column in columns]
    ks = dict.fromkeys(k for tasks in tasks_by_k for k in tasks)
    spread = [statistics[name] for name in summaries] if statistics is not None else []
    cells = {
        "Reward": _figures(REWARDS, columns, errors),
        "Over tasks": _known(_cells(_OVER_TASKS, spread)),
        "Mean reward by weakness": _entries("by_weakness", sorted(weaknesses), columns, errors),
        "Judge, mean of each field": _entries("verdict", fields, columns),
        "Rubric items, mean of each": _entries("items", list(items)[:_ITEMS], columns),
        "Behaviour": _figures(BEHAVIOUR, columns, errors),
        "Episodes": _cells(_EPISODES, columns),
    }
    cells["Reward"] |= _cells(_SPREAD, columns)
    best = _entries("best_of", ks, columns, errors)
    cells["Reward"] |= {f"best of {k}": row for k, row in best.items()}
    if floor:
        cells["Reward"] |= _known(_cells(_FLOOR, spread))
    if any(column.failed for column in spread):
        cells["Episodes"]["without a reward"] = [str(column.failed) for column in spread]
    hidden = set() if details else {*_DETAILS}
    counts = [*zip(columns, spread, strict=False)]
    if any(column.tasks < over.of_tasks for column, over in counts):
        of = (tasks_of(column.tasks, over.of_tasks) for column, over in counts)
        cells["Episodes"]["tasks"] = [*of]
        hidden.discard("tasks")
    for k in ks:
        pairs = [(own[k], over.of_tasks) for own, over in zip(tasks_by_k, spread, strict=False)]
        if any(tasks < of for tasks, of in pairs):
            cells["Episodes"][f"tasks, best of {k}"] = [tasks_of(*pair) for pair in pairs]
    if len({column.tasks for column in columns}) > 1:
        hidden.discard("tasks")
    if not details:
        cells["Over tasks"] = {}
        for rows in cells.values():
            for label in hidden & rows.keys():
                del rows[label]
    cells["Models asked by this command"] = _spent(
        [(spent or {}).get(name, {}) for name in summaries]
    )
    return [TableSection(title, rows) for title, rows in cells.items() if rows]


def table(
    summaries: Mapping[str, Summary] | Mapping[str, Returns],
    statistics: Mapping[str, Statistics] | None = None,
    spent: Mapping[str, Mapping[str, Usage]] | None = None,
    details: bool = False,
    floor: bool = True,
) -> Table:
    """Make the terminal table, with one column per summary; see `sections` for the arguments."""
    grid = _grid()
    # on a narrow terminal only the agents' names wrap
    grid.add_column(no_wrap=True)
    for name in summaries:
        grid.add_column(Text(name), justify="right", overflow="fold", min_width=_FIGURE)
    for title, rows in sections(summaries, statistics, spent, details, floor):
        grid.add_row(title, style="bold")
        for label, cells in rows.items():
            grid.add_row(f"  {label}", *cells)
        grid.add_row()
    return grid


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Make the terminal table of paired reward differences."""
    grid = _grid(2)
    for name in _COMPARED:
        pair = name == _COMPARED[0]
        side: JustifyMethod = "left" if pair else "right"
        grid.add_column(name, justify=side, overflow="fold", no_wrap=not pair)
    for cells in map(_compared, comparisons):
        grid.add_row(*map(Text, cells))
    return grid


def differences_table(comparison: Comparison) -> Table:
    """Make the terminal table of two agents' differences in the reward and each verdict field."""
    grid = _grid(2)
    grid.add_column(Text(_pair(comparison)), overflow="fold")
    for name in _COMPARED[1:4]:
        grid.add_column(name, justify="right", no_wrap=True)
    for name, one in comparison.figures.items():
        if name == "reward" or name.startswith("verdict_"):
            label = name.removeprefix("verdict_")
            grid.add_row(label, f"{one.mean:+z.2f}", _interval(one.interval), _p(one.p))
    return grid


def markdown(
    summaries: Mapping[str, Summary],
    statistics: Mapping[str, Statistics],
    comparisons: Sequence[Comparison] = (),
    spent: Mapping[str, Mapping[str, Usage]] | None = None,
    details: bool = False,
    floor: bool = True,
) -> str:
    """Return tables of results and comparisons in GitHub Markdown; see `sections` for arguments."""
    lines = [_line(["", *summaries]), _line(["---", *["---:"] * len(summaries)])]
    for title, rows in sections(summaries, statistics, spent, details, floor):
        lines.append(_line([f"**{title}**", *[""] * len(summaries)]))
        lines += [_line([label, *cells]) for label, cells in rows.items()]
    if comparisons:
        rule = ["---", *["---:"] * (len(_COMPARED) - 1)]
        lines += ["", _line(_COMPARED), _line(rule), *map(_line, map(_compared, comparisons))]
        lines += ["", comparisons[0].method]
    return "\n".join(lines) + "\n"


def _grid(gap: int = 3) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold cyan")


def _line(cells: Sequence[str]) -> str:
    # "|" in a name would end the cell; chr(92) is the backslash, which Python 3.11 does not
    # allow inside an f-string expression
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


_COMPARED = ("Mean reward", "difference", "95 % interval", "p", "p (Holm)", "won/tied/lost")


def _compared(comparison: Comparison) -> list[str]:
    reward = comparison.figures["reward"]
    # the format option z prints -0.00 as 0.00
    return [
        _pair(comparison),
        f"{reward.mean:+z.2f}",
        _interval(reward.interval),
        _p(reward.p),
        _p(reward.p_holm),
        f"{comparison.wins}/{comparison.ties}/{comparison.losses}",
    ]


def _pair(comparison: Comparison) -> str:
    """Return the names of the agents, and the number of tasks if they do not share all tasks."""
    names = f"{comparison.second} - {comparison.first}"
    if comparison.tasks == comparison.of_tasks:
        return names
    return f"{names}, on {tasks_of(comparison.tasks, comparison.of_tasks)} tasks"


def tasks_of(tasks: int, of_tasks: int) -> str:
    """Return `tasks` as text; if it is less than `of_tasks`, in the form "1 of 4"."""
    return str(tasks) if tasks == of_tasks else f"{tasks} of {of_tasks}"


def _interval(interval: Interval | None) -> str:
    return f"{interval[0]:z.2f} to {interval[1]:z.2f}" if interval else _NONE


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


# rows that are not in `FIGURES`: label, and format of a cell
_SPREAD = {"standard deviation": "{.reward_sd:z.2f}"}
_FLOOR = {"floor (swapped words)": "{.floor:.2f}"}
_EPISODES = {
    "played": "{.episodes}",
    "tasks": "{.tasks}",
    "unchanged, not judged": "{.unjudged}",
}
_OVER_TASKS = {
    "mean reward, at least": "{.interval[0]:z.2f}",
    "mean reward, at most (95 %)": "{.interval[1]:z.2f}",
    "sd within a task": "{.within_sd:z.2f}",
    "sd between tasks": "{.between_sd:z.2f}",
}
_DETAILS = {
    *("standard deviation", "tasks", "unchanged, not judged"),
    *(figure.label for figure in FIGURES.values() if figure.details),
}
"""Rows that are printed only with `details`, as is the section "Over tasks"."""


def _spent(columns: Sequence[Mapping[str, Usage]]) -> dict[str, list[str]]:
    """Return rows with the tokens and cost of agents, of tiered agents' models, and of judges."""
    rows = {}
    for who in ("agent", "episode", "local", "frontier", "judge"):
        usages = [column.get(who) for column in columns]
        label, digits = ("agent, {} an episode", 4) if who == "episode" else (f"{who}, {{}}", 2)
        rows[label.format("tokens")] = [_tokens(one) for one in usages]
        rows[label.format("dollars")] = [
            _NONE if one is None or one.dollars is None else amount(one.dollars, digits)
            for one in usages
        ]
    shares = (
        one["frontier"].answers / max(1, one["agent"].answers) if "frontier" in one else None
        for one in columns
    )
    rows["frontier, share of answers"] = [_cell("{:.0%}", share) for share in shares]
    return _known(rows)


def _tokens(usage: Usage | None) -> str:
    if usage is None:
        return _NONE
    return "unknown" if usage.tokens is None else f"{usage.tokens:,}"


def _known(rows: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the rows with a figure in at least one column."""
    return {label: cells for label, cells in rows.items() if {*cells} - {_NONE}}


def _cells(rows: Mapping[str, str], columns: Sequence[object]) -> dict[str, list[str]]:
    """Return the cells of each row; leave out rows whose figure is missing in some column."""
    cells = {}
    for label, form in rows.items():
        with suppress(AttributeError):
            cells[label] = [_cell(form, column) for column in columns]
    return cells


def _cell(form: str, column: Any) -> str:
    try:
        return form.format(column)
    except TypeError:  # the figure of this column is None
        return _NONE


def _figures(
    figures: Mapping[str, Figure], columns: Sequence[Any], errors: bool
) -> dict[str, list[str]]:
    """Return the rows of figures; leave out figures that a column lacks, as a `Returns` does."""
    return {
        figure.label: [
            _shown(getattr(one, name), one.errors.get(name) if errors else None, figure.form)
            for one in columns
        ]
        for name, figure in figures.items()
        if all(hasattr(one, name) for one in columns)
    }


def _entries(
    field: str, names: Iterable[str], columns: Sequence[Any], errors: bool = False
) -> dict[str, list[str]]:
    """Return one row per name, whose cells are `getattr(column, field)[name]` of each column."""
    return {
        name: [
            _shown(
                getattr(one, field, {}).get(name),
                one.errors.get(f"{field}.{name}") if errors else None,
            )
            for one in columns
        ]
        for name in names
    }


def _shown(value: float | None, error: float | None, form: str = "z.2f") -> str:
    if value is None:
        return _NONE
    return format(value, form) if error is None else f"{value:{form}} ± {error:{form}}"
