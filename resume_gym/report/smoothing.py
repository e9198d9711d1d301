"""A curve without its noise, and where it dips and comes back: pure functions over numbers."""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import fmean
from typing import NamedTuple

SHARE = 0.2
"""Of a smoothed curve's range, what a fall must at least be to be called one."""
ERRORS = 4.0
"""How many times the noise that is left in a smoothed curve a fall must at least be; about one
curve of mere noise in a hundred then has a dip."""


class Dip(NamedTuple):
    """A fall of a curve and its recovery, as positions in it.

    Attributes:
        peak: where the curve stood highest before the fall.
        trough: where it stands lowest.
        back: where it first is as high as at the peak again, or, if it turns before, how far up
            it comes.
        whole: whether it is as high again.
    """

    peak: int
    trough: int
    back: int
    whole: bool


def smooth(values: Sequence[float]) -> list[float]:
    """Means over a twentieth of the curve to both sides, at least one value, fewer at the ends."""
    window = _window(values)
    parts = (values[max(0, i - window) : i + window + 1] for i in range(len(values)))
    return [fmean(part) for part in parts]


def dips(values: Sequence[float]) -> list[Dip]:
    """Where the smoothed curve falls and regains as much as makes a fall, in order.

    A fall, and a rise after it, counts from `SHARE` of the smoothed curve's range on, if that is
    at least `ERRORS` times the noise that smoothing leaves; the noise is estimated from the
    differences of neighbours.
    """
    if len(values) < 3:
        return []
    curve = smooth(values)
    steps = fmean((b - a) ** 2 for a, b in pairwise(values))
    noise = sqrt(steps / 2 / (_window(values) + 1))  # at the ends, where it is greatest
    least = max(SHARE * (max(curve) - min(curve)), ERRORS * noise)
    flat = least <= 1e-9 * max(map(abs, curve))  # but for rounding
    turns = [] if flat else _turns(curve, least)
    found = []
    for peak, trough, top in zip(turns, turns[1:], turns[2:], strict=False):
        if curve[trough] < curve[peak]:
            again = (i for i in range(trough, top + 1) if curve[i] >= curve[peak])
            back = next(again, None)
            found.append(Dip(peak, trough, top if back is None else back, back is not None))
    return found


def _window(values: Sequence[float]) -> int:
    return max(1, len(values) // 20)


def _turns(curve: Sequence[float], least: float) -> list[int]:
    """The ends of the curve's rises and falls of at least `least`; peaks and troughs in turn."""
    turns: list[int] = []
    high = low = way = 0  # the extremes since the last turn; 1: it rises, -1: it falls
    for i, value in enumerate(curve):
        high = i if value > curve[high] else high
        low = i if value < curve[low] else low
        if way >= 0 and curve[high] - value >= least:
            turns.append(high)
            way, low = -1, i
        elif way <= 0 and value - curve[low] >= least:
            turns.append(low)
            way, high = 1, i
    return [*turns, high if way > 0 else low] if turns else []
