"""Accuracies that come in steps: with few validation samples, one more of them right is a step.

Where a step is wider than the margin, blocks say less than their spread does. An arm that loses one
sample in every third block loses more than the margin, and six blocks without a difference are no
rare sight: their spread is 0, and their t interval has no width. Two things are done there:

- *Blocks without any difference between them.* If the true mean lies further off than a gap, and
  blocks differ by one step at most, each of them differs with a probability of at least gap / step;
  that none of n does has one of at most (1 - gap / step) ** n. Twice that is the two-sided p-value,
  and the interval that goes with it is a step times 1 - (level / 2) ** (1 / n) to either side, as
  Clopper and Pearson's is for what was never seen (Biometrika 26(4), 1934).
- *Blocks that differ.* Beside the t interval stands that of the same blocks and some more, half of
  them a step better and half a step worse; the ends that lie further out count. Agresti and Coull,
  "Approximate is better than exact for interval estimation of binomial proportions", The American
  Statistician 52(2), 1998, add half the square of the normal quantile to either side, which is 2 at
  95 %; Bonett and Price do as much for pairs (Journal of Educational and Behavioral Statistics
  37(4), 2012).

Where an arm loses the margin itself, a step being 1.1 to 10 margins, it is called the same in at
most 4.5 % of sweeps then, mostly in less than the 2.5 % that are promised; by the t interval alone
in up to 66 % (6 to 50 blocks, 1 to 10 arms that all do so; summed over the multinomial). What loses
many samples at once, in few blocks, is as hard to see as for any t test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from orchestrator.analysis.statistics.estimates import Estimate, t_interval

_WHOLE = 0.01  # of a sample: what single precision, and a mean over batches, may take away
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Steps:
    """The width of a step, and how many blocks are added that differ by one to either side."""

    width: float
    added: int

    @classmethod
    def at(cls, width: float | None, level: float) -> Steps | None:
        """What an interval of that level takes; None where no steps are known."""
        return None if width is None else cls(width, math.ceil(float(ndtri(level / 2)) ** 2 / 2))


def coarse_step(samples: Iterable[int], accuracies: Iterable[float], margin: float) -> float | None:
    """The step of accuracies over so many samples (the fewest, if several are known).

    None where it is not wider than the margin, or not known; also where an accuracy is no whole
    number of the steps of any of these: it is told of more than a sample each, as of every token of
    a text.
    """
    known = {each for each in samples if each > 0}
    fewest = min(known, default=0)
    if not fewest or fewest * margin >= 1:
        return None
    whole = (any(_is_whole(accuracy * each) for each in known) for accuracy in accuracies)
    return 1 / fewest if all(whole) else None


def _is_whole(count: float) -> bool:
    return abs(count - round(count)) < _WHOLE


def readings(values: Sequence[float], steps: Steps | None) -> tuple[Sequence[float], ...]:
    """The blocks' numbers; where they come in steps, also with those that are added."""
    if steps is None:
        return (values,)
    return values, [*values, *[steps.width, -steps.width] * steps.added]


def stepped_interval(
    values: Sequence[float], confidence: float, steps: Steps | None
) -> Estimate | None:
    """The mean with its t interval, as wide as steps make it; None for fewer than two values."""
    own = t_interval(values, confidence)
    if own is None or steps is None:
        return own
    if own.high - own.low < _ROUNDING:
        half_width = steps.width * -math.expm1(math.log((1 - confidence) / 2) / own.n)
        return Estimate(own.n, own.value, own.value - half_width, own.value + half_width)
    found = [t_interval(each, confidence) for each in readings(values, steps)]
    ends = [end for each in found if each for end in (each.low, each.high)]
    return Estimate(own.n, own.value, min(ends), max(ends))


def unseen_p(blocks: int, gap: float, steps: Steps) -> float:
    """The p-value of blocks that are all alike, if the true mean were a gap away from theirs."""
    return min(1.0, 2 * (1 - min(1.0, max(0.0, gap / steps.width))) ** blocks)


def blocks_to_see(margin: float, level: float, steps: Steps) -> int:
    """The fewest blocks, all alike, whose interval lies within a margin narrower than a step."""
    return math.ceil(math.log(level / 2) / math.log1p(-margin / steps.width))
