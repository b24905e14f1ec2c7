"""How often something of a known share may happen by chance."""

from scipy.stats import binom

SURE = 0.99
"""The confidence with which a count must break a promise about a share."""


def most_by_chance(n: int, share: float) -> int:
    return int(binom.ppf(SURE, n, share))


def fewest_by_chance(n: int, share: float) -> int:
    return int(binom.ppf(1 - SURE, n, share))
