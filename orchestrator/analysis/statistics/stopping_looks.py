"""When the blocks of a sweep are looked at that come until it is enough, and what that costs.

A sweep with `blocks: auto` ends when its intervals are narrow, and they are narrow where the blocks
happen to lie close together: whoever looks often, and stops at the first narrow interval, has one
that is too narrow. Chow and Robbins, "On the asymptotic theory of fixed-width sequential confidence
intervals for the mean", Annals of Mathematical Statistics 36(2), 1965, show that the coverage is
right in the end; at few blocks it is not. So there are few looks (each at a quarter more blocks
than the last), and every interval of such a sweep has the level `LEVEL`. Drawn from normal
log-ratios whose deviation is 0.3 to 6 times the wanted half-width, an interval of that level
covers the truth in 95.4 to 97.1 % of sweeps with 6 to 60 or 6 to 600 blocks (40,000 draws each);
one of 95 % covered it in 92.7 % at the worst. That takes up to 24 % more blocks
(`tests/benchmarks/results/coverage.txt`).
"""

from __future__ import annotations

import math

from orchestrator.analysis.statistics.estimates import CONFIDENCE
from orchestrator.core.criteria import AutoBlocks

LEVEL = 0.97
"""Of an interval by whose width a sweep may have stopped, so that it covers as one of 95 %."""

_GROWTH = 1.25


def confidence_for(auto: AutoBlocks | None) -> float:
    """The level at which a sweep's intervals are to be made, for 95 % of them to be right."""
    return CONFIDENCE if auto is None else LEVEL


def looks(auto: AutoBlocks) -> tuple[int, ...]:
    """The numbers of blocks at which it is asked whether they are enough: 6, 8, 10, 13, 17, …"""
    found = [auto.least]
    while found[-1] < auto.most:
        found.append(min(auto.most, max(found[-1] + 2, math.ceil(_GROWTH * found[-1]))))
    return tuple(found)
