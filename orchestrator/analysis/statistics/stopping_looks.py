"""The looks of a sweep with `blocks: auto`, and the level of its intervals.

Such a sweep ends when its intervals are narrow, and they are narrow when the blocks happen to be
close together. Frequent looks that stop at the first narrow interval give one that is too narrow.
Chow and Robbins, "On the asymptotic theory of fixed-width sequential confidence intervals for the
mean", Annals of Mathematical Statistics 36(2), 1965, show that the coverage is right
asymptotically; with few blocks it is too low. So there are few looks (each at a quarter more blocks
than the last), and every interval of such a sweep has the level `LEVEL`. For normal log-ratios
whose deviation is 0.3 to 6 times the target half-width, an interval of that level covers the truth
in 95.4 to 97.1 % of sweeps with 6 to 60 or 6 to 600 blocks (40,000 draws each); one of 95 % covered
it in 92.7 % at the worst. That takes up to 24 % more blocks
(`tests/benchmarks/results/coverage.txt`).
"""

from __future__ import annotations

import math

from orchestrator.analysis.statistics.estimates import CONFIDENCE
from orchestrator.core.criteria import AutoBlocks

LEVEL = 0.97
"""Level of intervals whose width may have stopped a sweep; their coverage is at least 95 %."""

_GROWTH = 1.25


def confidence_for(auto: AutoBlocks | None) -> float:
    """Return the level of a sweep's intervals that gives a coverage of 95 %."""
    return CONFIDENCE if auto is None else LEVEL


def looks(auto: AutoBlocks) -> tuple[int, ...]:
    """Return the numbers of blocks at which the sweep may stop: 6, 8, 10, 13, 17, …"""
    counts = [auto.least]
    while counts[-1] < auto.most:
        counts.append(min(auto.most, max(counts[-1] + 2, math.ceil(_GROWTH * counts[-1]))))
    return tuple(counts)
