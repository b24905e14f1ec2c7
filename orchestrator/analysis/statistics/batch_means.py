"""The interval of the paired ratio of two arms that took turns in slices.

It uses the means of batches of adjacent turns, because turns are autocorrelated (Schmeiser 1982,
Law and Kelton; `docs/trust.md`). It only decides when a round ends.
"""

import itertools
import math
from collections.abc import Sequence

_BATCHES = 10
"""The smallest number that is enough, so that each batch has many turns."""

_CONFIDENCE = 0.95
"""Of an interval that ends the round, over all looks together."""

_MOST_ALIKE = 0.9
_GROWTH = math.sqrt(2)
"""Factor between the turns of successive looks. Twice the turns narrow an interval by 1.4."""


def planned_looks(least: int, most: int) -> tuple[int, ...]:
    """Return the numbers of turns after which a round may end: from `least` to `most`.

    At the last one, `most`, it ends whatever its interval is.
    """
    looks, turns = list[int](), float(least)
    while turns < most / math.sqrt(_GROWTH):
        looks.append(round(turns))
        turns *= _GROWTH
    return tuple(dict.fromkeys([*looks, most]))


def half_width(log_ratios: Sequence[float], looks: int = 1) -> float:
    """Return the half-width of the interval of the mean of two or more batches, in their order.

    Each of the planned looks gets an equal share of the error rate.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import, needed in rounds only

    means = log_ratios
    centre = math.fsum(means) / len(means)
    deviations = [mean_of_batch - centre for mean_of_batch in means]
    squares = math.fsum(deviation**2 for deviation in deviations)
    variance = squares / (len(means) - 1) * _inflation(deviations, squares)
    quantile = float(stdtrit(len(means) - 1, 1 - (1 - _CONFIDENCE) / looks / 2))
    return quantile * math.sqrt(variance / len(means))


def _inflation(deviations: Sequence[float], squares: float) -> float:
    """Return the factor by which correlation r of adjacent values inflates the variance of a mean.

    (1 + r) / (1 - r); r is corrected for its bias of about -1/n (Marriott and Pope, Biometrika 41,
    1954), and at least 0.
    """
    if not squares:
        return 1.0
    products = math.fsum(
        deviation * following for deviation, following in itertools.pairwise(deviations)
    )
    correlation = min(_MOST_ALIKE, max(0.0, products / squares + 1 / len(deviations)))
    return (1 + correlation) / (1 - correlation)


def batches_of(turns: Sequence[int]) -> list[Sequence[int]]:
    """Return 10 to 19 equal batches of turns in their order, or each turn alone if they are few.

    The first few turns may belong to none.
    """
    size = max(1, len(turns) // _BATCHES)
    first = len(turns) % size
    return [turns[at : at + size] for at in range(first, len(turns), size)]
