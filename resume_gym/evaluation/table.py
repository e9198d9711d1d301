"""Tables of results, one column per agent: for the terminal (`table`) or in Markdown."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import JustifyMethod
from rich.markup import escape
from rich.table import Table

from resume_gym.evaluation.comparison import Comparison, Interval, Statistics
from resume_gym.evaluation.figures import Returns, Summary

_NONE = "-"
_FIGURE = 6  # characters: -12.34


class Section(NamedTuple):
    """A section of the table: its title, and the cells of each row by label."""

    title: str
    rows: Mapping[str, Sequence[str]]


def sections(
    summaries: Mapping[str, Summary] | Mapping[str, Returns],
    statistics: Mapping[str, Statistics] | None = None,
) -> list[Section]:
    """Return the table as text; `Returns`, without edited documents, have fewer rows."""
    columns = tuple(summaries.values())
    edited = [one for one in columns if isinstance(one, Summary)]
    kinds = list(_edited(edited) if len(edited) == len(columns) else _plain())
    found = [
        Section(title, {label: [cell(one) for one in columns] for label, cell in rows.items()})
        for title, rows in kinds
    ]
    if statistics is not None:
        spread = [statistics[name] for name in summaries]
        own = {label: [cell(one) for one in spread] for label, cell in _spread(spread).items()}
        found.insert(1, Section("Over tasks", own))
        if any(one.failed for one in spread):
            failed = {"without a number": [str(one.failed) for one in spread]}
            found[-1] = found[-1]._replace(rows={**found[-1].rows, **failed})
    return found


def table(
    summaries: Mapping[str, Summary] | Mapping[str, Returns],
    statistics: Mapping[str, Statistics] | None = None,
) -> Table:
    """Make the terminal table of summaries, one column each (agents, or before and after)."""
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold cyan")
    # on a narrow terminal only names wrap; labels and numbers stay whole
    grid.add_column(no_wrap=True)
    for name in summaries:
        grid.add_column(escape(name), justify="right", overflow="fold", min_width=_FIGURE)
    for title, rows in sections(summaries, statistics):
        grid.add_row(title, style="bold")
        for label, cells in rows.items():
            grid.add_row(f"  {label}", *cells)
        grid.add_row()
    return grid


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Make the terminal table of paired reward differences."""
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold cyan")
    for name in _COMPARED:
        pair = name == _COMPARED[0]
        side: JustifyMethod = "left" if pair else "right"
        grid.add_column(name, justify=side, overflow="fold", no_wrap=not pair)
    for cells in map(_compared, comparisons):
        grid.add_row(*map(escape, cells))
    return grid


def markdown(
    summaries: Mapping[str, Summary],
    statistics: Mapping[str, Statistics],
    comparisons: Sequence[Comparison] = (),
) -> str:
    """Return both tables in GitHub Markdown."""
    lines = [_line(["", *summaries]), _line(["---", *["---:"] * len(summaries)])]
    for title, rows in sections(summaries, statistics):
        lines.append(_line([f"**{title}**", *[""] * len(summaries)]))
        lines += [_line([label, *cells]) for label, cells in rows.items()]
    if comparisons:
        rule = ["---", *["---:"] * (len(_COMPARED) - 1)]
        lines += ["", _line(_COMPARED), _line(rule), *map(_line, map(_compared, comparisons))]
        lines += ["", comparisons[0].method]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    # names may contain a bar, the only character to escape; chr(92) is the backslash, which
    # Python 3.11 does not allow inside an f-string expression
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


_COMPARED = ("Mean reward", "difference", "95 % interval", "p", "p (Holm)", "won/tied/lost")


def _compared(one: Comparison) -> list[str]:
    reward = one.figures["reward"]
    # the format option z prints -0.00 as 0.00
    return [
        f"{one.second} - {one.first}",
        f"{reward.mean:+z.2f}",
        _interval(reward.interval),
        _p(reward.p),
        _p(reward.p_holm),
        f"{one.wins}/{one.ties}/{one.losses}",
    ]


def _interval(interval: Interval | None) -> str:
    return f"{interval[0]:z.2f} to {interval[1]:z.2f}" if interval else _NONE


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


_Figure = Callable[[Any], str]


def _spread(columns: Sequence[Statistics]) -> dict[str, _Figure]:
    """Return the rows of statistics over tasks, as functions from `Statistics` to a cell."""
    rows: dict[str, _Figure] = {}
    if any(one.interval for one in columns):
        rows["mean reward, at least"] = _bound(0)
        rows["mean reward, at most (95 %)"] = _bound(1)
    if any(one.within_sd is not None for one in columns):
        rows["sd within a task"] = _number("within_sd")
    rows["sd between tasks"] = _number("between_sd")
    if any(one.wins is not None for one in columns):
        rows["tasks it is best on"] = _count("wins")
        rows["tasks it shares the best on"] = _count("ties")
    if any(one.shared is not None and one.shared < len(one.by_task) for one in columns):
        rows["of so many that all played"] = _count("shared")
    return rows


def _plain() -> Iterator[tuple[str, dict[str, _Figure]]]:
    """Yield titles and rows for episodes of any environment."""
    yield "Reward", {"mean": _number("reward"), "standard deviation": _number("reward_sd")}
    yield "Episodes", {"played": _count("episodes"), "tasks": _count("tasks")}


def _edited(columns: Sequence[Summary]) -> Iterator[tuple[str, dict[str, _Figure]]]:
    """Yield titles and rows for editing episodes, as functions from `Summary` to a cell."""
    yield (
        "Reward",
        {
            "mean": _number("reward"),
            "standard deviation": _number("reward_sd"),
            "score, 0 to 100": lambda one: f"{one.score:.1f}",
            "from tool calls": _number("tool_syntax"),
            "from layout": _number("layout"),
            "from content": _number("content"),
        },
    )
    weaknesses = sorted({name for one in columns for name in one.by_weakness})
    verdict = dict.fromkeys(name for one in columns for name in one.verdict)
    yield "Mean reward by weakness", {name: _entry("by_weakness", name) for name in weaknesses}
    yield (
        "Judge, from -1 to 1",
        {name: _entry("verdict", name) for name in verdict},
    )
    yield (
        "Behaviour",
        {
            "submitted": _share("submit_rate"),
            "fits the page": _share("layout_pass_rate"),
            "edits an episode": _number("edits"),
            "failed edits an episode": _number("failed_edits"),
            "edits that failed": _share("failed_share"),
            "malformed calls an episode": _number("malformed"),
            "of them, several in a turn": _number("several_calls"),
            "turns an episode": _number("turns"),
            "words an episode": lambda one: _NONE if one.words is None else f"{one.words:.0f}",
        },
    )
    yield (
        "Episodes",
        {
            "played": _count("episodes"),
            "tasks": _count("tasks"),
            "unchanged, not judged": _count("unjudged"),
        },
    )


def _count(name: str) -> _Figure:
    return lambda one: str(getattr(one, name))


def _number(name: str) -> _Figure:
    def figure(one: Any) -> str:
        value: float | None = getattr(one, name)
        return _NONE if value is None else f"{value:z.2f}"

    return figure


def _bound(end: int) -> _Figure:
    return lambda one: f"{one.interval[end]:z.2f}" if one.interval else _NONE


def _share(name: str) -> _Figure:
    return lambda one: f"{getattr(one, name):.0%}"


def _entry(name: str, key: str) -> _Figure:
    def figure(one: Summary) -> str:
        entries: Mapping[str, float] = getattr(one, name)
        return f"{entries[key]:z.2f}" if key in entries else _NONE

    return figure
