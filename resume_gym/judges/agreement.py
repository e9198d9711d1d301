"""Figures of agreement: shares with their intervals, kappa, alpha, and the table of all."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resume_gym.mistakes import missing

if TYPE_CHECKING:
    from rich.table import Table

_Z = 1.96  # of a confidence of 95 %


@dataclass(frozen=True, slots=True)
class Share:
    """How many of how many, with the limits of Wilson's 95 % interval; see `share`."""

    hits: int
    total: int
    value: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Report:
    """What is known of a judge.

    Attributes:
        judge: its name.
        pairs: how many it was asked about, and `repeats`, how often each.
        accuracy: share of right values, by field.
        kappa: agreement beyond chance, weighted by squared distance, by graded field; None where
            labels or verdicts do not vary.
        recall: share of the fabrications that were found, by kind.
        false_alarms: share of honest revisions that were called fabricated: of those that only
            reword ("honest_rewrite"), and of "all".
        alpha: Krippendorff's alpha of the repeats, ordinal, by field; None with one repeat, or
            where verdicts do not vary. A judge that computes has 1, which says nothing.
        flips: share of graded fields on which the order of the texts decided: the grade did not
            change its sign when they changed places; None if that was not asked.
        failures: how often there was no verdict, by type of the error, of all `asked`.
        dollars: what it cost; None if the judge does not say.
        seconds: median and 95th percentile of the time for a verdict, waiting included.
    """

    judge: str
    pairs: int
    repeats: int
    accuracy: Mapping[str, Share]
    kappa: Mapping[str, float | None]
    recall: Mapping[str, Share]
    false_alarms: Mapping[str, Share]
    alpha: Mapping[str, float | None]
    flips: Share | None
    failures: Mapping[str, int]
    asked: int
    dollars: float | None
    seconds: Mapping[str, float]


def share(hits: int, total: int) -> Share:
    """A share with Wilson's 95 % interval; its value is None, and all is possible, of nothing.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference,
    1927.
    """
    if not total:
        return Share(0, 0, None, 0.0, 1.0)
    value = hits / total
    centre = (value + _Z**2 / (2 * total)) / (1 + _Z**2 / total)
    spread = _Z * math.sqrt(value * (1 - value) / total + (_Z / (2 * total)) ** 2)
    half = spread / (1 + _Z**2 / total)
    return Share(hits, total, value, max(0.0, centre - half), min(1.0, centre + half))


def weighted_kappa(pairs: Sequence[tuple[int, int]]) -> float | None:
    """Cohen's kappa of (label, verdict), weighted by squared distance; None if nothing varies.

    Source: J. Cohen, Weighted kappa, 1968.
    """
    if not pairs:
        return None
    labels, verdicts = (Counter(side) for side in zip(*pairs, strict=True))
    seen = sum((label - verdict) ** 2 for label, verdict in pairs) / len(pairs)
    chance = sum(
        count * other * (label - verdict) ** 2
        for label, count in labels.items()
        for verdict, other in verdicts.items()
    ) / len(pairs) ** 2  # fmt: skip
    return 1 - seen / chance if chance else None


def ordinal_alpha(repeats: Sequence[Sequence[int | None]]) -> float | None:
    """Krippendorff's alpha for ordered values.

    Args:
        repeats: [repeat, pair]: the values, None where there is none.

    Returns:
        1 for full agreement, 0 for what chance gives; None if no value varies.

    Raises:
        ModuleNotFoundError: `krippendorff` is not installed; names the extra.
    """
    try:
        import krippendorff
    except ModuleNotFoundError:
        raise missing("repeats need", "krippendorff", "calibrate") from None
    if len({value for row in repeats for value in row if value is not None}) < 2:
        return None
    data = [[math.nan if value is None else value for value in row] for row in repeats]
    return float(krippendorff.alpha(reliability_data=data, level_of_measurement="ordinal"))


def count(found: Iterable[bool]) -> Share:
    """The share of those that hold."""
    known = list(found)
    return share(sum(known), len(known))


def quantile(ordered: Sequence[float], part: float) -> float:
    """The least value that at least this part of the values does not exceed."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def table(found: Report) -> "Table":
    """The figures of a report, for the terminal."""
    from rich.table import Table

    repeats = f", {found.repeats} times each" if found.repeats > 1 else ""
    grid = Table(
        title=f"{found.judge} on {found.pairs} labelled pairs{repeats}",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 3, 0, 0),
    )
    for name in ("", "share", "95 % interval", "of", "kappa", "alpha"):
        grid.add_column(name, justify="left" if not name else "right")
    rows = {
        "right": found.accuracy,
        "fabrications found": found.recall,
        "false alarms": found.false_alarms,
        "order decides": {"graded fields": found.flips} if found.flips else {},
    }
    for title, shares in rows.items():
        if shares:
            grid.add_row(title, style="bold")
        for name, one in shares.items():
            more = (found.kappa, found.alpha) if title == "right" else ({}, {})
            grid.add_row(f"  {name}", *_cells(one), *(_number(some.get(name)) for some in more))
    dollars = "unknown" if found.dollars is None else f"${found.dollars:.2f}"
    failed = ", ".join(f"{name} {n}" for name, n in found.failures.items()) or "none"
    grid.add_row("no verdict", failed)
    grid.add_row(
        "seconds a verdict", f"{found.seconds['p50']:.3f}", f"p95 {found.seconds['p95']:.3f}"
    )
    grid.add_row("cost", dollars)
    if set(found.alpha.values()) <= {1.0, None} and found.repeats > 1:
        grid.caption = (
            "Alpha of 1: each repeat said the same, as those of a judge that computes must. "
            "It says nothing of whether it is right."
        )
        grid.caption_justify = "left"
    return grid


def _cells(one: Share) -> tuple[str, str, str]:
    value = "-" if one.value is None else f"{one.value:.1%}"
    return value, f"{one.low:.1%} to {one.high:.1%}", str(one.total)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
