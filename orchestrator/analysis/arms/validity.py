"""The evidence behind the figures of a sweep: disturbance, clocks, options, retries, nodes."""

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
"""The metrics of the conditions of a trial: CPU shares, clocks, the canary's time, temperature."""


@dataclass(frozen=True, slots=True)
class DisturbanceCount:
    """The complete trials of an arm with one cause of disturbance, and the first of them."""

    cause: str
    trials: int
    run_id: str


@dataclass(frozen=True, slots=True)
class ArmValidity:
    """The evidence behind one arm's figures.

    Of its `complete` trials, `proven` have evidence that the requested kernel ran, `disturbed` were
    measured while other work took the machine, and `retried` needed more than one attempt. `jit` is
    true if XLA compiled the program, `precision` is that of the products; both are None for
    implementations that rnnsweep does not know. `noise` are spreads over the complete trials, by
    metric.
    """

    arm: Arm
    complete: int
    proven: int
    disturbed: int
    disturbances: tuple[DisturbanceCount, ...]
    retried: int
    nodes: tuple[str, ...]
    jit: bool | None
    precision: str | None
    noise: Mapping[str, Spread]


@dataclass(frozen=True, slots=True)
class Validity:
    """The evidence behind a report.

    Of `trials` that ended, `used` are in the matched rounds and `left_out` did not complete. Of the
    complete `rounds`, `disturbed_rounds` have a disturbed trial, and in `split_rounds` arms of one
    hardware class ran on different nodes. `versions` are those of the software.
    """

    arms: tuple[ArmValidity, ...] = ()
    trials: int = 0
    used: int = 0
    left_out: int = 0
    rounds: int = 0
    disturbed_rounds: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    split_rounds: int = 0


def validity_of(
    record: SweepRecord, matched: CompleteRounds, own: Mapping[Arm, Sequence[FinishedTrial]]
) -> Validity:
    """Return the evidence behind a sweep's figures."""
    used = [t for rounds in matched.trials.values() for ts in rounds.values() for t in ts]
    return Validity(
        arms=tuple(_arm_validity(arm, trials) for arm, trials in own.items()),
        trials=len(record.trials),
        used=len(used),
        left_out=sum(trial.status != "complete" for trial in record.trials),
        rounds=len(matched.rounds),
        disturbed_rounds=len({(t.block, t.repeat) for t in used if t.disturbance}),
        versions=record.environment,
        split_rounds=_split_rounds(matched),
    )


def _split_rounds(matched: CompleteRounds) -> int:
    """Count the rounds in which arms of one hardware class ran on different nodes."""
    nodes: dict[tuple[HardwareRef, Round], set[str]] = defaultdict(set)
    for arm, rounds in matched.trials.items():
        hardware = arm.hardware_class
        for place, trials in rounds.items():
            nodes[hardware, place].update(trial.node for trial in trials if trial.node)
    return len({place for (_, place), names in nodes.items() if len(names) > 1})


def _arm_validity(arm: Arm, trials: Sequence[FinishedTrial]) -> ArmValidity:
    complete = [trial for trial in trials if trial.status == "complete"]
    implementation = known_implementation(arm)
    noise = {
        metric: spread([t.metrics[metric] for t in complete if metric in t.metrics])
        for metric in NOISE
    }
    return ArmValidity(
        arm=arm,
        complete=len(complete),
        proven=sum(t.kernel is not None and bool(t.kernel.evidence) for t in complete),
        disturbed=sum(bool(trial.disturbance) for trial in complete),
        disturbances=_disturbances(complete),
        retried=sum(trial.attempt > 1 for trial in complete),
        nodes=tuple(sorted({trial.node for trial in complete if trial.node})),
        jit=implementation.jit if implementation else None,
        precision=implementation.precision if implementation else None,
        noise={metric: values for metric, values in noise.items() if values},
    )


def _disturbances(trials: Sequence[FinishedTrial]) -> tuple[DisturbanceCount, ...]:
    runs_by_cause: dict[str, list[str]] = {}
    for trial in trials:
        for cause in trial.disturbance:
            runs_by_cause.setdefault(cause, []).append(trial.run_id)
    return tuple(
        DisturbanceCount(cause, len(runs), runs[0]) for cause, runs in runs_by_cause.items()
    )
