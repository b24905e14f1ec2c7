"""By what the figures of a sweep can be trusted: disturbance, clocks, options, attempts, nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.report.statistics import Spread
from orchestrator.trial import Arm


@dataclass(frozen=True, slots=True)
class ArmProof:
    """What stands behind one arm's figures.

    `proven` counts complete trials with evidence that the kernel asked for ran; `disturbed` those
    beside which something else was at work, and `disturbances` by what, with the first run of
    each; `again` those done more than once. `noise` are shares that tell of it, by metric.
    """

    arm: Arm
    complete: int
    proven: int
    disturbed: int
    disturbances: Mapping[str, str]
    again: int
    nodes: tuple[str, ...]
    jit: str
    precision: str
    noise: Mapping[str, Spread]


@dataclass(frozen=True, slots=True)
class Validity:
    """What a reader judges a report by. `versions` are those of the software."""

    arms: tuple[ArmProof, ...] = ()
    trials: int = 0
    used: int = 0
    left_out: int = 0
    disturbed_rounds: int = 0
    rounds: int = 0
    versions: Mapping[str, str] | None = None
