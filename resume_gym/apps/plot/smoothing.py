"""Smoothing of noisy curves, and detection of dips; pure functions over numbers."""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import fmean
from typing import NamedTuple

SHARE = 0.2
"""Minimum depth of a dip, as a share of the smoothed curve's range."""
ERRORS = 4.0
"""Minimum depth of a dip, in standard errors of the smoothed curve; at this value, about one curve
of pure noise in a hundred has a dip."""


class Dip(NamedTuple):
    """Fall and recovery of a curve, as indices into it.

    Attributes:
        peak: highest point before the fall.
        trough: lowest point.
        back: first return to the height of the peak, else the highest point of the rise.
        whole: whether the curve returns to the height of the peak.
    """

    peak: int
    trough: int
    back: int
    whole: bool


def smooth(values: Sequence[float]) -> list[float]:
    """Return the centred moving average.

    The window extends to either side by a twentieth of the curve, at least one value, and is
    truncated at the ends.
    """
    window = _window(values)
    parts = (values[max(0, i - window) : i + window + 1] for i in range(len(values)))
    return [fmean(part) for part in parts]


def span(steps: int) -> int:
    """Return the width, in steps, of the window that smooths a curve of so many steps."""
    return 2 * _window(range(steps)) + 1


def dips(values: Sequence[float]) -> list[Dip]:
    """Return the dips of the smoothed curve, in order.

    The fall and the rise after it must each be at least `SHARE` of the smoothed curve's range and
    at least `ERRORS` times the noise that smoothing leaves, which is estimated from the
    differences of neighbours.
    """
    if len(values) < 3:
        return []
    curve = smooth(values)
    steps = fmean((b - a) ** 2 for a, b in pairwise(values))
    # a difference has twice the variance of a value; the noisiest means, those at the ends, are
    # over `_window` + 1 values
    noise = sqrt(steps / 2 / (_window(values) + 1))
    least = max(SHARE * (max(curve) - min(curve)), ERRORS * noise)
    flat = least <= 1e-9 * max(map(abs, curve))  # constant except for rounding errors
    turns = [] if flat else _turns(curve, least)
    result = []
    # peaks and troughs alternate; a triple that starts with a trough is no dip
    for peak, trough, top in zip(turns, turns[1:], turns[2:], strict=False):
        if curve[trough] < curve[peak]:
            recovered = (i for i in range(trough, top + 1) if curve[i] >= curve[peak])
            back = next(recovered, None)
            result.append(Dip(peak, trough, top if back is None else back, back is not None))
    return result


def _window(values: Sequence[float]) -> int:
    return max(1, len(values) // 20)


def _turns(curve: Sequence[float], least: float) -> list[int]:
    """Return alternating peaks and troughs; ignores swings smaller than `least`."""
    turns: list[int] = []
    high = low = direction = 0  # extremes since the last turn; 1 rising, -1 falling
    for i, value in enumerate(curve):
        high = i if value > curve[high] else high
        low = i if value < curve[low] else low
        if direction >= 0 and curve[high] - value >= least:
            turns.append(high)
            direction, low = -1, i
        elif direction <= 0 and value - curve[low] >= least:
            turns.append(low)
            direction, high = 1, i
    return [*turns, high if direction > 0 else low] if turns else []
