"""Agreement statistics of a judge: proportions with confidence intervals, and kappa.

`Agreement` holds the statistics of a calibration, and `table` formats them for the terminal.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resume_gym.support.user_errors import number_of

if TYPE_CHECKING:
    from rich.table import Table

_Z = 1.96  # normal quantile of a two-sided 95 % interval


@dataclass(frozen=True, slots=True)
class Share:
    """A proportion, hits / total, with the bounds of its 95 % Wilson interval; see `share`."""

    hits: int
    total: int
    value: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """Statistics of a judge on labelled pairs.

    Attributes:
        judge: name of the judge.
        pairs: number of pairs.
        repeats: number of verdicts per pair.
        accuracy: share of pairs whose label equals the judge's grade, by field.
        kappa: Cohen's kappa with quadratic weights, by graded field; None if all labels and
            verdicts have the same value.
        recall: share of fabrications detected, by kind.
        false_alarms: share of honest revisions flagged as fabricated, by group:
            "honest_rewrite" (only the revisions of this kind) and "all".
        consistency: weighted kappa between the verdicts of two repeats, by field; 1 for a
            deterministic judge; None with one repeat, or if all verdicts have the same value.
        flips: share of grades that depend on the order of the two texts (position bias); None if
            not measured.
        failures: number of failed verdicts, those in the other order included, by error type.
        asked: number of verdicts requested.
        dollars: cost in dollars, 0 for a judge that asks no model; None if unknown.
        stored: number of model answers that were read from the persistent cache.
        seconds: median ("p50") and 95th percentile ("p95") of the wall time of a verdict.
    """

    judge: str
    pairs: int
    repeats: int
    accuracy: Mapping[str, Share]
    kappa: Mapping[str, float | None]
    recall: Mapping[str, Share]
    false_alarms: Mapping[str, Share]
    consistency: Mapping[str, float | None]
    flips: Share | None
    failures: Mapping[str, int]
    asked: int
    dollars: float | None
    stored: int
    seconds: Mapping[str, float]


def share(flags: Iterable[bool]) -> Share:
    """Return the share of true values and its 95 % Wilson interval ([0, 1] if `flags` is empty).

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference,
    1927.
    """
    values = list(flags)
    hits, total = sum(values), len(values)
    if not total:
        return Share(0, 0, None, 0.0, 1.0)
    value = hits / total
    centre = (value + _Z**2 / (2 * total)) / (1 + _Z**2 / total)
    spread = _Z * math.sqrt(value * (1 - value) / total + (_Z / (2 * total)) ** 2)
    half = spread / (1 + _Z**2 / total)
    return Share(hits, total, value, max(0.0, centre - half), min(1.0, centre + half))


def weighted_kappa(pairs: Sequence[tuple[int, int]]) -> float | None:
    """Return the quadratically weighted kappa of (label, verdict) pairs; None if undefined.

    Kappa is undefined without pairs, or if all labels and verdicts have the same value.

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


def table(found: Agreement) -> "Table":
    """Format the agreement statistics of a judge as a table for the terminal."""
    from rich.table import Table

    repeats = f", {found.repeats} times each" if found.repeats > 1 else ""
    grid = Table(
        title=f"{found.judge} on {number_of(found.pairs, 'labelled pair')}{repeats}",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 3, 0, 0),
    )
    for name in ("", "share", "95 % interval", "of", "kappa", "repeats"):
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
        for name, proportion in shares.items():
            more = (found.kappa, found.consistency) if title == "right" else ({}, {})
            grid.add_row(
                f"  {name}",
                *_cells(proportion),
                *(_number(statistic.get(name)) for statistic in more),
            )
    dollars = "unknown" if found.dollars is None else f"${found.dollars:.2f}"
    failed = ", ".join(f"{name} {n}" for name, n in found.failures.items()) or "none"
    grid.add_row("no verdict", failed)
    grid.add_row(
        "seconds a verdict", f"{found.seconds['p50']:.3f}", f"p95 {found.seconds['p95']:.3f}"
    )
    grid.add_row("cost", "nothing" if found.dollars == 0 else dollars)
    if set(found.consistency.values()) <= {1.0, None} and found.repeats > 1:
        grid.caption = (
            "A value of 1 under repeats: all repeats agree, as they must for a deterministic "
            "judge. This agreement says nothing about the accuracy of the judge."
        )
        grid.caption_justify = "left"
    return grid


def _cells(proportion: Share) -> tuple[str, str, str]:
    value = "-" if proportion.value is None else f"{proportion.value:.1%}"
    return value, f"{proportion.low:.1%} to {proportion.high:.1%}", str(proportion.total)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
