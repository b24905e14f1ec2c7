"""By what the figures of a sweep can be trusted: disturbance, clocks, options, attempts, nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.analysis.statistics.estimates import Spread, spread
from orchestrator.core.arms import Arm, HardwareRef
from orchestrator.core.names import known_implementation
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial

NOISE = (
    *("others_cpu_pct", "steal_pct", "throttled_pct", "clock_drop_pct", "sm_clock_mhz"),
    *("canary_ms", "max_temperature_c"),
)
"""What tells of a trial's surroundings: shares, clocks, the canary's time, heat."""


@dataclass(frozen=True, slots=True)
class DisturbanceCount:
    """The complete trials of an arm with one cause of disturbance, and the first of them."""

    cause: str
    trials: int
    run_id: str


@dataclass(frozen=True, slots=True)
class ArmProof:
    """What stands behind one arm's figures.

    Of its `complete` trials, `proven` have evidence that the kernel asked for ran, `disturbed` had
    something else at work beside them, and `again` were done more than once. `jit` tells whether
    XLA compiled the program, `precision` what products are computed in; both None for
    implementations that are not ours. `noise` are spreads over the complete trials, by metric.
    """

    arm: Arm
    complete: int
    proven: int
    disturbed: int
    disturbances: tuple[DisturbanceCount, ...]
    again: int
    nodes: tuple[str, ...]
    jit: bool | None
    precision: str | None
    noise: Mapping[str, Spread]


@dataclass(frozen=True, slots=True)
class Validity:
    """What a reader judges a report by.

    Of `trials` that ended, `used` are in the matched rounds and `left_out` did not complete. Of the
    `rounds` that are complete on every arm, `disturbed_rounds` have a disturbed trial, and in
    `split_rounds` arms of one hardware class ran on different nodes. `versions` are those of the
    software.
    """

    arms: tuple[ArmProof, ...] = ()
    trials: int = 0
    used: int = 0
    left_out: int = 0
    rounds: int = 0
    disturbed_rounds: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    split_rounds: int = 0


def prove(
    record: SweepRecord, matched: CompleteRounds, own: Mapping[Arm, Sequence[FinishedTrial]]
) -> Validity:
    """Count what stands behind a sweep's figures."""
    used = [t for rounds in matched.trials.values() for ts in rounds.values() for t in ts]
    return Validity(
        arms=tuple(_prove(arm, trials) for arm, trials in own.items()),
        trials=len(record.trials),
        used=len(used),
        left_out=sum(trial.status != "complete" for trial in record.trials),
        rounds=len(matched.rounds),
        disturbed_rounds=len({(t.block, t.repeat) for t in used if t.disturbance}),
        versions=record.environment,
        split_rounds=_split(matched),
    )


def _split(matched: CompleteRounds) -> int:
    """The rounds in which arms of one hardware class ran on different nodes, as far as is known."""
    nodes: dict[tuple[HardwareRef, Round], set[str]] = defaultdict(set)
    for arm, rounds in matched.trials.items():
        hardware = arm.hardware_class
        for each, trials in rounds.items():
            nodes[hardware, each].update(trial.node for trial in trials if trial.node)
    return len({each for (_, each), found in nodes.items() if len(found) > 1})


def _prove(arm: Arm, trials: Sequence[FinishedTrial]) -> ArmProof:
    complete = [trial for trial in trials if trial.status == "complete"]
    known = known_implementation(arm)
    noise = {
        metric: spread([t.metrics[metric] for t in complete if metric in t.metrics])
        for metric in NOISE
    }
    return ArmProof(
        arm=arm,
        complete=len(complete),
        proven=sum(t.kernel is not None and bool(t.kernel.evidence) for t in complete),
        disturbed=sum(bool(trial.disturbance) for trial in complete),
        disturbances=_disturbances(complete),
        again=sum(trial.attempt > 1 for trial in complete),
        nodes=tuple(sorted({trial.node for trial in complete if trial.node})),
        jit=known.jit if known else None,
        precision=known.precision if known else None,
        noise={metric: found for metric, found in noise.items() if found},
    )


def _disturbances(trials: Sequence[FinishedTrial]) -> tuple[DisturbanceCount, ...]:
    found: dict[str, list[str]] = {}
    for trial in trials:
        for cause in trial.disturbance:
            found.setdefault(cause, []).append(trial.run_id)
    return tuple(DisturbanceCount(cause, len(runs), runs[0]) for cause, runs in found.items())
