"""Accuracies in steps: with few validation samples, one more correct sample is one step.

If a step is wider than the margin, the spread of the blocks understates the uncertainty. An arm
that loses one sample in every third block loses more than the margin, yet six blocks without a
difference are common: their spread is 0, and their t interval has no width. Two corrections are
made:

- *Blocks without any difference between them.* If the true mean is further away than a gap, and
  blocks differ by one step at most, each of them differs with a probability of at least gap / step.
  The probability that none of n differs is at most (1 - gap / step) ** n. Twice that is the
  two-sided p-value, and the interval extends a step times 1 - (level / 2) ** (1 / n) to either
  side, like Clopper and Pearson's for an event that was never observed (Biometrika 26(4), 1934).
- *Blocks that differ.* The t interval is computed twice, for the blocks themselves and with some
  blocks added, half of them a step better and half a step worse; the outer ends count. Agresti and
  Coull, "Approximate is better than exact for interval estimation of binomial proportions", The
  American Statistician 52(2), 1998, add half the square of the normal quantile to either side,
  which is 2 at 95 %; Bonett and Price do as much for pairs (Journal of Educational and Behavioral
  Statistics 37(4), 2012).

If an arm loses exactly the margin, with a step of 1.1 to 10 margins, its verdict is "same" in at
most 4.5 % of sweeps, mostly below the intended 2.5 %. With the t interval alone it would be in up
to 66 % (6 to 50 blocks, 1 to 10 such arms; summed over the multinomial). An arm that loses many
samples at once, in few blocks, is as hard to detect as with any t test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from orchestrator.analysis.statistics.estimates import Estimate, t_interval

_WHOLE = 0.01  # of a sample: the error of single precision and of a mean over batches
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Steps:
    """The width of a step, and the number of blocks added one step to either side."""

    width: float
    added: int

    @classmethod
    def at(cls, width: float | None, level: float) -> Steps | None:
        """Return the steps for an interval of that level; None for an unknown width."""
        return None if width is None else cls(width, math.ceil(float(ndtri(level / 2)) ** 2 / 2))


def coarse_step(samples: Iterable[int], accuracies: Iterable[float], margin: float) -> float | None:
    """Return the step of accuracies over so many samples (the smallest number counts).

    Return None if the step is unknown or not wider than the margin. None also if an accuracy is not
    a whole number of steps: it then counts more than one item a sample, such as tokens of a text.
    """
    sizes = {size for size in samples if size > 0}
    fewest = min(sizes, default=0)
    if not fewest or fewest * margin >= 1:
        return None
    whole = (any(_is_whole(accuracy * size) for size in sizes) for accuracy in accuracies)
    return 1 / fewest if all(whole) else None


def _is_whole(count: float) -> bool:
    return abs(count - round(count)) < _WHOLE


def readings(values: Sequence[float], steps: Steps | None) -> tuple[Sequence[float], ...]:
    """Return the blocks' numbers; for numbers in steps, also those with the added blocks."""
    if steps is None:
        return (values,)
    return values, [*values, *[steps.width, -steps.width] * steps.added]


def stepped_interval(
    values: Sequence[float], confidence: float, steps: Steps | None
) -> Estimate | None:
    """Return the mean with its interval, widened for steps; None for fewer than two values."""
    own = t_interval(values, confidence)
    if own is None or steps is None:
        return own
    if own.high - own.low < _ROUNDING:
        half_width = steps.width * -math.expm1(math.log((1 - confidence) / 2) / own.n)
        return Estimate(own.n, own.value, own.value - half_width, own.value + half_width)
    intervals = [t_interval(numbers, confidence) for numbers in readings(values, steps)]
    ends = [end for interval in intervals if interval for end in (interval.low, interval.high)]
    return Estimate(own.n, own.value, min(ends), max(ends))


def unseen_p(blocks: int, gap: float, steps: Steps) -> float:
    """Return the p-value of blocks that are all equal if the true mean is a gap away."""
    return min(1.0, 2 * (1 - min(1.0, max(0.0, gap / steps.width))) ** blocks)


def blocks_to_see(margin: float, level: float, steps: Steps) -> int:
    """Return the fewest equal blocks whose interval is within a margin narrower than a step."""
    return math.ceil(math.log(level / 2) / math.log1p(-margin / steps.width))
